//! Parsing. The grammar is that of the crate `cel`; macros are expanded here, which bounds their number and depth and keeps
//! their positions for messages.

use std::{iter, thread};

use cel::{
    Env,
    common::ast::{self, EntryExpr, IdedExpr, LiteralValue, SourceInfo},
};

use super::{
    declarations::Library,
    expr::{Call, Entry, Expr, Is, Position},
    macros,
    problem::Problem,
};

/// The longest text that is accepted, as by the server.
const LONGEST: usize = 100_000;
/// Deeper expressions are refused, so that no walk over one can exhaust a stack.
const DEEPEST: usize = 120;
/// Up to so many levels an expression is evaluated on the stack of whoever asks.
const SHALLOW: usize = 20;
/// The parser needs much for each level.
const STACK: usize = 256 << 20;

#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) expression: Expr,
    /// True if it needs a stack of its own.
    pub(super) is_deep: bool,
}

pub(super) fn parse(source: &str, library: Library) -> Result<Parsed, Vec<Problem>> {
    if source.chars().count() > LONGEST {
        let message = format!(
            "expression code point size exceeds limit: size: {}, limit {LONGEST}",
            source.chars().count()
        );
        return Err(vec![Problem::new(Position::default(), message)]);
    }
    let too_deep = || {
        let message = format!("expression recursion limit exceeded: {DEEPEST}");
        vec![Problem::new(Position::default(), message)]
    };
    if nesting(source) > 2 * DEEPEST {
        return Err(too_deep());
    }
    // What the parser makes of the text is as deep as the text wants, even to be dropped.
    with_stack(|| parse_source(source, library)).unwrap_or_else(|| Err(too_deep()))
}

/// Does something with a large stack. `None` if there is no thread to be had, or it panicked.
pub fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK);
        builder.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

/// An upper bound of the nesting of brackets.
fn nesting(source: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in source.bytes() {
        match c {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn parse_source(source: &str, library: Library) -> Result<Parsed, Vec<Problem>> {
    let is_standard = library == Library::Standard;
    let parser = Env::default()
        .with_optional_support(!is_standard)
        .parser()
        .enable_ident_escape_syntax(is_standard);
    let parsed = parser.parse_with_source_info(source);
    let (expression, places) = parsed.map_err(|errors| {
        errors
            .errors
            .into_iter()
            .map(|error| {
                let (line, mut column) = error.pos;
                // Told at the dot before the name.
                if error.msg == "unsupported syntax: '`'" {
                    column += 1;
                }
                let position = Position {
                    line: usize::try_from(line).unwrap_or(1),
                    column: usize::try_from(column - 1).unwrap_or(0),
                };
                Problem::new(position, error.msg)
            })
            .collect::<Vec<_>>()
    })?;
    let mut reader = Reader {
        library,
        positions: positions(source),
        places: &places,
        depth: 0,
        deepest: 0,
        problems: Vec::new(),
    };
    let expression = reader.node(expression);
    if reader.problems.is_empty() {
        Ok(Parsed {
            expression,
            is_deep: reader.deepest > SHALLOW,
        })
    } else {
        Err(reader.problems)
    }
}

/// The place of each byte, and of the end.
fn positions(source: &str) -> Vec<Position> {
    let mut at = Position { line: 1, column: 0 };
    let mut positions = Vec::with_capacity(source.len() + 1);
    for c in source.chars() {
        positions.extend(iter::repeat_n(at, c.len_utf8()));
        if c == '\n' {
            at.line += 1;
            at.column = 0;
        } else {
            at.column += 1;
        }
    }
    positions.push(at);
    positions
}

struct Reader<'a> {
    library: Library,
    /// Of each byte.
    positions: Vec<Position>,
    places: &'a SourceInfo,
    depth: usize,
    deepest: usize,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn position(&self, id: u64) -> Position {
        let start = self
            .places
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize);
        self.positions
            .get(start)
            .or(self.positions.last())
            .copied()
            .unwrap_or_default()
    }

    fn refuse(&mut self, at: Position, message: &str) -> Expr {
        // One of these is enough: below it there can be thousands.
        if self.problems.len() < 100 {
            self.problems.push(Problem::new(at, message.to_owned()));
        }
        Expr { at, is: Is::Null }
    }

    fn node(&mut self, node: IdedExpr) -> Expr {
        let at = self.position(node.id);
        if self.depth >= DEEPEST {
            let message = format!("expression recursion limit exceeded: {DEEPEST}");
            return self.refuse(at, &message);
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let read = self.inner(at, node.expr);
        self.depth -= 1;
        read
    }

    fn inner(&mut self, at: Position, expr: ast::Expr) -> Expr {
        let is = match expr {
            ast::Expr::Unspecified | ast::Expr::Comprehension(_) => {
                return self.refuse(at, "unsupported expression");
            }
            ast::Expr::Literal(literal) => self::literal(&literal),
            ast::Expr::Ident(name) => Is::Name(name),
            ast::Expr::Select(select) => Is::Select {
                of: Box::new(self.node(*select.operand)),
                field: select.field,
                test: select.test,
            },
            ast::Expr::List(list) => Is::List {
                optional: list.optional_indices,
                items: list.elements.into_iter().map(|e| self.node(e)).collect(),
            },
            ast::Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in map.entries {
                    let EntryExpr::MapEntry(entry) = entry.expr else {
                        continue;
                    };
                    entries.push(Entry {
                        key: self.node(entry.key),
                        value: self.node(entry.value),
                        optional: entry.optional,
                    });
                }
                Is::Map(entries)
            }
            ast::Expr::Struct(message) => Is::Message(message.type_name),
            ast::Expr::Call(call) => return self.call(at, call),
        };
        Expr { at, is }
    }

    fn call(&mut self, at: Position, call: ast::CallExpr) -> Expr {
        // What a macro becomes is deeper than what it is written as.
        let levels = if macros::is_one(&call.func_name, self.library) {
            3
        } else {
            0
        };
        self.depth += levels;
        let target = call.target.map(|target| self.node(*target));
        let arguments: Vec<Expr> = call.args.into_iter().map(|arg| self.node(arg)).collect();
        self.depth -= levels;
        let call = Call {
            name: call.func_name,
            target,
            arguments,
            pattern: None,
        };
        match macros::expand(at, call, self.library) {
            Ok(expr) => expr,
            Err(problem) => self.refuse(problem.at, &problem.message),
        }
    }
}

fn literal(literal: &LiteralValue) -> Is {
    match literal {
        LiteralValue::Boolean(value) => Is::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Is::Bytes(value.inner().to_vec().into()),
        LiteralValue::Double(value) => Is::Double(*value.inner()),
        LiteralValue::Int(value) => Is::Int(*value.inner()),
        LiteralValue::Null => Is::Null,
        LiteralValue::String(value) => Is::Text(value.inner().into()),
        LiteralValue::UInt(value) => Is::Uint(*value.inner()),
    }
}
