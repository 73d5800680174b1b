//! CEL expressions over `value`, `self` and `other`: the standard library, with a bounded number of steps.

#[cfg(test)]
mod tests;

use kube_cel::{Fault, Library, Meter, Type, Val};
use serde_json::Value;
use thiserror::Error;

/// The longest expression that is accepted.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;
/// The most steps that one evaluation may take. A step is given a tenth of a unit of work, that is 100 ns, so
/// that the longest evaluation takes 50 ms; `benches/mutation.rs` has one that ends here for each kind of step.
pub(crate) const MAX_COST: u64 = 500_000;
/// The work that is charged for a separate stack.
const STACK_COST: u64 = 2_000;

/// A compiled expression.
pub(crate) struct Program(kube_cel::Program);

/// The reason why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct CelError {
    /// The place in the expression, in bytes.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// The reason why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvalError {
    #[error("{0}")]
    Failed(String),
    #[error("expression takes more than {limit} steps over this object: use fewer nested lists")]
    TooExpensive { limit: u64 },
}

/// The variables of an expression.
#[derive(Clone, Copy)]
pub(crate) struct EvalScope<'d> {
    pub(crate) value: &'d Value,
    pub(crate) this: &'d Value,
    pub(crate) other: Option<&'d Value>,
}

impl Program {
    pub(crate) fn compile(source: &str) -> Result<Self, CelError> {
        if source.len() > MAX_EXPRESSION_BYTES {
            let message = format!("expression is longer than {MAX_EXPRESSION_BYTES} bytes");
            return Err(CelError { offset: 0, message });
        }
        let variables = ["value", "self", "other"].map(|name| (name, Type::Dyn));
        let compiled = kube_cel::Program::compile(source, Library::Standard, &variables);
        compiled.map(Self).map_err(|problems| {
            let first = problems
                .into_iter()
                .map(|problem| (problem.offset(source), problem.message))
                .min_by_key(|(offset, _)| *offset);
            let (offset, message) = first.unwrap_or_default();
            let names = ": use value, self, other and the standard functions";
            let message = message.replace(" (in container '')", names);
            CelError { offset, message }
        })
    }

    /// Answers the result and the steps it took, which are no more than `most`.
    pub(crate) fn evaluate(
        &self,
        scope: EvalScope<'_>,
        most: u64,
    ) -> Result<(Value, u64), EvalError> {
        let limit = most.min(MAX_COST);
        let (result, steps) = if self.0.is_deep() {
            let evaluated =
                kube_cel::with_stack(|| self.run(scope, limit.saturating_sub(STACK_COST)));
            let (result, steps) = evaluated
                .ok_or_else(|| EvalError::Failed("expression is nested too deeply".to_owned()))?;
            (result, steps + STACK_COST)
        } else {
            self.run(scope, limit)
        };
        match result {
            Ok(result) => Ok((result, steps)),
            Err(Fault::Error(why)) => Err(EvalError::Failed(shortened(why))),
            Err(Fault::Exhausted) => Err(EvalError::TooExpensive { limit }),
        }
    }

    fn run(&self, scope: EvalScope<'_>, limit: u64) -> (Result<Value, Fault>, u64) {
        let variables = [
            ("value", Val::any_with_doubles(scope.value)),
            ("self", Val::any(scope.this)),
            ("other", Val::any(scope.other.unwrap_or(&Value::Null))),
        ];
        let meter = Meter::new(limit);
        let result = self.0.evaluate(&variables, &meter);
        let result = result.and_then(|result| result.to_json(&meter));
        (result, limit - meter.left())
    }
}

/// Shortens a message, because some messages quote values of the object.
fn shortened(why: String) -> String {
    const LONGEST: usize = 300;
    match why.char_indices().nth(LONGEST) {
        None => why,
        Some((end, _)) => format!("{}…", &why[..end]),
    }
}
