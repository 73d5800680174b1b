//! Functions over strings. Positions are counted in characters.

use kube_lang::{go_regex::GoRegex, go_text::quote};

use super::printing;
use crate::{
    expr::Call,
    fault::{Fault, Meter, no_overload},
    value::{Answer, Val},
};

/// The pattern of a call: written out, or made on the way.
fn with_pattern<'a>(
    call: &Call,
    text: &str,
    meter: &Meter,
    then: impl FnOnce(&GoRegex) -> Answer<'a>,
) -> Answer<'a> {
    match &call.pattern {
        Some(pattern) => then(pattern),
        None => then(&*meter.pattern(text)?),
    }
}

fn int_value<'a>(count: usize) -> Val<'a> {
    Val::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn out_of_range(index: i64) -> Fault {
    Fault::Error(format!("index out of range: {index}"))
}

pub(super) fn call<'a>(call: &Call, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    let name = call.name.as_str();
    if let ("size", [Val::Bytes(bytes)]) = (name, arguments) {
        return Some(Ok(int_value(bytes.len())));
    }
    if name == "join" {
        return join(arguments, meter);
    }
    let text = arguments.first()?.as_text()?;
    if let Err(fault) = meter.bytes(text.len()) {
        return Some(Err(fault));
    }
    let rest = &arguments[1..];
    Some(match (name, rest) {
        ("size", []) => Ok(int_value(text.chars().count())),
        ("contains", [Val::Text(part)]) => Ok(Val::Bool(text.contains(part.as_str()))),
        ("startsWith", [Val::Text(part)]) => Ok(Val::Bool(text.starts_with(part.as_str()))),
        ("endsWith", [Val::Text(part)]) => Ok(Val::Bool(text.ends_with(part.as_str()))),
        ("matches", [Val::Text(wanted)]) => with_pattern(call, wanted.as_str(), meter, |p| {
            Ok(Val::Bool(p.is_match(text)))
        }),
        ("find", [Val::Text(wanted)]) => with_pattern(call, wanted.as_str(), meter, |p| {
            Ok(Val::text(p.find_iter(text).next().unwrap_or_default()))
        }),
        ("findAll", [Val::Text(wanted)]) => with_pattern(call, wanted.as_str(), meter, |p| {
            find_all(text, p, -1, meter)
        }),
        ("findAll", [Val::Text(wanted), Val::Int(most)]) => {
            with_pattern(call, wanted.as_str(), meter, |p| {
                find_all(text, p, *most, meter)
            })
        }
        ("charAt", [Val::Int(nth)]) => char_at(text, *nth),
        ("indexOf", [Val::Text(part)]) => index_of(text, part.as_str(), 0),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => index_of(text, part.as_str(), *from),
        ("lastIndexOf", [Val::Text(part)]) => last_index_of(text, part.as_str(), None),
        ("lastIndexOf", [Val::Text(part), Val::Int(to)]) => {
            last_index_of(text, part.as_str(), Some(*to))
        }
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::Text(old), Val::Text(new)]) => {
            replace(text, (old.as_str(), new.as_str()), -1, meter)
        }
        ("replace", [Val::Text(old), Val::Text(new), Val::Int(most)]) => {
            replace(text, (old.as_str(), new.as_str()), *most, meter)
        }
        ("split", [Val::Text(by)]) => split(text, by.as_str(), -1, meter),
        ("split", [Val::Text(by), Val::Int(most)]) => split(text, by.as_str(), *most, meter),
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, Some(*to)),
        ("strings.quote", []) => Ok(Val::text(quote(text))),
        ("format", [list]) if list.is_list() => list
            .items(meter)
            .unwrap_or_else(|| Err(no_overload()))
            .and_then(|items| printing::format(text, &items, meter))
            .map(Val::text),
        _ => return None,
    })
}

fn join<'a>(arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    let (list, between) = match arguments {
        [list] => (list, ""),
        [list, Val::Text(between)] => (list, between.as_str()),
        _ => return None,
    };
    let items = list.items(meter)?;
    Some(items.and_then(|items| {
        let mut out = String::new();
        for (nth, item) in items.iter().enumerate() {
            let part = item.as_text().ok_or_else(no_overload)?;
            meter.bytes(part.len() + between.len() + 10)?;
            if nth > 0 {
                out.push_str(between);
            }
            out.push_str(part);
        }
        Ok(Val::text(out))
    }))
}

fn find_all<'a>(text: &str, pattern: &GoRegex, most: i64, meter: &Meter) -> Answer<'a> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in pattern.find_iter(text).take(most) {
        meter.bytes(part.len() + 10)?;
        found.push(Val::text(part));
    }
    Ok(Val::list(found))
}

fn char_at<'a>(text: &str, nth: i64) -> Answer<'a> {
    let index = usize::try_from(nth).map_err(|_| out_of_range(nth))?;
    match text.chars().nth(index) {
        Some(c) => Ok(Val::text(c.to_string())),
        None if index == text.chars().count() => Ok(Val::text("")),
        None => Err(out_of_range(nth)),
    }
}

/// The byte at which a character begins.
fn offset(text: &str, nth: i64) -> Result<usize, Fault> {
    let index = usize::try_from(nth).map_err(|_| out_of_range(nth))?;
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(index)
        .ok_or_else(|| out_of_range(nth))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Answer<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let start = match offset(text, from) {
        Ok(start) => start,
        Err(fault) if from < 0 => return Err(fault),
        Err(_) => return Ok(Val::Int(-1)),
    };
    Ok(match text[start..].find(part) {
        Some(at) => int_value(text[..start + at].chars().count()),
        None => Val::Int(-1),
    })
}

fn last_index_of<'a>(text: &str, part: &str, to: Option<i64>) -> Answer<'a> {
    let count = text.chars().count();
    let last = match to {
        None => i64::try_from(count).unwrap_or(i64::MAX),
        Some(to) => to,
    };
    if part.is_empty() {
        return Ok(Val::Int(last));
    }
    if last < 0 {
        return Err(out_of_range(last));
    }
    if to.is_some_and(|to| usize::try_from(to).is_ok_and(|to| to >= count)) {
        return Ok(Val::Int(-1));
    }
    // What begins at the last place, or before, may end behind it.
    let last = offset(text, last).unwrap_or(text.len());
    let end = text.len().min(last + part.len());
    let end = (end..=text.len())
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(text.len());
    Ok(match text[..end].rfind(part).filter(|at| *at <= last) {
        Some(at) => int_value(text[..at].chars().count()),
        None => Val::Int(-1),
    })
}

fn replace<'a>(text: &str, (old, new): (&str, &str), most: i64, meter: &Meter) -> Answer<'a> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = text.matches(old).take(most).count();
    meter.bytes(found.saturating_mul(new.len()))?;
    Ok(Val::text(text.replacen(old, new, most)))
}

fn split<'a>(text: &str, by: &str, most: i64, meter: &Meter) -> Answer<'a> {
    let most = match usize::try_from(most) {
        Ok(0) => return Ok(Val::list(Vec::new())),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    meter.bytes(text.len() * 10)?;
    let parts: Vec<Val<'a>> = if by.is_empty() {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == most {
                break;
            }
            parts.push(Val::text(c.to_string()));
            rest = &rest[c.len_utf8()..];
        }
        if !rest.is_empty() {
            parts.push(Val::text(rest));
        }
        parts
    } else {
        text.splitn(most, by).map(Val::text).collect()
    };
    Ok(Val::list(parts))
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Answer<'a> {
    let start = offset(text, from)?;
    let Some(to) = to else {
        return Ok(Val::text(&text[start..]));
    };
    if from > to {
        return Err(Fault::Error(format!(
            "invalid substring range. start: {from}, end: {to}"
        )));
    }
    let end = offset(text, to)?;
    Ok(Val::text(&text[start..end]))
}
