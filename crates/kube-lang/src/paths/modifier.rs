//! `@name:argument` and `!literal`: steps that replace the text a path goes on with.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use super::{
    component::is_known,
    found::{self, Found},
    limits::{Budget, PathError},
    pretty,
    scan::{self, Kind},
};

type Replaced<'j, 'p> = Option<(Cow<'j, [u8]>, &'p [u8])>;

/// Runs the modifier a path begins with. Answers the new text and the rest of the path.
pub(super) fn apply<'j, 'p>(
    json: &'j [u8],
    path: &'p [u8],
    budget: &Budget,
) -> Result<Replaced<'j, 'p>, PathError> {
    let end = path
        .iter()
        .skip(1)
        .position(|b| matches!(b, b':' | b'|' | b'.'))
        .map_or(path.len(), |n| n + 1);
    let name = &path[1..end];
    if !is_known(name) {
        return Ok(None);
    }
    let (argument, rest) = match path.get(end) {
        Some(b':') => argument(&path[end + 1..]),
        _ => (&b""[..], &path[end..]),
    };
    budget.spend(json.len())?;
    let text = match name {
        b"this" => Cow::Borrowed(json),
        b"valid" => Cow::Borrowed(if scan::is_valid(json) { json } else { b"" }),
        b"pretty" => pretty::pretty(json, argument).into(),
        b"ugly" => pretty::ugly(json).into(),
        b"reverse" => reverse(json),
        b"flatten" => budget.nested(|| flatten(json, argument, budget))?,
        b"join" => join(json, argument),
        b"keys" => keys(json).into(),
        b"values" => values(json),
        b"tostr" => {
            let mut out = Vec::with_capacity(json.len() + 2);
            scan::push_string(&mut out, json);
            out.into()
        }
        b"fromstr" if scan::is_valid(json) => found::parse(json).text().into_owned().into(),
        b"fromstr" => Cow::Borrowed(&b""[..]),
        b"group" => group(json).into(),
        _ => {
            let mut found = Vec::new();
            dig(&found::parse(json), argument, budget, &mut found)?;
            list(found.iter().map(|raw| &raw[..])).into()
        }
    };
    budget.spend(text.len())?;
    Ok(Some((text, rest)))
}

/// Reads a literal such as `!true`, `!{"a":1}`. Answers its text and the rest of the path.
pub(super) fn literal(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = &path[1..];
    if matches!(
        text.first()?,
        b'{' | b'[' | b'"' | b'+' | b'-' | b'0'..=b'9'
    ) {
        return Some(text.split_at(scan::squash_end(text, 0)));
    }
    let end = text.iter().position(|b| matches!(b, b'|' | b'.'));
    let (name, rest) = end.map_or((text, &b""[..]), |end| text.split_at(end));
    let known: [&[u8]; 5] = [b"true", b"false", b"null", b"nan", b"inf"];
    known
        .contains(&name.to_ascii_lowercase().as_slice())
        .then_some((name, rest))
}

/// Splits what follows the colon into the argument and the rest of the path.
fn argument(text: &[u8]) -> (&[u8], &[u8]) {
    if matches!(text.first(), Some(b'{' | b'[' | b'"')) {
        return text.split_at(scan::balanced_end(text, 0));
    }
    let mut i = 0;
    while let Some(byte) = text.get(i) {
        match byte {
            b'|' => break,
            b'{' | b'[' | b'"' | b'(' => i = scan::balanced_end(text, i),
            _ => i += 1,
        }
    }
    text.split_at(i.min(text.len()))
}

/// The value of a member of an argument such as `{"deep":true}`.
fn option(argument: &[u8], name: &[u8]) -> bool {
    let argument = found::parse(argument);
    let members = argument.members();
    let named = members
        .iter()
        .rfind(|(key, _)| key.as_ref().is_some_and(|key| *key.text() == *name));
    named.is_some_and(|(_, value)| value.truth() == Some(true))
}

fn list<'r>(elements: impl Iterator<Item = &'r [u8]>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, element) in elements.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(element);
    }
    out.push(b']');
    out
}

fn object<'r>(members: impl Iterator<Item = (&'r [u8], &'r [u8])>) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (i, (key, value)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

fn key_raw<'f>(key: Option<&'f Found<'_>>) -> &'f [u8] {
    key.map_or(b"null", |key| &key.raw)
}

fn reverse(json: &[u8]) -> Cow<'_, [u8]> {
    let found = found::parse(json);
    let members = found.members();
    if found.is_array() {
        list(members.iter().rev().map(|(_, value)| &*value.raw)).into()
    } else if found.is_object() {
        object(
            members
                .iter()
                .rev()
                .map(|(key, value)| (key_raw(key.as_ref()), &*value.raw)),
        )
        .into()
    } else {
        Cow::Borrowed(json)
    }
}

/// The text between the brackets.
fn unwrap(json: &[u8]) -> &[u8] {
    match scan::trim(json) {
        [b'[' | b'{', inner @ .., _] => inner,
        other => other,
    }
}

fn flatten<'j>(
    json: &'j [u8],
    argument: &[u8],
    budget: &Budget,
) -> Result<Cow<'j, [u8]>, PathError> {
    let found = found::parse(json);
    if !found.is_array() {
        return Ok(Cow::Borrowed(json));
    }
    let deep = option(argument, b"deep");
    let mut elements = Vec::new();
    for (_, value) in found.members() {
        let raw = if !value.is_array() {
            value.raw.into_owned()
        } else if deep {
            budget.spend(value.raw.len())?;
            unwrap(&budget.nested(|| flatten(&value.raw, argument, budget))?).to_vec()
        } else {
            unwrap(&value.raw).to_vec()
        };
        if !scan::trim(&raw).is_empty() {
            elements.push(raw);
        }
    }
    Ok(list(elements.iter().map(|raw| scan::trim(raw))).into())
}

fn keys(json: &[u8]) -> Vec<u8> {
    let found = found::parse(json);
    list(found.members().iter().map(|(key, _)| key_raw(key.as_ref())))
}

fn values(json: &[u8]) -> Cow<'_, [u8]> {
    let found = found::parse(json);
    if found.is_array() {
        return Cow::Borrowed(json);
    }
    list(found.members().iter().map(|(_, value)| &*value.raw)).into()
}

fn join<'j>(json: &'j [u8], argument: &[u8]) -> Cow<'j, [u8]> {
    let found = found::parse(json);
    if !found.is_array() {
        return Cow::Borrowed(json);
    }
    let elements = found.members();
    let objects = || {
        elements
            .iter()
            .map(|(_, element)| element)
            .filter(|element| element.is_object())
    };
    if option(argument, b"preserve") {
        let inner: Vec<&[u8]> = objects().map(|object| unwrap(&object.raw)).collect();
        let mut out = vec![b'{'];
        out.extend_from_slice(&inner.join(&b','));
        out.push(b'}');
        return out.into();
    }
    let mut members: Vec<(Found<'_>, Found<'_>)> = Vec::new();
    let mut at: HashMap<Vec<u8>, usize> = HashMap::new();
    for (key, value) in objects().flat_map(Found::members) {
        let Some(key) = key else { continue };
        match at.entry(key.text().into_owned()) {
            Entry::Occupied(entry) => members[*entry.get()].1 = value,
            Entry::Vacant(entry) => {
                entry.insert(members.len());
                members.push((key, value));
            }
        }
    }
    object(members.iter().map(|(key, value)| (&*key.raw, &*value.raw))).into()
}

/// Turns an object of lists into a list of objects.
fn group(json: &[u8]) -> Vec<u8> {
    let found = found::parse(json);
    if !found.is_object() {
        return Vec::new();
    }
    let members = found.members();
    let lists: Vec<_> = members
        .iter()
        .filter(|(_, list)| list.is_array())
        .map(|(key, list)| (key_raw(key.as_ref()), list.members()))
        .collect();
    let longest = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
    let row = |i: usize| {
        object(
            lists
                .iter()
                .filter_map(|(key, list)| Some((*key, &*list.get(i)?.1.raw))),
        )
    };
    let rows: Vec<Vec<u8>> = (0..longest).map(row).collect();
    list(rows.iter().map(Vec::as_slice))
}

/// Asks a value and everything below it.
fn dig(
    value: &Found<'_>,
    path: &[u8],
    budget: &Budget,
    all: &mut Vec<Vec<u8>>,
) -> Result<(), PathError> {
    let found = value.get(path, budget)?;
    if found.exists() {
        budget.spend(found.raw.len())?;
        all.push(found.raw.into_owned());
    }
    if value.kind == Kind::Json {
        for (_, member) in value.members() {
            budget.nested(|| dig(&member, path, budget, all))?;
        }
    }
    Ok(())
}
