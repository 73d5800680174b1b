//! Events on an export, for whoever looks at it in kcp. Best effort.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::connection::{Call, CallClass, Connection};
use crate::publish::export::Notice;

/// Of objects outside of namespaces.
const EVENTS: &str = "/api/v1/namespaces/default/events";
const COMPONENT: &str = "syncagent-apiexport";
/// The longest message that a server takes, in bytes.
const LONGEST_MESSAGE: usize = 1024;
/// Stands for the rest of a message.
const MORE: &str = " …";
/// What is left of an export's name in the name of its event, which has an end of its own.
const LONGEST_NAME: usize = 220;

/// Sends an event about an export. Whether it arrives is nobody's concern.
pub(super) fn send(
    workspace: &Connection,
    export: &Value,
    notice: &Notice,
) -> BoxFuture<'static, ()> {
    let event = event(export, notice, Timestamp::now());
    let call = Call::post(EVENTS, &event).class(CallClass::Event);
    let workspace = workspace.clone();
    async move {
        match workspace.ask(call).await {
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "an event on the export was dropped"),
        }
    }
    .boxed()
}

fn event(export: &Value, notice: &Notice, now: Timestamp) -> Value {
    let metadata = &export["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let stem = beginning(name, LONGEST_NAME).trim_end_matches(['.', '-']);
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "namespace": "default",
            "name": format!("{stem}.{:x}{}", now.as_nanosecond(), tail(notice.reason)),
        },
        "involvedObject": {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "name": name,
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        },
        "type": if notice.warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": shortened(&notice.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": seconds, "lastTimestamp": seconds, "count": 1,
    })
}

/// Events of one write may fall into one tick of the clock: their reasons tell them apart.
fn tail(reason: &str) -> String {
    format!(".{}", reason.to_ascii_lowercase())
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

    fn notice(message: &str) -> Notice {
        Notice {
            warning: true,
            reason: "RemovingResourceSchemas",
            message: message.to_owned(),
        }
    }

    #[test]
    fn an_event_names_the_export_and_the_component_of_the_original() {
        let export = json!({"metadata": {"name": "things", "uid": "u", "resourceVersion": "7"}});
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let event = event(&export, &notice("Gone."), now);
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
        let export = json!({"metadata": {"name": "ä".repeat(250)}});
        let event = event(&export, &notice(&"ä".repeat(2000)), Timestamp::UNIX_EPOCH);
        let length = |value: &Value| value.as_str().unwrap().len();
        assert!(length(&event["metadata"]["name"]) <= 253);
        assert!(length(&event["message"]) <= LONGEST_MESSAGE);
        assert!(event["message"].as_str().unwrap().ends_with('…'));
    }
}
