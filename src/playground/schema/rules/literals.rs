//! Arguments that are written out and wrong: a pattern that is none, a time that is none.

use super::{
    expr::{Call, Expr, Is},
    functions,
    problem::Problem,
};

pub(super) fn check(expr: &Expr, problems: &mut Vec<Problem>) {
    match &expr.is {
        Is::Call(call) => {
            call_of(call, problems);
            if let Some(target) = &call.target {
                check(target, problems);
            }
            call.arguments.iter().for_each(|one| check(one, problems));
        }
        Is::Select { of, .. } => check(of, problems),
        Is::List { items, .. } => items.iter().for_each(|one| check(one, problems)),
        Is::Map(entries) => {
            for entry in entries {
                check(&entry.key, problems);
                check(&entry.value, problems);
            }
        }
        Is::Fold(fold) => {
            for one in [
                &fold.range,
                &fold.initial,
                &fold.goes_on,
                &fold.step,
                &fold.result,
            ] {
                check(one, problems);
            }
        }
        Is::Bind(bind) => {
            check(&bind.of, problems);
            check(&bind.body, problems);
        }
        Is::SortBy(sort) => {
            check(&sort.of, problems);
            check(&sort.key, problems);
        }
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
        ("duration", Is::Text(text)) => functions::parse_duration(text).is_some(),
        ("duration", Is::Int(_)) => false,
        ("timestamp", Is::Text(text)) => functions::parse_time(text).is_some(),
        ("matches", Is::Text(text)) => functions::is_pattern(text),
        _ => true,
    };
    if !right {
        let message = format!("invalid {} argument", call.name);
        problems.push(Problem::new(argument.at, message));
    }
}
