//! How much an expression can cost over given documents, before it is started.
//!
//! An upper bound, computed from the expression and the sizes of what it reads. The engine counts no steps, and a
//! clock would make the answer depend on the machine; so what could run away is not started.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::{
    EvalError,
    functions::{MATCHES, MEMBER, ORDERED, STRING, UTC},
};

/// The most steps an expression may take.
pub(super) const MAX_COST: u64 = 5_000_000;
/// The most bytes a value may have, the result or one on the way to it.
pub(super) const MAX_BYTES: u64 = 8 * 1024 * 1024;

pub(super) struct Inputs<'d> {
    pub(super) value: &'d Value,
    pub(super) this: &'d Value,
    pub(super) other: &'d Value,
}

/// What is known of a value: at most so large, so long, and, if it is a piece of a document, which.
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
}

pub(super) fn check(expression: &IdedExpr, inputs: &Inputs<'_>) -> Result<u64, EvalError> {
    let mut estimate = Estimate {
        inputs,
        bound: Vec::new(),
        cost: 0,
    };
    let size = estimate.of(expression);
    if estimate.cost > MAX_COST {
        return Err(EvalError::TooExpensive {
            cost: estimate.cost,
            limit: MAX_COST,
        });
    }
    if size.bytes > MAX_BYTES {
        return Err(EvalError::TooLarge {
            limit: usize::try_from(MAX_BYTES).unwrap_or(usize::MAX),
        });
    }
    Ok(estimate.cost)
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
                    None => of.element(),
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut size = Size {
                    length: list.elements.len() as u64,
                    ..Size::default()
                };
                for element in &list.elements {
                    size = size.with(self.of(element));
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
                        size = size.with(self.of(&entry.key)).with(self.of(&entry.value));
                    }
                }
                size
            }
            Expr::Comprehension(comprehension) => {
                let range = self.of(&comprehension.iter_range);
                let initial = self.of(&comprehension.accu_init);
                let rounds = match range.piece {
                    Some(Value::Array(elements)) => elements.len() as u64,
                    Some(Value::Object(members)) => members.len() as u64,
                    Some(_) => 0,
                    None => range.length,
                };
                let outer = self.bound.len();
                self.bound.push((&comprehension.iter_var, range.element()));
                self.bound.push((&comprehension.accu_var, initial));
                let before = std::mem::take(&mut self.cost);
                self.of(&comprehension.loop_cond);
                let step = self.of(&comprehension.loop_step);
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

    fn call(&mut self, call: &'e CallExpr) -> Size<'d> {
        let target = call.target.as_ref().map(|target| self.of(target));
        let arguments: Vec<Size<'d>> = call.args.iter().map(|argument| self.of(argument)).collect();
        let all = target.iter().chain(&arguments);
        let total = all
            .clone()
            .fold(0, |sum: u64, size| sum.saturating_add(size.bytes));
        let longest = all.map(|size| size.length).fold(0, u64::saturating_add);
        let work = match call.func_name.as_str() {
            // A pattern may come from the document, so it is compiled each time.
            MATCHES => total.saturating_add(1_000),
            "_==_" | "_!=_" | MEMBER | "_+_" | "_<_" | "_<=_" | "_>_" | "_>=_" | STRING
            | "bytes" | "size" | "contains" | "startsWith" | "endsWith" => total / 16,
            _ => 0,
        };
        self.cost = self.cost.saturating_add(work);
        match call.func_name.as_str() {
            ORDERED | UTC | "dyn" => arguments.first().copied().unwrap_or_default(),
            "_[_]" => match (
                arguments.first().and_then(|size| size.piece),
                call.args.get(1),
            ) {
                (Some(piece), Some(key)) => {
                    element_at(piece, key).unwrap_or_else(|| Size::of_piece(piece).element())
                }
                (None, _) => arguments.first().copied().unwrap_or_default().element(),
                (Some(_), None) => Size::default(),
            },
            "_?_:_" => match arguments.get(1..) {
                Some([yes, no]) => yes.or(*no),
                _ => Size::default(),
            },
            "_+_" => {
                let element = arguments
                    .iter()
                    .map(|size| size.largest_element())
                    .max()
                    .unwrap_or(0);
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
}

impl<'d> Size<'d> {
    fn of_piece(piece: &'d Value) -> Self {
        let (bytes, length) = measure(piece);
        Self {
            bytes,
            length,
            element: 0,
            piece: Some(piece),
        }
    }

    /// What any one element of this can be.
    fn element(self) -> Self {
        match self.piece {
            Some(Value::Array(elements)) => elements
                .iter()
                .map(Self::of_piece)
                .fold(Self::default(), Self::or),
            Some(Value::Object(members)) => {
                let longest = members.keys().map(String::len).max().unwrap_or(0);
                Self {
                    bytes: longest as u64,
                    ..Self::default()
                }
            }
            Some(_) => Self::default(),
            None => Self {
                bytes: self.element,
                ..self
            },
        }
    }

    fn largest_element(self) -> u64 {
        if self.piece.is_some() {
            self.element().bytes
        } else {
            self.element
        }
    }

    /// Either of two.
    fn or(self, other: Self) -> Self {
        let element = self.largest_element().max(other.largest_element());
        let length = self.length.max(other.length);
        Self {
            bytes: self.bytes.max(other.bytes),
            length,
            element,
            piece: None,
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
