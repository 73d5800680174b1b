//! Parsing of paths: keys, indices, queries, pipes, multipaths.

use std::borrow::Cow;

use super::scan;

/// The first step of a path that meets an object.
pub(super) struct ObjectStep<'p> {
    pub(super) key: Cow<'p, [u8]>,
    pub(super) wild: bool,
    pub(super) rest: Rest<'p>,
}

/// The first step of a path that meets an array.
pub(super) struct ArrayStep<'p> {
    pub(super) part: &'p [u8],
    /// There is a `#` somewhere in the part, so it is no index.
    pub(super) hash: bool,
    /// `#.path`: what is asked of each element.
    pub(super) each: Option<&'p [u8]>,
    pub(super) query: Option<Query<'p>>,
    pub(super) rest: Rest<'p>,
}

#[derive(Default)]
pub(super) struct Query<'p> {
    pub(super) all: bool,
    pub(super) path: &'p [u8],
    pub(super) operator: &'p [u8],
    pub(super) value: Cow<'p, [u8]>,
}

/// The rest of the path after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest<'p> {
    End,
    More(&'p [u8]),
    Pipe(&'p [u8]),
}

pub(super) struct SubSelector<'p> {
    pub(super) name: &'p [u8],
    pub(super) path: &'p [u8],
}

struct ParsedQuery<'p> {
    path: &'p [u8],
    operator: &'p [u8],
    value: &'p [u8],
    escaped: bool,
    end: usize,
}

impl<'p> ObjectStep<'p> {
    pub(super) fn parse(path: &'p [u8]) -> Self {
        let mut wild = false;
        let mut i = 0;
        while let Some(&byte) = path.get(i) {
            match byte {
                b'|' => {
                    return Self {
                        key: path[..i].into(),
                        wild,
                        rest: Rest::Pipe(&path[i + 1..]),
                    };
                }
                b'.' => {
                    return Self {
                        key: path[..i].into(),
                        wild,
                        rest: after_dot(path, i),
                    };
                }
                b'*' | b'?' => wild = true,
                b'\\' => return Self::parse_escaped(path, i, wild),
                _ => {}
            }
            i += 1;
        }
        Self {
            key: path.into(),
            wild,
            rest: Rest::End,
        }
    }

    /// From the first backslash on: the escapes are taken out of the key.
    fn parse_escaped(path: &'p [u8], at: usize, mut wild: bool) -> Self {
        let mut key = path[..at].to_vec();
        key.extend(path.get(at + 1));
        let mut i = at + 2;
        while let Some(&byte) = path.get(i) {
            match byte {
                b'\\' => {
                    key.extend(path.get(i + 1));
                    i += 2;
                    continue;
                }
                b'.' => {
                    return Self {
                        key: key.into(),
                        wild,
                        rest: after_dot(path, i),
                    };
                }
                b'|' => {
                    return Self {
                        key: key.into(),
                        wild,
                        rest: Rest::Pipe(&path[i + 1..]),
                    };
                }
                b'*' | b'?' => wild = true,
                _ => {}
            }
            key.push(byte);
            i += 1;
        }
        Self {
            key: key.into(),
            wild,
            rest: Rest::End,
        }
    }
}

impl<'p> ArrayStep<'p> {
    pub(super) fn parse(path: &'p [u8]) -> Self {
        let mut step = Self {
            part: path,
            hash: false,
            each: None,
            query: None,
            rest: Rest::End,
        };
        let mut i = 0;
        while let Some(&byte) = path.get(i) {
            match byte {
                b'|' => {
                    step.part = &path[..i];
                    step.rest = Rest::Pipe(&path[i + 1..]);
                    return step;
                }
                b'.' => {
                    step.part = &path[..i];
                    step.rest = if step.hash {
                        Rest::More(&path[i + 1..])
                    } else {
                        after_dot(path, i)
                    };
                    return step;
                }
                b'#' => {
                    step.hash = true;
                    match path.get(1) {
                        Some(b'.') if i == 0 => step.each = Some(&path[2..]),
                        Some(b'[' | b'(') if i == 0 => {
                            let Some(parsed) = ParsedQuery::parse(path) else {
                                step.query = Some(Query::default());
                                return step;
                            };
                            let all = path.get(parsed.end) == Some(&b'#');
                            i = parsed.end - 1;
                            step.query = Some(parsed.into_query(all));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            i += 1;
        }
        step
    }
}

impl<'p> ParsedQuery<'p> {
    /// Reads `#(path op value)` from the beginning of `query`.
    fn parse(query: &'p [u8]) -> Option<Self> {
        let mut value_at = None;
        let mut depth = 1;
        let mut escaped = false;
        let mut i = 2;
        while let Some(&byte) = query.get(i) {
            match byte {
                b'!' | b'=' | b'<' | b'>' | b'%' if depth == 1 && value_at.is_none() => {
                    value_at = Some(i);
                }
                b'\\' => i += 1,
                b'[' | b'(' => depth += 1,
                b']' | b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'"' => {
                    i += 1;
                    while let Some(&byte) = query.get(i) {
                        match byte {
                            b'\\' => {
                                escaped = true;
                                i += 1;
                            }
                            b'"' => break,
                            _ => {}
                        }
                        i += 1;
                    }
                }
                _ => {}
            }
            i += 1;
        }
        if depth > 0 {
            return None;
        }
        let end = i + 1;
        let Some(at) = value_at else {
            return Some(Self {
                path: scan::trim(&query[2..i]),
                operator: b"",
                value: b"",
                escaped,
                end,
            });
        };
        let (operator, value) = split_operator(scan::trim(&query[at..i]));
        Some(Self {
            path: scan::trim(&query[2..at]),
            operator,
            value: scan::trim(value),
            escaped,
            end,
        })
    }

    fn into_query(self, all: bool) -> Query<'p> {
        let value = match self.value {
            [b'"', inner @ .., b'"'] if self.escaped => scan::unescape(inner),
            [b'"', inner @ .., b'"'] => inner.into(),
            value => value.into(),
        };
        Query {
            all,
            path: self.path,
            operator: self.operator,
            value,
        }
    }
}

fn split_operator(value: &[u8]) -> (&[u8], &[u8]) {
    match value {
        [b'=', b'=', ..] => (&value[1..2], &value[2..]),
        [b'!', b'=' | b'%', ..] | [b'<' | b'>', b'=', ..] => value.split_at(2),
        [_] | [b'<' | b'>' | b'=' | b'%', ..] => value.split_at(1),
        _ => value.split_at(0),
    }
}

/// A dot before a modifier or a multipath means the same as a pipe.
fn after_dot(path: &[u8], dot: usize) -> Rest<'_> {
    let rest = &path[dot + 1..];
    let pipes = match rest.first() {
        Some(b'[' | b'{') => true,
        Some(b'@') => {
            let end = rest
                .iter()
                .position(|b| matches!(b, b'.' | b'|' | b':'))
                .unwrap_or(rest.len());
            is_known(&rest[1..end])
        }
        _ => false,
    };
    if pipes {
        Rest::Pipe(rest)
    } else {
        Rest::More(rest)
    }
}

/// Splits at the first pipe that is not inside a query.
pub(super) fn split_pipe(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if !path.contains(&b'|') {
        return None;
    }
    if path.first() == Some(&b'{') {
        let end = match path.get(1) {
            None => return None,
            Some(b'"') => 1 + scan::balanced_end(&path[1..], 0),
            Some(_) => 1 + scan::squash_end(&path[1..], 0),
        };
        return (path.get(end) == Some(&b'|')).then(|| (&path[..end], &path[end + 1..]));
    }
    let mut i = 0;
    while let Some(&byte) = path.get(i) {
        match byte {
            b'\\' => i += 1,
            b'.' if i + 1 == path.len() => return None,
            b'.' if path[i + 1] == b'#' => {
                i += 2;
                match path.get(i) {
                    None => return None,
                    Some(b'[') => i = query_end(path, i, b']'),
                    Some(b'(') => i = query_end(path, i, b')'),
                    Some(_) => {}
                }
            }
            b'|' => return Some((&path[..i], &path[i + 1..])),
            _ => {}
        }
        i += 1;
    }
    None
}

/// The position of the bracket that closes the one at `open`, or the end.
fn query_end(path: &[u8], open: usize, close: u8) -> usize {
    let mut depth = 1;
    let mut i = open + 1;
    while let Some(&byte) = path.get(i) {
        match byte {
            b'\\' => i += 1,
            b'"' => match scan::string_end(path, i + 1) {
                Some(end) => i = end - 1,
                None => return path.len(),
            },
            byte if byte == path[open] => depth += 1,
            byte if byte == close => {
                depth -= 1;
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
        i += 1;
    }
    path.len()
}

/// The members of `[a,b]` or `{"x":a,b}` and what follows it; `None` if it is never closed.
pub(super) fn sub_selectors(path: &[u8]) -> Option<(Vec<SubSelector<'_>>, &[u8])> {
    let mut found = Vec::new();
    let (mut in_modifier, mut colon, mut start, mut depth) = (false, None, 1, 1);
    let mut i = 1;
    while let Some(&byte) = path.get(i) {
        let closes = matches!(byte, b']' | b')' | b'}');
        match byte {
            b'\\' => i += 1,
            b'@' if matches!(path[i - 1], b'.' | b'|') => in_modifier = true,
            b':' if !in_modifier && colon.is_none() && depth == 1 => colon = Some(i),
            b'"' => i = scan::string_end(path, i + 1).map_or(path.len(), |end| end - 1),
            b'[' | b'(' | b'{' => depth += 1,
            _ if closes => depth -= 1,
            _ => {}
        }
        if (byte == b',' && depth == 1) || (closes && depth == 0) {
            found.push(match colon {
                None => SubSelector {
                    name: b"",
                    path: &path[start..i],
                },
                Some(colon) => SubSelector {
                    name: &path[start..colon],
                    path: &path[colon + 1..i],
                },
            });
            (in_modifier, colon, start) = (false, None, i + 1);
            if depth == 0 {
                return Some((found, &path[i + 1..]));
            }
        }
        i += 1;
    }
    None
}

/// The name a multipath object gives to a member without one.
pub(super) fn implied_name(path: &[u8]) -> &[u8] {
    let is_end = |&i: &usize| matches!(path[i], b'|' | b'.') && (i == 0 || path[i - 1] != b'\\');
    let last = (0..path.len())
        .rev()
        .find(is_end)
        .map_or(path, |i| &path[i + 1..]);
    let is_plain = |byte: &u8| {
        *byte >= b' '
            && !matches!(
                byte,
                b'[' | b']' | b'{' | b'}' | b'(' | b')' | b'#' | b'|' | b'!'
            )
    };
    if last.iter().all(is_plain) {
        last
    } else {
        b"_"
    }
}

/// Whether there is a modifier of this name.
pub(super) fn is_known(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 13] = [
        b"pretty", b"ugly", b"reverse", b"this", b"flatten", b"join", b"valid", b"keys", b"values",
        b"tostr", b"fromstr", b"group", b"dig",
    ];
    NAMES.contains(&name)
}
