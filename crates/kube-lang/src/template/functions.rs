//! The table of functions that both dialects share, and the functions that are refused.

use std::sync::Arc;

use gotmpl::{FuncMap, TemplateError, Value};

use super::entry::{ANY, Answer, Entry, entry};
use super::integers::{Integers, int_parameters};
use super::limits::{MAX_OUTPUT, spend};
use super::{digests, links, lists, maps, numbers, patterns, semver, text, times, values};

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
    spend(1 + size as u64)?;
    let answer = (entry.run)(args).map_err(|e| format!("error calling {}: {e}", shown(entry)))?;
    match &answer {
        Value::String(s) if s.len() > MAX_OUTPUT => Err(format!(
            "error calling {}: the text has more than {MAX_OUTPUT} bytes",
            shown(entry)
        )),
        // Text is made of whatever the arguments hold, however deep.
        Value::String(s) => spend(s.len() as u64 / 64).map(|()| answer),
        _ => Ok(answer),
    }
}

/// Calls the function of a name within its bounds.
pub(super) fn run_named(name: &str, args: &[Value]) -> Answer {
    let entry = entries().find(|entry| entry.name == name);
    run(entry.ok_or("no such function")?, args)
}

/// Calls the function that the first argument names with those after the second, whose integers have the types that
/// the second tells.
fn call_typed(args: &[Value]) -> Answer {
    let (Some(name), Some(bits)) = (args.first().and_then(Value::as_str), args.get(1)) else {
        return Err("the name of a function is missing".to_owned());
    };
    let bits = bits.as_int().unwrap_or_default();
    let integers = |at: usize| match bits >> (2 * at) & 3 {
        1 => Integers::Literal,
        2 => Integers::Data,
        _ => Integers::Unknown,
    };
    let mut args = args[2..].to_vec();
    let is_int = matches!(args.last(), Some(Value::Int(_)))
        && integers(args.len().saturating_sub(1)) == Integers::Literal;
    match name {
        "typeOf" | "kindOf" if is_int => return Ok(values::string("int")),
        "kindIs" | "typeIs" | "typeIsLike" if is_int => {
            return Ok(Value::Bool(args[0].as_str() == Some("int")));
        }
        // Seconds are an int64 or a text; of anything else they are none.
        "duration" if is_int => args[0] = Value::Int(0),
        "has" | "mustHas" | "deepEqual" if integers(0).differ(integers(1)) => {
            args[0] = unlike(&args[0]);
        }
        "without" | "mustWithout" => {
            for (at, arg) in args.iter_mut().enumerate().skip(1) {
                if integers(0).differ(integers(at)) {
                    *arg = unlike(arg);
                }
            }
        }
        _ => {}
    }
    for at in int_parameters(name) {
        if let (Some(Value::Int(_)), Integers::Data) = (args.get(*at), integers(*at)) {
            return Err("wrong type for value; expected int; got int64".to_owned());
        }
    }
    run_named(name, &args)
}

/// A value whose integers equal none of another type.
fn unlike(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Uint(number.cast_unsigned()),
        Value::List(items) => Value::List(items.iter().map(unlike).collect()),
        Value::Map(fields) => values::map(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), unlike(field)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// The name by which a template called it.
fn shown(entry: &Entry) -> &'static str {
    match entry.name {
        "goItem" => "index",
        "goPrintf" => "printf",
        name => name,
    }
}

/// Calls another function with the types of integers in the template.
const TYPED: Entry = entry("goTyped", 2, ANY, call_typed);

pub(super) fn go_table() -> FuncMap {
    let internal = maps::INTERNAL.iter().chain([&TYPED]);
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
