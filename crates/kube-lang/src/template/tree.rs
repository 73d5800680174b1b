//! Parsed Go templates made ready: refused functions, Go's printing, methods of `.Value`, and functions that change their argument.
//!
//! Values of the engine are immutable. `set $d …` and its like as a whole action become an assignment to `$d`; where they would
//! change something that is seen elsewhere they are refused rather than answered differently.

use gotmpl::parse::{ActionNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos};

use super::{CompileError, Engine, functions};

/// What the language itself offers.
const BUILT_IN: [&str; 21] = [
    "and", "break", "call", "continue", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt",
    "ne", "not", "or", "print", "printf", "println", "slice", "urlquery",
];
const MUTATING: &[&str] = &[
    "set",
    "unset",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
];
const METHODS: &[&str] = &[
    "String", "Int", "Float", "Bool", "Raw", "Exists", "Num", "Str", "Type", "Array", "Map",
    "Uint", "IsObject", "IsArray",
];

/// Functions that tell Go's `int` of a literal from the `int64` of an object, which are one type here.
const TYPED: &[&str] = &[
    "duration",
    "has",
    "mustHas",
    "without",
    "mustWithout",
    "deepEqual",
    "kindOf",
    "typeOf",
    "kindIs",
    "typeIs",
    "typeIsLike",
];

struct Walk<'a> {
    engine: Engine,
    text: &'a str,
}

pub(super) fn prepare(
    tree: &ListNode,
    engine: Engine,
    text: &str,
) -> Result<ListNode, CompileError> {
    let mut tree = tree.clone();
    Walk { engine, text }.list(&mut tree)?;
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
    fn list(&self, list: &mut ListNode) -> Result<(), CompileError> {
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
                Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
                    self.pipe(&mut branch.pipe)?;
                    self.list(&mut branch.body)?;
                    if let Some(other) = &mut branch.else_body {
                        self.list(other)?;
                    }
                }
                Node::Template(template) => {
                    // Without an argument the other template sees nothing, not what is seen here.
                    let at = template.pos;
                    let argument = template
                        .pipe
                        .get_or_insert_with(|| pipe(at, vec![call(at, "goNil", Vec::new())]));
                    self.pipe(argument)?;
                }
                Node::Define(define) => self.list(&mut define.body)?,
                _ => {}
            }
            nodes.push(node);
        }
        list.nodes = nodes;
        Ok(())
    }

    /// `{{ $_ := set $d "k" "v" }}` is `{{ $d = set $d "k" "v" }}{{ $_ := $d }}`.
    fn assignment(&self, action: &mut ActionNode) -> Result<Option<ActionNode>, CompileError> {
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

    fn action(&self, action: &mut ActionNode) -> Result<(), CompileError> {
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
        self.pipe(&mut action.pipe)?;
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

    fn pipe(&self, pipe: &mut PipeNode) -> Result<(), CompileError> {
        let mut commands = Vec::with_capacity(pipe.commands.len());
        for (at, mut command) in std::mem::take(&mut pipe.commands).into_iter().enumerate() {
            self.command(&mut command, at > 0)?;
            commands.push(command);
        }
        pipe.commands = commands;
        Ok(())
    }

    fn command(&self, command: &mut CommandNode, piped: bool) -> Result<(), CompileError> {
        if let Some(Expr::Identifier(pos, name)) = command.args.first() {
            let (pos, name) = (*pos, name.to_string());
            self.identifier(pos, &name)?;
            if TYPED.contains(&name.as_str())
                && command
                    .args
                    .iter()
                    .any(|a| matches!(a, Expr::Number(_, Number::Int(_))))
            {
                return Err(self.error(
                    pos,
                    format!("{name} would tell an integer literal from the integers of an object"),
                    Some("convert it: (int64 3)"),
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
            }
        }
        command.args.iter_mut().try_for_each(|arg| self.expr(arg))
    }

    fn expr(&self, expr: &mut Expr) -> Result<(), CompileError> {
        match expr {
            Expr::Identifier(pos, name) => self.identifier(*pos, name),
            Expr::Number(pos, _) => self.number(*pos),
            Expr::Pipe(_, pipe) => self.pipe(pipe),
            Expr::Chain(_, inner, _) => self.expr(inner),
            Expr::Field(pos, path) if self.engine == Engine::GoHtml => {
                if let [value, method] = path.as_slice()
                    && value.as_str() == "Value"
                    && METHODS.contains(&method.as_str())
                {
                    let (pos, method) = (*pos, format!("gjson{method}"));
                    *expr = Expr::Pipe(
                        pos,
                        pipe(
                            pos,
                            vec![call(
                                pos,
                                &method,
                                vec![Expr::Field(pos, vec!["Value".into()])],
                            )],
                        ),
                    );
                }
                Ok(())
            }
            Expr::Variable(pos, variable, path)
                if self.engine == Engine::GoHtml && variable.as_str() == "$" =>
            {
                if let [value, method] = path.as_slice()
                    && value.as_str() == "Value"
                    && METHODS.contains(&method.as_str())
                {
                    let (pos, method) = (*pos, format!("gjson{method}"));
                    let value = Expr::Variable(pos, "$".into(), vec!["Value".into()]);
                    *expr = Expr::Pipe(pos, pipe(pos, vec![call(pos, &method, vec![value])]));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A zero in front makes a number octal; one with other digits is none, though the parser lets it pass.
    fn number(&self, pos: Pos) -> Result<(), CompileError> {
        let text = self.text.get(pos.offset..).unwrap_or_default();
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
                || ["goPrint", "goPrintf", "goNumbers", "goNil"].contains(&name);
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

/// `printf "%d" 1 .n` calls our own, with what Go knows and a value here does not: which arguments are
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
