//! CEL expressions: compiled once, evaluated over `value`, `self` and `other`.
//!
//! The only place that knows the engine. What the engine leaves open is closed here: the standard library and nothing
//! else may be named, members of a map come in the order of their keys, regular expressions are Go's, and an
//! expression whose cost could exceed the bound for the given document is not started.

mod check;
mod convert;
mod cost;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, sync::Arc};

use cel::{
    Context, Env, ExecutionError, Value as CelValue,
    common::{
        ast::{CallExpr, EntryExpr, Expr, IdedExpr},
        types::{self, CelBool, CelList, CelMap, CelString},
        value::{CowVal, Val},
    },
};
use serde_json::Value;
use thiserror::Error;

use super::go_regex::GoRegex;

/// The longest expression that is accepted.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// A compiled expression.
pub(crate) struct Program {
    expression: IdedExpr,
    env: Arc<Env>,
}

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct CelError {
    /// Where in the expression, in bytes.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Why an expression has no result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EvalError {
    #[error("{0}")]
    Failed(String),
    #[error(
        "expression could take {cost} steps over this object, which is more than {limit}: use fewer nested lists"
    )]
    TooExpensive { cost: u64, limit: u64 },
    #[error("result could be larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("a {0} cannot be written as JSON")]
    NotJson(&'static str),
}

/// What an expression is evaluated over.
pub(crate) struct Scope {
    this: Value,
    other: Value,
    this_cel: CelValue,
    other_cel: CelValue,
}

/// The engine with what expressions may use, to be shared by all of a pipeline.
pub(crate) struct Engine(Arc<Env>);

impl Engine {
    pub(crate) fn new() -> Self {
        let mut env = Env::stdlib().with_optional_support(false);
        let added = env
            .add_overload(ORDERED, "ordered_keys", vec![types::DYN_TYPE], ordered)
            .and_then(|()| {
                env.add_overload(
                    MATCHES,
                    "go_matches",
                    vec![types::STRING_TYPE, types::STRING_TYPE],
                    matches,
                )
            });
        added.expect("the names begin with @, which no standard function does");
        Self(Arc::new(env))
    }

    pub(crate) fn compile(&self, source: &str) -> Result<Program, CelError> {
        if source.len() > MAX_EXPRESSION_BYTES {
            let message = format!("expression is longer than {MAX_EXPRESSION_BYTES} bytes");
            return Err(CelError { offset: 0, message });
        }
        let (mut expression, positions) =
            self.0
                .parser()
                .parse_with_source_info(source)
                .map_err(|errors| {
                    let Some(first) = errors.errors.first() else {
                        return CelError {
                            offset: 0,
                            message: "cannot be parsed".to_owned(),
                        };
                    };
                    CelError {
                        offset: offset_of(source, first.pos),
                        message: first.msg.clone(),
                    }
                })?;
        check::check(&expression).map_err(|problem| {
            let characters = positions
                .offset_for(problem.node)
                .map_or(0, |(start, _)| start as usize);
            let offset = source
                .char_indices()
                .nth(characters)
                .map_or(source.len(), |(offset, _)| offset);
            CelError {
                offset,
                message: problem.message,
            }
        })?;
        rewrite(&mut expression);
        Ok(Program {
            expression,
            env: Arc::clone(&self.0),
        })
    }
}

impl Scope {
    pub(crate) fn new(this: &Value, other: Option<&Value>) -> Self {
        let other = other.cloned().unwrap_or_default();
        let (this_cel, other_cel) = (convert::object(this), convert::object(&other));
        Self {
            this: this.clone(),
            other,
            this_cel,
            other_cel,
        }
    }
}

impl Program {
    /// Answers the result, and what it may have cost.
    pub(crate) fn evaluate(&self, value: &Value, scope: &Scope) -> Result<(Value, u64), EvalError> {
        let cost = cost::check(
            &self.expression,
            &cost::Inputs {
                value,
                this: &scope.this,
                other: &scope.other,
            },
        )?;
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_from_value("value", convert::plain(value));
        context.add_variable_from_value("self", scope.this_cel.clone());
        context.add_variable_from_value("other", scope.other_cel.clone());
        let result = CelValue::resolve(&self.expression, &context)
            .map_err(|error| EvalError::Failed(reason(&error)))?;
        Ok((convert::json(&result)?, cost))
    }
}

/// The engine prints whole values into some messages; an object of a tenant does not belong there.
fn reason(error: &ExecutionError) -> String {
    const LONGEST: usize = 300;
    let text = error.to_string();
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn offset_of(source: &str, (line, column): (isize, isize)) -> usize {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let column = usize::try_from(column - 1).unwrap_or(0);
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    source[start..]
        .char_indices()
        .nth(column)
        .map_or(source.len(), |(offset, _)| start + offset)
}

const ORDERED: &str = "@ordered";
const MATCHES: &str = "@matches";

/// Puts our own functions where the engine's would answer differently from one run to the next, or from Go.
fn rewrite(node: &mut IdedExpr) {
    each_child(node, &mut rewrite);
    match &mut node.expr {
        Expr::Comprehension(comprehension) => {
            let range = std::mem::take(&mut comprehension.iter_range);
            let id = range.id;
            let call = CallExpr {
                func_name: ORDERED.to_owned(),
                target: None,
                args: vec![range],
            };
            comprehension.iter_range = IdedExpr {
                id,
                expr: Expr::Call(call),
            };
        }
        Expr::Call(call) if call.func_name == "matches" => {
            MATCHES.clone_into(&mut call.func_name);
            if let Some(target) = call.target.take() {
                call.args.insert(0, *target);
            }
        }
        _ => {}
    }
}

fn each_child(node: &mut IdedExpr, visit: &mut impl FnMut(&mut IdedExpr)) {
    match &mut node.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| visit(target));
            call.args.iter_mut().for_each(visit);
        }
        Expr::Comprehension(comprehension) => {
            visit(&mut comprehension.iter_range);
            visit(&mut comprehension.accu_init);
            visit(&mut comprehension.loop_cond);
            visit(&mut comprehension.loop_step);
            visit(&mut comprehension.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(visit),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    visit(&mut entry.key);
                    visit(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => visit(&mut select.operand),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}

/// The keys of a map in their order; anything else stays what it is.
fn ordered<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let Some(range) = arguments.pop() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let keys = match range.as_ref().downcast_ref::<CelMap<'_>>() {
        None => None,
        Some(_) => match CelValue::try_from(range.as_ref())? {
            CelValue::Map(map) => {
                let mut keys: Vec<CelValue> = map
                    .map
                    .keys()
                    .map(|key| CelValue::from(key.clone()))
                    .collect();
                keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| rank(a).cmp(&rank(b))));
                Some(keys)
            }
            _ => None,
        },
    };
    let Some(keys) = keys else { return Ok(range) };
    let keys: Result<Vec<Box<dyn Val + 'v>>, _> = keys.into_iter().map(TryInto::try_into).collect();
    Ok(CowVal::owned(CelList::from(keys?)))
}

/// The order of keys that cannot be compared with each other.
fn rank(key: &CelValue) -> Ordering {
    match key {
        CelValue::Bool(_) => Ordering::Less,
        CelValue::Int(_) | CelValue::UInt(_) => Ordering::Equal,
        _ => Ordering::Greater,
    }
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = |i: usize| {
        arguments
            .get(i)
            .and_then(|argument| argument.as_ref().downcast_ref::<CelString<'_>>())
    };
    let (Some(text), Some(pattern)) = (text(0), text(1)) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let regex = GoRegex::compile(pattern.inner())
        .map_err(|error| ExecutionError::function_error("matches", error))?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text.inner()))))
}
