//! Manifests as people write them: YAML files of one or several documents, with the position of every field in its file,
//! for messages.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::publish::problem::Part;

/// One document of a file.
pub(super) struct Document {
    pub(super) file: PathBuf,
    pub(super) value: Value,
    /// The lines of the whole file.
    lines: Vec<String>,
    places: TextPositions,
}

/// The beginning of a field: line and column from 0, both in the file, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    pub(super) column: usize,
    notation: Notation,
}

/// The notation of a text, which decides what an offset into it means in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notation {
    /// Unchanged, or in quotes.
    #[default]
    Inline,
    Quoted,
    /// Below its key, line by line.
    Block,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    #[error("reading {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}:{column}: {message}", .path.display())]
    Yaml {
        path: PathBuf,
        line: usize,
        column: usize,
        message: String,
    },
    #[error("{} contains no document", .path.display())]
    Empty { path: PathBuf },
}

/// Reads all documents of a file; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Vec<Document>, ManifestError> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    let text = text.map_err(|source| ManifestError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

/// Reads all documents of a text; errors name the path.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Document>, ManifestError> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut documents = Vec::new();
    for (first, chunk) in chunks(text) {
        let wrong = |line: usize, column: usize, message: String| ManifestError::Yaml {
            path: path.to_owned(),
            line: first + line,
            column: column + 1,
            message,
        };
        let places = places(&chunk, first).map_err(|error| {
            let marker = error.marker();
            wrong(marker.line(), marker.col(), error.info().clone())
        })?;
        if places.start.is_none() {
            continue;
        }
        let value: Value = serde_saphyr::from_str(&chunk).map_err(|error| {
            let (line, column, message) = explained(&error);
            wrong(line, column, message)
        })?;
        if !value.is_null() {
            documents.push(Document {
                file: path.to_owned(),
                value,
                lines: lines.clone(),
                places,
            });
        }
    }
    if documents.is_empty() {
        return Err(ManifestError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(documents)
}

/// The place of an error, the line from 1 and the column from 0, and its message, without the parser's advice for
/// programmers.
fn explained(error: &serde_saphyr::Error) -> (usize, usize, String) {
    let error = error.without_snippet();
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (location.line(), location.column()));
    let message = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {key:?} appears twice in one map: remove one of them")
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    (number(line), number(column).saturating_sub(1), message)
}

/// The documents of a text, each with the number of lines before it.
fn chunks(text: &str) -> Vec<(usize, String)> {
    let mut chunks = vec![(0, String::new())];
    for (number, line) in text.lines().enumerate() {
        // No content stands at the very left of a line beside this mark.
        let marked = line == "---" || line.starts_with("--- ");
        if marked {
            chunks.push((number + 1, String::new()));
            continue;
        }
        if let Some((_, chunk)) = chunks.last_mut() {
            chunk.push_str(line);
            chunk.push('\n');
        }
    }
    chunks
}

/// The map or list around the node that comes next.
enum YamlContainer {
    /// A map; the key whose value comes next.
    Map {
        path: String,
        key: Option<String>,
    },
    List {
        path: String,
        next: usize,
    },
}

/// The places of all fields by their paths, such as `spec.related[0].kind`.
#[derive(Default)]
struct TextPositions {
    values: HashMap<String, TextPosition>,
    keys: HashMap<String, TextPosition>,
    /// The beginning of the document, if there is anything in it.
    start: Option<TextPosition>,
}

fn places(chunk: &str, first: usize) -> Result<TextPositions, granit_parser::ScanError> {
    let mut places = TextPositions::default();
    let mut around: Vec<YamlContainer> = Vec::new();
    let mut parser = Parser::new_from_str(chunk);
    while let Some(event) = parser.next_event() {
        let (event, span) = event?;
        let style = match &event {
            Event::Scalar(_, style, ..) => Some(*style),
            _ => None,
        };
        match event {
            Event::Scalar(text, ..) => {
                let place = place(span, style, first);
                places.start.get_or_insert(place);
                if let Some(YamlContainer::Map {
                    path,
                    key: key @ None,
                }) = around.last_mut()
                {
                    places.keys.insert(below(path, &text), place);
                    *key = Some(text.into_owned());
                    continue;
                }
                let path = child(&mut around);
                places.values.insert(path, place);
            }
            Event::Alias(_) => {
                let path = child(&mut around);
                places.values.insert(path, place(span, None, first));
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let place = place(span, None, first);
                places.start.get_or_insert(place);
                let path = child(&mut around);
                places.values.insert(path.clone(), place);
                around.push(if matches!(event, Event::MappingStart(..)) {
                    YamlContainer::Map { path, key: None }
                } else {
                    YamlContainer::List { path, next: 0 }
                });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                around.pop();
            }
            _ => {}
        }
    }
    Ok(places)
}

/// The path of the node that comes now.
fn child(around: &mut [YamlContainer]) -> String {
    match around.last_mut() {
        None => String::new(),
        Some(YamlContainer::Map { path, key }) => {
            let key = key.take().unwrap_or_default();
            below(path, &key)
        }
        Some(YamlContainer::List { path, next }) => {
            *next += 1;
            format!("{path}[{}]", *next - 1)
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn place(span: Span, style: Option<ScalarStyle>, first: usize) -> TextPosition {
    TextPosition {
        line: first + span.start.line().saturating_sub(1),
        column: span.start.col(),
        notation: match style {
            Some(ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) => Notation::Quoted,
            Some(ScalarStyle::Literal | ScalarStyle::Folded) => Notation::Block,
            _ => Notation::Inline,
        },
    }
}

impl Document {
    pub(super) fn text(&self, pointer: &str) -> &str {
        let found = self.value.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    /// `Kind name`, for people.
    pub(super) fn describe(&self) -> String {
        format!("{} {}", self.text("/kind"), self.text("/metadata/name"))
    }

    /// The place of a part of a field, or of the field around it if it is not there; with an offset
    /// into its text, if there is one.
    pub(super) fn place(&self, field: &str, part: Part, offset: Option<usize>) -> TextPosition {
        let moved = |place: TextPosition| offset.map_or(place, |offset| self.inside(place, offset));
        if let (Part::Key, Some(place)) = (part, self.places.keys.get(field)) {
            return moved(*place);
        }
        let mut at = field;
        loop {
            if let Some(place) = self.places.values.get(at) {
                return if at == field { moved(*place) } else { *place };
            }
            let Some(end) = at.rfind(['.', '[']) else {
                return self.places.start.unwrap_or_default();
            };
            at = &at[..end];
        }
    }

    /// The place of an offset into a text that is written at a place.
    fn inside(&self, place: TextPosition, offset: usize) -> TextPosition {
        let moved = |line: usize, column: usize| TextPosition {
            line,
            column,
            ..place
        };
        match place.notation {
            Notation::Inline => moved(place.line, place.column + offset),
            Notation::Quoted => moved(place.line, place.column + 1 + offset),
            Notation::Block => self.in_block(place, offset).unwrap_or(place),
        }
    }

    fn in_block(&self, place: TextPosition, offset: usize) -> Option<TextPosition> {
        // The block begins after the line with its mark; where the parser puts it differs.
        let mark = |line: usize| {
            let text = self.lines.get(line)?.trim_end();
            let end = text.rsplit([' ', ':']).next()?;
            (end.starts_with('|') || end.starts_with('>')).then_some(line)
        };
        let marked = mark(place.line).or_else(|| mark(place.line.checked_sub(1)?))?;
        let body = &self.lines[marked + 1..];
        let indent = body
            .iter()
            .find(|line| !line.trim().is_empty())
            .map(|line| line.len() - line.trim_start().len())?;
        let mut left = offset;
        for (index, line) in body.iter().enumerate() {
            let length = line.len().saturating_sub(indent);
            if left <= length {
                return Some(TextPosition {
                    line: marked + 1 + index,
                    column: indent + left,
                    ..place
                });
            }
            left -= length + 1;
        }
        None
    }

    /// The line of a place with a mark below the column.
    pub(super) fn excerpt(&self, place: TextPosition) -> String {
        let line = self.lines.get(place.line).map_or("", String::as_str);
        let number = (place.line + 1).to_string();
        let margin = " ".repeat(number.len());
        let before: String = line
            .chars()
            .take(place.column)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let mut text = String::new();
        let _ = writeln!(text, "{margin} |");
        let _ = writeln!(text, "{number} | {line}");
        let _ = writeln!(text, "{margin} | {before}^");
        text
    }
}

#[cfg(test)]
mod tests;
