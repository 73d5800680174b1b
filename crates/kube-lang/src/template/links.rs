//! Parsing and joining of URLs.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value;

use super::entry::{Answer, Entry, entry, text_arg};
use super::values::{map, string};

pub(super) const TABLE: &[Entry] = &[
    entry("urlParse", 1, 1, |a| parse(text_arg(a, 0)?)),
    entry("urlJoin", 1, 1, join),
];

fn parse(text: &str) -> Answer {
    let control = text.bytes().any(|b| b < b' ' || b == 0x7f);
    if control {
        return Err(format!(
            "unable to parse url: {text:?} has a control character"
        ));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = scheme(rest);
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (&rest[..end], &rest[end..])
        }
        None => ("", rest),
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    check(text, host, path)?;
    let hostname = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    };
    let hostname = hostname.trim_start_matches('[').trim_end_matches(']');
    // What follows a scheme without a slash is no path.
    let opaque = if !scheme.is_empty() && authority.is_empty() && !path.starts_with('/') {
        path
    } else {
        ""
    };
    let decode = |text: &str| {
        percent_encoding::percent_decode_str(text)
            .decode_utf8_lossy()
            .into_owned()
    };
    let path = if opaque.is_empty() {
        decode(path)
    } else {
        String::new()
    };
    let fields: [(&str, String); 8] = [
        ("scheme", scheme.to_lowercase()),
        ("host", host.to_owned()),
        ("hostname", hostname.to_owned()),
        ("path", path),
        ("query", query.to_owned()),
        ("opaque", opaque.to_owned()),
        ("fragment", decode(fragment)),
        ("userinfo", user.to_owned()),
    ];
    let fields = fields.map(|(name, value)| (Arc::from(name), string(value)));
    Ok(map(BTreeMap::from(fields)))
}

/// Refuses the URLs that Go cannot parse.
fn check(url: &str, host: &str, path: &str) -> Result<(), String> {
    let fail = |why: &str| Err(format!("unable to parse url: {url:?}: {why}"));
    let port = if host.starts_with('[') {
        let Some((_, port)) = host.rsplit_once(']') else {
            return fail("missing ']' in host");
        };
        port
    } else {
        host.find(':').map_or("", |at| &host[at..])
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !port.is_empty() && (!port.starts_with(':') || digits.bytes().any(|b| !b.is_ascii_digit())) {
        return fail("invalid port after host");
    }
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let escape = rest.as_bytes().get(at + 1..at + 3);
        if !escape.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
            return fail("invalid URL escape");
        }
        rest = &rest[at + 3..];
    }
    Ok(())
}

/// A scheme begins with a letter and ends before a colon.
fn scheme(text: &str) -> (&str, &str) {
    let Some((scheme, rest)) = text.split_once(':') else {
        return ("", text);
    };
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let valid =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(letters);
    if valid { (scheme, rest) } else { ("", text) }
}

fn join(args: &[Value]) -> Answer {
    let Value::Map(parts) = &args[0] else {
        return Err("urlJoin needs a map as urlParse returns it".to_owned());
    };
    let part = |name: &str| match parts.get(name) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut url = String::new();
    let (scheme, host, user) = (part("scheme"), part("host"), part("userinfo"));
    if !scheme.is_empty() {
        url.push_str(&scheme);
        url.push(':');
    }
    let opaque = part("opaque");
    if opaque.is_empty() {
        let path = encoded(&part("path"));
        if !scheme.is_empty() && (!host.is_empty() || !path.is_empty()) || !host.is_empty() {
            url.push_str("//");
        }
        if !user.is_empty() {
            url.push_str(&user);
            url.push('@');
        }
        url.push_str(&host);
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        }
        url.push_str(&path);
    } else {
        url.push_str(&opaque);
    }
    for (sign, text) in [('?', part("query")), ('#', encoded(&part("fragment")))] {
        if !text.is_empty() {
            url.push(sign);
            url.push_str(&text);
        }
    }
    Ok(string(url))
}

/// With everything escaped that may not stand in a path.
fn encoded(text: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const ESCAPED: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'<')
        .add(b'>')
        .add(b'?')
        .add(b'[')
        .add(b'\\')
        .add(b']')
        .add(b'^')
        .add(b'`')
        .add(b'{')
        .add(b'|')
        .add(b'}');
    utf8_percent_encode(text, ESCAPED).to_string()
}
