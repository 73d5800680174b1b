//! An event as an object of `v1`. Pure: the caller passes the time and the unique part of the name.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use hawser_sync::Key;

use super::rates::Counted;

/// Events of cluster-scoped objects are in this namespace.
const CLUSTER_WIDE: &str = "default";
const LONGEST_NAME: usize = 253;

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventText {
    /// The component that reports the event.
    pub component: Cow<'static, str>,
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    pub reason: Cow<'static, str>,
    pub message: String,
}

/// The object of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvolvedObject {
    pub key: Key,
    pub uid: Option<Arc<str>>,
}

impl InvolvedObject {
    pub(super) fn namespace(&self) -> &str {
        self.key.namespace.as_deref().unwrap_or(CLUSTER_WIDE)
    }
}

/// The data of an event.
pub(super) struct Draft<'a> {
    pub(super) about: &'a InvolvedObject,
    pub(super) text: &'a EventText,
    pub(super) counted: Counted,
    pub(super) now: Timestamp,
    /// Unique for each event.
    pub(super) unique: &'a str,
}

impl Draft<'_> {
    pub(super) fn object(&self) -> Value {
        let Self { about, text, .. } = self;
        let key = &about.key;
        let mut involved = json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.kind,
            "name": &*key.name,
        });
        let optional = [("namespace", &key.namespace), ("uid", &about.uid)];
        for (field, value) in optional {
            if let Some(value) = value {
                involved[field] = Value::from(&**value);
            }
        }
        let first = SignedDuration::try_from(self.counted.first)
            .ok()
            .and_then(|age| self.now.checked_sub(age).ok());
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "namespace": about.namespace(),
                "name": name(&key.name, self.unique),
            },
            "involvedObject": involved,
            "reason": text.reason,
            "message": text.message,
            "type": text.kind,
            "source": { "component": text.component },
            "reportingComponent": text.component,
            "reportingInstance": "",
            "firstTimestamp": seconds(first.unwrap_or(self.now)),
            "lastTimestamp": seconds(self.now),
            "count": self.counted.count,
        })
    }
}

fn seconds(time: Timestamp) -> String {
    let whole = time.as_duration().as_secs();
    Timestamp::from_second(whole).unwrap_or(time).to_string()
}

/// The object's name and a unique part. Names that are not valid in events, as some kinds have them, are left out.
fn name(object: &str, unique: &str) -> String {
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let room = LONGEST_NAME.saturating_sub(unique.len() + 1);
    let start = &object[..object.floor_char_boundary(room)];
    let start = start.trim_end_matches(['-', '.']);
    if start.split('.').all(label) {
        format!("{start}.{unique}")
    } else {
        format!("object.{unique}")
    }
}

#[cfg(test)]
mod tests;
