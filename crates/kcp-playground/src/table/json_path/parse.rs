//! The grammar of paths: the text between the braces of a template.

use serde_json::Value;

use super::{FilterOperator, JsonPath, PathError, PathFilter, Slice, Step};

type Parsed<T> = Result<T, String>;

/// The maximum depth of a path.
const DEEPEST: usize = 32;

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub(in crate::table) fn parse(text: &str) -> Result<Self, PathError> {
        nested(text, 0).map_err(PathError)
    }
}

fn nested(text: &str, depth: usize) -> Parsed<JsonPath> {
    if depth > DEEPEST {
        return Err("it is nested too deeply".to_owned());
    }
    let mut parser = PathParser {
        rest: text,
        depth,
        steps: Vec::new(),
    };
    parser.run()?;
    Ok(JsonPath(parser.steps))
}

struct PathParser<'t> {
    rest: &'t str,
    depth: usize,
    steps: Vec<Step>,
}

/// The characters that end a field or a word.
fn ends(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

impl<'t> PathParser<'t> {
    fn run(&mut self) -> Parsed<()> {
        while let Some(c) = self.rest.chars().next() {
            if c == '}' {
                // The end of a template; plain text follows.
                return Ok(());
            }
            if self.rest.starts_with("[?(") {
                self.filter()?;
            } else if self.rest.starts_with("..") {
                self.recursive()?;
            } else {
                match c {
                    '\r' | '\n' => return Err("it goes over several lines".to_owned()),
                    ' ' | '@' | '$' => self.skip(1),
                    '[' => self.brackets()?,
                    '"' | '\'' => self.quoted(c)?,
                    '.' => {
                        self.skip(1);
                        self.field();
                    }
                    '+' | '-' => self.number()?,
                    c if c.is_numeric() => self.number()?,
                    c if c == '_' || c.is_alphabetic() => self.word(),
                    other => return Err(format!("{other:?} says nothing")),
                }
            }
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn recursive(&mut self) -> Parsed<()> {
        if self.steps.last() == Some(&Step::Recursive) {
            return Err("`..` follows `..`".to_owned());
        }
        self.skip(2);
        self.steps.push(Step::Recursive);
        let next = self.rest.chars().next();
        if next.is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn field(&mut self) {
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ended = !escaped && ends(c);
            escaped = !escaped && c == '\\';
            ended
        });
        let name = self.take(end.unwrap_or(self.rest.len()));
        self.steps.push(if name == "*" {
            Step::Wildcard
        } else {
            Step::Field(name.replace('\\', ""))
        });
    }

    fn word(&mut self) {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let step = match self.take(end) {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            _ => Step::Unknown,
        };
        self.steps.push(step);
    }

    fn number(&mut self) -> Parsed<()> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let end = self.rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(end.map_or(self.rest.len(), |end| sign + end));
        let value = match text.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => match text.parse::<f64>() {
                Ok(number) => Value::from(number),
                Err(_) => return Err(format!("{text:?} is no number")),
            },
        };
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Parsed<()> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c @ ('\\' | '"' | '\''))) => text.push(c),
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    _ => return Err(format!("an escape in {:?} is none", self.rest)),
                },
                '\n' => break,
                c if c == quote => {
                    self.skip(at + c.len_utf8());
                    self.steps.push(Step::Literal(text.into()));
                    return Ok(());
                }
                c => text.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    fn brackets(&mut self) -> Parsed<()> {
        let end = self.rest.find([']', '\n']).unwrap_or(self.rest.len());
        if !self.rest[end..].starts_with(']') {
            return Err("a bracket is not closed".to_owned());
        }
        let inside = &self.take(end + 1)[1..end];
        if inside.contains(',') {
            let one = |part: &str| nested(&format!("[{}]", part.trim_matches(' ')), self.depth + 1);
            let union = inside.split(',').map(one).collect::<Parsed<_>>()?;
            self.steps.push(Step::Union(union));
            return Ok(());
        }
        if let Some(key) = dictionary_key(inside) {
            let JsonPath(steps) = nested(&format!(".{key}"), self.depth + 1)?;
            self.steps.extend(steps);
            return Ok(());
        }
        let slice = slice(if inside == "*" { ":" } else { inside })?;
        self.steps.push(Step::Slice(slice));
        Ok(())
    }

    fn filter(&mut self) -> Parsed<()> {
        let (text, length) = inside_of_filter(self.rest)?;
        self.skip(length);
        let (left, compared) = split_comparison(text);
        let left = nested(left, self.depth + 1)?;
        let compared = match compared {
            None => None,
            Some((operator, right)) => Some((operator, nested(right, self.depth + 1)?)),
        };
        self.steps.push(Step::Filter(PathFilter { left, compared }));
        Ok(())
    }
}

/// `'key'`, single quotes only.
fn dictionary_key(inside: &str) -> Option<&str> {
    let key = inside.strip_prefix('\'')?.strip_suffix('\'')?;
    (!key.is_empty() && !key.contains('\'')).then_some(key)
}

/// `1`, `1:3`, `:`, `::2`; an empty one is the first element.
fn slice(text: &str) -> Parsed<Slice> {
    let mut parts = text.split(':');
    let mut next = || match parts.next() {
        None | Some("") => Ok(None),
        Some(number) => match number.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{text:?} is no index")),
        },
    };
    let slice = Slice {
        from: next()?,
        to: next()?,
        step: next()?,
        single: !text.contains(':'),
    };
    if parts.next().is_some() {
        return Err(format!("{text:?} is no index"));
    }
    Ok(slice)
}

/// The text between `[?(` and `)]`, and the length of the whole. A bracket within quotes does not end it.
fn inside_of_filter(text: &str) -> Parsed<(&str, usize)> {
    const OPEN: usize = "[?(".len();
    let mut quote: Option<char> = None;
    let mut closed = false;
    let mut before = ' ';
    for (at, c) in text.char_indices().skip(OPEN) {
        match (c, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(pair)) if c == pair && before != '\\' => closed = true,
            (')', quote) if quote.is_some() == closed => {
                return if text[at..].starts_with(")]") {
                    Ok((&text[OPEN..at], at + 2))
                } else {
                    Err("a filter is not closed by `)]`".to_owned())
                };
            }
            _ => {}
        }
        before = c;
    }
    Err("a filter is not closed".to_owned())
}

/// `@.a == "b"`: the two sides, and the operator.
fn split_comparison(text: &str) -> (&str, Option<(FilterOperator, &str)>) {
    const SIGNS: [char; 4] = ['!', '<', '>', '='];
    let Some(at) = text.find(SIGNS).filter(|at| *at > 0) else {
        return (text, None);
    };
    let (left, rest) = text.split_at(at);
    let end = rest.find(|c| !SIGNS.contains(&c)).unwrap_or(rest.len());
    let (operator, right) = rest.split_at(end);
    if right.is_empty() {
        return (text, None);
    }
    let operator = match operator {
        "<" => FilterOperator::Less,
        "<=" => FilterOperator::LessOrEqual,
        "==" => FilterOperator::Equal,
        "!=" => FilterOperator::NotEqual,
        ">=" => FilterOperator::GreaterOrEqual,
        ">" => FilterOperator::Greater,
        _ => FilterOperator::Unknown,
    };
    (left, Some((operator, right)))
}
