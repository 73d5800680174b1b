//! The grammar of selector strings.

use super::requirement::{Operator, Requirement, SelectorError, check_key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Identifier,
    In,
    NotIn,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    Parser {
        tokens: scan(text),
        at: 0,
    }
    .requirements()
}

fn scan(text: &str) -> Vec<(Token, &str)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.bytes().next() else {
            tokens.push((Token::End, ""));
            return tokens;
        };
        let next = rest.as_bytes().get(1);
        let (token, length) = match first {
            b'(' => (Token::Open, 1),
            b')' => (Token::Close, 1),
            b',' => (Token::Comma, 1),
            b'>' => (Token::Greater, 1),
            b'<' => (Token::Less, 1),
            b'!' if next == Some(&b'=') => (Token::NotEquals, 2),
            b'!' => (Token::Not, 1),
            b'=' if next == Some(&b'=') => (Token::DoubleEquals, 2),
            b'=' => (Token::Equals, 1),
            _ => {
                let ends = |c: char| " \t\r\n=!(),><".contains(c);
                let length = rest.find(ends).unwrap_or(rest.len());
                match &rest[..length] {
                    "in" => (Token::In, length),
                    "notin" => (Token::NotIn, length),
                    _ => (Token::Identifier, length),
                }
            }
        };
        tokens.push((token, &rest[..length]));
        rest = &rest[length..];
    }
}

struct Parser<'a> {
    /// Never empty: the last one is `End`, and it is never passed.
    tokens: Vec<(Token, &'a str)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => requirements.push(self.requirement()?),
                (Token::End, _) => return Ok(requirements),
                (_, found) => return Err(unexpected(found, "!, identifier, or 'end of string'")),
            }
            match self.take() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, found) = self.peek();
                    if !matches!(token, Token::Identifier | Token::Not) {
                        return Err(unexpected(found, "identifier after ','"));
                    }
                }
                (_, found) => return Err(unexpected(found, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut operator = None;
        let (mut token, mut key) = self.take();
        if token == Token::Not {
            operator = Some(Operator::DoesNotExist);
            (token, key) = self.take();
        }
        if token != Token::Identifier {
            return Err(unexpected(key, "identifier"));
        }
        check_key(key)?;
        if operator.is_none() && matches!(self.peek().0, Token::End | Token::Comma) {
            operator = Some(Operator::Exists);
        }
        if let Some(operator) = operator {
            return Requirement::new(key.to_owned(), operator, Vec::new());
        }
        let operator = self.operator()?;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        values.sort_unstable();
        values.dedup();
        Requirement::new(key.to_owned(), operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        // The only place where `in` and `notin` are keywords: elsewhere they are names like any other.
        let (token, found) = self.tokens[self.at];
        self.take();
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(unexpected(found, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let (token, found) = self.take();
        if token != Token::Open {
            return Err(unexpected(found, "'('"));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, _) => {
                let values = self.list()?;
                match self.take() {
                    (Token::Close, _) => Ok(values),
                    (_, found) => Err(unexpected(found, "')'")),
                }
            }
            (Token::Close, _) => {
                self.take();
                Ok(vec![String::new()])
            }
            (_, found) => Err(unexpected(found, "',', ')' or identifier")),
        }
    }

    /// Values between parentheses; a comma without a neighbour stands for the empty value.
    fn list(&mut self) -> Result<Vec<String>, SelectorError> {
        let mut values = Vec::new();
        loop {
            match self.take() {
                (Token::Identifier, value) => {
                    values.push(value.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, found) => return Err(unexpected(found, "',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.take();
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                (_, found) => return Err(unexpected(found, "',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Vec<String>, SelectorError> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(vec![String::new()]);
        }
        match self.take() {
            (Token::Identifier, value) => Ok(vec![value.to_owned()]),
            (_, found) => Err(unexpected(found, "identifier")),
        }
    }

    fn peek(&self) -> (Token, &'a str) {
        match self.tokens[self.at] {
            (Token::In | Token::NotIn, text) => (Token::Identifier, text),
            other => other,
        }
    }

    fn take(&mut self) -> (Token, &'a str) {
        let taken = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }
}

fn unexpected(found: &str, expected: &'static str) -> SelectorError {
    SelectorError::Unexpected {
        found: found.to_owned(),
        expected,
    }
}
