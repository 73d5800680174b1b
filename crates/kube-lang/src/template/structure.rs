//! Checks blocks before parsing: an `end` or `else` without a block, a nested `define`, and nesting that is too deep for the
//! recursive parser.

use super::engine::CompileError;

const MAX_NESTING: usize = 50;
/// The parser recurses for every `else if`.
const MAX_CHAIN: usize = 100;

/// Refuses blocks that do not match and nesting that is too deep.
pub(super) fn check(text: &str) -> Result<(), CompileError> {
    let bytes = text.as_bytes();
    let mut at = 0;
    // The blocks that are open, with where each began and how many `else if` it has.
    let mut blocks: Vec<(usize, &str, usize)> = Vec::new();
    while let Some(found) = text[at..].find("{{") {
        let open = at + found;
        let mut inner = open + 2;
        if bytes.get(inner) == Some(&b'-')
            && bytes.get(inner + 1).is_some_and(u8::is_ascii_whitespace)
        {
            inner += 1;
        }
        let trimmed = text[inner..].trim_start();
        if trimmed.starts_with("/*") {
            let Some(end) = text[inner..].find("*/") else {
                return Ok(());
            };
            at = inner + end + 2;
            continue;
        }
        let word: &str = trimmed
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        match word {
            "define" if !blocks.is_empty() => {
                return Err(CompileError::at(
                    text,
                    open,
                    "unexpected {{define}}",
                    Some("define templates outside of blocks"),
                ));
            }
            "if" | "range" | "with" | "block" | "define" => blocks.push((open, word, 0)),
            "else" if blocks.is_empty() => {
                return Err(CompileError::at(
                    text,
                    open,
                    "unexpected {{else}}",
                    Some("no block is open"),
                ));
            }
            "end" if blocks.is_empty() => {
                return Err(CompileError::at(
                    text,
                    open,
                    "unexpected {{end}}",
                    Some("no block is open"),
                ));
            }
            "else" => {
                let more = trimmed["else".len()..].trim_start();
                if let (Some((.., chain)), false) = (blocks.last_mut(), more.starts_with('}')) {
                    *chain += 1;
                }
            }
            "end" => {
                blocks.pop();
            }
            _ => {}
        }
        let chained: usize = blocks.iter().map(|(.., chain)| chain).sum();
        if chained > MAX_CHAIN {
            return Err(too_long(text, open));
        }
        if blocks.len() > MAX_NESTING {
            return Err(CompileError::at(
                text,
                open,
                format!("blocks nest deeper than {MAX_NESTING}"),
                None,
            ));
        }
        at = action_end(text, inner)?;
    }
    match blocks.last() {
        None => Ok(()),
        Some((open, word, _)) => Err(CompileError::at(
            text,
            *open,
            format!("unclosed {{{{{word}}}}}"),
            Some("close it with {{ end }}"),
        )),
    }
}

fn too_long(text: &str, at: usize) -> CompileError {
    let message = format!("a block has more than {MAX_CHAIN} else-if branches");
    CompileError::at(text, at, message, None)
}

/// The end of the action that begins at `start`. The parser reports unclosed actions.
fn action_end(text: &str, start: usize) -> Result<usize, CompileError> {
    let bytes = text.as_bytes();
    let (mut at, mut parens, mut elses) = (start, 0usize, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Ok(at + 2),
            b'(' => parens += 1,
            b')' => parens = parens.saturating_sub(1),
            b'|' => elses += 1,
            quote @ (b'"' | b'\'' | b'`') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' && quote != b'`' {
                        2
                    } else {
                        1
                    };
                }
            }
            _ => {}
        }
        if parens > MAX_NESTING || elses > 1000 {
            return Err(CompileError::at(
                text,
                at,
                format!("parentheses nest deeper than {MAX_NESTING}"),
                None,
            ));
        }
        at += 1;
    }
    Ok(text.len())
}

/// Refuses partials, which could include themselves for ever, and unknown names.
pub(super) fn check_handlebars(text: &str) -> Result<(), CompileError> {
    let (mut at, mut depth) = (0, 0usize);
    let mut chains: Vec<usize> = Vec::new();
    while let Some(found) = text[at..].find("{{") {
        let open = at + found;
        let inner = text[open + 2..].trim_start_matches(['{', '~', ' ', '\t', '\n']);
        if inner.starts_with('>')
            || inner.starts_with("#>")
            || inner.starts_with("#*")
            || inner.starts_with('*')
        {
            return Err(CompileError::at(
                text,
                open,
                "partials and decorators are not supported",
                Some("write the text into the template itself"),
            ));
        }
        if inner.starts_with('#') {
            chains.push(0);
        } else if inner.starts_with('/') {
            chains.pop();
        } else if let (Some(chain), Some(more)) = (chains.last_mut(), inner.strip_prefix("else "))
            && !more.trim_start_matches([' ', '~']).starts_with('}')
        {
            *chain += 1;
        }
        if chains.iter().sum::<usize>() > MAX_CHAIN {
            return Err(too_long(text, open));
        }
        depth = if inner.starts_with('#') {
            depth + 1
        } else {
            depth - usize::from(inner.starts_with('/') && depth > 0)
        };
        let nested = inner
            .split("}}")
            .next()
            .unwrap_or_default()
            .matches('(')
            .count();
        if depth > MAX_NESTING || nested > MAX_NESTING {
            return Err(CompileError::at(
                text,
                open,
                format!("blocks nest deeper than {MAX_NESTING}"),
                None,
            ));
        }
        for word in inner
            .split("}}")
            .next()
            .unwrap_or_default()
            .split(|c: char| !c.is_alphanumeric() && c != '_')
        {
            if let Some(remedy) = super::functions::refusal(word)
                && (inner.starts_with(word) || inner.contains(&format!("({word}")))
            {
                return Err(CompileError::at(
                    text,
                    open,
                    format!("function {word:?} is refused"),
                    Some(remedy),
                ));
            }
        }
        at = open + 2;
    }
    Ok(())
}
