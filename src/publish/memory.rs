//! The place of the last known states of an object and its related objects: the name of the Secret and its keys, as in
//! api-syncagent. [`codec`] reads and writes the content.

pub mod codec;

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::json;

use kube_lang::go_json;
use kube_lang::object::{Gvk, Object, numbers};

use super::hashes::{sha1_hex, sha1_short};
use super::marks::{self, Remote};

/// The first byte of compressed text.
const ZLIB: u8 = 0x78;
/// The limit for decompressed text: no server accepts a longer object.
const UNPACKED: u64 = 16 << 20;

/// The name of the Secret with the states of one object of a workspace. `api_version` and `kind` are those in the
/// workspace.
pub fn secret_name(remote: &Remote, api_version: &str, kind: &str) -> String {
    let identity = go_json::line(&json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": remote.name,
        "namespace": remote.namespace.as_deref().unwrap_or_default(),
    }));
    format!("obj-state-{}-{}", remote.cluster, sha1_short(&identity))
}

/// The key of a source's state in the Secret. `cluster` is empty for sources on the service cluster.
///
/// Neither the kind nor the workspace path is a part of it, as in api-syncagent.
pub fn key(cluster: &str, namespace: Option<&str>, name: &str) -> String {
    let mut text = String::from("{\"ClusterName\":");
    go_json::write_text(&mut text, cluster);
    text.push_str(",\"WorkspacePath\":\"\",\"Namespace\":");
    go_json::write_text(&mut text, namespace.unwrap_or_default());
    text.push_str(",\"Name\":");
    go_json::write_text(&mut text, name);
    text.push_str("}\n");
    sha1_hex(&text)
}

/// A stored state, if it is valid: an object with a kind. As in api-syncagent, everything else is ignored.
pub fn parse_snapshot(stored: &[u8]) -> Option<Object> {
    let mut value = serde_json::from_slice(stored).ok()?;
    numbers::unify(&mut value);
    let object = Object::new(value).ok()?;
    (!object.kind().is_empty()).then_some(object)
}

/// The object of a workspace whose states a Secret contains, and its kind; `None` if the name of the Secret does not
/// match its content.
pub fn primary_of(secret: &Object) -> Option<(Remote, Gvk)> {
    let cluster = secret.label(marks::CLUSTER)?;
    let data = secret.root().get("data")?.as_object()?;
    let snapshots = data.values().filter_map(|stored| {
        let text = stored_bytes(stored.as_str()?)?;
        parse_snapshot(&text)
    });
    let mut named = snapshots.map(|snapshot| (Remote::of(&snapshot, cluster), snapshot.gvk()));
    named.find(|(remote, kind)| {
        secret_name(remote, &kind.api_version(), &kind.kind) == secret.name()
    })
}

/// The value of a key in the Secret, decompressed if necessary: JSON never begins with that byte.
fn stored_bytes(stored: &str) -> Option<Vec<u8>> {
    let stored = STANDARD.decode(stored).ok()?;
    if stored.first() != Some(&ZLIB) {
        return Some(stored);
    }
    let mut text = Vec::new();
    let mut unpacked = ZlibDecoder::new(&*stored).take(UNPACKED);
    unpacked.read_to_end(&mut text).ok()?;
    Some(text)
}

/// The text of a state: compact JSON with sorted keys.
pub fn snapshot_text(state: &Object) -> String {
    go_json::to_string(state.as_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_tells_whose_states_it_keeps_where_its_name_bears_it_out() {
        let snapshot = r#"{"apiVersion":"kcp.example.com/v1","kind":"CronTab","metadata":{"name":"my-crontab","namespace":"default"}}"#;
        let secret = |name: &str| {
            let labels = json!({ marks::CLUSTER: "abc123" });
            let data = json!({ "a": "bm90aGluZw==", "b": STANDARD.encode(snapshot) });
            Object::new(json!({ "metadata": { "name": name, "labels": labels }, "data": data }))
                .unwrap()
        };
        let (remote, kind) = primary_of(&secret("obj-state-abc123-3d62e88a9631d524a143")).unwrap();
        assert_eq!((&*remote.cluster, &*remote.name), ("abc123", "my-crontab"));
        assert_eq!(kind, Gvk::new("kcp.example.com", "v1", "CronTab"));
        assert_eq!(primary_of(&secret("obj-state-abc123-another")), None);
    }

    #[test]
    fn the_secret_is_named_as_in_the_contract() {
        let remote = Remote {
            cluster: "abc123".into(),
            namespace: Some("default".into()),
            name: "my-crontab".into(),
        };
        assert_eq!(
            secret_name(&remote, "kcp.example.com/v1", "CronTab"),
            "obj-state-abc123-3d62e88a9631d524a143"
        );
    }

    #[test]
    fn keys_are_those_of_the_contract() {
        assert_eq!(
            key("abc123", Some("ns"), "nm"),
            "ea39c22807bb0df2985ecfb7b778263584c557f2"
        );
        assert_eq!(
            key("", Some("ns"), "nm"),
            "94814a6351abe191bc6c80d0550db258fa998c98"
        );
    }

    #[test]
    fn a_state_that_the_original_wrote_is_read_and_written_alike() {
        let text = r#"{"apiVersion":"remote.example.corp/v1alpha1","kind":"RemoteThing","metadata":{"name":"my-test-thing"},"spec":{"kink":"","username":"Colonel Mustard"}}"#;
        let state = parse_snapshot(format!("{text}\n").as_bytes()).unwrap();
        assert_eq!(snapshot_text(&state), text);
        for broken in ["", "[]", "{", "{\"apiVersion\":\"v1\"}"] {
            assert_eq!(parse_snapshot(broken.as_bytes()), None, "{broken}");
        }
    }
}
