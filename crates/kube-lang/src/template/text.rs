//! Functions over text.

use std::sync::Arc;

use gotmpl::Value;

use super::entry::{ANY, Answer, Entry, entry, int_arg, text_arg};
use super::limits::MAX_OUTPUT;
use super::values::{map, printed, string};
use crate::go_text;

pub(super) const TABLE: &[Entry] = &[
    entry("lower", 1, 1, |a| {
        Ok(string(
            text_arg(a, 0)?
                .chars()
                .flat_map(char::to_lowercase)
                .collect::<String>(),
        ))
    }),
    entry("upper", 1, 1, upper),
    entry("trim", 1, 1, |a| Ok(string(text_arg(a, 0)?.trim()))),
    entry("trimAll", 2, 2, trim_all),
    entry("trimall", 2, 2, trim_all),
    entry("trimPrefix", 2, 2, |a| {
        Ok(string(
            text_arg(a, 1)?
                .strip_prefix(text_arg(a, 0)?)
                .unwrap_or(text_arg(a, 1)?),
        ))
    }),
    entry("trimSuffix", 2, 2, |a| {
        Ok(string(
            text_arg(a, 1)?
                .strip_suffix(text_arg(a, 0)?)
                .unwrap_or(text_arg(a, 1)?),
        ))
    }),
    entry("contains", 2, 2, |a| {
        Ok(Value::Bool(text_arg(a, 1)?.contains(text_arg(a, 0)?)))
    }),
    entry("hasPrefix", 2, 2, |a| {
        Ok(Value::Bool(text_arg(a, 1)?.starts_with(text_arg(a, 0)?)))
    }),
    entry("hasSuffix", 2, 2, |a| {
        Ok(Value::Bool(text_arg(a, 1)?.ends_with(text_arg(a, 0)?)))
    }),
    entry("hello", 0, 0, |_| Ok(string("Hello!"))),
    entry("title", 1, 1, title),
    entry("untitle", 1, 1, untitle),
    entry("swapcase", 1, 1, swapcase),
    entry("repeat", 2, 2, repeat),
    entry("substr", 3, 3, substr),
    entry("trunc", 2, 2, trunc),
    entry("abbrevboth", 3, 3, abbrev_both),
    entry("wrap", 2, 2, |a| {
        Ok(string(wrapped(
            int_arg(a, 0)?,
            "\n",
            LongWords::Kept,
            text_arg(a, 1)?,
        )))
    }),
    entry("wrapWith", 3, 3, |a| {
        Ok(string(wrapped(
            int_arg(a, 0)?,
            text_arg(a, 1)?,
            LongWords::Broken,
            text_arg(a, 2)?,
        )))
    }),
    entry("abbrev", 2, 2, abbrev),
    entry("initials", 1, 1, |a| {
        Ok(string(
            text_arg(a, 0)?
                .split_whitespace()
                .filter_map(|w| w.chars().next())
                .collect::<String>(),
        ))
    }),
    entry("nospace", 1, 1, |a| {
        Ok(string(
            text_arg(a, 0)?.split_whitespace().collect::<String>(),
        ))
    }),
    entry("quote", 0, ANY, quote),
    entry("squote", 0, ANY, squote),
    entry("cat", 0, ANY, cat),
    entry("indent", 2, 2, |a| indent(a, "")),
    entry("nindent", 2, 2, |a| indent(a, "\n")),
    entry("replace", 3, 3, replace),
    entry("plural", 3, 3, |a| {
        Ok(string(if int_arg(a, 2)? == 1 {
            text_arg(a, 0)?
        } else {
            text_arg(a, 1)?
        }))
    }),
    entry("snakecase", 1, 1, |a| words(a, '_')),
    entry("kebabcase", 1, 1, |a| words(a, '-')),
    entry("camelcase", 1, 1, camelcase),
    entry("toString", 1, 1, |a| printed(&a[0]).map(string)),
    entry("split", 2, 2, |a| {
        parts(text_arg(a, 1)?, text_arg(a, 0)?, usize::MAX)
    }),
    entry("splitn", 3, 3, |a| {
        parts(
            text_arg(a, 2)?,
            text_arg(a, 0)?,
            usize::try_from(int_arg(a, 1)?).unwrap_or(usize::MAX),
        )
    }),
    entry("splitList", 2, 2, |a| {
        Ok(Value::List(
            pieces(text_arg(a, 1)?, text_arg(a, 0)?, usize::MAX)?
                .into_iter()
                .map(string)
                .collect(),
        ))
    }),
    entry("base", 1, 1, base),
    entry("osBase", 1, 1, base),
    entry("dir", 1, 1, dir),
    entry("osDir", 1, 1, dir),
    entry("ext", 1, 1, ext),
    entry("osExt", 1, 1, ext),
    entry("clean", 1, 1, |a| Ok(string(clean(text_arg(a, 0)?)))),
    entry("osClean", 1, 1, |a| Ok(string(clean(text_arg(a, 0)?)))),
    entry("isAbs", 1, 1, |a| {
        Ok(Value::Bool(text_arg(a, 0)?.starts_with('/')))
    }),
    entry("osIsAbs", 1, 1, |a| {
        Ok(Value::Bool(text_arg(a, 0)?.starts_with('/')))
    }),
];

/// One character for one, as Go's case tables have it.
fn upper_char(c: char) -> char {
    let mut more = c.to_uppercase();
    match (more.next(), more.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn lower_char(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn upper(args: &[Value]) -> Answer {
    Ok(string(
        text_arg(args, 0)?
            .chars()
            .map(upper_char)
            .collect::<String>(),
    ))
}

fn trim_all(args: &[Value]) -> Answer {
    let cut = text_arg(args, 0)?;
    Ok(string(text_arg(args, 1)?.trim_matches(|c| cut.contains(c))))
}

fn title(args: &[Value]) -> Answer {
    let mut start = true;
    let out: String = text_arg(args, 0)?
        .chars()
        .map(|c| {
            let this = if start { upper_char(c) } else { c };
            start = if c.is_ascii() {
                !c.is_ascii_alphanumeric() && c != '_'
            } else {
                c.is_whitespace()
            };
            this
        })
        .collect();
    Ok(string(out))
}

fn untitle(args: &[Value]) -> Answer {
    let mut start = true;
    let out: String = text_arg(args, 0)?
        .chars()
        .map(|c| {
            let this = if start { lower_char(c) } else { c };
            start = c.is_whitespace();
            this
        })
        .collect();
    Ok(string(out))
}

fn swapcase(args: &[Value]) -> Answer {
    let swap = |c: char| {
        if c.is_uppercase() {
            lower_char(c)
        } else if c.is_lowercase() {
            upper_char(c)
        } else {
            c
        }
    };
    Ok(string(
        text_arg(args, 0)?.chars().map(swap).collect::<String>(),
    ))
}

fn repeat(args: &[Value]) -> Answer {
    let (count, text) = (int_arg(args, 0)?, text_arg(args, 1)?);
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())?;
    if count.saturating_mul(text.len()) > MAX_OUTPUT {
        return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
    }
    Ok(string(text.repeat(count)))
}

/// A part of a text by bytes. In the middle of a character, sprig would return invalid UTF-8.
fn part(text: &str, from: usize, to: usize) -> Answer {
    if from > to || to > text.len() {
        return Err(format!("slice bounds out of range [{from}:{to}]"));
    }
    text.get(from..to)
        .map(string)
        .ok_or_else(|| "the text would be cut within a character".to_owned())
}

fn substr(args: &[Value]) -> Answer {
    let (start, end, text) = (int_arg(args, 0)?, int_arg(args, 1)?, text_arg(args, 2)?);
    let at = |n: i64| usize::try_from(n).unwrap_or_default();
    match (start < 0, end < 0 || at(end) > text.len()) {
        (true, _) if end < 0 => Err("slice bounds out of range".to_owned()),
        (true, _) => part(text, 0, at(end)),
        (false, true) => part(text, at(start), text.len()),
        (false, false) => part(text, at(start), at(end)),
    }
}

fn trunc(args: &[Value]) -> Answer {
    let (count, text) = (int_arg(args, 0)?, text_arg(args, 1)?);
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= text.len() {
        return Ok(string(text));
    }
    if count < 0 {
        part(text, text.len() - size, text.len())
    } else {
        part(text, 0, size)
    }
}

fn abbrev(args: &[Value]) -> Answer {
    let (width, text) = (
        usize::try_from(int_arg(args, 0)?).unwrap_or_default(),
        text_arg(args, 1)?,
    );
    if width < 4 || text.len() <= width {
        return Ok(string(text));
    }
    let head = text
        .get(..width - 3)
        .ok_or("the text would be cut within a character")?;
    Ok(string(format!("{head}...")))
}

fn quote(args: &[Value]) -> Answer {
    let parts: Result<Vec<_>, String> = args
        .iter()
        .filter(|v| **v != Value::Nil)
        .map(|v| printed(v).map(|t| go_text::quote(&t)))
        .collect();
    Ok(string(parts?.join(" ")))
}

fn squote(args: &[Value]) -> Answer {
    let parts: Result<Vec<_>, String> = args
        .iter()
        .filter(|v| **v != Value::Nil)
        .map(|v| printed(v).map(|t| format!("'{t}'")))
        .collect();
    Ok(string(parts?.join(" ")))
}

fn cat(args: &[Value]) -> Answer {
    let parts: Result<Vec<_>, String> = args
        .iter()
        .filter(|v| **v != Value::Nil)
        .map(printed)
        .collect();
    Ok(string(parts?.join(" ")))
}

fn indent(args: &[Value], before: &str) -> Answer {
    let (count, text) = (int_arg(args, 0)?, text_arg(args, 1)?);
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())?;
    if count.saturating_mul(text.matches('\n').count() + 1) > MAX_OUTPUT {
        return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
    }
    let pad = " ".repeat(count);
    Ok(string(format!(
        "{before}{pad}{}",
        text.replace('\n', &format!("\n{pad}"))
    )))
}

fn replace(args: &[Value]) -> Answer {
    let (old, new, text) = (text_arg(args, 0)?, text_arg(args, 1)?, text_arg(args, 2)?);
    if text.matches(old).count().saturating_mul(new.len()) > MAX_OUTPUT {
        return Err(format!("the text would have more than {MAX_OUTPUT} bytes"));
    }
    Ok(string(text.replace(old, new)))
}

/// Splits words. The libraries disagree where a digit follows a capital, so that is refused rather than guessed.
fn words(args: &[Value], joint: char) -> Answer {
    let text: Vec<char> = text_arg(args, 0)?.chars().collect();
    let mut out = String::new();
    for (at, c) in text.iter().copied().enumerate() {
        let before = at.checked_sub(1).map(|b| text[b]);
        if c.is_numeric() && before.is_some_and(char::is_uppercase) {
            return Err(
                "words of a capital letter followed by a digit are not split: use lower or regexReplaceAll"
                    .to_owned(),
            );
        }
        if c.is_numeric() && before.is_some_and(char::is_lowercase) {
            // A number belongs to the small letters that follow it, if some do.
            let after = text[at..].iter().find(|c| !c.is_numeric());
            if after.is_some_and(|c| c.is_lowercase()) {
                out.push(joint);
            }
        }
        let next = text.get(at + 1).copied();
        if matches!(c, ' ' | '-' | '_') || c.is_whitespace() {
            out.push(joint);
        } else {
            let begins = c.is_uppercase()
                && before.is_some_and(|b| {
                    b.is_lowercase()
                        || b.is_numeric()
                        || b.is_uppercase() && next.is_some_and(char::is_lowercase)
                });
            if begins {
                out.push(joint);
            }
            out.push(lower_char(c));
        }
    }
    Ok(string(out))
}

fn camelcase(args: &[Value]) -> Answer {
    let text = text_arg(args, 0)?;
    let connector = |c: char| matches!(c, '_' | '-' | ' ');
    let chars: Vec<char> = text.chars().collect();
    if chars
        .windows(2)
        .any(|w| w[0].is_uppercase() && w[1].is_uppercase())
    {
        return Err("camelcase refuses consecutive capital letters: apply lower first".to_owned());
    }
    if chars.windows(2).any(|w| connector(w[0]) && connector(w[1])) {
        return Err("camelcase refuses consecutive separators: keep one between words".to_owned());
    }
    let inner = text.trim_matches(connector);
    let lead = &text[..text.len() - text.trim_start_matches(connector).len()];
    let tail = if inner.is_empty() {
        ""
    } else {
        &text[text.trim_end_matches(connector).len()..]
    };
    let mut out = String::from(lead);
    let mut start = true;
    for c in inner.chars() {
        if connector(c) {
            start = true;
            continue;
        }
        out.push(if start { upper_char(c) } else { c });
        start = false;
    }
    out.push_str(tail);
    Ok(string(out))
}

fn pieces(text: &str, separator: &str, most: usize) -> Result<Vec<String>, String> {
    super::limits::spend(text.len() as u64 / 8)?;
    Ok(match most {
        0 => Vec::new(),
        _ if separator.is_empty() && most == usize::MAX => text.chars().map(String::from).collect(),
        _ if separator.is_empty() => {
            let cut = text
                .char_indices()
                .nth(most - 1)
                .map_or(text.len(), |(at, _)| at);
            let rest = Some(text[cut..].to_owned()).filter(|rest| !rest.is_empty());
            text[..cut].chars().map(String::from).chain(rest).collect()
        }
        _ => text.splitn(most, separator).map(str::to_owned).collect(),
    })
}

fn parts(text: &str, separator: &str, most: usize) -> Answer {
    let pieces = pieces(text, separator, most)?;
    Ok(map(pieces
        .into_iter()
        .enumerate()
        .map(|(at, p)| (Arc::from(format!("_{at}")), string(p)))
        .collect()))
}

fn base(args: &[Value]) -> Answer {
    let path = text_arg(args, 0)?;
    let trimmed = path.trim_end_matches('/');
    Ok(string(match (path.is_empty(), trimmed.is_empty()) {
        (true, _) => ".",
        (_, true) => "/",
        _ => trimmed.rsplit('/').next().unwrap_or(trimmed),
    }))
}

fn dir(args: &[Value]) -> Answer {
    let path = text_arg(args, 0)?;
    Ok(string(clean(
        &path[..path.rfind('/').map_or(0, |at| at + 1)],
    )))
}

fn ext(args: &[Value]) -> Answer {
    let path = text_arg(args, 0)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    Ok(string(name.rfind('.').map_or("", |at| &name[at..])))
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

fn abbrev_both(args: &[Value]) -> Answer {
    let (left, right) = (int_arg(args, 0)?, int_arg(args, 1)?);
    let text = text_arg(args, 2)?;
    if right < 4 || (left > 0 && right < 7) {
        return Ok(string(text));
    }
    let width = usize::try_from(right).unwrap_or(usize::MAX);
    let left = usize::try_from(left).unwrap_or(0);
    Ok(string(abbreviated(text.as_bytes(), left, width)))
}

/// Cuts at both ends, by bytes as sprig does.
fn abbreviated(text: &[u8], offset: usize, width: usize) -> String {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if text.len() <= width {
        return shown(text);
    }
    let room = width - 3;
    let offset = offset.min(text.len()).min(text.len().saturating_sub(room));
    if offset <= 4 {
        return shown(&text[..room]) + "...";
    }
    if offset + room < text.len() {
        let rest = &text[offset..];
        let inner = room.max(4);
        if rest.len() <= inner {
            return format!("...{}", shown(rest));
        }
        return format!("...{}...", shown(&rest[..inner - 3]));
    }
    format!("...{}", shown(&text[text.len() - room..]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LongWords {
    Kept,
    Broken,
}

/// Breaks a text into lines at its spaces, by bytes as sprig does.
fn wrapped(width: i64, line_end: &str, long: LongWords, text: &str) -> String {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let line_end = if line_end.is_empty() { "\n" } else { line_end };
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut line = |piece: &[u8]| {
        out.extend_from_slice(piece);
        out.extend_from_slice(line_end.as_bytes());
    };
    while bytes.len() - at > width {
        if bytes[at] == b' ' {
            at += 1;
            continue;
        }
        let space = bytes[at..=at + width].iter().rposition(|b| *b == b' ');
        if let Some(space) = space {
            line(&bytes[at..at + space]);
            at += space + 1;
        } else if long == LongWords::Broken {
            line(&bytes[at..at + width]);
            at += width;
        } else if let Some(space) = bytes[at + width..].iter().position(|b| *b == b' ') {
            line(&bytes[at..at + width + space]);
            at += width + space + 1;
        } else {
            break;
        }
    }
    out.extend_from_slice(&bytes[at..]);
    String::from_utf8_lossy(&out).into_owned()
}
