//! Digests and encodings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotmpl::Value;
use sha1::Digest as _;

use super::functions::{Answer, Entry, entry, int_arg, text_arg};
use super::values::{Escape, encoded, string};

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
        .map_err(|_| "the decoded bytes are no valid UTF-8".to_owned())
}

/// As the original, answers an encoding error as text.
fn b64dec(args: &[Value]) -> Answer {
    let input: String = text_arg(args, 0)?
        .chars()
        .filter(|c| !matches!(c, '\r' | '\n'))
        .collect();
    match STANDARD.decode(&input) {
        Ok(bytes) => utf8(bytes),
        Err(_)
            if input.starts_with(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/') =>
        {
            Ok(string("illegal base64 data at input byte 0"))
        }
        Err(e) => Err(format!("illegal base64 data: {e}")),
    }
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

fn b32dec(args: &[Value]) -> Answer {
    let input = text_arg(args, 0)?;
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for letter in input.trim_end_matches('=').bytes() {
        let Some(at) = ALPHABET.iter().position(|l| *l == letter) else {
            return if bytes.is_empty() && count == 0 {
                Ok(string("illegal base32 data at input byte 0"))
            } else {
                Err("illegal base32 data".to_owned())
            };
        };
        bits = bits << 5 | u32::try_from(at).unwrap_or_default();
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff).to_le_bytes()[0]);
        }
    }
    if base32(&bytes) != input {
        // "1" and its like: nothing decodes to it.
        return if input.len() < 8 {
            Ok(string("illegal base32 data at input byte 0"))
        } else {
            Err("illegal base32 data".to_owned())
        };
    }
    utf8(bytes)
}
