//! Functions of templates, and how they read their arguments.

use gotmpl::Value;

use super::values;

pub(super) type Answer = Result<Value, String>;
pub(super) type Function = fn(&[Value]) -> Answer;

/// A function by its name, with the fewest and the most arguments it takes.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) run: Function,
}

pub(super) const fn entry(name: &'static str, least: usize, most: usize, run: Function) -> Entry {
    Entry {
        name,
        least,
        most,
        run,
    }
}

/// No limit of arguments.
pub(super) const ANY: usize = usize::MAX;

/// An argument that must be text.
pub(super) fn text_arg(args: &[Value], at: usize) -> Result<&str, String> {
    match args.get(at) {
        Some(Value::String(s)) => Ok(s),
        Some(Value::Nil) | None => Err("invalid value; expected string".to_owned()),
        Some(other) => Err(format!(
            "wrong type for value; expected string; got {}",
            values::type_name(other)
        )),
    }
}

/// An argument that must be an integer.
pub(super) fn int_arg(args: &[Value], at: usize) -> Result<i64, String> {
    match args.get(at) {
        Some(Value::Int(n)) => Ok(*n),
        Some(other) => Err(format!(
            "wrong type for value; expected int; got {}",
            values::type_name(other)
        )),
        None => Err("invalid value; expected int".to_owned()),
    }
}
