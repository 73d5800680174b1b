//! Semantic versions.

use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq)]
pub struct Semver {
    pub(crate) numbers: [u64; 3],
    /// Pre-release identifiers. Build metadata, after a plus, is ignored.
    pre: Vec<String>,
}

/// Strict, or tolerant of texts such as `v1.2`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Strict,
    Normalizing,
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if digits && canonical {
        text.parse().ok()
    } else {
        None
    }
}

pub(crate) fn parse(text: &str, reading: Reading) -> Result<Semver, String> {
    let wrong =
        || format!("Semver parse error during conversion from string: invalid version {text:?}");
    let mut text_left = text;
    if reading == Reading::Normalizing {
        text_left = text_left.trim();
        text_left = text_left.strip_prefix('v').unwrap_or(text_left);
    }
    let (text_left, build) = text_left
        .split_once('+')
        .map_or((text_left, ""), |(a, b)| (a, b));
    let (core, pre) = match text_left.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (text_left, None),
    };
    let mut parts: Vec<&str> = core.split('.').collect();
    if reading == Reading::Normalizing {
        for part in &mut parts {
            let trimmed = part.trim_start_matches('0');
            *part = if trimmed.is_empty() && !part.is_empty() {
                "0"
            } else {
                trimmed
            };
        }
        while parts.len() < 3 && pre.is_none() && build.is_empty() {
            parts.push("0");
        }
    }
    let [major, minor, patch] = parts.as_slice() else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    for (name, part) in [("Major", major), ("Minor", minor), ("Patch", patch)] {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!(
                "{name} number must not contain leading zeroes {part:?}"
            ));
        }
    }
    let numbers = [major, minor, patch].map(|part| number(part));
    let [Some(major), Some(minor), Some(patch)] = numbers else {
        return Err(wrong());
    };
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let pre: Vec<String> = pre
        .map(|pre| pre.split('.').map(str::to_owned).collect())
        .unwrap_or_default();
    let numeric = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
    let pre_right = pre
        .iter()
        .all(|part| word(part) && (!numeric(part) || number(part).is_some()));
    let build_right = !text.contains('+') || build.split('.').all(word);
    if !pre_right || !build_right {
        return Err(wrong());
    }
    Ok(Semver {
        numbers: [major, minor, patch],
        pre,
    })
}

impl Semver {
    pub(crate) fn compared(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            }
        })
    }
}

fn compare_pre(a: &[String], b: &[String]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (number(a), number(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}
