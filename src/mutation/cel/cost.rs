//! How much an expression can cost over given documents, before it is started.
//!
//! An upper bound, computed from the expression and the sizes of what it reads. The engine counts no steps, and a
//! clock would make the answer depend on the machine; so what could run away is not started.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::{
    EvalError, Patterns,
    functions::{self, MATCHES, MEMBER, ORDERED, STRING, UTC},
};

/// The most steps an expression may take.
pub(crate) const MAX_COST: u64 = 1_000_000;
/// The steps that are counted for a pattern that has to be compiled.
const COMPILING: u64 = 5_000;
/// How many bytes are measured in one step.
const MEASURED: u64 = 64;
/// The most bytes a value may have, the result or one on the way to it.
pub(super) const MAX_BYTES: u64 = 8 * 1024 * 1024;

pub(super) struct Inputs<'d> {
    pub(super) value: &'d Value,
    pub(super) this: &'d Value,
    pub(super) other: &'d Value,
    pub(super) patterns: &'d Patterns,
}

/// What is known of a value: at most so large, so long, and, if it is a piece of a document, which. A piece is
/// measured when somebody asks for its size.
#[derive(Clone, Copy, Debug, Default)]
struct Size<'d> {
    bytes: u64,
    /// The length of the longest list or map in it.
    length: u64,
    /// The bytes of its largest element; known only of what was computed.
    element: u64,
    piece: Option<&'d Value>,
}

struct Estimate<'d, 'e> {
    inputs: &'d Inputs<'d>,
    bound: Vec<(&'e str, Size<'d>)>,
    cost: u64,
    /// The bytes that were measured. Rounds do not multiply them.
    measured: u64,
}

/// The cost of an expression, if that is no more than `most` and than is ever allowed.
pub(super) fn check(
    expression: &IdedExpr,
    inputs: &Inputs<'_>,
    most: u64,
) -> Result<u64, EvalError> {
    let mut estimate = Estimate {
        inputs,
        bound: Vec::new(),
        cost: 0,
        measured: 0,
    };
    let size = estimate.of(expression);
    let size = estimate.measured(size);
    let cost = estimate.cost.saturating_add(estimate.measured / MEASURED);
    let limit = most.min(MAX_COST);
    if cost > limit {
        return Err(EvalError::TooExpensive { cost, limit });
    }
    if size.bytes > MAX_BYTES {
        return Err(EvalError::TooLarge {
            limit: usize::try_from(MAX_BYTES).unwrap_or(usize::MAX),
        });
    }
    Ok(cost)
}

/// About how large a value is.
pub(super) fn bytes(value: &Value) -> u64 {
    measure(value).0
}

impl<'d, 'e> Estimate<'d, 'e> {
    /// Adds the cost of an expression, and answers the size of its value.
    fn of(&mut self, node: &'e IdedExpr) -> Size<'d> {
        self.cost = self.cost.saturating_add(1);
        match &node.expr {
            Expr::Unspecified | Expr::Struct(_) => Size::default(),
            Expr::Literal(literal) => Size {
                bytes: literal_bytes(literal),
                ..Size::default()
            },
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let of = self.of(&select.operand);
                match of.piece {
                    Some(piece) => piece
                        .get(&select.field)
                        .map(Size::of_piece)
                        .unwrap_or_default(),
                    None => of.any_element(),
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut size = Size {
                    length: list.elements.len() as u64,
                    ..Size::default()
                };
                for element in &list.elements {
                    let element = self.of(element);
                    size = size.with(self.measured(element));
                }
                size
            }
            Expr::Map(map) => {
                let mut size = Size {
                    length: map.entries.len() as u64,
                    ..Size::default()
                };
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        for part in [&entry.key, &entry.value] {
                            let part = self.of(part);
                            size = size.with(self.measured(part));
                        }
                    }
                }
                size
            }
            Expr::Comprehension(comprehension) => {
                let range = self.of(&comprehension.iter_range);
                let initial = self.of(&comprehension.accu_init);
                let initial = self.measured(initial);
                let rounds = match range.piece {
                    Some(Value::Array(elements)) => elements.len() as u64,
                    Some(Value::Object(members)) => members.len() as u64,
                    Some(_) => 0,
                    None => range.length,
                };
                let outer = self.bound.len();
                let element = self.element(range);
                self.bound.push((&comprehension.iter_var, element));
                self.bound.push((&comprehension.accu_var, initial));
                let before = std::mem::take(&mut self.cost);
                self.of(&comprehension.loop_cond);
                let step = self.of(&comprehension.loop_step);
                let step = self.measured(step);
                let round = std::mem::replace(&mut self.cost, before);
                self.cost = self
                    .cost
                    .saturating_add(round.saturating_add(1).saturating_mul(rounds));
                let grown = Size {
                    bytes: initial
                        .bytes
                        .saturating_add(step.bytes.saturating_mul(rounds)),
                    length: step.length.max(rounds),
                    element: initial.element.max(step.element),
                    piece: None,
                };
                self.bound.truncate(outer + 1);
                self.bound.push((&comprehension.accu_var, grown));
                let result = self.of(&comprehension.result);
                self.bound.truncate(outer);
                // Copying what was gathered costs, too.
                self.cost = self.cost.saturating_add(grown.bytes / 64);
                result
            }
        }
    }

    fn variable(&self, name: &str) -> Size<'d> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, size)) = self.bound.iter().rev().find(|(bound, _)| *bound == name) {
            return *size;
        }
        match name {
            "value" => Size::of_piece(self.inputs.value),
            "self" => Size::of_piece(self.inputs.this),
            "other" => Size::of_piece(self.inputs.other),
            _ => Size {
                bytes: name.len() as u64,
                ..Size::default()
            },
        }
    }

    /// Puts the size to a piece of a document.
    fn measured(&mut self, size: Size<'d>) -> Size<'d> {
        let Some(piece) = size.piece else {
            return size;
        };
        let (bytes, length) = measure(piece);
        self.measured = self.measured.saturating_add(bytes);
        Size {
            bytes,
            length,
            ..size
        }
    }

    /// What any one element of this can be.
    fn element(&mut self, size: Size<'d>) -> Size<'d> {
        match size.piece {
            Some(Value::Array(elements)) => {
                let mut largest = Size::default();
                for element in elements {
                    let element = self.measured(Size::of_piece(element));
                    largest = Size {
                        bytes: largest.bytes.max(element.bytes),
                        length: largest.length.max(element.length),
                        // No element of it can be larger than the whole.
                        element: largest.element.max(element.bytes),
                        piece: None,
                    };
                }
                largest
            }
            Some(Value::Object(members)) => {
                let longest = members.keys().map(String::len).max().unwrap_or(0);
                self.measured = self.measured.saturating_add(8 * members.len() as u64);
                Size {
                    bytes: longest as u64,
                    ..Size::default()
                }
            }
            Some(_) => Size::default(),
            None => size.any_element(),
        }
    }

    fn largest_element(&mut self, size: Size<'d>) -> u64 {
        if size.piece.is_some() {
            self.element(size).bytes
        } else {
            size.element
        }
    }

    /// Either of two.
    fn either(&mut self, one: Size<'d>, other: Size<'d>) -> Size<'d> {
        let element = self.largest_element(one).max(self.largest_element(other));
        let (one, other) = (self.measured(one), self.measured(other));
        Size {
            bytes: one.bytes.max(other.bytes),
            length: one.length.max(other.length),
            element,
            piece: None,
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Size<'d> {
        let target = call.target.as_ref().map(|target| self.of(target));
        let arguments: Vec<Size<'d>> = call.args.iter().map(|argument| self.of(argument)).collect();
        let all: Vec<Size<'d>> = target
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let name = call.func_name.as_str();
        let (mut total, mut longest) = (0_u64, 0_u64);
        if LOOKS.contains(&name) {
            for size in &all {
                let size = self.measured(*size);
                total = total.saturating_add(size.bytes);
                longest = longest.saturating_add(size.length);
            }
            self.cost = self.cost.saturating_add(self.work(call, total));
        }
        match name {
            ORDERED | UTC | "dyn" => arguments.first().copied().unwrap_or_default(),
            "_[_]" => match (
                arguments.first().and_then(|size| size.piece),
                call.args.get(1),
            ) {
                (Some(piece), Some(key)) => {
                    element_at(piece, key).unwrap_or_else(|| self.element(Size::of_piece(piece)))
                }
                (None, _) => arguments.first().copied().unwrap_or_default().any_element(),
                (Some(_), None) => Size::default(),
            },
            "_?_:_" => match arguments.get(1..) {
                Some([yes, no]) => self.either(*yes, *no),
                _ => Size::default(),
            },
            "_+_" => {
                let mut element = 0;
                for size in &arguments {
                    element = self.largest_element(*size).max(element);
                }
                Size {
                    bytes: total,
                    length: longest,
                    element,
                    piece: None,
                }
            }
            // Bytes become longer as text, numbers have some two dozen digits.
            STRING | "bytes" => Size {
                bytes: total.saturating_mul(2).max(32),
                ..Size::default()
            },
            _ => Size {
                bytes: 32,
                ..Size::default()
            },
        }
    }

    /// The steps that a function takes which looks at so many bytes.
    fn work(&self, call: &CallExpr, total: u64) -> u64 {
        if call.func_name != MATCHES {
            return total / 16;
        }
        let pattern = call.args.get(1).and_then(functions::literal);
        if pattern.is_some_and(|pattern| self.inputs.patterns.contains_key(pattern)) {
            total / 4
        } else {
            // It may come from the document, so it is compiled each time.
            total.saturating_add(COMPILING)
        }
    }
}

/// Functions that look at all of their arguments.
const LOOKS: [&str; 15] = [
    MATCHES,
    "_==_",
    "_!=_",
    MEMBER,
    "_+_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    STRING,
    "bytes",
    "size",
    "contains",
    "startsWith",
    "endsWith",
];

impl<'d> Size<'d> {
    fn of_piece(piece: &'d Value) -> Self {
        Self {
            piece: Some(piece),
            ..Self::default()
        }
    }

    /// What any one element of what was computed can be.
    fn any_element(self) -> Self {
        Self {
            bytes: self.element,
            ..self
        }
    }

    /// A container of this and another.
    fn with(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes).saturating_add(8);
        let element = self.element.max(other.bytes);
        Self {
            bytes,
            length: self.length.max(other.length),
            element,
            piece: None,
        }
    }
}

fn element_at<'d>(piece: &'d Value, key: &IdedExpr) -> Option<Size<'d>> {
    let Expr::Literal(literal) = &key.expr else {
        return None;
    };
    let element = match literal {
        LiteralValue::String(key) => piece.get(key.inner()),
        LiteralValue::Int(index) => piece.get(usize::try_from(*index.inner()).ok()?),
        _ => return None,
    };
    Some(element.map(Size::of_piece).unwrap_or_default())
}

fn measure(value: &Value) -> (u64, u64) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (8, 0),
        Value::String(text) => (text.len() as u64 + 8, 0),
        Value::Array(elements) => {
            elements
                .iter()
                .fold((8, elements.len() as u64), |(bytes, length), element| {
                    let (more, inner) = measure(element);
                    (bytes + more, length.max(inner))
                })
        }
        Value::Object(members) => members.iter().fold(
            (8, members.len() as u64),
            |(bytes, length), (key, member)| {
                let (more, inner) = measure(member);
                (bytes + more + key.len() as u64 + 8, length.max(inner))
            },
        ),
    }
}

fn literal_bytes(literal: &LiteralValue) -> u64 {
    match literal {
        LiteralValue::String(text) => text.inner().len() as u64 + 8,
        LiteralValue::Bytes(bytes) => bytes.inner().len() as u64 + 8,
        _ => 8,
    }
}
