//! Mutation steps: delete, regex, template, CEL.

#[cfg(test)]
pub(crate) mod fuzz;
