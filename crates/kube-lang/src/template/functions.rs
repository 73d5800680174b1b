//! The table of functions that both dialects share, and the functions that are refused.

use std::sync::Arc;

use gotmpl::{FuncMap, TemplateError, Value};

use super::{
    MAX_OUTPUT, digests, links, lists, maps, numbers, patterns, semver, text, times, values,
};

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

fn entries() -> impl Iterator<Item = &'static Entry> {
    [
        text::TABLE,
        lists::TABLE,
        maps::TABLE,
        numbers::TABLE,
        digests::TABLE,
        patterns::TABLE,
        times::TABLE,
        semver::TABLE,
        links::TABLE,
    ]
    .into_iter()
    .flatten()
}

/// The names of all functions a template may call, besides the built-in ones of its dialect.
#[cfg(test)]
pub(super) fn offered() -> impl Iterator<Item = &'static str> {
    entries().map(|e| e.name)
}

const RANDOM: &str =
    "its result differs each time: derive the value from the object, for example with sha3short";
const SURROUNDINGS: &str =
    "templates cannot access the process or the network: write the value into the template";
const CLOCK: &str = "its result depends on the current time: use a time from the object";
const KEYS: &str = "names and object fields must not contain keys: put the value into a Secret and sync it as a related object";

/// The remedy for a function that sprig has and that is refused here.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    Some(match name {
        "env" | "expandenv" | "getHostByName" => SURROUNDINGS,
        "randAlpha"
        | "randAlphaNum"
        | "randAscii"
        | "randBytes"
        | "randInt"
        | "randNumeric"
        | "shuffle"
        | "uuidv4"
        | "bcrypt"
        | "htpasswd"
        | "encryptAES"
        | "genCA"
        | "genCAWithKey"
        | "genPrivateKey"
        | "genSelfSignedCert"
        | "genSelfSignedCertWithKey"
        | "genSignedCert"
        | "genSignedCertWithKey"
        | "buildCustomCert" => RANDOM,
        "now" | "ago" => CLOCK,
        "derivePassword" | "decryptAES" => KEYS,
        _ => return None,
    })
}

/// Calls a function within its bounds.
pub(super) fn run(entry: &Entry, args: &[Value]) -> Answer {
    // They stand for what the language does, or count as the function that they call.
    if let "goField" | "goTyped" = entry.name {
        return (entry.run)(args);
    }
    if args.len() < entry.least || args.len() > entry.most {
        let (least, most, got) = (entry.least, entry.most, args.len());
        let want = if least == most {
            least.to_string()
        } else if got < least {
            format!("at least {least}")
        } else {
            format!("at most {most}")
        };
        return Err(format!(
            "wrong number of args for {}: want {want} got {got}",
            shown(entry)
        ));
    }
    let size: usize = args
        .iter()
        .map(|arg| match arg {
            Value::String(s) => s.len() / 64,
            Value::List(items) => items.len(),
            Value::Map(fields) => fields.len(),
            _ => 0,
        })
        .sum();
    super::spend(1 + size as u64)?;
    let answer = (entry.run)(args).map_err(|e| format!("error calling {}: {e}", shown(entry)))?;
    match &answer {
        Value::String(s) if s.len() > MAX_OUTPUT => Err(format!(
            "error calling {}: the text has more than {MAX_OUTPUT} bytes",
            shown(entry)
        )),
        // Text is made of whatever the arguments hold, however deep.
        Value::String(s) => super::spend(s.len() as u64 / 64).map(|()| answer),
        _ => Ok(answer),
    }
}

/// Calls the function of a name within its bounds.
pub(super) fn run_named(name: &str, args: &[Value]) -> Answer {
    let entry = entries().find(|entry| entry.name == name);
    run(entry.ok_or("no such function")?, args)
}

/// The name by which a template called it.
fn shown(entry: &Entry) -> &'static str {
    match entry.name {
        "goItem" => "index",
        "goPrintf" => "printf",
        name => name,
    }
}

pub(super) fn go_table() -> FuncMap {
    let internal = maps::INTERNAL.iter();
    entries()
        .chain(internal)
        .map(|entry| {
            let function: gotmpl::ValueFunc =
                Arc::new(move |args: &[Value]| run(entry, args).map_err(TemplateError::Exec));
            (entry.name.to_owned(), function)
        })
        .chain(REFUSED.iter().map(|name| {
            // Known to the parser, so that the walk over the tree can refuse it with its remedy.
            let function: gotmpl::ValueFunc =
                Arc::new(|_: &[Value]| Err(TemplateError::Exec("refused".to_owned())));
            ((*name).to_owned(), function)
        }))
        .collect()
}

pub(super) fn table() -> impl Iterator<Item = &'static Entry> {
    entries()
}

/// All names [`refusal`] knows.
pub(super) const REFUSED: &[&str] = &[
    "env",
    "expandenv",
    "getHostByName",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "shuffle",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "encryptAES",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "buildCustomCert",
    "now",
    "ago",
    "derivePassword",
    "decryptAES",
];

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
