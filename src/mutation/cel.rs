//! CEL expressions: compiled once, evaluated over `value`, `self` and `other`.
//!
//! The only place that knows the engine. What the engine leaves open is closed here: the standard library and nothing
//! else may be named, members of a map come in the order of their keys, regular expressions are Go's, and an
//! expression whose cost could exceed the bound for the given document is not started.

mod check;
mod convert;
mod cost;
mod functions;
mod needs;
#[cfg(test)]
mod tests;
mod types;

use std::{collections::HashMap, sync::Arc, thread};

use cel::{Context, Env, ExecutionError, Value as CelValue, common::ast::IdedExpr};
use serde_json::Value;
use thiserror::Error;

pub(crate) use self::cost::MAX_COST;
use self::needs::Need;
use kube_lang::go_regex::GoRegex;

/// The longest expression that is accepted.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// How deep an expression may be nested. Functions and macros count for more than one level.
const MAX_EXPRESSION_DEPTH: usize = 250;
/// Up to this depth an expression is evaluated on the caller's stack, beyond it on one of its own.
const SHALLOW_DEPTH: usize = 24;
const FUNCTION_DEPTH: usize = 3;
const MACRO_DEPTH: usize = 6;
/// The engine needs much stack for each level, more than the threads have that use pipelines.
const STACK_BYTES: usize = 128 * 1024 * 1024;
/// The steps that are counted for a stack of its own.
const STACK_COST: u64 = 500;

/// The patterns that stand in an expression, compiled.
type Patterns = HashMap<String, GoRegex>;

/// A compiled expression.
pub(crate) struct Program {
    expression: IdedExpr,
    is_deep: bool,
    needs_this: Need,
    needs_other: Need,
    patterns: Arc<Patterns>,
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

/// What an expression is evaluated over: of both objects what it can look at.
pub(crate) struct Scope {
    this: Value,
    other: Value,
    this_cel: CelValue,
    other_cel: CelValue,
}

impl Scope {
    /// About how many bytes there are to look at.
    pub(crate) fn bytes(&self) -> u64 {
        cost::bytes(&self.this) + cost::bytes(&self.other)
    }
}

/// The engine with what expressions may use, to be shared by all of a pipeline.
pub(crate) struct Engine(Arc<Env>);

impl Engine {
    pub(crate) fn new() -> Self {
        Self(Arc::new(functions::environment()))
    }

    pub(crate) fn compile(&self, source: &str) -> Result<Program, CelError> {
        if source.len() > MAX_EXPRESSION_BYTES {
            let message = format!("expression is longer than {MAX_EXPRESSION_BYTES} bytes");
            return Err(CelError { offset: 0, message });
        }
        let parsed = with_stack(|| self.parse(source));
        let unparsed = || {
            Err(CelError {
                offset: 0,
                message: "expression cannot be parsed".to_owned(),
            })
        };
        let (mut expression, depth) = parsed.unwrap_or_else(unparsed)?;
        let (needs_this, needs_other) = (
            needs::of("self", &expression),
            needs::of("other", &expression),
        );
        let mut patterns = Patterns::new();
        functions::rewrite(&mut expression, &mut patterns);
        Ok(Program {
            expression,
            is_deep: depth > SHALLOW_DEPTH,
            needs_this,
            needs_other,
            patterns: Arc::new(patterns),
            env: Arc::clone(&self.0),
        })
    }

    /// Parses and checks, with all the stack that may take.
    fn parse(&self, source: &str) -> Result<(IdedExpr, usize), CelError> {
        let parser = self.0.parser().enable_ident_escape_syntax(true);
        let (expression, positions) = parser.parse_with_source_info(source).map_err(|errors| {
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
        let depth = check::check(&expression).map_err(|problem| {
            let start = positions
                .offset_for(problem.node)
                .map_or(0, |(start, _)| start as usize);
            let offset = (0..=start.min(source.len()))
                .rev()
                .find(|at| source.is_char_boundary(*at))
                .unwrap_or(0);
            CelError {
                offset,
                message: problem.message,
            }
        })?;
        Ok((expression, depth))
    }
}

impl Program {
    /// Makes ready what the expression may look at.
    pub(crate) fn scope(&self, this: &Value, other: Option<&Value>) -> Scope {
        let (this, other) = (
            self.needs_this.pruned(this),
            self.needs_other.pruned(other.unwrap_or(&Value::Null)),
        );
        let (this_cel, other_cel) = (convert::object(&this), convert::object(&other));
        Scope {
            this,
            other,
            this_cel,
            other_cel,
        }
    }

    /// Answers the result, and the steps that it may have cost, which are no more than `most`.
    pub(crate) fn evaluate(
        &self,
        value: &Value,
        scope: &Scope,
        most: u64,
    ) -> Result<(Value, u64), EvalError> {
        let inputs = cost::Inputs {
            value,
            this: &scope.this,
            other: &scope.other,
            patterns: &self.patterns,
        };
        let own_stack = if self.is_deep { STACK_COST } else { 0 };
        let cost = cost::check(&self.expression, &inputs, most.saturating_sub(own_stack))?;
        let cost = cost + own_stack;
        if self.is_deep {
            let failed = || {
                Err(EvalError::Failed(
                    "expression is nested too deeply".to_owned(),
                ))
            };
            let result = with_stack(|| self.evaluate_here(value, scope));
            return Ok((result.unwrap_or_else(failed)?, cost));
        }
        Ok((self.evaluate_here(value, scope)?, cost))
    }

    fn evaluate_here(&self, value: &Value, scope: &Scope) -> Result<Value, EvalError> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_from_value("value", convert::plain(value));
        context.add_variable_from_value("self", scope.this_cel.clone());
        context.add_variable_from_value("other", scope.other_cel.clone());
        let evaluate = || CelValue::resolve(&self.expression, &context);
        let result = functions::with_patterns(&self.patterns, evaluate)
            .map_err(|error| EvalError::Failed(reason(&error)))?;
        convert::json(&result)
    }
}

/// Does something with a large stack. `None` if there is no thread to be had, or the engine panicked.
fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, work).ok()?.join().ok()
    })
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
