//! Go templates, read node by node with what is known of each value.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, TemplateNode,
};
use gotmpl::{Template, Value};

use super::words::{Argument, Data, MAX_DEPTH, MAX_NODES, Whose, Written, result};
use crate::template::engine::{Engine, NAME};
use crate::template::{functions, values};

pub(super) fn written(engine: Engine, text: &str, data: Data<'_>) -> Written {
    let Ok(parsed) = crate::template::parse(text, engine) else {
        return Written::ANYTHING;
    };
    let Some(tree) = parsed.lookup(NAME) else {
        return Written::ANYTHING;
    };
    let mut reading = GoReader {
        templates: &parsed,
        data,
        variables: Vec::new(),
        dot: Dot::Data,
        dollar: Dot::Data,
        depth: 0,
        left: MAX_NODES,
        lost: false,
    };
    let written = reading.list(tree);
    if reading.lost {
        Written::ANYTHING
    } else {
        written
    }
}

/// A value as far as it is known.
#[derive(Clone, Debug, PartialEq)]
struct Words {
    /// Whose they are, as they would be written.
    is: Written,
    known: Known,
}

#[derive(Clone, Debug, PartialEq)]
enum Known {
    Value(Value),
    /// Only its truth is known.
    Truth(bool),
    Nothing,
}

/// The value of `.` or `$`.
#[derive(Clone, Debug)]
enum Dot {
    /// The whole of the data.
    Data,
    Value(Words),
}

impl Words {
    const OBJECTS: Self = Self::of(Written::ANYTHING);
    const OWN: Self = Self::of(Written::TEXT);

    const fn of(is: Written) -> Self {
        Self {
            is,
            known: Known::Nothing,
        }
    }

    fn value(value: Value) -> Self {
        Self {
            is: Written::TEXT,
            known: Known::Value(value),
        }
    }

    fn truth(&self) -> Option<bool> {
        match &self.known {
            Known::Value(value) => Some(value.is_truthy()),
            Known::Truth(truth) => Some(*truth),
            Known::Nothing => None,
        }
    }

    fn as_value(&self) -> Option<&Value> {
        match &self.known {
            Known::Value(value) => Some(value),
            Known::Truth(_) | Known::Nothing => None,
        }
    }

    fn as_argument(&self) -> Argument<'_> {
        let value = self.as_value();
        Argument {
            is: self.is,
            text: match value {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            number: match value {
                Some(Value::Int(number)) => Some(*number),
                _ => None,
            },
        }
    }

    /// One of the two, nobody knows which.
    fn or(self, other: &Self) -> Self {
        if self == *other {
            return self;
        }
        let truth = self.truth().filter(|truth| other.truth() == Some(*truth));
        Self {
            is: self.is.or(other.is),
            known: truth.map_or(Known::Nothing, Known::Truth),
        }
    }

    fn fields(self, path: &[impl AsRef<str>]) -> Self {
        if path.is_empty() {
            return self;
        }
        let Some(mut value) = self.as_value() else {
            return match self.is.whose {
                // All of it is the provider's.
                Whose::Status => Self::of(Written {
                    whose: Whose::Status,
                    tells: false,
                }),
                Whose::Author | Whose::Whole | Whose::Objects => Self::OBJECTS,
            };
        };
        for field in path {
            match value.field(field.as_ref()) {
                Some(found) => value = found,
                // Nothing, or an error: no object's words either way.
                None => return Self::OWN,
            }
        }
        Self::value(value.clone())
    }
}

struct GoReader<'a> {
    templates: &'a Template,
    data: Data<'a>,
    /// The last one of a name counts.
    variables: Vec<(String, Words)>,
    dot: Dot,
    dollar: Dot,
    depth: usize,
    left: usize,
    /// Set once the values of variables are no longer known.
    lost: bool,
}

impl GoReader<'_> {
    fn list(&mut self, list: &ListNode) -> Written {
        let mut written = Written::TEXT;
        for node in &list.nodes {
            written = written.then(self.node(node));
        }
        written
    }

    fn node(&mut self, node: &Node) -> Written {
        if !self.goes_on() || self.depth == MAX_DEPTH {
            self.lost = true;
        }
        if self.lost {
            return Written::ANYTHING;
        }
        self.depth += 1;
        let written = self.written(node);
        self.depth -= 1;
        written
    }

    fn written(&mut self, node: &Node) -> Written {
        match node {
            Node::List(list) => self.list(list),
            Node::Text(_) | Node::Define(_) => Written::TEXT,
            Node::Action(action) => {
                let written = self.pipe(&action.pipe).is;
                if action.pipe.decl.is_empty() {
                    written
                } else {
                    Written::TEXT
                }
            }
            Node::If(branch) => self.branch(branch, false),
            Node::With(branch) => self.branch(branch, true),
            Node::Template(template) => self.template(template),
            // How often something is written is a word too.
            Node::Range(_) | Node::Break(_) | Node::Continue(_) => Written::ANYTHING,
        }
    }

    fn goes_on(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    fn branch(&mut self, branch: &BranchNode, sets_dot: bool) -> Written {
        let outside = self.variables.len();
        let value = self.pipe(&branch.pipe);
        let written = match value.truth() {
            Some(true) => self.body(branch, sets_dot, value),
            Some(false) => self.otherwise(branch),
            None => {
                let before = self.variables.clone();
                let body = self.body(branch, sets_dot, value);
                let after = std::mem::replace(&mut self.variables, before);
                let written = body.or(self.otherwise(branch));
                for (mine, theirs) in self.variables.iter_mut().zip(after) {
                    let one = std::mem::replace(&mut mine.1, Words::OBJECTS);
                    mine.1 = one.or(&theirs.1);
                }
                written
            }
        };
        self.variables.truncate(outside);
        written
    }

    fn body(&mut self, branch: &BranchNode, sets_dot: bool, value: Words) -> Written {
        if !sets_dot {
            return self.list(&branch.body);
        }
        let dot = std::mem::replace(&mut self.dot, Dot::Value(value));
        let written = self.list(&branch.body);
        self.dot = dot;
        written
    }

    fn otherwise(&mut self, branch: &BranchNode) -> Written {
        let other = branch.else_body.as_ref();
        other.map_or(Written::TEXT, |list| self.list(list))
    }

    /// Reads a definition with the value that it is given.
    fn template(&mut self, template: &TemplateNode) -> Written {
        let templates = self.templates;
        let Some(tree) = templates.lookup(&template.name) else {
            return Written::ANYTHING;
        };
        let given = match &template.pipe {
            Some(pipe) => match self.dot_itself(pipe) {
                Some(dot) => dot,
                None => Dot::Value(self.pipe(pipe)),
            },
            None => return Written::ANYTHING,
        };
        let variables = std::mem::take(&mut self.variables);
        let dot = std::mem::replace(&mut self.dot, given.clone());
        let dollar = std::mem::replace(&mut self.dollar, given);
        let written = self.list(tree);
        (self.variables, self.dot, self.dollar) = (variables, dot, dollar);
        written
    }

    /// The dot or the dollar, where a pipeline is nothing else.
    fn dot_itself(&self, pipe: &PipeNode) -> Option<Dot> {
        let ([command], true) = (pipe.commands.as_slice(), pipe.decl.is_empty()) else {
            return None;
        };
        match command.args.as_slice() {
            [Expr::Dot(_)] => Some(self.dot.clone()),
            [Expr::Variable(_, name, path)] if name == "$" && path.is_empty() => {
                Some(self.dollar.clone())
            }
            _ => None,
        }
    }

    fn pipe(&mut self, pipe: &PipeNode) -> Words {
        let mut value: Option<Words> = None;
        for command in &pipe.commands {
            value = Some(self.command(command, value));
        }
        let value = value.unwrap_or(Words::OBJECTS);
        match pipe.decl.as_slice() {
            [] => {}
            [name] => self.set(name, pipe.is_assign, value.clone()),
            _ => self.lost = true,
        }
        value
    }

    fn set(&mut self, name: &str, assign: bool, value: Words) {
        let mut known = self.variables.iter_mut().rev();
        match known.find(|(known, _)| assign && known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    fn command(&mut self, command: &CommandNode, piped: Option<Words>) -> Words {
        let Some((first, rest)) = command.args.split_first() else {
            return Words::OBJECTS;
        };
        if let (Expr::Identifier(_, name), None) = (first, &piped)
            && name == "goField"
        {
            return self.field_of(rest);
        }
        if let Expr::Identifier(_, name) = first {
            let mut args: Vec<_> = rest.iter().map(|arg| self.expr(arg)).collect();
            args.extend(piped);
            return Self::call(name, args);
        }
        if piped.is_some() || !rest.is_empty() {
            return Words::OBJECTS;
        }
        self.expr(first)
    }

    fn expr(&mut self, expr: &Expr) -> Words {
        if !self.goes_on() {
            return Words::OBJECTS;
        }
        match expr {
            Expr::String(_, text) => Words::value(Value::String(Arc::clone(text))),
            Expr::Number(_, Number::Int(number)) => Words::value(Value::Int(*number)),
            Expr::Number(_, Number::Uint(number)) => Words::value(Value::Uint(*number)),
            Expr::Number(_, Number::Float(number)) => Words::value(Value::Float(*number)),
            Expr::Bool(_, truth) => Words::value(Value::Bool(*truth)),
            Expr::Nil(_) => Words::value(Value::Nil),
            Expr::Identifier(_, name) => Self::call(name, Vec::new()),
            Expr::Dot(_) => self.of(&self.dot, &[] as &[&str]),
            Expr::Field(_, path) => self.of(&self.dot, path),
            Expr::Variable(_, name, path) if name == "$" => self.of(&self.dollar, path),
            Expr::Variable(_, name, path) => {
                let mut known = self.variables.iter().rev();
                let known = known.find(|(known, _)| known == name);
                known.map_or(Words::OBJECTS, |(_, words)| words.clone().fields(path))
            }
            Expr::Pipe(_, pipe) => {
                // Whether it is come to at all depends on what stands around it.
                self.lost |= !pipe.decl.is_empty();
                self.pipe(pipe)
            }
            Expr::Chain(_, inner, path) => self.expr(inner).fields(path),
        }
    }

    fn of(&self, dot: &Dot, path: &[impl AsRef<str>]) -> Words {
        let field = match (dot, path) {
            (Dot::Value(words), path) => return words.clone().fields(path),
            (Dot::Data, [field]) => field.as_ref(),
            (Dot::Data, []) => return Words::OBJECTS,
            (Dot::Data, path) => {
                let path: Vec<_> = path.iter().map(AsRef::as_ref).collect();
                return Words::of(self.data.path(&path.join(".")));
            }
        };
        match self.data.given(field) {
            Some(text) => Words::value(values::string(text)),
            None => Words::of(self.data.field(field)),
        }
    }

    /// A field of a value, as the preparation of a tree writes it.
    fn field_of(&mut self, args: &[Expr]) -> Words {
        let [_, from, path @ ..] = args else {
            return Words::OBJECTS;
        };
        let field = |arg: &Expr| match arg {
            Expr::String(_, field) => Some(field.to_string()),
            _ => None,
        };
        let Some(path) = path.iter().map(field).collect::<Option<Vec<_>>>() else {
            return Words::OBJECTS;
        };
        match from {
            Expr::Dot(_) => self.of(&self.dot, &path),
            Expr::Variable(_, name, inner) if name == "$" && inner.is_empty() => {
                self.of(&self.dollar, &path)
            }
            other => self.expr(other).fields(&path),
        }
    }

    fn call(name: &str, args: Vec<Words>) -> Words {
        match (name, args.as_slice()) {
            ("and", _) => return either(args, false),
            ("or", _) => return either(args, true),
            ("not", [arg]) => {
                if let Some(truth) = arg.truth() {
                    return Words::value(Value::Bool(!truth));
                }
            }
            ("ternary", [yes, no, condition]) => {
                return match condition.truth() {
                    Some(true) => yes.clone(),
                    Some(false) => no.clone(),
                    None => yes.clone().or(no),
                };
            }
            _ => {}
        }
        let known: Option<Vec<_>> = args.iter().map(|arg| arg.as_value().cloned()).collect();
        if let Some(value) = known.and_then(|values| called(name, values)) {
            return Words::value(value);
        }
        // The preparation of a tree writes some calls in other words.
        let (name, args) = match (name, args.as_slice()) {
            ("goPrintf", [_, args @ ..]) => ("printf", args),
            ("goTyped", [of, _, args @ ..]) => match of.as_value() {
                Some(Value::String(name)) => (&**name, args),
                _ => return Words::OBJECTS,
            },
            (name, args) => (name, args),
        };
        let args: Vec<_> = args.iter().map(Words::as_argument).collect();
        Words::of(result(name, &args))
    }
}

/// The first value of this truth, or else the last one.
fn either(args: Vec<Words>, wanted: bool) -> Words {
    let count = args.len();
    let mut maybe: Option<Words> = None;
    for (index, arg) in args.into_iter().enumerate() {
        let truth = arg.truth();
        let decides = truth == Some(wanted);
        if decides || index + 1 == count {
            return match maybe {
                None => arg,
                Some(before) => Words {
                    is: before.is.or(arg.is),
                    known: if decides {
                        Known::Truth(wanted)
                    } else {
                        Known::Nothing
                    },
                },
            };
        }
        if truth.is_none() {
            maybe = Some(match maybe {
                Some(before) => before.or(&arg),
                None => arg,
            });
        }
    }
    Words::OBJECTS
}

/// The result of a function, called as the engine does when it renders; `None` for an error.
fn called(name: &str, args: Vec<Value>) -> Option<Value> {
    const KEEP: &str = "keepAnswer";
    let at = Pos::new(0, 1);
    let named = |index: usize| format!("a{index}");
    let mut call = vec![Expr::Identifier(at, name.into())];
    call.extend((0..args.len()).map(|index| Expr::Field(at, vec![named(index).into()])));
    let command = |args| CommandNode { pos: at, args };
    let pipe = PipeNode {
        pos: at,
        decl: Vec::new(),
        commands: vec![
            command(call),
            command(vec![Expr::Identifier(at, KEEP.into())]),
        ],
        is_assign: false,
    };
    let tree = ListNode {
        pos: at,
        nodes: vec![Node::Action(ActionNode { pos: at, pipe })],
    };
    let answer = Arc::new(OnceLock::new());
    let keep = Arc::clone(&answer);
    let template = Template::new(NAME)
        .funcs(functions::go_table())
        .func(KEEP, move |args| {
            if let [value] = args {
                keep.get_or_init(|| value.clone());
            }
            Ok(values::string(""))
        })
        .add_parse_tree(NAME, tree);
    let data: BTreeMap<Arc<str>, Value> = args
        .into_iter()
        .enumerate()
        .map(|(index, value)| (named(index).into(), value))
        .collect();
    let template = template.parse("").ok()?;
    template
        .execute_fmt(&mut String::new(), &values::map(data))
        .ok()?;
    answer.get().cloned()
}
