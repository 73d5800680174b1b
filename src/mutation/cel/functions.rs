//! Our own versions of functions the engine answers differently from Go, or from one run to the next.

use std::{
    cell::RefCell,
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use cel::{
    Env, ExecutionError, Value as CelValue,
    common::{
        ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue},
        types::{
            CelBool, CelDouble, CelDuration, CelInt, CelList, CelMap, CelString, CelTimestamp,
            DYN_TYPE, STRING_TYPE, Type,
        },
        value::{CowVal, Val},
    },
};

use super::{Patterns, convert::go_time};
use kube_lang::go_regex::GoRegex;

pub(super) const ORDERED: &str = "@ordered";
pub(super) const MATCHES: &str = "@matches";
pub(super) const HAS: &str = "@has";
pub(super) const MEMBER: &str = "@member";
pub(super) const UTC: &str = "@utc";
const BOOL: &str = "@bool";
const DURATION: &str = "@duration";
const INT: &str = "@int";
pub(super) const STRING: &str = "@string";
const TIMESTAMP: &str = "@timestamp";

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;
type Function = for<'b, 'v> fn(Arguments<'b, 'v>) -> Answer<'b, 'v>;

/// What our versions fall back on.
static STANDARD: LazyLock<Env> = LazyLock::new(Env::stdlib);

/// The standard library, with our versions beside it under names no expression can spell.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib().with_optional_support(false);
    env.set_error_on_duplicate_map_keys(false);
    let two = || vec![DYN_TYPE, DYN_TYPE];
    let functions: [(&str, Vec<Type>, Function); 10] = [
        (ORDERED, vec![DYN_TYPE], ordered),
        (MATCHES, vec![STRING_TYPE, STRING_TYPE], matches),
        (HAS, two(), has),
        (MEMBER, two(), member),
        (UTC, vec![DYN_TYPE], utc),
        (BOOL, vec![DYN_TYPE], to_bool),
        (DURATION, vec![DYN_TYPE], to_duration),
        (INT, vec![DYN_TYPE], to_int),
        (STRING, vec![DYN_TYPE], to_string),
        (TIMESTAMP, vec![DYN_TYPE], to_timestamp),
    ];
    for (name, takes, function) in functions {
        env.add_overload(name, name, takes, function)
            .expect("each name is there once and begins with @");
    }
    env
}

thread_local! {
    /// Of the expression that is evaluated on this thread: functions are given their arguments only.
    static PATTERNS: RefCell<Arc<Patterns>> = RefCell::default();
}

/// Evaluates with the patterns of an expression at hand.
pub(super) fn with_patterns<T>(patterns: &Arc<Patterns>, evaluate: impl FnOnce() -> T) -> T {
    let before = PATTERNS.replace(Arc::clone(patterns));
    let result = evaluate();
    PATTERNS.set(before);
    result
}

/// The text of a literal.
pub(super) fn literal(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Puts our versions into an expression that was checked, and compiles the patterns that stand in it.
pub(super) fn rewrite(node: &mut IdedExpr, patterns: &mut Patterns) {
    each_child(node, &mut |child| rewrite(child, patterns));
    match &mut node.expr {
        Expr::Comprehension(comprehension) => wrap(ORDERED, &mut comprehension.iter_range),
        Expr::Select(select) if select.test => {
            let operand = std::mem::take(&mut *select.operand);
            let field = LiteralValue::String(CelString::from(std::mem::take(&mut select.field)));
            let field = IdedExpr {
                id: node.id,
                expr: Expr::Literal(field),
            };
            node.expr = Expr::Call(CallExpr {
                func_name: HAS.to_owned(),
                target: None,
                args: vec![operand, field],
            });
        }
        Expr::Call(call) => match (call.func_name.as_str(), &mut call.target) {
            ("matches", target) => {
                let target = target.take();
                call.args.splice(0..0, target.map(|target| *target));
                MATCHES.clone_into(&mut call.func_name);
                // One that cannot be compiled fails where it is used, as in Go.
                if let Some(pattern) = call.args.get(1).and_then(literal)
                    && let Ok(regex) = GoRegex::compile(pattern)
                {
                    patterns.insert(pattern.to_owned(), regex);
                }
            }
            ("@in", None) => MEMBER.clone_into(&mut call.func_name),
            ("bool" | "duration" | "int" | "string" | "timestamp", None) => {
                call.func_name.insert(0, '@');
            }
            (name, Some(target)) if name.starts_with("get") && call.args.is_empty() => {
                wrap(UTC, target);
            }
            _ => {}
        },
        _ => {}
    }
}

fn wrap(function: &str, node: &mut IdedExpr) {
    let inner = std::mem::take(node);
    let call = CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![inner],
    };
    *node = IdedExpr {
        id: call.args[0].id,
        expr: Expr::Call(call),
    };
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

/// Calls what the standard library has under the name.
fn standard<'b, 'v>(name: &str, arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    if let Some(function) = STANDARD.find_overload(name, &arguments) {
        return function(arguments);
    }
    let types = arguments
        .iter()
        .map(|argument| argument.as_ref().get_type().name().to_owned())
        .collect();
    Err(ExecutionError::no_such_overload(name, types))
}

fn text<'a>(arguments: &'a [CowVal<'_, '_>], index: usize) -> Option<&'a str> {
    Some(
        arguments
            .get(index)?
            .as_ref()
            .downcast_ref::<CelString<'_>>()?
            .inner(),
    )
}

/// The keys of a map in their order, so that no answer depends on how a table was hashed.
fn ordered<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let Some(range) = arguments.pop() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let keys = match range.as_ref().downcast_ref::<CelMap<'_>>() {
        None => None,
        Some(_) => match CelValue::try_from(range.as_ref())? {
            CelValue::Map(map) => Some(map.map.keys().cloned().collect::<Vec<_>>()),
            _ => None,
        },
    };
    let Some(mut keys) = keys else {
        return Ok(range);
    };
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> = keys
        .into_iter()
        .map(|key| Box::<dyn Val>::try_from(CelValue::from(key)))
        .collect::<Result<_, _>>()?;
    Ok(CowVal::owned(CelList::from(keys)))
}

#[allow(clippy::needless_pass_by_value)] // The engine wants the signature.
fn matches<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let (Some(subject), Some(pattern)) = (text(&arguments, 0), text(&arguments, 1)) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let known = PATTERNS.with_borrow(|patterns| Some(patterns.get(pattern)?.is_match(subject)));
    let is_match = match known {
        Some(is_match) => is_match,
        None => GoRegex::compile_small(pattern)
            .map_err(|error| ExecutionError::function_error("matches", error))?
            .is_match(subject),
    };
    Ok(CowVal::owned(CelBool::from(is_match)))
}

/// Whether a map has a key. Lists have no fields to ask for; anything else just does not have it.
#[allow(clippy::needless_pass_by_value)] // The engine wants the signature.
fn has<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let [subject, field] = arguments.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    if subject.as_ref().downcast_ref::<CelList<'_>>().is_some() {
        return Err(ExecutionError::function_error(
            "has",
            "unsupported index type 'string' in list",
        ));
    }
    let has = match subject.as_ref().downcast_ref::<CelMap<'_>>() {
        Some(_) => contains(subject.as_ref(), field.as_ref()),
        None => Ok(false),
    };
    Ok(CowVal::owned(CelBool::from(has?)))
}

/// `x in y`; what cannot be a key is in no map.
#[allow(clippy::needless_pass_by_value)] // The engine wants the signature.
fn member<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let [element, container] = arguments.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let found = contains(container.as_ref(), element.as_ref());
    let is_map = container.as_ref().downcast_ref::<CelMap<'_>>().is_some();
    Ok(CowVal::owned(CelBool::from(if is_map {
        found.unwrap_or(false)
    } else {
        found?
    })))
}

fn contains(container: &dyn Val, element: &dyn Val) -> Result<bool, ExecutionError> {
    let Some(known) = container.as_container() else {
        let types = [element, container].map(|value| value.get_type().name().to_owned());
        return Err(ExecutionError::no_such_overload("@in", types.into()));
    };
    known.contains(element)
}

/// A time in UTC, for accessors without a zone.
fn utc<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let Some(subject) = arguments.pop() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    match subject
        .as_ref()
        .downcast_ref::<CelTimestamp>()
        .map(|time| time.inner().to_utc().fixed_offset())
    {
        Some(time) => Ok(CowVal::owned(CelTimestamp::from(time))),
        None => Ok(subject),
    }
}

fn to_bool<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    match text(&arguments, 0) {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(CowVal::owned(CelBool::from(true))),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => {
            Ok(CowVal::owned(CelBool::from(false)))
        }
        _ => standard("bool", arguments),
    }
}

fn to_duration<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    match text(&arguments, 0) {
        Some(duration) if duration.contains(['µ', 'μ']) => {
            let plain = duration.replace(['µ', 'μ'], "u");
            standard("duration", vec![CowVal::owned(CelString::from(plain))])
        }
        _ => standard("duration", arguments),
    }
}

fn to_int<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let duration = arguments
        .first()
        .and_then(|argument| argument.as_ref().downcast_ref::<CelDuration>());
    match duration.and_then(|duration| duration.inner().num_nanoseconds()) {
        Some(nanos) => Ok(CowVal::owned(CelInt::from(nanos))),
        None => standard("int", arguments),
    }
}

fn to_string<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let subject = arguments.first().map(CowVal::as_ref);
    if let Some(double) = subject.and_then(<dyn Val>::downcast_ref::<CelDouble>) {
        return Ok(CowVal::owned(CelString::from(double_text(*double.inner()))));
    }
    if let Some(time) = subject.and_then(<dyn Val>::downcast_ref::<CelTimestamp>) {
        return Ok(CowVal::owned(CelString::from(go_time(
            &time.inner().to_rfc3339(),
        ))));
    }
    standard("string", arguments)
}

/// A double as Go's `%g` has it with the fewest digits: an exponent from a million on and below a ten-thousandth.
fn double_text(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mut text = digits.to_owned();
        let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
        return text;
    }
    double.to_string()
}

fn to_timestamp<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    match text(&arguments, 0) {
        // The parser also takes a blank and lower case, which RFC 3339 allows but Go does not.
        Some(time) if time.as_bytes().get(10) != Some(&b'T') || time.ends_with('z') => {
            Err(ExecutionError::function_error(
                "timestamp",
                format!("'{time}' is not of the form {EXAMPLE_TIME}"),
            ))
        }
        _ => standard("timestamp", arguments),
    }
}

const EXAMPLE_TIME: &str = "2006-01-02T15:04:05Z";
