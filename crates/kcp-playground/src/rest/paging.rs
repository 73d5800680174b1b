//! Continue tokens of paginated lists, in the form of kube-apiserver.
//!
//! Clients should not decode a token, but people and tests do. So it has the content of a real one: the revision, and
//! the key to continue after, without the common prefix of the list's keys.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use serde::{Deserialize, Serialize};

use crate::status::Status;
use crate::store::{Name, Place, Range};
use kube_lang::go_text::quote;

const VERSION: &str = "meta.k8s.io/v1";
/// The placeholder for the current revision.
const ANY: i64 = -1;

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The beginning of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// `None`: the current state.
    pub(super) revision: Option<u64>,
    pub(super) from: Place,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

/// The token for the page after an object.
pub(super) fn next_page(revision: u64, range: &Range, last: &Place) -> String {
    let next = Place {
        name: format!("{}\0", last.name).into(),
        ..last.clone()
    };
    encode(i64::try_from(revision).unwrap_or(i64::MAX), range, &next)
}

/// The error for a token whose state is no longer available. Its own token continues with the current state.
pub(super) fn expired(range: &Range, from: &Place) -> Status {
    Status {
        next_page: Some(encode(ANY, range, from).into()),
        ..Status::expired(EXPIRED)
    }
}

fn encode(rv: i64, range: &Range, from: &Place) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if range.cluster.is_none() {
        parts.push(&from.cluster);
    }
    if range.namespace.is_none() && !from.namespace.is_empty() {
        parts.push(&from.namespace);
    }
    parts.push(&from.name);
    let wire = Wire {
        v: VERSION.to_owned(),
        rv,
        start: parts.join("/"),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_string(&wire).unwrap_or_default())
}

impl Token {
    pub(super) fn decode(text: &str, range: &Range) -> Result<Self, Status> {
        read(text, range).map_err(|why| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        })
    }
}

fn read(text: &str, range: &Range) -> Result<Token, String> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })?;
    let wire: Wire = serde_json::from_slice(&json).map_err(|error| match json.first() {
        None => "unexpected end of JSON input".to_owned(),
        Some(first) if !first.is_ascii() || first.is_ascii_alphabetic() => {
            let first = quote(&char::from(*first).to_string());
            let first = first.trim_matches('"');
            format!("invalid character '{first}' looking for beginning of value")
        }
        Some(_) => error.to_string(),
    })?;
    if wire.v != VERSION {
        return Err(format!(
            "server does not recognize this encoded version {}",
            wire.v
        ));
    }
    if wire.rv == 0 {
        return Err(format!(
            "incorrect encoded start resourceVersion (version {VERSION})"
        ));
    }
    if wire.start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
    // A token cannot lead outside of the list's range.
    if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(wire.start);
    }
    Ok(Token {
        revision: u64::try_from(wire.rv).ok(),
        from: place(start, range),
    })
}

/// The first index that is not before a key.
fn place(start: &str, range: &Range) -> Place {
    let mut parts = start.split('/').map(Name::from);
    let mut part = |known: &Option<Name>| match known {
        Some(known) => known.clone(),
        None => parts.next().unwrap_or_else(|| "".into()),
    };
    let cluster = part(&range.cluster);
    let rest: Vec<Name> = parts.collect();
    let none = || Name::from("");
    let (namespace, name) = match (&range.namespace, &*rest) {
        (Some(namespace), [name, ..]) | (None, [namespace, name, ..]) => {
            (namespace.clone(), name.clone())
        }
        (None, [name]) => (none(), name.clone()),
        (namespace, []) => (namespace.clone().unwrap_or_else(none), none()),
    };
    Place {
        cluster,
        namespace,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Table;

    fn range(cluster: Option<&str>, namespace: Option<&str>) -> Range {
        Range {
            table: Table::new("", "configmaps", ""),
            cluster: cluster.map(Name::from),
            namespace: namespace.map(Name::from),
        }
    }

    fn place_of(cluster: &str, namespace: &str, name: &str) -> Place {
        Place {
            cluster: cluster.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[track_caller]
    fn check(cluster: Option<&str>, namespace: Option<&str>, last: &Place, start: &str) {
        let range = range(cluster, namespace);
        let token = next_page(7, &range, last);
        let json = URL_SAFE_NO_PAD.decode(&token).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"v": VERSION, "rv": 7, "start": start})
        );
        let decoded = Token::decode(&token, &range).unwrap();
        assert_eq!(decoded.revision, Some(7));
        assert!(decoded.from > *last);
        assert_eq!(decoded.from.name, format!("{}\0", last.name).into());
    }

    #[test]
    fn tokens_say_what_is_new_below_the_range() {
        let last = place_of("root", "ns", "a");
        check(Some("root"), Some("ns"), &last, "a\0");
        check(Some("root"), None, &last, "ns/a\0");
        check(None, None, &last, "root/ns/a\0");
        check(None, Some("ns"), &last, "root/a\0");
        check(Some("root"), None, &place_of("root", "", "a"), "a\0");
        check(None, None, &place_of("root", "", "a"), "root/a\0");
    }

    #[track_caller]
    fn refused(json: impl AsRef<[u8]>, why: &str) {
        let text = URL_SAFE_NO_PAD.encode(json);
        let status = Token::decode(&text, &range(Some("root"), None)).unwrap_err();
        let begin = "invalid continue token: continue key is not valid: ";
        assert_eq!(
            (status.code, status.message),
            (400, format!("{begin}{why}"))
        );
    }

    #[test]
    fn what_is_no_token_is_refused_for_what_is_wrong_with_it() {
        refused("i", "invalid character 'i' looking for beginning of value");
        refused(
            [0x9e],
            "invalid character '\\u009e' looking for beginning of value",
        );
        refused(
            r#"{"v":"meta.k8s.io/v2","rv":1,"start":"a"}"#,
            "server does not recognize this encoded version meta.k8s.io/v2",
        );
        refused(
            r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        );
        refused(
            r#"{"v":"meta.k8s.io/v1","rv":1}"#,
            "encoded start key empty (version meta.k8s.io/v1)",
        );
        refused(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#, "../a");
        let status = Token::decode("!", &range(None, None)).unwrap_err();
        assert!(
            status
                .message
                .ends_with("illegal base64 data at input byte 0")
        );
    }

    #[test]
    fn who_is_told_that_a_token_is_too_old_may_go_on_with_the_present() {
        let range = range(Some("root"), None);
        let from = place_of("root", "ns", "a\0");
        let status = expired(&range, &from);
        let next = status.to_json()["metadata"]["continue"].clone();
        let token = Token::decode(next.as_str().unwrap(), &range).unwrap();
        assert_eq!(
            token,
            Token {
                revision: None,
                from
            }
        );
    }
}
