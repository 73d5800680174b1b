//! Versions: hashes of template and overrides, versions of copies, and the `PropagatedVersion` that stores them, with
//! the same bytes as KubeFed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};
use serde_json::{Map, Number, Value, json};

use kube_lang::go_json;
use kube_lang::object::{Object, numbers};

use crate::types::CORE_GROUP;
use crate::types::propagated::{ClusterObjectVersion, PropagatedVersionStatus};

/// The hashes that copies were made from, and the version of each copy after its last write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    pub template: String,
    pub overrides: String,
    pub copies: BTreeMap<String, String>,
}

/// The hash of the template; empty if there is none.
pub fn template_hash(federated: &Object) -> String {
    match spec(federated).and_then(|spec| spec.get("template")) {
        None | Some(Value::Null) => String::new(),
        Some(template) => hash(&with_go_integers(template)),
    }
}

/// The hash of the overrides; empty if the object has no spec.
pub fn overrides_hash(federated: &Object) -> String {
    let Some(spec) = spec(federated) else {
        return String::new();
    };
    let overrides = match spec.get("overrides") {
        Some(Value::Array(entries)) => entries.iter().map(entry).collect(),
        _ => Value::Null,
    };
    hash(&json!({"overrides": overrides}))
}

fn spec(federated: &Object) -> Option<&Value> {
    federated.root().get("spec").filter(|spec| !spec.is_null())
}

/// An entry of the overrides as KubeFed's types serialise it.
fn entry(entry: &Value) -> Value {
    let mut out = Map::new();
    out.insert(
        "clusterName".into(),
        entry["clusterName"].as_str().unwrap_or_default().into(),
    );
    let steps = entry["clusterOverrides"].as_array();
    if let Some(steps) = steps.filter(|steps| !steps.is_empty()) {
        let steps = steps.iter().map(|step| {
            let mut out = Map::new();
            if let Some(op) = step["op"].as_str().filter(|op| !op.is_empty()) {
                out.insert("op".into(), op.into());
            }
            out.insert(
                "path".into(),
                step["path"].as_str().unwrap_or_default().into(),
            );
            if !step["value"].is_null() {
                out.insert("value".into(), with_floats(&step["value"]));
            }
            Value::Object(out)
        });
        out.insert("clusterOverrides".into(), steps.collect());
    }
    Value::Object(out)
}

fn hash(value: &Value) -> String {
    let digest = Md5::digest(go_json::line(value));
    let mut hex = String::with_capacity(32);
    for byte in digest {
        write!(hex, "{byte:02x}").expect("writing to a String does not fail");
    }
    hex
}

fn map_numbers(value: &Value, change: fn(&Number) -> Number) -> Value {
    match value {
        Value::Number(number) => Value::Number(change(number)),
        Value::Array(items) => items.iter().map(|item| map_numbers(item, change)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| (key.clone(), map_numbers(value, change)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn float(number: &Number) -> Number {
    let float = number.as_f64().and_then(Number::from_f64);
    float.unwrap_or_else(|| number.clone())
}

/// Converts every number to a 64-bit float.
fn with_floats(value: &Value) -> Value {
    map_numbers(value, float)
}

/// Keeps signed 64-bit integers, and converts all other numbers to a 64-bit float.
fn with_go_integers(value: &Value) -> Value {
    map_numbers(value, |number| {
        if number.is_i64() {
            number.clone()
        } else {
            float(number)
        }
    })
}

/// The version of a copy: its generation, or its resource version if its kind has no generations.
pub fn version(copy: &Object) -> String {
    let metadata = copy.root().get("metadata");
    let generation = metadata.and_then(|metadata| metadata.get("generation")?.as_i64());
    match generation.unwrap_or(0) {
        0 => format!("rv:{}", copy.resource_version().unwrap_or_default()),
        generation => format!("gen:{generation}"),
    }
}

/// Whether a copy has to be written. `wanted` is the rendered object with retained fields; `recorded` is the version
/// after the last write from the same template and overrides.
pub fn needs_update(wanted: &Object, copy: &Object, recorded: Option<&str>) -> bool {
    let version = version(copy);
    if version.starts_with("gen:") {
        return recorded != Some(&*version) || metadata_differs(wanted, copy);
    }
    match recorded {
        Some(recorded) if recorded == version => false,
        // Another client wrote it. If the content is still as rendered, another write could make both write for ever.
        Some(_) => metadata_differs(wanted, copy) || !holds(wanted.as_value(), copy.as_value()),
        None => true,
    }
}

fn metadata_differs(wanted: &Object, copy: &Object) -> bool {
    wanted.name() != copy.name()
        || wanted.namespace() != copy.namespace()
        || !wanted.labels().eq(copy.labels())
        || !wanted.annotations().eq(copy.annotations())
}

/// Whether a copy has all rendered fields, and no other data.
fn holds(wanted: &Value, copy: &Value) -> bool {
    let data = |field: &str| {
        let fields = |object: &Value| object[field].as_object().map_or(0, Map::len);
        fields(copy) <= fields(wanted)
    };
    let fields = wanted.as_object().into_iter().flatten();
    let mut fields = fields.filter(|(field, _)| *field != "metadata");
    fields.all(|(field, wanted)| contains(wanted, &copy[field]))
        && data("data")
        && data("binaryData")
}

fn contains(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Null, there) => there.is_null(),
        (Value::Object(wanted), there) if wanted.is_empty() => there.is_null() || there.is_object(),
        (Value::Object(wanted), Value::Object(there)) => wanted
            .iter()
            .all(|(field, wanted)| contains(wanted, there.get(field).unwrap_or(&Value::Null))),
        (Value::Array(wanted), Value::Array(there)) => {
            wanted.len() == there.len() && wanted.iter().zip(there).all(|(w, t)| contains(w, t))
        }
        (wanted, there) => numbers::same(wanted, there),
    }
}

impl Versions {
    /// The hashes of a federated object, without copies.
    pub fn of(federated: &Object) -> Self {
        Self {
            template: template_hash(federated),
            overrides: overrides_hash(federated),
            copies: BTreeMap::new(),
        }
    }

    pub fn read(status: &PropagatedVersionStatus) -> Self {
        let copies = status.cluster_versions.iter();
        Self {
            template: status.template_version.clone(),
            overrides: status.overrides_version.clone(),
            copies: copies
                .map(|copy| (copy.cluster_name.clone(), copy.version.clone()))
                .collect(),
        }
    }

    fn is_from(&self, other: &Self) -> bool {
        self.template == other.template && self.overrides == other.overrides
    }

    /// The recorded version of a copy, if it was made from the same hashes as `now`.
    pub fn recorded(&self, now: &Self, member: &str) -> Option<&str> {
        let same = self.is_from(now);
        let version = self.copies.get(member).filter(|_| same)?;
        Some(&**version).filter(|version| !version.is_empty())
    }

    /// The versions to store after a pass. `now` has the copies that the pass wrote; only `selected` members are kept.
    #[must_use]
    pub fn after(&self, mut now: Self, selected: impl Fn(&str) -> bool) -> Self {
        if self.is_from(&now) {
            for (member, version) in &self.copies {
                let slot = now.copies.entry(member.clone());
                slot.or_insert_with(|| version.clone());
            }
        }
        now.copies.retain(|member, _| selected(member));
        now
    }

    /// The status of the `PropagatedVersion`.
    pub fn status(&self) -> PropagatedVersionStatus {
        let copies = self.copies.iter();
        PropagatedVersionStatus {
            template_version: self.template.clone(),
            overrides_version: self.overrides.clone(),
            cluster_versions: copies
                .map(|(member, version)| ClusterObjectVersion {
                    cluster_name: member.clone(),
                    version: version.clone(),
                })
                .collect(),
        }
    }
}

/// The name of the `PropagatedVersion` of a federated object.
pub fn name(target_kind: &str, federated_name: &str) -> String {
    format!("{}-{federated_name}", target_kind.to_lowercase())
}

/// The new `PropagatedVersion`, owned by the federated object.
pub fn object(target_kind: &str, federated: &Object, versions: &Versions) -> Value {
    let mut metadata = json!({
        "name": name(target_kind, federated.name()),
        "ownerReferences": [{
            "apiVersion": federated.api_version(),
            "kind": federated.kind(),
            "name": federated.name(),
            "uid": federated.uid().unwrap_or_default(),
        }],
    });
    let kind = match federated.namespace() {
        Some(namespace) => {
            metadata["namespace"] = namespace.into();
            "PropagatedVersion"
        }
        None => "ClusterPropagatedVersion",
    };
    json!({
        "apiVersion": format!("{CORE_GROUP}/v1alpha1"),
        "kind": kind,
        "metadata": metadata,
        "status": versions.status(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn federated(spec: Value) -> Object {
        let mut object = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
            "metadata": {"name": "cm1", "namespace": "ns", "uid": "u-1"},
        });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        Object::new(object).unwrap()
    }

    #[test]
    fn templates_hash_as_in_the_original() {
        let of = |template: Value| template_hash(&federated(json!({"template": template})));
        for (template, wanted) in [
            (json!({}), "8a80554c91d9fca8acb82f023de02f11"),
            (
                json!({"data": {"foo": "bar"}}),
                "4682012eb72f035cfe2b227efe7ca8c8",
            ),
            (
                json!({"spec": {"replicas": 1}}),
                "b9a41951cd66e31c44e85998c24d0ed0",
            ),
            (
                json!({"spec": {"foo": null}}),
                "a5b8d4352d5aed51c51b93900258ccf3",
            ),
            (
                json!({"data": {"k": "<a>&b"}}),
                "6e9cc952b0f780bd97c1866eb0db33e2",
            ),
        ] {
            assert_eq!(of(template), wanted);
        }
        assert_eq!(template_hash(&federated(json!({}))), "");
        let (whole, same) = (json!({"a": 1.0}), json!({"a": 1}));
        assert_eq!(of(whole), of(same), "Go has one spelling");
        let (large, float) = (
            json!({"a": u64::MAX}),
            json!({"a": 18_446_744_073_709_551_615_f64}),
        );
        assert_eq!(of(large), of(float));
    }

    #[test]
    fn overrides_hash_as_in_the_original() {
        let of = |overrides: Value| overrides_hash(&federated(json!({"overrides": overrides})));
        let replicas =
            |step: Value| json!([{"clusterName": "cluster1", "clusterOverrides": [step]}]);
        let five = "d06b79278345cd4718235aec4020b063";
        assert_eq!(
            overrides_hash(&federated(json!({}))),
            "2979b7538b527abe06492021841caf47"
        );
        assert_eq!(of(Value::Null), "2979b7538b527abe06492021841caf47");
        assert_eq!(of(json!([])), "fd97e6d9a670c7dcdc2477764f78b459");
        assert_eq!(
            of(replicas(json!({"path": "/spec/replicas", "value": 5}))),
            five
        );
        assert_eq!(
            of(replicas(
                json!({"path": "/spec/replicas", "value": 5.0, "op": ""})
            )),
            five
        );
        assert_ne!(
            of(replicas(
                json!({"path": "/spec/replicas", "value": 5, "op": "add"})
            )),
            five
        );
        assert_eq!(
            of(json!([{"clusterName": "a"}])),
            of(json!([{"clusterName": "a", "clusterOverrides": [], "other": 1}]))
        );
        assert_ne!(
            of(json!([{"clusterName": "a"}, {"clusterName": "b"}])),
            of(json!([{"clusterName": "b"}, {"clusterName": "a"}])),
            "their order counts"
        );
        assert_eq!(overrides_hash(&federated(Value::Null)), "");
    }

    fn copy(metadata: Value, rest: Value) -> Object {
        let mut object = rest;
        object["metadata"] = metadata;
        Object::new(object).unwrap()
    }

    #[test]
    fn a_copy_is_known_by_its_generation_or_its_version() {
        let of = |metadata: Value| version(&copy(metadata, json!({})));
        assert_eq!(
            of(json!({"generation": 3, "resourceVersion": "9"})),
            "gen:3"
        );
        assert_eq!(of(json!({"generation": 0, "resourceVersion": "9"})), "rv:9");
        assert_eq!(of(json!({"resourceVersion": "9"})), "rv:9");
    }

    #[test]
    fn a_copy_with_a_generation_is_written_when_somebody_else_changed_it() {
        let there = |metadata: Value| copy(metadata, json!({"spec": {"replicas": 1}}));
        let now = there(json!({"name": "a", "generation": 2, "labels": {"l": "1"}}));
        let wanted = there(json!({"name": "a", "labels": {"l": "1"}}));
        assert!(!needs_update(&wanted, &now, Some("gen:2")));
        assert!(
            needs_update(&wanted, &now, Some("gen:1")),
            "also where its content is as wished"
        );
        assert!(needs_update(&wanted, &now, None));
        for other in [
            json!({"name": "a"}),
            json!({"name": "a", "labels": {"l": "1"}, "annotations": {"a": "1"}}),
        ] {
            assert!(needs_update(&there(other), &now, Some("gen:2")));
        }
        let empty = there(json!({"name": "a", "labels": {"l": "1"}, "annotations": {}}));
        assert!(
            !needs_update(&empty, &now, Some("gen:2")),
            "nothing is as good as empty"
        );
    }

    #[test]
    fn a_copy_without_a_generation_is_left_alone_while_it_has_what_is_wished() {
        let at = |version: &str, rest: Value| {
            copy(
                json!({"name": "a", "resourceVersion": version, "labels": {"l": "1"}}),
                rest,
            )
        };
        let wanted = at(
            "5",
            json!({"kind": "Secret", "data": {"k": "v"}, "immutable": null, "spec": {}}),
        );
        let annotated = at(
            "6",
            json!({"kind": "Secret", "data": {"k": "v"}, "type": "Opaque"}),
        );
        assert!(!needs_update(&wanted, &annotated, Some("rv:6")));
        assert!(!needs_update(&wanted, &annotated, Some("rv:5")));
        assert!(
            needs_update(&wanted, &annotated, None),
            "it was made from something else"
        );
        for data in [json!({"k": "w"}), json!({}), json!({"k": "v", "more": "x"})] {
            let changed = at("6", json!({"kind": "Secret", "data": data}));
            assert!(needs_update(&wanted, &changed, Some("rv:5")), "{data}");
        }
        let mut labelled = annotated.clone();
        labelled.set_label("own", "1");
        assert!(needs_update(&wanted, &labelled, Some("rv:5")));
    }

    fn versions(template: &str, copies: &[(&str, &str)]) -> Versions {
        let copies = copies.iter();
        Versions {
            template: template.into(),
            overrides: "o".into(),
            copies: copies
                .map(|(m, v)| ((*m).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn versions_count_while_template_and_overrides_are_the_same() {
        let recorded = versions("t", &[("c1", "gen:1"), ("c2", "")]);
        assert_eq!(recorded.recorded(&versions("t", &[]), "c1"), Some("gen:1"));
        assert_eq!(recorded.recorded(&versions("t", &[]), "c2"), None);
        assert_eq!(recorded.recorded(&versions("u", &[]), "c1"), None);
    }

    #[test]
    fn a_pass_keeps_what_is_still_true() {
        let before = versions("t", &[("c1", "gen:1"), ("c2", "gen:1"), ("c3", "gen:1")]);
        let selected = |member: &str| member != "c3";
        let now = versions("t", &[("c2", "gen:2")]);
        assert_eq!(
            before.after(now, selected),
            versions("t", &[("c1", "gen:1"), ("c2", "gen:2")])
        );
        let now = versions("u", &[("c2", "gen:2")]);
        assert_eq!(
            before.after(now.clone(), selected),
            now,
            "another template forgets the others"
        );
    }

    #[test]
    fn what_is_remembered_is_stored_as_the_original_stores_it() {
        let federated = federated(json!({"template": {}}));
        let now = Versions::of(&federated);
        assert_eq!(now.template, "8a80554c91d9fca8acb82f023de02f11");
        let versions = versions("t", &[("cluster2", "gen:1"), ("cluster1", "rv:3973")]);
        let stored = object("ConfigMap", &federated, &versions);
        assert_eq!(
            stored,
            json!({
                "apiVersion": "core.kubefed.io/v1alpha1",
                "kind": "PropagatedVersion",
                "metadata": {
                    "name": "configmap-cm1",
                    "namespace": "ns",
                    "ownerReferences": [{
                        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap", "name": "cm1", "uid": "u-1",
                    }],
                },
                "status": {
                    "templateVersion": "t",
                    "overridesVersion": "o",
                    "clusterVersions": [
                        {"clusterName": "cluster1", "version": "rv:3973"},
                        {"clusterName": "cluster2", "version": "gen:1"},
                    ],
                },
            })
        );
        let status: PropagatedVersionStatus =
            serde_json::from_value(stored["status"].clone()).unwrap();
        assert_eq!(Versions::read(&status), versions);
        let role = Object::new(json!({"metadata": {"name": "r"}})).unwrap();
        let stored = object("ClusterRole", &role, &versions);
        assert_eq!(stored["kind"], "ClusterPropagatedVersion");
    }
}
