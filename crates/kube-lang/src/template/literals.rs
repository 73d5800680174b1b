//! Text and character literals as Go reads them. The parser accepts escapes that Go refuses, and it has no bytes that are
//! not UTF-8.

/// A literal that Go does not take.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The bytes of the quoted literal that a source begins with, `"…"` or `'…'`.
pub(super) fn unquoted(source: &str) -> Result<Vec<u8>, Malformed> {
    let quote = source.chars().next().ok_or(Malformed)?;
    let mut rest = source[quote.len_utf8()..].chars();
    let (mut bytes, mut characters) = (Vec::new(), 0);
    loop {
        match rest.next().ok_or(Malformed)? {
            '\n' => return Err(Malformed),
            c if c == quote => break,
            '\\' => escaped(&mut rest, quote, &mut bytes)?,
            c => bytes.extend(c.to_string().into_bytes()),
        }
        characters += 1;
    }
    if quote == '\'' && characters != 1 {
        return Err(Malformed);
    }
    Ok(bytes)
}

fn escaped(
    rest: &mut std::str::Chars<'_>,
    quote: char,
    bytes: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let kind = rest.next().ok_or(Malformed)?;
    let mut number = |first: Option<char>, digits: usize, radix: u32| {
        let mut value = 0;
        for at in 0..digits {
            let digit = first.filter(|_| at == 0).or_else(|| rest.next());
            let digit = digit.and_then(|digit| digit.to_digit(radix));
            value = value * radix + digit.ok_or(Malformed)?;
        }
        Ok(value)
    };
    let byte = match kind {
        'a' => 7,
        'b' => 8,
        't' => b'\t',
        'n' => b'\n',
        'v' => 11,
        'f' => 12,
        'r' => b'\r',
        '\\' => b'\\',
        c if c == quote && c.is_ascii() => u8::try_from(c).map_err(|_| Malformed)?,
        'x' => u8::try_from(number(None, 2, 16)?).map_err(|_| Malformed)?,
        '0'..='7' => u8::try_from(number(Some(kind), 3, 8)?).map_err(|_| Malformed)?,
        'u' | 'U' => {
            let code = number(None, if kind == 'u' { 4 } else { 8 }, 16)?;
            let c = char::from_u32(code).ok_or(Malformed)?;
            bytes.extend(c.to_string().into_bytes());
            return Ok(());
        }
        _ => return Err(Malformed),
    };
    bytes.push(byte);
    Ok(())
}

/// A text for bytes, each that is no UTF-8 replaced on its own, as Go's JSON encoder does.
pub(super) fn replaced(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_go() {
        for (source, wanted) in [
            (
                r#""a\x41\101\u0041\U00000041\n\"" }}"#,
                b"aAAAA\n\"".as_slice(),
            ),
            (r#""\xc3\xbc""#, "ü".as_bytes()),
            (r#""\xfb""#, b"\xfb"),
            (r"'\''", b"'"),
            (r"'é'", "é".as_bytes()),
        ] {
            assert_eq!(unquoted(source).as_deref(), Ok(wanted), "{source}");
        }
        for source in [
            r#""\q""#,
            r#""\'""#,
            r#""\8""#,
            r#""\400""#,
            r#""\x4""#,
            r#""\ud800""#,
            r#""\U00110000""#,
            "\"a\nb\"",
            "\"a",
            r#"'\"'"#,
            "'ab'",
            "''",
        ] {
            assert_eq!(unquoted(source), Err(Malformed), "{source}");
        }
    }

    #[test]
    fn each_byte_that_is_no_text_is_replaced() {
        assert_eq!(replaced(b"a\xe2\x82b\xfb"), "a\u{fffd}\u{fffd}b\u{fffd}");
    }
}
