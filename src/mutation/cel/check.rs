//! What an expression may name, and whether its types go together, known before it is evaluated.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::types::Type::{
    self, Bool, Bytes, Double, Duration, Dyn, Int, Null, String as Text, Time, Uint,
};
use super::{FUNCTION_DEPTH, MACRO_DEPTH, MAX_EXPRESSION_DEPTH};

pub(super) struct Problem {
    /// The id of the node it is about.
    pub(super) node: u64,
    pub(super) message: String,
}

const VARIABLES: [&str; 3] = ["value", "self", "other"];

const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

const QUALIFIED_TYPES: [&str; 2] = ["google.protobuf.Duration", "google.protobuf.Timestamp"];

/// What a function takes and gives.
type Overload = (&'static [Type], Type);

/// Functions called as `f(x)`.
const GLOBAL: [(&str, &[Overload]); 12] = [
    ("matches", &[(&[Text, Text], Bool)]),
    ("bool", &[(&[Bool], Bool), (&[Text], Bool)]),
    ("bytes", &[(&[Bytes], Bytes), (&[Text], Bytes)]),
    (
        "double",
        &[
            (&[Double], Double),
            (&[Int], Double),
            (&[Text], Double),
            (&[Uint], Double),
        ],
    ),
    (
        "duration",
        &[
            (&[Duration], Duration),
            (&[Int], Duration),
            (&[Text], Duration),
        ],
    ),
    (
        "int",
        &[
            (&[Int], Int),
            (&[Double], Int),
            (&[Duration], Int),
            (&[Text], Int),
            (&[Time], Int),
            (&[Uint], Int),
        ],
    ),
    (
        "string",
        &[
            (&[Text], Text),
            (&[Bool], Text),
            (&[Bytes], Text),
            (&[Double], Text),
            (&[Duration], Text),
            (&[Int], Text),
            (&[Time], Text),
            (&[Uint], Text),
        ],
    ),
    (
        "timestamp",
        &[(&[Time], Time), (&[Int], Time), (&[Text], Time)],
    ),
    (
        "uint",
        &[
            (&[Uint], Uint),
            (&[Double], Uint),
            (&[Int], Uint),
            (&[Text], Uint),
        ],
    ),
    ("type", &[(&[Dyn], Type::Kind)]),
    ("dyn", &[(&[Dyn], Dyn)]),
    ("@not_strictly_false", &[(&[Bool], Bool)]),
];

const ON_TIME: &[Overload] = &[(&[Time], Int), (&[Time, Text], Int)];
const ON_BOTH: &[Overload] = &[(&[Time], Int), (&[Time, Text], Int), (&[Duration], Int)];

/// Functions called as `x.f()`; `x` comes first.
const MEMBER: [(&str, &[Overload]); 14] = [
    ("contains", &[(&[Text, Text], Bool)]),
    ("startsWith", &[(&[Text, Text], Bool)]),
    ("endsWith", &[(&[Text, Text], Bool)]),
    ("matches", &[(&[Text, Text], Bool)]),
    ("getDate", ON_TIME),
    ("getDayOfMonth", ON_TIME),
    ("getDayOfWeek", ON_TIME),
    ("getDayOfYear", ON_TIME),
    ("getFullYear", ON_TIME),
    ("getMonth", ON_TIME),
    ("getHours", ON_BOTH),
    ("getMilliseconds", ON_BOTH),
    ("getMinutes", ON_BOTH),
    ("getSeconds", ON_BOTH),
];

const INTS: Overload = (&[Int, Int], Int);
const UINTS: Overload = (&[Uint, Uint], Uint);
const DOUBLES: Overload = (&[Double, Double], Double);

const COMPARED: &[Overload] = &[
    (&[Bool, Bool], Bool),
    (&[Int, Int], Bool),
    (&[Uint, Uint], Bool),
    (&[Double, Double], Bool),
    (&[Text, Text], Bool),
    (&[Bytes, Bytes], Bool),
    (&[Time, Time], Bool),
    (&[Duration, Duration], Bool),
];

/// Operators whose types are known in advance; those over any type are in [`Checker::generic`].
const OPERATORS: [(&str, &[Overload]); 13] = [
    ("!_", &[(&[Bool], Bool)]),
    ("-_", &[(&[Int], Int), (&[Double], Double)]),
    ("_&&_", &[(&[Bool, Bool], Bool)]),
    ("_||_", &[(&[Bool, Bool], Bool)]),
    (
        "_+_",
        &[
            INTS,
            UINTS,
            DOUBLES,
            (&[Text, Text], Text),
            (&[Bytes, Bytes], Bytes),
            (&[Time, Duration], Time),
            (&[Duration, Time], Time),
            (&[Duration, Duration], Duration),
        ],
    ),
    (
        "_-_",
        &[
            INTS,
            UINTS,
            DOUBLES,
            (&[Time, Time], Duration),
            (&[Time, Duration], Time),
            (&[Duration, Duration], Duration),
        ],
    ),
    ("_*_", &[INTS, UINTS, DOUBLES]),
    ("_/_", &[INTS, UINTS, DOUBLES]),
    ("_%_", &[INTS, UINTS]),
    ("_<_", COMPARED),
    ("_<=_", COMPARED),
    ("_>_", COMPARED),
    ("_>=_", COMPARED),
];

/// Operators and functions over any type, with how many arguments they take.
const GENERIC: [(&str, usize); 6] = [
    ("_==_", 2),
    ("_!=_", 2),
    ("@in", 2),
    ("_[_]", 2),
    ("_?_:_", 3),
    ("size", 1),
];

/// Answers how deep the expression is nested.
pub(super) fn check(expression: &IdedExpr) -> Result<usize, Problem> {
    let mut checker = Checker {
        bound: Vec::new(),
        depth: 0,
        deepest: 0,
    };
    checker.visit(expression).map(|_| checker.deepest)
}

struct Checker<'e> {
    /// The variables of the macros around.
    bound: Vec<(&'e str, Type)>,
    depth: usize,
    deepest: usize,
}

impl<'e> Checker<'e> {
    fn visit(&mut self, node: &'e IdedExpr) -> Result<Type, Problem> {
        let depth = match &node.expr {
            Expr::Comprehension(_) => MACRO_DEPTH,
            Expr::Call(call) if !call.func_name.starts_with('_') => FUNCTION_DEPTH,
            _ => 1,
        };
        self.depth += depth;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > MAX_EXPRESSION_DEPTH {
            let message =
                format!("expression is nested more than {MAX_EXPRESSION_DEPTH} levels deep");
            return Err(Problem {
                node: node.id,
                message,
            });
        }
        let found = self.visit_inner(node);
        self.depth -= depth;
        found
    }

    fn visit_inner(&mut self, node: &'e IdedExpr) -> Result<Type, Problem> {
        match &node.expr {
            Expr::Unspecified => Ok(Dyn),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Bool,
                LiteralValue::Bytes(_) => Bytes,
                LiteralValue::Double(_) => Double,
                LiteralValue::Int(_) => Int,
                LiteralValue::Null => Null,
                LiteralValue::String(_) => Text,
                LiteralValue::UInt(_) => Uint,
            }),
            Expr::Ident(name) => self.identifier(node.id, name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => {
                let mut element = Type::Free;
                for (i, member) in list.elements.iter().enumerate() {
                    let member = self.visit(member)?;
                    element = if i == 0 {
                        member
                    } else {
                        element.joined(&member)
                    };
                }
                Ok(Type::list(element))
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (Type::Free, Type::Free);
                for (i, entry) in map.entries.iter().enumerate() {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        continue;
                    };
                    let (k, v) = (self.visit(&entry.key)?, self.visit(&entry.value)?);
                    (key, value) = if i == 0 {
                        (k, v)
                    } else {
                        (key.joined(&k), value.joined(&v))
                    };
                }
                Ok(Type::map(key, value))
            }
            Expr::Struct(message) => Err(undeclared(node.id, &message.type_name)),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn identifier(&self, node: u64, name: &str) -> Result<Type, Problem> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let bound = self.bound.iter().rev().find(|(bound, _)| *bound == name);
        match bound {
            Some((_, known)) => Ok(known.clone()),
            None if VARIABLES.contains(&plain) => Ok(Dyn),
            None if TYPES.contains(&plain) => Ok(Type::Kind),
            None => Err(undeclared(node, plain)),
        }
    }

    fn select(&mut self, node: &'e IdedExpr, select: &'e SelectExpr) -> Result<Type, Problem> {
        if let Some(name) = qualified_name(node)
            && QUALIFIED_TYPES.contains(&name.trim_start_matches('.'))
            && !self.bound.iter().any(|(bound, _)| *bound == "google")
        {
            return Ok(Type::Kind);
        }
        let field = match self.visit(&select.operand)? {
            Dyn | Type::Free => Dyn,
            Type::Map(_, value) => *value,
            other => {
                let message = format!("type '{other}' does not support field selection");
                return Err(Problem {
                    node: node.id,
                    message,
                });
            }
        };
        Ok(if select.test { Bool } else { field })
    }

    fn call(&mut self, node: u64, call: &'e CallExpr) -> Result<Type, Problem> {
        let name = call.func_name.as_str();
        let generic = GENERIC.iter().find(|(generic, _)| *generic == name);
        let overloads = match &call.target {
            Some(_) => MEMBER.iter().find(|(function, _)| *function == name),
            None => GLOBAL
                .iter()
                .chain(&OPERATORS)
                .find(|(function, _)| *function == name),
        };
        if overloads.is_none() && !generic.is_some_and(|_| call.target.is_none() || name == "size")
        {
            // A function that exists, but is called in the other way, has no such overload.
            let exists = GLOBAL
                .iter()
                .chain(&MEMBER)
                .any(|(function, _)| *function == name);
            if !exists {
                // In `cel.bind(…)` it is the namespace that is not there: that is what the user looks for.
                call.target
                    .iter()
                    .try_for_each(|target| self.visit(target).map(|_| ()))?;
                return Err(undeclared(node, name));
            }
        }
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        for argument in call.target.iter().map(|target| &**target).chain(&call.args) {
            arguments.push(self.visit(argument)?);
        }
        let result = match generic {
            Some((_, count)) if arguments.len() == *count => generic_result(name, &arguments),
            _ => overloads.and_then(|(_, overloads)| resolve(overloads, &arguments)),
        };
        // Lists can be added, too.
        let result = result.or_else(|| added_lists(name, &arguments));
        result.ok_or_else(|| {
            let shown: Vec<String> = arguments.iter().map(Type::to_string).collect();
            let message = format!(
                "found no matching overload for '{name}' applied to '({})'",
                shown.join(", ")
            );
            Problem { node, message }
        })
    }

    fn comprehension(&mut self, comprehension: &'e ComprehensionExpr) -> Result<Type, Problem> {
        let element = match self.visit(&comprehension.iter_range)? {
            Dyn | Type::Free => Dyn,
            Type::List(element) => *element,
            Type::Map(key, _) => *key,
            other => {
                let message =
                    format!("expression of type '{other}' cannot be range of a comprehension");
                return Err(Problem {
                    node: comprehension.iter_range.id,
                    message,
                });
            }
        };
        let initial = self.visit(&comprehension.accu_init)?;
        let outer = self.bound.len();
        self.bound.push((&comprehension.accu_var, initial.clone()));
        self.bound.push((&comprehension.iter_var, element));
        self.expect_bool(&comprehension.loop_cond)?;
        let step = self.visit(&comprehension.loop_step)?;
        self.bound.truncate(outer);
        if !step.fits(&initial) {
            let message =
                format!("found no matching overload for a macro with a body of type '{step}'");
            return Err(Problem {
                node: comprehension.loop_step.id,
                message,
            });
        }
        self.bound
            .push((&comprehension.accu_var, initial.either(&step)));
        let result = self.visit(&comprehension.result)?;
        self.bound.truncate(outer);
        Ok(result)
    }

    fn expect_bool(&mut self, node: &'e IdedExpr) -> Result<(), Problem> {
        let found = self.visit(node)?;
        if found.fits(&Bool) {
            return Ok(());
        }
        Err(Problem {
            node: node.id,
            message: format!("expected type 'bool' but found '{found}'"),
        })
    }
}

/// The result of the overloads that fit; unknown if they differ in it.
fn resolve(overloads: &[Overload], arguments: &[Type]) -> Option<Type> {
    let fits = |takes: &[Type]| {
        takes.len() == arguments.len() && takes.iter().zip(arguments).all(|(a, b)| b.fits(a))
    };
    let mut results = overloads
        .iter()
        .filter(|(takes, _)| fits(takes))
        .map(|(_, gives)| gives);
    let first = results.next()?;
    Some(if results.all(|other| other == first) {
        first.clone()
    } else {
        Dyn
    })
}

fn added_lists(name: &str, arguments: &[Type]) -> Option<Type> {
    match arguments {
        [a @ (Type::List(_) | Dyn), b @ (Type::List(_) | Dyn)] if name == "_+_" && a.fits(b) => {
            Some(a.either(b))
        }
        _ => None,
    }
}

fn generic_result(name: &str, arguments: &[Type]) -> Option<Type> {
    match (name, arguments) {
        ("_==_" | "_!=_", [a, b]) => a.fits(b).then_some(Bool),
        ("@in", [member, container]) => match container {
            Dyn | Type::Free => Some(Bool),
            Type::List(element) => member.fits(element).then_some(Bool),
            Type::Map(key, _) => member.fits(key).then_some(Bool),
            _ => None,
        },
        ("_[_]", [_, Null | Bytes | Type::Kind]) => None,
        ("_[_]", [container, key]) => match container {
            Dyn | Type::Free => Some(Dyn),
            Type::List(element) => key.fits(&Int).then(|| (**element).clone()),
            Type::Map(known, value) => key.fits(known).then(|| (**value).clone()),
            _ => None,
        },
        ("_?_:_", [condition, yes, no]) => {
            (condition.fits(&Bool) && yes.fits(no)).then(|| yes.either(no))
        }
        ("size", [Dyn | Type::Free | Text | Bytes | Type::List(_) | Type::Map(..)]) => Some(Int),
        _ => None,
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
