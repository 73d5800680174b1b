//! Digests and encodings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotmpl::Value;
use sha1::Digest as _;

use super::entry::{Answer, Entry, entry, int_arg, text_arg};
use super::values::{encoded, string};
use crate::go_json::Escape;

pub(super) const TABLE: &[Entry] = &[
    entry("sha1sum", 1, 1, |a| {
        Ok(string(hex(&sha1::Sha1::digest(text_arg(a, 0)?))))
    }),
    entry("sha256sum", 1, 1, |a| {
        Ok(string(hex(&sha2::Sha256::digest(text_arg(a, 0)?))))
    }),
    entry("sha512sum", 1, 1, |a| {
        Ok(string(hex(&sha2::Sha512::digest(text_arg(a, 0)?))))
    }),
    entry("sha3sum", 1, 1, |a| {
        Ok(string(hex(&sha3::Sha3_256::digest(text_arg(a, 0)?))))
    }),
    entry("sha3short", 1, 2, sha3short),
    entry("shortHash", 1, 1, short_hash),
    entry("adler32sum", 1, 1, |a| {
        Ok(string(adler32(text_arg(a, 0)?.as_bytes()).to_string()))
    }),
    entry("b64enc", 1, 1, |a| {
        Ok(string(STANDARD.encode(text_arg(a, 0)?)))
    }),
    entry("b64dec", 1, 1, b64dec),
    entry("b32enc", 1, 1, |a| {
        Ok(string(base32(text_arg(a, 0)?.as_bytes())))
    }),
    entry("b32dec", 1, 1, b32dec),
];

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn sha3short(args: &[Value]) -> Answer {
    let sum = hex(&sha3::Sha3_256::digest(text_arg(args, 0)?));
    let length = if args.len() > 1 {
        int_arg(args, 1)?
    } else {
        20
    };
    match usize::try_from(length) {
        Ok(length) if length > 0 => Ok(string(&sum[..length.min(sum.len())])),
        _ => Err("sha3short: length must be positive".to_owned()),
    }
}

fn short_hash(args: &[Value]) -> Answer {
    let input = match &args[0] {
        Value::String(s) => s.to_string(),
        other => encoded(other, Escape::Html)? + "\n",
    };
    Ok(string(&hex(&sha1::Sha1::digest(input))[..20]))
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}

fn utf8(bytes: Vec<u8>) -> Answer {
    String::from_utf8(bytes)
        .map(string)
        .map_err(|_| "the decoded bytes are not valid UTF-8".to_owned())
}

/// As the original, answers an encoding error as text.
fn b64dec(args: &[Value]) -> Answer {
    match from_base64(text_arg(args, 0)?.as_bytes()) {
        Ok(bytes) => utf8(bytes),
        Err(at) => Ok(string(format!("illegal base64 data at input byte {at}"))),
    }
}

/// Decodes as Go does: lines may end anywhere, and left-over bits are ignored. An error is the position that Go reports.
fn from_base64(input: &[u8]) -> Result<Vec<u8>, usize> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let (mut bytes, mut bits, mut count, mut at) = (Vec::new(), 0u32, 0, 0);
    while let Some(byte) = input.get(at) {
        at += 1;
        if let Some(six) = value(*byte) {
            (bits, count) = (bits << 6 | u32::from(six), count + 1);
            if count == 4 {
                bytes.extend(&bits.to_be_bytes()[1..]);
                (bits, count) = (0, 0);
            }
            continue;
        }
        if is_line_end(byte) {
            continue;
        }
        if *byte != b'=' || count < 2 {
            return Err(at - 1);
        }
        let skip = |from: usize| {
            let lines = input[from..].iter().take_while(|byte| is_line_end(byte));
            from + lines.count()
        };
        if count == 2 {
            at = skip(at);
            match input.get(at) {
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
                None => return Err(input.len()),
            }
        }
        at = skip(at);
        if at < input.len() {
            return Err(at);
        }
        bits <<= 6 * (4 - count);
        bytes.extend(&bits.to_be_bytes()[1..count]);
        return Ok(bytes);
    }
    if count > 0 {
        return Err(input.len() - count);
    }
    Ok(bytes)
}

fn base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut block = [0u8; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let letters = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let index = usize::try_from(bits >> (35 - 5 * at) & 31).unwrap_or_default();
            out.push(if at < letters {
                char::from(ALPHABET[index])
            } else {
                '='
            });
        }
    }
    out
}

/// As the original, answers an encoding error as text.
fn b32dec(args: &[Value]) -> Answer {
    let input = text_arg(args, 0)?.bytes();
    let input: Vec<u8> = input
        .filter(|byte| !matches!(byte, b'\n' | b'\r'))
        .collect();
    match from_base32(&input) {
        Ok(bytes) => utf8(bytes),
        Err(at) => Ok(string(format!("illegal base32 data at input byte {at}"))),
    }
}

/// Decodes as Go does. An error is the position that Go reports.
fn from_base32(input: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::new();
    for (block, chunk) in input.chunks(8).enumerate() {
        let start = block * 8;
        let (mut bits, mut count) = (0u64, 0);
        for (at, letter) in chunk.iter().enumerate() {
            let after = input.len() - start - at - 1;
            if *letter == b'=' && at >= 2 && after < 8 {
                if after + at < 7 {
                    return Err(input.len());
                }
                if let Some(wrong) = input[start + at + 1..]
                    .iter()
                    .take(7 - at)
                    .position(|b| *b != b'=')
                {
                    return Err(start + at + wrong);
                }
                if matches!(at, 3 | 6) {
                    return Err(start + at);
                }
                break;
            }
            let found = ALPHABET.iter().position(|known| known == letter);
            let value = found.ok_or(start + at)?;
            bits = bits << 5 | value as u64;
            count += 1;
        }
        if count == chunk.len() && count < 8 {
            return Err(input.len() - count);
        }
        bits <<= 5 * (8 - count);
        bytes.extend(&bits.to_be_bytes()[3..3 + count * 5 / 8]);
        if count < 8 {
            break;
        }
    }
    Ok(bytes)
}
