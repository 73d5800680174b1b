//! Mutation steps: delete, regex, template, CEL.
