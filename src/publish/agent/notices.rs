//! Events for owners: on the export in kcp, on published resources on the service cluster. They are best effort:
//! dropped if the server is busy or refuses them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;

use hawser_runtime::cluster::connection::{Call, CallClass, Connection};

/// The namespace of events about objects without namespace.
const EVENTS: &str = "/api/v1/namespaces/default/events";
/// The longest message that a server takes, in bytes.
const LONGEST_MESSAGE: usize = 1024;
/// Replaces the rest of a long message.
const MORE: &str = " …";
/// The longest part of an object's name in the name of its event, which has a suffix of its own.
const LONGEST_NAME: usize = 200;
/// The time limit for sending an event.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The data of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice<'n> {
    /// The object, without a namespace. Only its kind and metadata are used.
    pub(super) about: &'n Value,
    pub(super) component: &'static str,
    /// `Normal` or `Warning`.
    pub(super) kind: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: &'n str,
}

/// Sends an event. Failures are ignored.
pub(super) async fn send(connection: &Connection, notice: Notice<'_>) {
    let event = event(notice, Timestamp::now());
    let call = Call::post(EVENTS, &event).class(CallClass::Event);
    let reason = notice.reason;
    match timeout(MAX_WAIT, connection.ask(call)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, reason, "dropped an event"),
        Err(_) => tracing::debug!(reason, "dropped an event: no answer"),
    }
}

fn event(notice: Notice<'_>, now: Timestamp) -> Value {
    let about = notice.about;
    let metadata = &about["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let stem = beginning(name, LONGEST_NAME).trim_end_matches(['.', '-']);
    // Events of one write may have the same timestamp; the reason keeps their names apart.
    let tail = notice.reason.to_ascii_lowercase();
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "namespace": "default",
            "name": format!("{stem}.{:x}.{tail}", now.as_nanosecond()),
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"], "kind": about["kind"], "name": name,
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        },
        "type": notice.kind,
        "reason": notice.reason,
        "message": shortened(notice.message),
        "source": {"component": notice.component},
        "reportingComponent": notice.component,
        "firstTimestamp": seconds, "lastTimestamp": seconds, "count": 1,
    })
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    format!("{}{MORE}", beginning(message, LONGEST_MESSAGE - MORE.len()))
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice<'n>(about: &'n Value, message: &'n str) -> Notice<'n> {
        Notice {
            about,
            component: "syncagent-apiexport",
            kind: "Warning",
            reason: "RemovingResourceSchemas",
            message,
        }
    }

    #[test]
    fn an_event_names_what_it_is_about_and_the_component_of_the_original() {
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
            "metadata": {"name": "things", "uid": "u", "resourceVersion": "7"},
        });
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let event = event(notice(&export, "Gone."), now);
        assert_eq!(
            event["involvedObject"],
            json!({
                "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "name": "things",
                "uid": "u", "resourceVersion": "7",
            })
        );
        assert_eq!(event["source"]["component"], "syncagent-apiexport");
        assert_eq!(
            (&event["type"], &event["message"]),
            (&json!("Warning"), &json!("Gone."))
        );
        assert_eq!(event["firstTimestamp"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn long_names_and_messages_are_cut_between_characters() {
        let about = json!({"metadata": {"name": "ä".repeat(250)}});
        let event = event(notice(&about, &"ä".repeat(2000)), Timestamp::UNIX_EPOCH);
        let length = |value: &Value| value.as_str().unwrap().len();
        assert!(length(&event["metadata"]["name"]) <= 253);
        assert!(length(&event["message"]) <= LONGEST_MESSAGE);
        assert!(event["message"].as_str().unwrap().ends_with('…'));
    }
}
