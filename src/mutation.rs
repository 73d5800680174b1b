//! Mutation steps: delete, regex, template, CEL.

mod go_regex;

#[cfg(test)]
pub(crate) mod fuzz;
