//! What an expression may name, known before it is evaluated.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

pub(super) struct Problem {
    /// The id of the node it is about.
    pub(super) node: u64,
    pub(super) message: String,
}

const VARIABLES: [&str; 3] = ["value", "self", "other"];

const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

const QUALIFIED_TYPES: [&str; 2] = ["google.protobuf.Duration", "google.protobuf.Timestamp"];

/// Functions with the numbers of arguments they take when called as `f(…)` and as `x.f(…)`.
const FUNCTIONS: [(&str, &[usize], &[usize]); 30] = [
    ("size", &[1], &[0]),
    ("contains", &[], &[1]),
    ("startsWith", &[], &[1]),
    ("endsWith", &[], &[1]),
    ("matches", &[2], &[1]),
    ("bool", &[1], &[]),
    ("bytes", &[1], &[]),
    ("double", &[1], &[]),
    ("duration", &[1], &[]),
    ("dyn", &[1], &[]),
    ("int", &[1], &[]),
    ("string", &[1], &[]),
    ("timestamp", &[1], &[]),
    ("type", &[1], &[]),
    ("uint", &[1], &[]),
    ("getDate", &[], &[0, 1]),
    ("getDayOfMonth", &[], &[0, 1]),
    ("getDayOfWeek", &[], &[0, 1]),
    ("getDayOfYear", &[], &[0, 1]),
    ("getFullYear", &[], &[0, 1]),
    ("getHours", &[], &[0, 1]),
    ("getMilliseconds", &[], &[0, 1]),
    ("getMinutes", &[], &[0, 1]),
    ("getMonth", &[], &[0, 1]),
    ("getSeconds", &[], &[0, 1]),
    // What operators and macros turn into.
    ("_[_]", &[2], &[]),
    ("_?_:_", &[3], &[]),
    ("!_", &[1], &[]),
    ("-_", &[1], &[]),
    ("@not_strictly_false", &[1], &[]),
];

const BINARY: [&str; 14] = [
    "_&&_", "_||_", "_-_", "_+_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_>=_", "_<=_", "_>_",
    "_<_", "@in",
];

pub(super) fn check(expression: &IdedExpr) -> Result<(), Problem> {
    Checker { bound: Vec::new() }.visit(expression)
}

struct Checker {
    /// The variables of the macros around.
    bound: Vec<String>,
}

impl Checker {
    fn visit(&mut self, node: &IdedExpr) -> Result<(), Problem> {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                let known = self.bound.iter().any(|bound| bound == name)
                    || VARIABLES.contains(&name)
                    || TYPES.contains(&name)
                    || name.starts_with('@');
                if known {
                    Ok(())
                } else {
                    Err(undeclared(node.id, name))
                }
            }
            Expr::Select(select) => match qualified_name(node) {
                Some(name)
                    if !self.binds(&name)
                        && QUALIFIED_TYPES.contains(&name.trim_start_matches('.')) =>
                {
                    Ok(())
                }
                _ => self.visit(&select.operand),
            },
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|element| self.visit(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self
                    .visit(&entry.key)
                    .and_then(|()| self.visit(&entry.value)),
                EntryExpr::StructField(field) => self.visit(&field.value),
            }),
            Expr::Struct(message) => Err(undeclared(node.id, &message.type_name)),
            Expr::Comprehension(comprehension) => {
                self.visit(&comprehension.iter_range)?;
                self.visit(&comprehension.accu_init)?;
                let outer = self.bound.len();
                self.bound.push(comprehension.iter_var.clone());
                self.bound.push(comprehension.accu_var.clone());
                let inner = self
                    .visit(&comprehension.loop_cond)
                    .and_then(|()| self.visit(&comprehension.loop_step))
                    .and_then(|()| self.visit(&comprehension.result));
                self.bound.truncate(outer);
                inner
            }
        }
    }

    fn call(&mut self, node: u64, call: &CallExpr) -> Result<(), Problem> {
        let name = call.func_name.as_str();
        let known = FUNCTIONS.iter().find(|(function, ..)| *function == name);
        let takes = match (known, &call.target) {
            (Some((_, _, takes)), Some(_)) | (Some((_, takes, _)), None) => *takes,
            (None, None) if BINARY.contains(&name) => &[2],
            (None, None) if name == "_&&_" || name == "_||_" => &[2],
            (None, target) => {
                // Of `a.b.c()` the name may be what is unknown first: that is what the user looks for.
                target.iter().try_for_each(|target| self.visit(target))?;
                return Err(undeclared(node, name));
            }
        };
        call.target
            .iter()
            .try_for_each(|target| self.visit(target))?;
        call.args
            .iter()
            .try_for_each(|argument| self.visit(argument))?;
        if takes.contains(&call.args.len()) {
            return Ok(());
        }
        let how = if call.target.is_some() {
            "as a method with"
        } else {
            "with"
        };
        let message = format!(
            "found no matching overload for '{name}' called {how} {} argument(s)",
            call.args.len()
        );
        Err(Problem { node, message })
    }

    fn binds(&self, name: &str) -> bool {
        let root = name.split('.').next().unwrap_or_default();
        self.bound.iter().any(|bound| bound == root)
    }
}

fn qualified_name(node: &IdedExpr) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!(
            "{}.{}",
            qualified_name(&select.operand)?,
            select.field
        )),
        _ => None,
    }
}

fn undeclared(node: u64, name: &str) -> Problem {
    let message = format!(
        "undeclared reference to '{name}': there are value, self, other and the standard functions"
    );
    Problem { node, message }
}
