//! The order of API versions by preference.

use std::cmp::{Ordering, Reverse};

/// The sort key: stability, then numbers. The greatest is preferred.
type Rank = (u8, u64, u64);

/// Preferred first: stable before beta before alpha, then higher numbers. Versions that do not have the form of
/// Kubernetes versions come last, in alphabetical order.
pub(crate) fn prefer(left: &str, right: &str) -> Ordering {
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => Reverse(left).cmp(&Reverse(right)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

fn rank(version: &str) -> Option<Rank> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = number(rest)?;
    let (stability, rest) = match rest {
        "" => return Some((2, major, 0)),
        _ => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(rest), _) => (1, rest),
            (None, Some(rest)) => (0, rest),
            (None, None) => return None,
        },
    };
    let (minor, rest) = number(rest)?;
    rest.is_empty().then_some((stability, major, minor))
}

/// A number, and the text after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_kubernetes_prefers_them() {
        let want = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1alpha",
            "v1gamma2",
        ];
        let mut got = want;
        got.reverse();
        got.sort_by(|a, b| prefer(a, b));
        assert_eq!(got, want);
    }
}
