//! The layouts of `@pretty` and `@ugly`.

use super::{
    found::{self, Found},
    scan::{self, Kind},
};

struct Layout {
    /// Lists that fit are put on one line; zero or less: none are.
    width: i64,
    prefix: Vec<u8>,
    indent: Vec<u8>,
    sort: bool,
}

struct Printer<'l> {
    layout: &'l Layout,
    out: Vec<u8>,
    /// The offset at which the current line begins.
    line: usize,
}

pub(super) fn ugly(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut i = 0;
    while let Some(&byte) = json.get(i) {
        let end = if byte == b'"' {
            scan::string_end(json, i + 1).unwrap_or(json.len())
        } else {
            i + 1
        };
        if byte > b' ' {
            out.extend_from_slice(&json[i..end]);
        }
        i = end;
    }
    out
}

pub(super) fn pretty(json: &[u8], argument: &[u8]) -> Vec<u8> {
    let mut layout = Layout {
        width: 80,
        prefix: Vec::new(),
        indent: b"  ".to_vec(),
        sort: false,
    };
    for (key, value) in found::parse(argument).members() {
        match key.as_ref().map(Found::text).as_deref() {
            Some(b"sortKeys") => layout.sort = value.truth() == Some(true),
            Some(b"indent") => layout.indent = only_space(&value.text()),
            Some(b"prefix") => layout.prefix = only_space(&value.text()),
            Some(b"width") => layout.width = width(&value),
            _ => {}
        }
    }
    let mut printer = Printer {
        layout: &layout,
        out: layout.prefix.clone(),
        line: 0,
    };
    if let Some((found, _)) = found::parse_any(json, 0) {
        printer.value(&found, 0);
    }
    if !printer.out.is_empty() {
        printer.out.push(b'\n');
    }
    printer.out
}

fn only_space(text: &[u8]) -> Vec<u8> {
    text.iter()
        .copied()
        .filter(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .collect()
}

#[allow(clippy::cast_possible_truncation)] // A width beyond every line is as good as any other.
fn width(value: &Found<'_>) -> i64 {
    match value.kind {
        Kind::Number => value.number() as i64,
        Kind::True => 1,
        Kind::String => String::from_utf8_lossy(&value.text()).parse().unwrap_or(0),
        Kind::Null | Kind::False | Kind::Json => 0,
    }
}

impl Printer<'_> {
    fn value(&mut self, value: &Found<'_>, depth: usize) {
        if value.is_object() {
            self.object(value, depth);
        } else if value.is_array() {
            self.array(value, depth);
        } else {
            self.out.extend_from_slice(&value.raw);
        }
    }

    fn object(&mut self, value: &Found<'_>, depth: usize) {
        let mut members = value.members();
        if self.layout.sort {
            members.sort_by_cached_key(|(key, _)| key.as_ref().map(|key| key.text().into_owned()));
        }
        self.out.push(b'{');
        for (i, (key, member)) in members.iter().enumerate() {
            self.open_line(i, depth + 1);
            self.out
                .extend_from_slice(key.as_ref().map_or(b"", |key| &key.raw));
            self.out.extend_from_slice(b": ");
            self.value(member, depth + 1);
        }
        self.close(members.len(), depth, b'}');
    }

    fn array(&mut self, value: &Found<'_>, depth: usize) {
        let column = i64::try_from(self.out.len() - self.line).unwrap_or(i64::MAX);
        let room = self.layout.width - column;
        if self.layout.width > 0 && room > 3 {
            let start = self.out.len();
            if one_line(
                &mut self.out,
                value,
                start + usize::try_from(room).unwrap_or(0),
            ) {
                return;
            }
            self.out.truncate(start);
        }
        let members = value.members();
        self.out.push(b'[');
        for (i, (_, member)) in members.iter().enumerate() {
            self.open_line(i, depth + 1);
            self.value(member, depth + 1);
        }
        self.close(members.len(), depth, b']');
    }

    fn open_line(&mut self, member: usize, depth: usize) {
        if member > 0 {
            self.out.push(b',');
        }
        self.line = self.out.len();
        self.out.push(b'\n');
        self.indent(depth);
    }

    fn close(&mut self, members: usize, depth: usize, bracket: u8) {
        if members > 0 {
            self.line = self.out.len();
            self.out.push(b'\n');
            self.indent(depth);
        }
        self.out.push(bracket);
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend_from_slice(&self.layout.prefix);
        for _ in 0..depth {
            self.out.extend_from_slice(&self.layout.indent);
        }
    }
}

/// Writes a list on one line, or answers false: it has objects in it, or is too long.
fn one_line(out: &mut Vec<u8>, value: &Found<'_>, limit: usize) -> bool {
    out.push(b'[');
    for (i, (_, member)) in value.members().iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        if member.is_object() || out.len() > limit {
            return false;
        }
        if !member.is_array() {
            out.extend_from_slice(&member.raw);
        } else if !one_line(out, member, limit) {
            return false;
        }
    }
    out.push(b']');
    out.len() <= limit
}
