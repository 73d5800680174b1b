//! The order of Kubernetes API versions: `v1alpha1 < v1beta1 < v1 < v2`; other names come before all of these.

use std::cmp::Ordering;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Compares by stability, then by the numbers; names that are not versions come first, in reverse alphabetical order,
/// as in Kubernetes.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = number(&rest[..digits])?;
    let (stability, minor) = match &rest[digits..] {
        "" => return Some((Stability::Stable, major, 0)),
        tail => match (tail.strip_prefix("alpha"), tail.strip_prefix("beta")) {
            (Some(minor), _) => (Stability::Alpha, minor),
            (_, Some(minor)) => (Stability::Beta, minor),
            _ => return None,
        },
    };
    Some((stability, major, number(minor)?))
}

fn number(digits: &str) -> Option<u64> {
    if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions = vec![
            "v2",
            "v1",
            "v10",
            "v1beta1",
            "v1alpha2",
            "v11alpha1",
            "foo1",
            "v3beta1",
            "v1alpha1",
            "bar",
        ];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(
            versions,
            [
                "foo1",
                "bar",
                "v1alpha1",
                "v1alpha2",
                "v11alpha1",
                "v1beta1",
                "v3beta1",
                "v1",
                "v2",
                "v10"
            ]
        );
    }
}
