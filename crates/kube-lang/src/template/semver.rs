//! Semantic versions and their constraints, in the tolerant form of Masterminds/semver: a leading `v` and missing parts are
//! accepted.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gotmpl::Value;

use super::entry::{Answer, Entry, entry, text_arg};
use super::typed;
use super::values::string;

pub(super) const TABLE: &[Entry] = &[
    entry("semver", 1, 1, |a| version(text_arg(a, 0)?)),
    entry("semverCompare", 2, 2, |a| {
        compare(text_arg(a, 0)?, text_arg(a, 1)?)
    }),
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    /// Major, minor, patch.
    numbers: [u64; 3],
    pre: String,
    metadata: String,
    /// The number of parts that were written: 2 for `1.2`.
    written: usize,
}

impl Version {
    /// Parts that are `x`, `X` or `*`, which only constraints may have, count as not written.
    fn parse(text: &str, wildcards: Wildcards) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, metadata) = split(text, '+');
        let (core, pre) = split(text, '-');
        let mut numbers = [0; 3];
        let mut written = 0;
        let mut open = false;
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        for (slot, part) in numbers.iter_mut().zip(&parts) {
            if wildcards == Wildcards::Allowed && matches!(*part, "x" | "X" | "*") {
                open = true;
                continue;
            }
            let plain = part.len() == 1 || !part.starts_with('0');
            if open || part.is_empty() || !plain {
                return None;
            }
            *slot = part.parse().ok()?;
            written += 1;
        }
        let identifiers = |text: &str| {
            text.split('.').all(|id| {
                !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            })
        };
        if pre.is_some_and(|pre| !identifiers(pre)) || metadata.is_some_and(|m| !identifiers(m)) {
            return None;
        }
        Some(Self {
            numbers,
            pre: pre.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            written,
        })
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then_with(|| match (self.pre.as_str(), other.pre.as_str()) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (ours, theirs) => compare_pre(ours, theirs),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (mark, text) in [('-', &self.pre), ('+', &self.metadata)] {
            if !text.is_empty() {
                write!(f, "{mark}{text}")?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    Allowed,
    Refused,
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn compare_pre(ours: &str, theirs: &str) -> Ordering {
    let (mut left, mut right) = (ours.split('.'), theirs.split('.'));
    loop {
        return match (left.next(), right.next()) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
    }
}

fn version(text: &str) -> Answer {
    let found = Version::parse(text, Wildcards::Refused).ok_or("Invalid Semantic Version")?;
    let number = |n: u64| Value::Uint(n);
    let [major, minor, patch] = found.numbers;
    let printed = found.to_string();
    let fields: [(&str, Value); 7] = [
        ("Major", number(major)),
        ("Minor", number(minor)),
        ("Patch", number(patch)),
        ("Prerelease", string(&found.pre)),
        ("Metadata", string(&found.metadata)),
        ("Original", string(text)),
        ("String", string(&printed)),
    ];
    let fields = fields.map(|(name, value)| (Arc::from(name), value));
    typed::version(BTreeMap::from(fields), &printed)
}

fn compare(constraint: &str, text: &str) -> Answer {
    let version = Version::parse(text, Wildcards::Refused).ok_or("Invalid Semantic Version")?;
    let mut fits = false;
    for alternative in constraint.split("||") {
        fits |= all_hold(alternative, &version)
            .ok_or_else(|| format!("improper constraint: {constraint}"))?;
    }
    Ok(Value::Bool(fits))
}

/// Checks all terms of one alternative; `None` if the text is not a constraint.
fn all_hold(alternative: &str, version: &Version) -> Option<bool> {
    let alternative = ranges(alternative)?;
    let mut rest = alternative.trim();
    if rest.is_empty() {
        return None;
    }
    let mut holds = true;
    while !rest.is_empty() {
        let length = rest.len()
            - rest
                .trim_start_matches(['=', '!', '<', '>', '~', '^'])
                .len();
        let operator = &rest[..length];
        let after = rest[length..].trim_start();
        let end = after.find([' ', ',', '\t']).unwrap_or(after.len());
        let wanted = Version::parse(&after[..end], Wildcards::Allowed)?;
        holds &= term(operator, &wanted, version)?;
        rest = after[end..].trim_start_matches([' ', ',', '\t']);
    }
    Some(holds)
}

/// `1.2 - 1.4.5` is `>=1.2 <=1.4.5`.
fn ranges(text: &str) -> Option<String> {
    let mut out = text.trim().to_owned();
    while let Some(at) = out.find(" - ") {
        let before = out[..at].trim_end();
        let from = before.rfind([' ', ',']).map_or(0, |index| index + 1);
        let after = out[at + 3..].trim_start();
        let end = after.find([' ', ',']).unwrap_or(after.len());
        let range = format!(
            "{}>={} <={}{}",
            &before[..from],
            &before[from..],
            &after[..end],
            &after[end..]
        );
        out = range;
    }
    (out.len() <= 4096).then_some(out)
}

fn term(operator: &str, wanted: &Version, version: &Version) -> Option<bool> {
    // Before-releases are only for those who name one.
    if !version.pre.is_empty() && wanted.pre.is_empty() && operator != "!=" {
        return Some(false);
    }
    let open = wanted.written < 3;
    let order = version.cmp(wanted);
    let same = |parts: usize| version.numbers[..parts] == wanted.numbers[..parts];
    // The versions that an incomplete one stands for.
    let within = open && same(wanted.written);
    Some(match operator {
        "" | "=" | "==" if open => within,
        "" | "=" | "==" => order.is_eq(),
        "!=" if open => !within,
        "!=" => order.is_ne(),
        ">" if open => order.is_gt() && !within,
        ">" => order.is_gt(),
        "<" => order.is_lt(),
        ">=" | "=>" => order.is_ge(),
        "<=" | "=<" if open => order.is_lt() || within,
        "<=" | "=<" => order.is_le(),
        "~" | "~>" => order.is_ge() && same(wanted.written.min(2)),
        "^" => {
            let fixed = match wanted.numbers {
                _ if wanted.written == 0 => 0,
                [0, 0, _] if wanted.written == 3 => 3,
                [0, _, _] if wanted.written > 1 => 2,
                _ => 1,
            };
            order.is_ge() && same(fixed)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(constraint: &str, version: &str, wanted: Option<bool>) {
        let got = compare(constraint, version).ok();
        let wanted = wanted.map(Value::Bool);
        assert_eq!(
            format!("{got:?}"),
            format!("{wanted:?}"),
            "{version} in {constraint}"
        );
    }

    #[test]
    fn constraints_are_read_as_in_go() {
        for (constraint, version, wanted) in [
            ("^1.2.3", "1.9.0", true),
            ("^1.2.3", "2.0.0", false),
            ("^0.2.3", "0.2.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0.0.3", "0.0.4", false),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("~1", "1.9.0", true),
            (">1.2", "1.2.5", false),
            ("<=1.2", "1.2.5", true),
            ("1.2.x", "1.2.5", true),
            ("*", "0.0.1", true),
            (">= 1.0, < 2", "1.5.0", true),
            (">=1.0.0", "1.1.0-beta", false),
            (">=1.0.0-0", "1.1.0-beta", true),
            ("!=1.2.3", "1.2.3", false),
            ("1.2 - 1.4.5", "1.4.6", false),
            ("1.x || >=2.5.0", "2.6.0", true),
        ] {
            check(constraint, version, Some(wanted));
        }
        check("nonsense", "1.0.0", None);
        check("", "1.0.0", None);
        check("1.0.0", "nonsense", None);
    }
}
