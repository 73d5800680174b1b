//! The Common Expression Language as Kubernetes uses it: types checked before anything is evaluated, and an evaluator
//! that goes over JSON as it stands and counts what it does. Pure: no client, no runtime, no clock.
//!
//! The grammar is that of the crate `cel`; everything behind it is here. An evaluation ends when its [`Meter`] is used
//! up, and depth is that of the expression, which is bounded when it is compiled.

mod check;
mod declarations;
mod escape;
mod eval;
mod expr;
mod fault;
mod functions;
mod json;
mod libraries;
mod literals;
mod macros;
mod parse;
mod problem;
mod shape;
mod time;
mod types;
mod value;

pub use self::{
    check::Variables,
    declarations::Library,
    escape::escape,
    fault::{Fault, Meter},
    libraries::quantity::{check_quantity, quantity_in_billionths},
    parse::with_stack,
    problem::{Problem, show},
    shape::{Content, Format, Listing, Member, Numbers, Shape},
    types::Type,
    value::{Answer, Val},
};

/// An expression whose types are right.
#[derive(Debug)]
pub struct Program {
    expression: expr::Expr,
    kind: Type,
    is_deep: bool,
}

impl Program {
    /// Compiles an expression, or answers all that is wrong with it.
    pub fn compile(
        source: &str,
        library: Library,
        variables: Variables<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let parse::Parsed {
            mut expression,
            is_deep,
        } = parse::parse(source, library)?;
        let kind = check::check(&mut expression, library, variables)?;
        Ok(Self {
            expression,
            kind,
            is_deep,
        })
    }

    /// The type of the result.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// True if the expression reads a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.expression.uses(name)
    }

    /// True if the evaluation needs a stack of its own: see [`with_stack`].
    pub fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Refuses conversions of constants that would fail for every object.
    pub fn check_constants(&self) -> Result<(), String> {
        literals::folded(&self.expression)
    }

    pub fn evaluate<'a>(&'a self, variables: &[(&'a str, Val<'a>)], meter: &Meter) -> Answer<'a> {
        eval::evaluate(&self.expression, variables, meter)
    }
}
