//! Checks of constant arguments: patterns and times that cannot be parsed.

use kube_lang::go_text::parse_duration;

use super::{
    eval,
    expr::{Call, Expr, Is},
    fault::{Fault, Meter},
    problem::Problem,
    time::parse_time,
};

/// The largest cost of evaluating one constant.
const CONSTANT: u64 = 10_000;

/// Refuses conversions of constants that would fail for every object.
pub(super) fn folded(expr: &Expr) -> Result<(), String> {
    if let Is::Call(call) = &expr.is
        && let [argument] = call.arguments.as_slice()
        && call.target.is_none()
        && matches!(
            call.name.as_str(),
            "int" | "uint" | "double" | "bool" | "bytes" | "string"
        )
        && is_constant(argument)
        && let Err(Fault::Error(why)) = eval::evaluate(expr, &[], &Meter::new(CONSTANT))
    {
        return Err(why);
    }
    let mut outcome = Ok(());
    for_each_expr(expr, &mut |inner| {
        if outcome.is_ok() {
            outcome = folded(inner);
        }
    });
    outcome
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.is {
        Is::Bool(_) | Is::Int(_) | Is::Uint(_) | Is::Double(_) | Is::Text(_) | Is::Bytes(_) => true,
        Is::Call(call) => call.name == "-_" && call.arguments.iter().all(is_constant),
        _ => false,
    }
}

pub(super) fn check(expr: &Expr, problems: &mut Vec<Problem>) {
    if let Is::Call(call) = &expr.is {
        call_of(call, problems);
    }
    for_each_expr(expr, &mut |inner| check(inner, problems));
}

/// Does something with each part of an expression.
fn for_each_expr(expr: &Expr, with: &mut dyn FnMut(&Expr)) {
    match &expr.is {
        Is::Call(call) => {
            call.target.iter().for_each(&mut *with);
            call.arguments.iter().for_each(with);
        }
        Is::Select { of, .. } => with(of),
        Is::List { items, .. } => items.iter().for_each(with),
        Is::Map(entries) => {
            for entry in entries {
                with(&entry.key);
                with(&entry.value);
            }
        }
        Is::Fold(fold) => [
            &fold.range,
            &fold.initial,
            &fold.goes_on,
            &fold.step,
            &fold.result,
        ]
        .into_iter()
        .for_each(with),
        Is::Bind(bind) => [&bind.of, &bind.body].into_iter().for_each(with),
        Is::SortBy(sort) => [&sort.of, &sort.key].into_iter().for_each(with),
        _ => {}
    }
}

fn call_of(call: &Call, problems: &mut Vec<Problem>) {
    let argument = match (call.name.as_str(), call.arguments.as_slice()) {
        ("duration" | "timestamp", [argument]) => argument,
        ("matches", [.., pattern]) => pattern,
        _ => return,
    };
    let right = match (call.name.as_str(), &argument.is) {
        ("duration", Is::Text(text)) => parse_duration(text).is_some(),
        ("duration", Is::Int(_)) => false,
        ("timestamp", Is::Text(text)) => parse_time(text).is_some(),
        ("matches", Is::Text(_)) => call.pattern.is_some(),
        _ => true,
    };
    if !right {
        let message = format!("invalid {} argument", call.name);
        problems.push(Problem::new(argument.at, message));
    }
}
