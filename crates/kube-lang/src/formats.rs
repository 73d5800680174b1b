//! Formats of strings, as kube-apiserver enforces them; unknown ones mean nothing.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::LazyLock,
};

use regex::Regex;

use crate::names;

/// The check of a string format; `None` for a format that is not checked.
pub fn checker(name: &str) -> Option<fn(&str) -> bool> {
    text_format(&name.replace('-', ""))
}

fn text_format(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => |s| matches(&BSON, s),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |s| s.contains('.') && sloppy_ip(s),
        "ipv6" => |s| s.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |s| is_uuid(s, None),
        "uuid3" => |s| is_uuid(s, Some('3')),
        "uuid4" => |s| is_uuid(s, Some('4')),
        "uuid5" => |s| is_uuid(s, Some('5')),
        "isbn" => |s| is_isbn10(s) || is_isbn13(s),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |s| matches(&SSN, s),
        "hexcolor" => |s| matches(&HEX_COLOR, s),
        "rgbcolor" => |s| matches(&RGB_COLOR, s),
        "byte" => |s| matches(&BASE64, s),
        "password" => |_| true,
        "date" => |s| s.len() == 10 && s.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |s| names::dns1123_label(s).is_empty(),
        "k8slongname" => |s| names::dns1123_subdomain(s).is_empty(),
        _ => return None,
    })
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns below are constants that the tests compile")
}

fn matches(regex: &LazyLock<Regex>, text: &str) -> bool {
    regex.is_match(text)
}

static BSON: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9a-fA-F]{24}$"));
static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| regex("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    const PART: &str = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    regex(&format!(r"^rgb\({PART},{PART},{PART}\)$"))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    regex("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    regex("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    )
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$",
    )
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    regex("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static GO_DURATION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));
static WORDY_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    // Anywhere in the text: one number with a unit is enough.
    regex(r"(?i)[0-9]+(\.[0-9]+)?\s*([a-zµ]+)")
});
/// Names of units of time; what begins with the last of a line is one, too.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];
static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    const ATOM: &str = r"[^\s\x00-\x20()<>\[\]:;@\\,.\x22]+";
    regex(&format!(
        r#"^({ATOM}(\.{ATOM})*|"([^"\\\r\n]|\\.)*")@({ATOM}(\.{ATOM})*|\[[^\[\]\\\s]+\])$"#
    ))
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && matches(&HOSTNAME, text) && text.split('.').all(|part| part.len() <= 63)
}

/// As Go's older parsers: leading zeros are no reason to refuse.
fn sloppy_ip(text: &str) -> bool {
    let trimmed: Vec<String> = text
        .split('.')
        .map(|part| {
            let rest = part.trim_start_matches('0');
            if rest.is_empty() && !part.is_empty() {
                "0".to_owned()
            } else {
                rest.to_owned()
            }
        })
        .collect();
    text.parse::<IpAddr>().is_ok()
        || (!text.contains(':') && trimmed.join(".").parse::<IpAddr>().is_ok())
}

fn is_cidr(text: &str) -> bool {
    let Some((ip, length)) = text.split_once('/') else {
        return false;
    };
    let max = if ip.contains(':') { 128 } else { 32 };
    sloppy_ip(ip)
        && !length.is_empty()
        && length.bytes().all(|c| c.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= max)
}

/// Six, eight or twenty bytes, by colons, dashes, or in groups of two by dots.
fn is_mac(text: &str) -> bool {
    let (separator, digits, counts): (char, usize, &[usize]) = if text.contains(':') {
        (':', 2, &[6, 8, 20])
    } else if text.contains('-') {
        ('-', 2, &[6, 8, 20])
    } else {
        ('.', 4, &[3, 4, 10])
    };
    let parts: Vec<&str> = text.split(separator).collect();
    counts.contains(&parts.len())
        && parts
            .iter()
            .all(|part| part.len() == digits && part.bytes().all(|c| c.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    if !matches(&UUID, text) {
        return false;
    }
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    match version {
        None => true,
        Some('3') => digits[12] == '3',
        Some(version) => digits[12] == version && "89ab".contains(digits[16].to_ascii_lowercase()),
    }
}

fn without_dashes(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '-' && !c.is_whitespace())
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_dashes(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (nth, c) in (1_u32..).zip(digits.chars()) {
        let value = match c {
            'X' if nth == 10 => 10,
            c => match c.to_digit(10) {
                Some(digit) => digit,
                None => return false,
            },
        };
        sum += nth * value;
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = without_dashes(text);
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(10)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 13) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(nth, digit)| if nth % 2 == 0 { *digit } else { 3 * digit })
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(&CREDIT_CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(nth, digit)| match (nth % 2, 2 * digit) {
            (0, _) => digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_duration(text: &str) -> bool {
    let known = |unit: &str| {
        UNITS.iter().any(|names| {
            let longest = names.last().is_some_and(|name| unit.starts_with(name));
            longest || names.contains(&unit)
        })
    };
    matches(&GO_DURATION, text)
        || WORDY_DURATION
            .captures_iter(text)
            .any(|found| known(&found[2].to_lowercase()))
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if date.len() != 10 || date.parse::<jiff::civil::Date>().is_err() {
        return false;
    }
    TIME.captures(time)
        .is_some_and(|m| &m[1] <= "23" && &m[2] <= "59" && &m[3] <= "59")
}

/// An address with or without a name before it: `Ann <ann@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>').and_then(|t| t.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    matches(&EMAIL, address)
}

/// Accepts what may stand in a request line: an absolute URI or an absolute path.
pub fn is_uri(text: &str) -> bool {
    let escapes_right = |part: &str| {
        part.split('%').skip(1).all(|after| {
            let mut chars = after.chars();
            let mut hex = || chars.next().is_some_and(|c| c.is_ascii_hexdigit());
            hex() && hex()
        })
    };
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let path_right = |rest: &str| escapes_right(rest.split('?').next().unwrap_or_default());
    if text.starts_with('/') {
        return path_right(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let scheme_right = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !scheme_right {
        return false;
    }
    let Some(authority) = rest.strip_prefix("//") else {
        return !rest.starts_with('/') || path_right(rest);
    };
    let (authority, path) = match authority.find(['/', '?']) {
        Some(at) => authority.split_at(at),
        None => (authority, ""),
    };
    path_right(path) && host_right(authority.rsplit('@').next().unwrap_or_default())
}

fn host_right(host: &str) -> bool {
    let (name, port) = match host.rfind(']') {
        Some(end) if host.starts_with('[') => host.split_at(end + 1),
        Some(_) => return false,
        None => match host.find(':') {
            Some(at) => host.split_at(at),
            None => (host, ""),
        },
    };
    let port_right = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|c| c.is_ascii_digit()));
    port_right && !name.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, good: &[&str], bad: &[&str]) {
        let accepts = checker(name).unwrap();
        for text in good {
            assert!(accepts(text), "{name} {text:?}");
        }
        for text in bad {
            assert!(!accepts(text), "{name} {text:?}");
        }
    }

    #[test]
    fn formats_accept_what_the_server_accepts() {
        check(
            "uri",
            &["http://a.b/c?d=%zz", "/x", "mailto:a", "http://[::1]:80/"],
            &["", "x", "http://a b/", "/%zz", "1a:b"],
        );
        check(
            "email",
            &["a@b.c", "Ann <ann@b.c>", "a@b"],
            &["a", "a@", "@b", "a..b@c", "a b@c"],
        );
        check(
            "hostname",
            &["a", "a.example.com", "1a.com"],
            &["", "-a.com", "a_b.com", "a.1"],
        );
        check(
            "ipv4",
            &["1.2.3.4", "010.0.0.1"],
            &["::1", "1.2.3", "256.1.1.1", "1..2.3"],
        );
        check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "fe80::1%eth0"]);
        check(
            "cidr",
            &["10.0.0.0/8", "::/0"],
            &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"],
        );
        check(
            "mac",
            &["01:23:45:67:89:ab", "0123.4567.89ab"],
            &["01:23:45", "0123456789ab", "01:23-45:67:89:ab"],
        );
        check(
            "uuid4",
            &["A987FBC9-4BED-4078-8F07-9141BA07C9F3"],
            &["A987FBC9-4BED-3078-8F07-9141BA07C9F3"],
        );
        check(
            "isbn",
            &["0321751043", "978-0321751041", "0-8044-2957-X"],
            &["0321751044", "x"],
        );
        check(
            "creditcard",
            &["4556 7375 8689 9855"],
            &["4556737586899856"],
        );
        check("byte", &["aGk="], &["aGk", "", "a"]);
        check(
            "date",
            &["2024-02-29"],
            &["2023-02-29", "2024-2-9", "20240229"],
        );
        check(
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
            &["2014-12-15", "2014-12-15T24:00:00Z", "2014-12-15T19:30:20"],
        );
        check(
            "duration",
            &[
                "1h30m", "-1.5s", "22 ns", "3 weeks", "0", "P1D", "PT1.5S", "1.5 days",
            ],
            &["1", "x", "", "P1Y", "P1"],
        );
        check("hexcolor", &["#fff", "A0B0C0"], &["#ffff"]);
        check("rgbcolor", &["rgb(1, 20,255)"], &["rgb(1,2,256)"]);
        check("ssn", &["123-45-6789"], &["12-345-6789"]);
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]);
        check("k8s-short-name", &["a-b"], &["a.b"]);
        check("k8s-long-name", &["a.b"], &["a_b"]);
        check("password", &["", "x"], &[]);
    }
}
