//! Prepares parsed Go templates: refuses functions, adds Go's printing and the methods of `.Value`, and rewrites functions that change
//! their argument.
//!
//! Values of the engine are immutable. An action that is only `set $d …`, or a similar function, becomes an assignment to `$d`. Where
//! the change would be visible elsewhere, the function is refused.

use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, SmolStr,
};

use super::engine::{CompileError, Engine, NAME};
use super::integers::{self, Call, Integers, MUTATING, Scope};
use super::{functions, literals};

/// Functions of the language itself.
const BUILT_IN: [&str; 21] = [
    "and", "break", "call", "continue", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt",
    "ne", "not", "or", "print", "printf", "println", "slice", "urlquery",
];
const METHODS: &[&str] = &[
    "String", "Int", "Float", "Bool", "Raw", "Exists", "Num", "Str", "Type", "Array", "Map",
    "Uint", "IsObject", "IsArray",
];

/// Functions over maps, with the parameters that are maps. They take an absent field as an empty map, and refuse a null.
const OVER_MAPS: &[(&str, std::ops::Range<usize>)] = &[
    ("get", 0..1),
    ("hasKey", 0..1),
    ("keys", 0..usize::MAX),
    ("values", 0..1),
    ("pick", 0..1),
    ("omit", 0..1),
    ("pluck", 1..usize::MAX),
    ("merge", 1..usize::MAX),
    ("mustMerge", 1..usize::MAX),
    ("mergeOverwrite", 1..usize::MAX),
    ("mustMergeOverwrite", 1..usize::MAX),
];

/// The nulls of which no field can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// One that has a field read.
    Within,
    /// The field itself too.
    AtTheEnd,
}

struct Walk<'a> {
    engine: Engine,
    text: &'a str,
    scope: Scope,
    /// The next text literal is output unchanged.
    written: bool,
}

/// Prepares the tree of a named template.
pub(super) fn prepare(
    name: &str,
    tree: &ListNode,
    engine: Engine,
    text: &str,
) -> Result<ListNode, CompileError> {
    let mut tree = tree.clone();
    let mut walk = Walk {
        engine,
        text,
        scope: Scope::new(&tree, name == NAME),
        written: false,
    };
    walk.list(&mut tree)?;
    Ok(tree)
}

fn call(pos: Pos, name: &str, mut args: Vec<Expr>) -> CommandNode {
    args.insert(0, Expr::Identifier(pos, name.into()));
    CommandNode { pos, args }
}

fn pipe(pos: Pos, commands: Vec<CommandNode>) -> PipeNode {
    PipeNode {
        pos,
        decl: Vec::new(),
        commands,
        is_assign: false,
    }
}

impl Walk<'_> {
    fn list(&mut self, list: &mut ListNode) -> Result<(), CompileError> {
        let mut nodes = Vec::with_capacity(list.nodes.len());
        for mut node in std::mem::take(&mut list.nodes) {
            match &mut node {
                Node::List(inner) => self.list(inner)?,
                Node::Action(action) => {
                    if let Some(assignment) = self.assignment(action)? {
                        nodes.push(Node::Action(assignment));
                    }
                    self.action(action)?;
                }
                Node::If(branch) => self.branch(branch, DotIn::Kept)?,
                Node::Range(branch) => self.branch(branch, DotIn::Element)?,
                Node::With(branch) => self.branch(branch, DotIn::Value)?,
                Node::Template(template) => {
                    // Without an argument the other template sees nothing, not what is seen here.
                    let at = template.pos;
                    let argument = template
                        .pipe
                        .get_or_insert_with(|| pipe(at, vec![call(at, "goNil", Vec::new())]));
                    self.pipe(argument)?;
                }
                // It is prepared as a template of its own.
                _ => {}
            }
            nodes.push(node);
        }
        list.nodes = nodes;
        Ok(())
    }

    fn branch(&mut self, branch: &mut BranchNode, dot: DotIn) -> Result<(), CompileError> {
        let depth = self.scope.depth();
        let integers = self.scope.pipe(&branch.pipe);
        let (before, element) = (self.scope.dot, self.scope.element);
        let names = branch.pipe.decl.clone();
        self.commands(&mut branch.pipe)?;
        self.declare(&branch.pipe, integers, dot)?;
        if let DotIn::Element = dot
            && let ([index, _], false) = (names.as_slice(), branch.pipe.is_assign)
        {
            // A key is a text.
            self.scope.declare(index, Integers::Literal, false);
            self.scope.declare(&names[1], integers, true);
        }
        if !matches!(dot, DotIn::Kept) {
            (self.scope.dot, self.scope.element) = (integers, matches!(dot, DotIn::Element));
        }
        self.list(&mut branch.body)?;
        (self.scope.dot, self.scope.element) = (before, element);
        if let Some(other) = &mut branch.else_body {
            self.list(other)?;
        }
        self.scope.leave(depth);
        Ok(())
    }

    fn declare(
        &mut self,
        pipe: &PipeNode,
        integers: Integers,
        dot: DotIn,
    ) -> Result<(), CompileError> {
        for name in &pipe.decl {
            if !pipe.is_assign {
                let element = matches!(dot, DotIn::Element);
                self.scope.declare(name, integers, element);
            } else if self.scope.variable(name).is_none() {
                return Err(self.error(pipe.pos, format!("undefined variable {name:?}"), None));
            }
        }
        Ok(())
    }

    /// `{{ $_ := set $d "k" "v" }}` is `{{ $d = set $d "k" "v" }}{{ $_ := $d }}`.
    fn assignment(&mut self, action: &mut ActionNode) -> Result<Option<ActionNode>, CompileError> {
        let [command] = action.pipe.commands.as_slice() else {
            return Ok(None);
        };
        let (Some(Expr::Identifier(_, name)), Some(Expr::Variable(at, variable, path))) =
            (command.args.first(), command.args.get(1))
        else {
            return Ok(None);
        };
        if !MUTATING.contains(&name.as_str()) || !path.is_empty() || variable.as_str() == "$" {
            return Ok(None);
        }
        let (at, variable) = (*at, variable.clone());
        let mut changed = action.clone();
        changed.pipe.decl = vec![variable.clone()];
        changed.pipe.is_assign = true;
        // The argument is replaced as a whole here, so the walk need not refuse it.
        if let Some(command) = changed.pipe.commands.first_mut() {
            for arg in command.args.iter_mut().skip(2) {
                self.expr(arg)?;
            }
        }
        action.pipe.commands = vec![CommandNode {
            pos: at,
            args: vec![Expr::Variable(at, variable, Vec::new())],
        }];
        Ok(Some(changed))
    }

    fn action(&mut self, action: &mut ActionNode) -> Result<(), CompileError> {
        let pos = action.pos;
        if self.engine == Engine::GoHtml
            && action.pipe.decl.is_empty()
            && let [command] = action.pipe.commands.as_mut_slice()
            && let [arg] = command.args.as_mut_slice()
            && is_value(arg)
        {
            let value = std::mem::replace(arg, Expr::Dot(pos));
            *command = call(pos, "gjsonString", vec![value]);
        }
        self.written = match action.pipe.commands.as_slice() {
            [command] => action.pipe.decl.is_empty() && command.args.len() == 1,
            _ => false,
        };
        let done = self.pipe(&mut action.pipe);
        self.written = false;
        done?;
        if !action.pipe.decl.is_empty() {
            return Ok(());
        }
        let last = action.pipe.commands.last().and_then(|c| c.args.first());
        let escaper = matches!(last, Some(Expr::Identifier(_, name)) if ["html", "urlquery", "js"].contains(&name.as_str()));
        match self.engine {
            Engine::GoHtml if escaper => {}
            Engine::GoHtml => action
                .pipe
                .commands
                .push(call(pos, "goNumbers", Vec::new())),
            _ => action.pipe.commands.push(call(pos, "goPrint", Vec::new())),
        }
        Ok(())
    }

    fn pipe(&mut self, pipe: &mut PipeNode) -> Result<(), CompileError> {
        let integers = self.scope.pipe(pipe);
        self.commands(pipe)?;
        self.declare(pipe, integers, DotIn::Kept)
    }

    fn commands(&mut self, pipe: &mut PipeNode) -> Result<(), CompileError> {
        let mut piped = None;
        for command in &mut pipe.commands {
            let made = self.scope.command(command, piped);
            self.command(command, piped)?;
            piped = Some(made);
        }
        Ok(())
    }

    fn command(
        &mut self,
        command: &mut CommandNode,
        piped: Option<Integers>,
    ) -> Result<(), CompileError> {
        if let Some(Expr::Identifier(pos, name)) = command.args.first() {
            let (pos, name) = (*pos, name.to_string());
            self.identifier(pos, &name)?;
            let integers = self.scope.arguments(command, piped);
            let piped = piped.is_some();
            integers::narrow(&name, command);
            let call = integers::call_of(&name, &integers);
            if let Call::Unclear = call {
                return Err(self.error(
                    pos,
                    format!("{name} would treat an integer literal and an integer of the object differently"),
                    Some("convert the literal: (int64 3)"),
                ));
            }
            let first = command.args.get_mut(1);
            if MUTATING.contains(&name.as_str()) {
                let fresh = matches!(&first, Some(Expr::Pipe(..)));
                let changed_value = piped && first.is_none();
                if !fresh && !changed_value {
                    return Err(self.error(
                        pos,
                        format!("{name} changes its first argument, which is not possible here"),
                        Some("set a variable in an action of its own ({{ $_ := set $d \"k\" \"v\" }}), or copy first: set (deepCopy .x) \"k\" \"v\""),
                    ));
                }
            } else if name == "printf" {
                formatting(command, pos);
            } else if name == "index" && integers.len() == 1 {
                command.args[0] = Expr::Identifier(pos, "goItem".into());
            }
            if let Some((_, maps)) = OVER_MAPS.iter().find(|(over, _)| *over == name) {
                for (at, arg) in command.args.iter_mut().skip(1).enumerate() {
                    if maps.contains(&at) {
                        self.field(arg, Nulls::AtTheEnd)?;
                    }
                }
            }
            command.args.iter_mut().try_for_each(|arg| self.expr(arg))?;
            if let Call::Typed(bits) = call {
                let typed = [
                    Expr::Identifier(pos, "goTyped".into()),
                    Expr::String(pos, name.into()),
                    Expr::Number(pos, Number::Int(bits)),
                ];
                command.args.splice(..1, typed);
            }
            return Ok(());
        }
        command.args.iter_mut().try_for_each(|arg| self.expr(arg))
    }

    /// Makes reading a field of null an error, unlike reading one of an absent value.
    fn field(&mut self, expr: &mut Expr, nulls: Nulls) -> Result<(), CompileError> {
        let least = |element: bool| usize::from(!element) + usize::from(nulls == Nulls::Within);
        let (pos, from, path, element) = match expr {
            Expr::Field(pos, path) if path.len() >= least(self.scope.element).max(1) => {
                (*pos, Expr::Dot(*pos), path, self.scope.element)
            }
            Expr::Variable(pos, name, path) => {
                let element = self.scope.variable(name).is_some_and(|known| known.element);
                if path.len() < least(element).max(1) {
                    return Ok(());
                }
                let variable = Expr::Variable(*pos, name.clone(), Vec::new());
                (*pos, variable, path, element)
            }
            Expr::Chain(pos, inner, path)
                if path.len() >= least(false) && !matches!(**inner, Expr::Identifier(..)) =>
            {
                let mut inner = std::mem::replace(&mut **inner, Expr::Nil(*pos));
                self.expr(&mut inner)?;
                (*pos, inner, path, false)
            }
            Expr::Chain(_, inner, _) => return self.expr(inner),
            _ => return Ok(()),
        };
        let text = |name: SmolStr| Expr::String(pos, name.as_str().into());
        let at_the_end = i64::from(nulls == Nulls::AtTheEnd);
        let at_the_start = i64::from(element) << 1;
        let mut args = vec![
            Expr::Number(pos, Number::Int(at_the_end | at_the_start)),
            from,
        ];
        args.extend(std::mem::take(path).into_iter().map(text));
        *expr = Expr::Pipe(pos, pipe(pos, vec![call(pos, "goField", args)]));
        Ok(())
    }

    /// Refuses `..field`, which the parser accepts.
    fn follows_a_dot(&self, pos: Pos) -> bool {
        let (before, after) = self.text.split_at_checked(pos.offset).unwrap_or_default();
        before.ends_with('.') || after.starts_with("..")
    }

    /// Decodes a text literal as Go does.
    fn string(&self, pos: Pos, text: &mut std::sync::Arc<str>) -> Result<(), CompileError> {
        let source = self.text.get(pos.offset..).unwrap_or_default();
        if !source.starts_with('"') {
            return Ok(());
        }
        let bytes = literals::unquoted(source).map_err(|_| self.malformed(pos))?;
        *text = match String::from_utf8(bytes) {
            Ok(read) => read.into(),
            Err(error) if self.written => literals::replaced(error.as_bytes()).into(),
            Err(_) => {
                return Err(self.error(
                    pos,
                    "the bytes of this text are not UTF-8".to_owned(),
                    Some("objects cannot contain them: write base64, and let the reader decode it"),
                ));
            }
        };
        Ok(())
    }

    fn malformed(&self, pos: Pos) -> CompileError {
        self.error(
            pos,
            "invalid syntax: an unknown escape, or a line break within quotes".to_owned(),
            Some("write \\\\ for a backslash, or put the text in backquotes"),
        )
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), CompileError> {
        if self.engine == Engine::GoHtml
            && let Some(method) = method(expr)
        {
            *expr = method;
            return Ok(());
        }
        match expr {
            Expr::Identifier(pos, name) => self.identifier(*pos, name),
            Expr::Number(pos, _) => self.number(*pos),
            Expr::String(pos, text) => self.string(*pos, text),
            Expr::Pipe(pos, pipe) => {
                let written = std::mem::take(&mut self.written);
                // What was made here is ready.
                let source = self.text.get(pos.offset..).unwrap_or_default();
                let done = if made_here(pipe) && !source.starts_with("goField") {
                    Ok(())
                } else {
                    self.pipe(pipe)
                };
                self.written = written;
                done
            }
            Expr::Field(pos, _) if self.follows_a_dot(*pos) => {
                Err(self.error(*pos, "unexpected . after term \".\"".to_owned(), None))
            }
            Expr::Variable(pos, name, _) if name != "$" && self.scope.variable(name).is_none() => {
                Err(self.error(
                    *pos,
                    format!("undefined variable {:?}", name.as_str()),
                    None,
                ))
            }
            Expr::Field(..) | Expr::Variable(..) => self.field(expr, Nulls::Within),
            Expr::Chain(_, _, path) if path.len() > 1 => self.field(expr, Nulls::Within),
            Expr::Chain(_, inner, _) => self.expr(inner),
            _ => Ok(()),
        }
    }

    /// Refuses numbers with a leading zero and digits that are not octal, which the parser accepts.
    fn number(&self, pos: Pos) -> Result<(), CompileError> {
        let text = self.text.get(pos.offset..).unwrap_or_default();
        if text.starts_with('\'') {
            literals::unquoted(text).map_err(|_| self.malformed(pos))?;
        }
        let unsigned = text.trim_start_matches(['+', '-']);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = unsigned.split_at(digits);
        // Floats and imaginary numbers are decimal whatever they begin with.
        let octal = digits.starts_with('0') && !rest.starts_with(['.', 'e', 'E', 'i', '_']);
        if octal && digits.contains(['8', '9']) {
            let number = &text[..text.len() - rest.len()];
            let message = format!("bad number syntax: {number:?}");
            return Err(self.error(pos, message, Some("numbers that begin with 0 are octal")));
        }
        Ok(())
    }

    fn identifier(&self, pos: Pos, name: &str) -> Result<(), CompileError> {
        if let Some(remedy) = functions::refusal(name) {
            return Err(self.error(pos, format!("function {name:?} is refused"), Some(remedy)));
        }
        if name.starts_with("gjson")
            || name.starts_with("go") && name.chars().nth(2).is_some_and(char::is_uppercase)
        {
            let internal = METHODS.iter().any(|m| name == format!("gjson{m}"))
                && self.engine == Engine::GoHtml
                || [
                    "goField",
                    "goItem",
                    "goNil",
                    "goNumbers",
                    "goPrint",
                    "goPrintf",
                ]
                .contains(&name);
            // Ours stand where something else was written.
            let written = self
                .text
                .get(pos.offset..)
                .is_some_and(|at| at.starts_with(name));
            if written || !internal {
                return Err(self.error(pos, format!("function {name:?} not defined"), None));
            }
            return Ok(());
        }
        if BUILT_IN.contains(&name) || functions::table().any(|entry| entry.name == name) {
            return Ok(());
        }
        Err(self.error(pos, format!("function {name:?} not defined"), None))
    }

    fn error(&self, pos: Pos, message: String, hint: Option<&str>) -> CompileError {
        CompileError::at(self.text, pos.offset, message, hint)
    }
}

/// The value of the dot within a block.
#[derive(Clone, Copy)]
enum DotIn {
    Kept,
    Value,
    Element,
}

fn made_here(pipe: &PipeNode) -> bool {
    let first = pipe
        .commands
        .first()
        .and_then(|command| command.args.first());
    matches!(first, Some(Expr::Identifier(_, name)) if name == "goField")
}

/// The call for a method of `.Value`, or `$.Value`.
fn method(expr: &Expr) -> Option<Expr> {
    let (pos, path, value) = match expr {
        Expr::Field(pos, path) => (*pos, path, Expr::Field(*pos, vec!["Value".into()])),
        Expr::Variable(pos, variable, path) if variable == "$" => {
            let value = Expr::Variable(*pos, "$".into(), vec!["Value".into()]);
            (*pos, path, value)
        }
        _ => return None,
    };
    let [of, method] = path.as_slice() else {
        return None;
    };
    let known = of == "Value" && METHODS.contains(&method.as_str());
    let call = call(pos, &format!("gjson{method}"), vec![value]);
    known.then(|| Expr::Pipe(pos, pipe(pos, vec![call])))
}

/// Calls our own `printf` with one more argument, because values here do not have it: which arguments are
/// literals, one bit each.
fn formatting(command: &mut CommandNode, pos: Pos) {
    let literal = |arg: &Expr| matches!(arg, Expr::Number(_, Number::Int(_)));
    let arguments = command.args.iter().skip(2).take(62).enumerate();
    let literals = arguments.fold(0_i64, |bits, (at, arg)| {
        bits | i64::from(literal(arg)) << at
    });
    command.args[0] = Expr::Identifier(pos, "goPrintf".into());
    command
        .args
        .insert(1, Expr::Number(pos, Number::Int(literals)));
}

fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Field(_, path) => matches!(path.as_slice(), [one] if one.as_str() == "Value"),
        Expr::Variable(_, variable, path) => {
            variable.as_str() == "$" && matches!(path.as_slice(), [one] if one.as_str() == "Value")
        }
        _ => false,
    }
}
