//! The grammar of workspace paths, and of the cluster segment in URLs. Another module resolves them, with the store.

use std::fmt;

/// The longest segment of a path.
const LONGEST_SEGMENT: usize = 63;

/// The text between `/clusters/` and the next slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterRef {
    /// `*`: every cluster.
    Wildcard,
    Path(Path),
}

/// A non-empty list of names separated by colons; the first may also be the id of a logical cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Path(String);

/// The reason why a text is not a cluster reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterPathError {
    #[error("invalid cluster: {0:?} does not match the regex")]
    Grammar(String),
    #[error("invalid cluster: {0:?} has a segment longer than {LONGEST_SEGMENT} characters")]
    TooLong(String),
    #[error("invalid cluster: {0:?} is reserved for the system")]
    Reserved(String),
}

impl ClusterRef {
    pub(crate) fn parse(text: &str) -> Result<Self, ClusterPathError> {
        if text == "*" {
            return Ok(Self::Wildcard);
        }
        Path::parse(text).map(Self::Path)
    }
}

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Self, ClusterPathError> {
        if !text.split(':').all(is_segment) {
            return Err(ClusterPathError::Grammar(text.to_owned()));
        }
        if text.split(':').any(|s| s.len() > LONGEST_SEGMENT) {
            return Err(ClusterPathError::TooLong(text.to_owned()));
        }
        if text.starts_with("system:") {
            return Err(ClusterPathError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split(':')
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a child of a workspace.
pub(crate) fn child(parent: &str, name: &str) -> String {
    format!("{parent}:{name}")
}

/// The path one level up, where there is one.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once(':').map(|(parent, _)| parent)
}

/// Lower-case letters, digits, and dashes between them.
fn is_segment(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|b| edge(*b) || *b == b'-')
        }
        _ => false,
    }
}

/// Whether a workspace may have this name.
pub(crate) fn is_workspace_name(text: &str) -> bool {
    is_segment(text) && text.len() <= LONGEST_SEGMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, message: &str) {
        assert_eq!(ClusterRef::parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_path_is_names_joined_by_colons() {
        for text in ["root", "root:my-org:team-1", "2vkmp8gkh3m5bh3q:child", "a"] {
            let ClusterRef::Path(path) = ClusterRef::parse(text).unwrap() else {
                panic!("{text} is no wildcard");
            };
            assert_eq!(path.as_str(), text);
        }
        assert_eq!(ClusterRef::parse("*"), Ok(ClusterRef::Wildcard));
    }

    #[test]
    fn whatever_is_no_path_is_refused_with_what_was_sent() {
        for text in [
            "", ":", "root:", ":root", "Root", "a_b", "-a", "a-", "root:*", "ä", "a b", "a::b",
        ] {
            refused(
                text,
                &format!("invalid cluster: {text:?} does not match the regex"),
            );
        }
        let long = "a".repeat(64);
        refused(
            &long,
            &format!("invalid cluster: {long:?} has a segment longer than 63 characters"),
        );
        refused(
            "system:admin",
            "invalid cluster: \"system:admin\" is reserved for the system",
        );
    }

    #[test]
    fn parents_and_children_are_inverse() {
        assert_eq!(parent(&child("root:org", "team")), Some("root:org"));
        assert_eq!(parent("root"), None);
    }
}
