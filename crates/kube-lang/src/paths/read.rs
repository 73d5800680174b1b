//! Finds the value at a path in JSON text.
//!
//! Keys are tried in the order of the text. A match without a value at the rest of the path does not end the search. A
//! query over all elements does not end it either, and keeps its first result.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    component::{
        ArrayStep, ObjectStep, Rest, SubSelector, implied_name, split_pipe, sub_selectors,
    },
    found::{Found, parse, parse_any},
    limits::{Budget, PathError},
    modifier,
    query::holds,
    scan::{self, Kind, Start, start_of},
    wildcard,
};

struct Search<'a, 'p> {
    json: &'a [u8],
    value: Found<'a>,
    pipe: Option<&'p [u8]>,
    /// The value was computed, so it is not part of the document.
    calculated: bool,
    budget: &'p Budget,
}

pub(super) fn get<'a>(
    json: &'a [u8],
    path: &[u8],
    budget: &Budget,
) -> Result<Found<'a>, PathError> {
    budget.spend(json.len() + path.len())?;
    budget.nested(|| get_nested(json, path, budget))
}

impl Found<'_> {
    /// Asks the found piece itself.
    pub(super) fn get(&self, path: &[u8], budget: &Budget) -> Result<Self, PathError> {
        let mut found = match &self.raw {
            Cow::Borrowed(raw) => get(raw, path, budget)?,
            Cow::Owned(raw) => get(raw, path, budget)?.into_owned(),
        };
        match &mut found.indexes {
            Some(indexes) => indexes.iter_mut().for_each(|index| *index += self.index),
            None => found.index += self.index,
        }
        Ok(found)
    }
}

fn get_nested<'a>(
    json: &'a [u8],
    mut path: &[u8],
    budget: &Budget,
) -> Result<Found<'a>, PathError> {
    if path.len() > 1 {
        let replaced = match path[0] {
            b'@' => modifier::apply(json, path, budget)?,
            b'!' => modifier::literal(path).map(|(text, rest)| (Cow::Owned(text.to_vec()), rest)),
            _ => None,
        };
        if let Some((text, rest)) = replaced {
            // What a modifier leaves as it is still stands in the document, so that it can be replaced there.
            return match (rest, text) {
                ([b'|' | b'.', ..], raw) => {
                    let found = Found {
                        raw,
                        ..Found::default()
                    }
                    .get(&rest[1..], budget)?;
                    Ok(Found {
                        index: 0,
                        indexes: None,
                        ..found
                    })
                }
                (_, Cow::Borrowed(raw)) => Ok(parse(raw)),
                (_, Cow::Owned(raw)) => Ok(parse(&raw).into_owned()),
            };
        }
        let opener = path[0];
        if matches!(opener, b'[' | b'{') {
            match sub_selectors(path) {
                Some((members, rest @ ([] | [b'|' | b'.', ..]))) => {
                    let raw = multipath(json, opener, &members, budget)?;
                    let found = Found {
                        kind: Kind::Json,
                        raw: Cow::Owned(raw),
                        ..Found::default()
                    };
                    let found = if rest.is_empty() {
                        found
                    } else {
                        found.get(&rest[1..], budget)?
                    };
                    return Ok(Found { index: 0, ..found });
                }
                other => path = other.map_or(b"", |(_, rest)| rest),
            }
        }
    }
    search(json, path, budget)
}

fn search<'a>(json: &'a [u8], path: &[u8], budget: &Budget) -> Result<Found<'a>, PathError> {
    let mut search = Search {
        json,
        value: Found::default(),
        pipe: None,
        calculated: false,
        budget,
    };
    if let [b'.', b'.', lines @ ..] = path {
        search.array(0, lines)?;
    } else if let Some(at) = json.iter().position(|byte| matches!(byte, b'{' | b'[')) {
        if json[at] == b'{' {
            search.object(at + 1, path)?
        } else {
            search.array(at + 1, path)?
        };
    }
    let Search {
        mut value,
        pipe,
        calculated,
        ..
    } = search;
    if let Some(pipe) = pipe {
        return Ok(Found {
            index: 0,
            ..value.get(pipe, budget)?
        });
    }
    if !calculated && !value.raw.is_empty() {
        value.index = offset_in(json, &value.raw);
    }
    Ok(value)
}

fn multipath(
    json: &[u8],
    opener: u8,
    members: &[SubSelector<'_>],
    budget: &Budget,
) -> Result<Vec<u8>, PathError> {
    let mut out = vec![opener];
    for member in members {
        let found = get(json, member.path, budget)?;
        if !found.exists() {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        if opener == b'{' {
            match member.name {
                [] => scan::push_string(&mut out, implied_name(member.path)),
                name @ [b'"', ..] if scan::is_valid(name) => out.extend_from_slice(name),
                name => scan::push_string(&mut out, name),
            }
            out.push(b':');
        }
        budget.spend(found.raw.len())?;
        out.extend_from_slice(&found.raw);
    }
    out.push(opener + 2);
    Ok(out)
}

fn offset_in(json: &[u8], part: &[u8]) -> usize {
    // A computed value lies outside the document and has no offset (0).
    let offset = (part.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
    if offset < json.len() { offset } else { 0 }
}

// === impl Search ===

impl<'a, 'p> Search<'a, 'p> {
    /// Searches the fields of an object from `i` on. Returns where it stopped, and whether it found the value.
    fn object(&mut self, mut i: usize, path: &'p [u8]) -> Result<(usize, bool), PathError> {
        let budget = self.budget;
        let step = ObjectStep::parse(path);
        if let Rest::Pipe(pipe) = step.rest {
            self.pipe = Some(pipe);
        }
        let json = self.json;
        loop {
            let Some(at) = json[i.min(json.len())..]
                .iter()
                .position(|b| matches!(b, b'"' | b'}'))
                .map(|n| i + n)
            else {
                return Ok((json.len(), false));
            };
            if json[at] == b'}' {
                return Ok((at + 1, false));
            }
            let Some(end) = scan::string_end(json, at + 1) else {
                return Ok((json.len(), false));
            };
            let matched = step.matches(&json[at + 1..end - 1], budget)?;
            let starts = |at: &usize| !matches!(start_of(json, *at), Start::Other | Start::Close);
            let Some(at) = (end..json.len()).find(starts) else {
                return Ok((json.len(), false));
            };
            match step.rest {
                Rest::More(rest) if matched && matches!(json[at], b'{' | b'[') => {
                    let (next, hit) = self.nested(at, rest)?;
                    if hit {
                        return Ok((next, true));
                    }
                    i = next;
                }
                rest => {
                    let Some((found, next)) = parse_any(json, at) else {
                        return Ok((json.len(), false));
                    };
                    i = next;
                    if matched && !matches!(rest, Rest::More(_)) {
                        self.value = found;
                        return Ok((next, true));
                    }
                }
            }
        }
    }

    fn nested(&mut self, at: usize, rest: &'p [u8]) -> Result<(usize, bool), PathError> {
        let budget = self.budget;
        budget.nested(|| {
            if self.json[at] == b'{' {
                self.object(at + 1, rest)
            } else {
                self.array(at + 1, rest)
            }
        })
    }

    /// Looks among the elements of an array from `i` on.
    fn array(&mut self, mut i: usize, path: &'p [u8]) -> Result<(usize, bool), PathError> {
        let mut step = ArrayStep::parse(path);
        if let Rest::Pipe(pipe) = step.rest {
            self.pipe = Some(pipe);
        }
        let wanted = if step.hash { None } else { index_of(step.part) };
        let mut answers = Answers::default();
        let mut count = 0;
        let json = self.json;
        loop {
            let starts = |at: &usize| start_of(json, *at) != Start::Other;
            let at = (i..json.len()).find(starts).unwrap_or(json.len());
            // The end of the text closes the list, too: that is how JSON lines end.
            if at >= json.len() || start_of(json, at) == Start::Close {
                let hit = self.close_array(&step, answers, count)?;
                return Ok((at + 1, hit));
            }
            let here = wanted == Some(count);
            count += 1;
            if let (Rest::More(rest), true, b'{' | b'[') = (step.rest, here, json[at]) {
                let (next, hit) = self.nested(at, rest)?;
                if hit {
                    return Ok((next, true));
                }
                i = next;
                continue;
            }
            let Some((found, next)) = parse_any(json, at) else {
                return Ok((json.len(), false));
            };
            i = next;
            if step.query.is_some() {
                if self.ask(&mut step, &found, &mut answers)? {
                    return Ok((next, true));
                }
            } else if here && !matches!(step.rest, Rest::More(_)) {
                self.value = found;
                return Ok((next, true));
            }
            if step.each.is_some() {
                answers.elements.push(at);
            }
        }
    }

    /// Tests the query on one element. True if this element is the result.
    fn ask(
        &mut self,
        step: &mut ArrayStep<'p>,
        element: &Found<'a>,
        answers: &mut Answers,
    ) -> Result<bool, PathError> {
        let Some(query) = &step.query else {
            return Ok(false);
        };
        if query.all && answers.raw.is_empty() {
            answers.raw.push(b'[');
        }
        let parent = offset_in(self.json, &element.raw);
        let element = Found {
            index: 0,
            ..element.clone()
        };
        let subject = match element.kind {
            Kind::Json => element.get(query.path, self.budget)?,
            _ if !query.path.is_empty() => return Ok(false),
            _ => element.clone(),
        };
        if !holds(query, &subject, self.budget)? {
            return Ok(false);
        }
        let all = query.all;
        let answer = match step.rest {
            Rest::More(mut rest) => {
                if let Some((left, right)) = split_pipe(rest) {
                    rest = left;
                    step.rest = Rest::More(left);
                    self.pipe = Some(right);
                }
                element.get(rest, self.budget)?
            }
            _ => element,
        };
        if !all {
            self.value = answer;
            return Ok(true);
        }
        if !answer.raw.is_empty() {
            self.budget.spend(answer.raw.len())?;
            if answers.raw.len() > 1 {
                answers.raw.push(b',');
            }
            answers.raw.extend_from_slice(&answer.raw);
            answers.indexes.push(answer.index + parent);
        }
        Ok(false)
    }

    /// The result of reading an array once all its elements were read.
    fn close_array(
        &mut self,
        step: &ArrayStep<'p>,
        answers: Answers,
        count: usize,
    ) -> Result<bool, PathError> {
        if step.part == b"#" {
            self.value = if let Some(path) = step.each {
                self.each(path, &answers.elements)?
            } else {
                self.calculated = true;
                Found {
                    kind: Kind::Number,
                    raw: count.to_string().into_bytes().into(),
                    ..Found::default()
                }
            };
            return Ok(true);
        }
        if !self.value.exists() && step.query.as_ref().is_some_and(|query| query.all) {
            let Answers {
                mut raw, indexes, ..
            } = answers;
            let indexes = if raw.is_empty() { None } else { Some(indexes) };
            if raw.is_empty() {
                raw.push(b'[');
            }
            raw.push(b']');
            self.value = Found {
                kind: Kind::Json,
                raw: raw.into(),
                index: 0,
                indexes,
            };
        }
        Ok(false)
    }

    /// `#.path`: the answers of all elements that have one.
    fn each(&mut self, mut path: &'p [u8], elements: &[usize]) -> Result<Found<'a>, PathError> {
        if let Some((left, right)) = split_pipe(path) {
            path = left;
            self.pipe = Some(right);
        }
        let mut raw = vec![b'['];
        let mut indexes = Vec::new();
        for at in elements {
            let Some((element, _)) = parse_any(self.json, *at) else {
                continue;
            };
            let answer = element.get(path, self.budget)?;
            if answer.exists() {
                self.budget.spend(answer.raw.len())?;
                if raw.len() > 1 {
                    raw.push(b',');
                }
                raw.extend_from_slice(&answer.raw);
                indexes.push(answer.index);
            }
        }
        raw.push(b']');
        Ok(Found {
            kind: Kind::Json,
            raw: raw.into(),
            index: 0,
            indexes: Some(indexes),
        })
    }
}

#[derive(Default)]
struct Answers {
    /// Offsets of the elements, for `#.path`.
    elements: Vec<usize>,
    /// The matches of a query over all elements, without the closing bracket.
    raw: Vec<u8>,
    indexes: Vec<usize>,
}

impl ObjectStep<'_> {
    fn matches(&self, key: &[u8], budget: &Budget) -> Result<bool, PathError> {
        let key = scan::unescape(key);
        if !self.wild {
            return Ok(*self.key == *key);
        }
        budget.spend(key.len() * self.key.len())?;
        Ok(wildcard::matches(&key, &self.key))
    }
}

fn index_of(part: &[u8]) -> Option<usize> {
    if part.is_empty() || !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(part).ok()?.parse().ok()
}

// === impl Budget ===

/// Follows keys and indices.
pub(super) fn read_plain<'d>(doc: &'d Value, path: &[u8]) -> Option<&'d Value> {
    let (mut node, mut rest) = (doc, path);
    loop {
        let step = ObjectStep::parse(rest);
        let after = match step.rest {
            Rest::More(after) => Some(after),
            Rest::End | Rest::Pipe(_) => None,
        };
        node = match node {
            Value::Object(members) => members.get(std::str::from_utf8(&step.key).ok()?)?,
            Value::Array(elements) => {
                // Lists know no escapes: the digits have to stand there as they are.
                let part = &rest[..after.map_or(rest.len(), |after| rest.len() - after.len() - 1)];
                let is_index = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
                elements.get(
                    std::str::from_utf8(part)
                        .ok()
                        .filter(|_| is_index)?
                        .parse::<usize>()
                        .ok()?,
                )?
            }
            _ => return None,
        };
        match after {
            Some(after) => rest = after,
            None => return Some(node),
        }
    }
}
