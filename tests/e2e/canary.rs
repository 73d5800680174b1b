//! A word that tests put into the objects they make, and look for in everything that Hawser tells.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use testbed::Use;

/// No process may tell of it, whatever the test.
pub(crate) const CANARY: &str = "canary7Yf3bird";
/// How Secrets have it, whatever follows it.
const ENCODED: &str = "Y2FuYXJ5N1lmM2Jp";
/// All of it, as a Secret has it.
pub(crate) const WHOLE_ENCODED: &str = "Y2FuYXJ5N1lmM2JpcmQ=";
/// Where it is in objects that have nothing better.
pub(crate) const ANNOTATION: &str = "example.com/canary";
/// A field or key that has it.
pub(crate) const FIELD: &str = "canary";

/// Whether a text has the word in it.
pub(crate) fn is_told(text: &str) -> bool {
    text.contains(CANARY) || text.contains(ENCODED)
}

/// Fails where a text has the word in it, and shows what is around it.
#[track_caller]
pub(crate) fn assert_untold(what: &str, text: &str) {
    let told: Vec<&str> = text.lines().filter(|line| is_told(line)).take(5).collect();
    assert_eq!(told, [""; 0], "{what}: this is what an object contains");
}

/// An object with the word in it, as it is made in a collection.
pub(crate) fn planted(collection: &str, object: &Value) -> Value {
    let mut object = object.clone();
    let plural = collection.rsplit('/').next().unwrap_or_default();
    plant(plural, &mut object);
    if plural == "works" {
        let manifests = object.pointer_mut("/spec/workload/manifests");
        let manifests = manifests.and_then(Value::as_array_mut);
        for manifest in manifests.into_iter().flatten() {
            let kind = manifest["kind"].as_str().unwrap_or_default();
            plant(&format!("{}s", kind.to_lowercase()), manifest);
        }
    }
    if let Some(plural) = plural.strip_prefix("federated")
        && let Some(template) = object.pointer_mut("/spec/template")
        && template.is_object()
    {
        template["metadata"]["annotations"][ANNOTATION] = CANARY.into();
        plant(plural, template);
    }
    object
}

/// Puts the word among the annotations, and into the data of kinds that have any.
fn plant(plural: &str, object: &mut Value) {
    if !object["metadata"].is_object() {
        return;
    }
    object["metadata"]["annotations"][ANNOTATION] = CANARY.into();
    // Tests compare the data of others.
    if plural == "secrets"
        && let Some(data) = object["data"].as_object_mut()
    {
        data.insert(FIELD.to_owned(), WHOLE_ENCODED.into());
    }
}

/// The definition of a kind that is strict about its spec, and quotes what it refuses.
pub(crate) fn strict(group: &str, kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let (mut spec, mut status) = (open.clone(), open);
    status["properties"] = json!({"phase": {"type": "string", "enum": ["Ready"]}});
    spec["properties"] = json!({
        "code": {"type": "string", "pattern": "^[0-9]*$"},
        "tier": {"type": "string", "enum": ["small", "large"]},
        "size": {"type": "integer"},
        "token": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    });
    spec["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.token) || self.token == 'right'",
        "messageExpression": "'the token ' + self.token + ' is wrong'",
    }]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}

/// A world whose processes write logs.
pub(crate) trait Logging: Send + Sync + 'static {
    /// The directory of the logs.
    fn logs(&self) -> &Path;
}

/// Fails where a log has the word in it.
pub(crate) fn assert_logs_untold(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A log may have bytes of a line that is not complete yet.
        let log = fs::read(entry.path()).unwrap_or_default();
        let name = entry.file_name();
        assert_untold(&name.to_string_lossy(), &String::from_utf8_lossy(&log));
    }
}

/// The use of a world that tests share. As it ends, the logs are looked through.
pub(crate) struct LoggedUse<W: Logging>(Use<W>);

impl<W: Logging> LoggedUse<W> {
    pub(crate) fn new(of: Use<W>) -> Self {
        Self(of)
    }
}

impl<W: Logging> Deref for LoggedUse<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.0
    }
}

impl<W: Logging> Drop for LoggedUse<W> {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_logs_untold(self.0.logs());
        }
    }
}
