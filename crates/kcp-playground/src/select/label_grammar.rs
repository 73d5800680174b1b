//! The grammar of label selectors, as text and as objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{LabelSelector, MAX_SELECTOR, Operator, Requirement, SelectError};
use kube_schema::field::{self, FieldError, Path};
use kube_schema::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelToken {
    End,
    Word,
    In,
    NotIn,
    Comma,
    Open,
    Close,
    Not,
    Operator(Operator),
}

impl LabelSelector {
    /// Parses the value of a `labelSelector` parameter; an empty one selects everything.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectError> {
        if text.len() > MAX_SELECTOR {
            return Err(SelectError::TooLong { size: text.len() });
        }
        let mut parser = LabelParser {
            tokens: lex(text),
            position: 0,
        };
        let mut requirements = parser.parse().map_err(SelectError::Labels)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }
}

fn is_special(c: char) -> bool {
    "=!(),><".contains(c)
}

fn is_space(c: char) -> bool {
    " \t\r\n".contains(c)
}

/// Splits into tokens with their text; the last one is always `End`.
fn lex(text: &str) -> Vec<(LabelToken, &str)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else {
            tokens.push((LabelToken::End, ""));
            return tokens;
        };
        let (token, length) = if is_special(first) {
            symbol(rest)
        } else {
            let length = rest
                .find(|c| is_special(c) || is_space(c))
                .unwrap_or(rest.len());
            let token = match &rest[..length] {
                "in" => LabelToken::In,
                "notin" => LabelToken::NotIn,
                _ => LabelToken::Word,
            };
            (token, length)
        };
        tokens.push((token, &rest[..length]));
        rest = &rest[length..];
    }
}

/// The longest symbol at the start of `rest`, which starts with a special character.
fn symbol(rest: &str) -> (LabelToken, usize) {
    const SYMBOLS: [(&str, LabelToken); 9] = [
        ("==", LabelToken::Operator(Operator::DoubleEquals)),
        ("!=", LabelToken::Operator(Operator::NotEquals)),
        ("=", LabelToken::Operator(Operator::Equals)),
        (">", LabelToken::Operator(Operator::GreaterThan)),
        ("<", LabelToken::Operator(Operator::LessThan)),
        ("!", LabelToken::Not),
        ("(", LabelToken::Open),
        (")", LabelToken::Close),
        (",", LabelToken::Comma),
    ];
    SYMBOLS
        .into_iter()
        .find(|(symbol, _)| rest.starts_with(symbol))
        .map_or((LabelToken::Word, 1), |(symbol, token)| {
            (token, symbol.len())
        })
}

struct LabelParser<'a> {
    tokens: Vec<(LabelToken, &'a str)>,
    position: usize,
}

impl<'a> LabelParser<'a> {
    /// The next token; keywords count as words.
    fn peek(&self) -> (LabelToken, &'a str) {
        let (token, text) = self.raw();
        match token {
            LabelToken::In | LabelToken::NotIn => (LabelToken::Word, text),
            token => (token, text),
        }
    }

    fn raw(&self) -> (LabelToken, &'a str) {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or((LabelToken::End, ""))
    }

    fn next(&mut self) -> (LabelToken, &'a str) {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn parse(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (LabelToken::Word | LabelToken::Not, _) => {}
                (LabelToken::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self
                .requirement()
                .map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.next() {
                (LabelToken::End, _) => return Ok(requirements),
                (LabelToken::Comma, _) => {
                    let (token, text) = self.peek();
                    if !matches!(token, LabelToken::Word | LabelToken::Not) {
                        return Err(format!("found '{text}', expected: identifier after ','"));
                    }
                }
                (_, text) => {
                    return Err(format!("found '{text}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next();
        let negated = token == LabelToken::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != LabelToken::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        check_key(key, &Path::Root).map_err(|e| e.to_string())?;
        if negated {
            return build(key, Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().0, LabelToken::End | LabelToken::Comma) {
            return build(key, Operator::Exists, BTreeSet::new());
        }
        let (token, text) = self.raw();
        self.position += 1;
        let operator = match token {
            LabelToken::In => Operator::In,
            LabelToken::NotIn => Operator::NotIn,
            LabelToken::Operator(operator) => operator,
            _ => {
                return Err(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        build(key, operator, values)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.next();
        if token != LabelToken::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.peek() {
            (LabelToken::Word | LabelToken::Comma, _) => {
                let values = self.value_list()?;
                // The list ends before the closing parenthesis only.
                self.position += 1;
                Ok(values)
            }
            (LabelToken::Close, _) => {
                self.position += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// Values up to a closing parenthesis, which is not consumed; an empty value is before or after a comma.
    fn value_list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (LabelToken::Word, value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        (LabelToken::Comma, _) => {}
                        (LabelToken::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (LabelToken::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        LabelToken::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        LabelToken::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek().0, LabelToken::End | LabelToken::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (LabelToken::Word, value) => Ok(BTreeSet::from([value.to_owned()])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}

fn check_key(key: &str, path: &Path<'_>) -> Result<(), FieldError> {
    let errors = names::qualified_name(key);
    if errors.is_empty() {
        Ok(())
    } else {
        let told = errors.join("; ");
        let told = told.replacen("a qualified name must", "a valid label key must", 1);
        Err(FieldError::invalid(path, key, &told))
    }
}

/// Validates a requirement whose parts are parsed.
fn build(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Requirement, String> {
    let root = Path::Root;
    let path = root.field("values");
    let mut errors = Vec::new();
    errors.extend(check_key(key, &root.field("key")).err());
    let list = || -> Value {
        if values.is_empty() {
            Value::Null
        } else {
            values.iter().map(String::as_str).collect()
        }
    };
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => errors.push(FieldError::invalid(
            path,
            list(),
            "for 'in', 'notin' operators, values set can't be empty",
        )),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            errors.push(FieldError::invalid(
                path,
                list(),
                "values set must be empty for exists and does not exist",
            ));
        }
        Operator::GreaterThan | Operator::LessThan => {
            for (nth, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.push(FieldError::invalid(
                        path.index(nth),
                        value.as_str(),
                        "for 'Gt', 'Lt' operators, the value must be an integer",
                    ));
                }
            }
        }
        _ => {}
    }
    for (nth, value) in values.iter().enumerate() {
        let complaints = names::label_value(value);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(
                path.index(nth).key(key),
                value.as_str(),
                &complaints.join("; "),
            ));
        }
    }
    if errors.is_empty() {
        Ok(Requirement {
            key: key.to_owned(),
            operator,
            values,
        })
    } else {
        Err(field::aggregate(&errors))
    }
}
