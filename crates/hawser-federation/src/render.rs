//! Rendering of a member's object: template, retained fields, overrides, managed label, in this order.

use serde_json::{Map, Value, json};

use kube_lang::names::is_community_domain;
use kube_lang::object::pointer::unescape;
use kube_lang::object::{Object, ObjectError, json_type};

use crate::overrides::patch::{self, PatchError, Step};
use crate::retention::{RetentionError, retain};
use crate::status::CopyStatus;
use crate::types::MANAGED;
use crate::types::type_config::ApiResource;

/// The path of an override of a single annotation, before its key.
const ANNOTATION_PATH: &str = "/metadata/annotations/";

/// A field of the template that is ignored, because controllers in the members own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Annotations,
    Finalizers,
}

/// The use of a template's annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateAnnotations {
    /// They are ignored, as KubeFed ignores them.
    #[default]
    Ignored,
    /// They are set beside those of the copy.
    Federated,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub object: Object,
    pub ignored: Vec<Ignored>,
}

/// The reason why an object cannot be rendered. Nothing is written to the member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{field} must be an object, found {found}")]
    Template {
        field: &'static str,
        found: &'static str,
    },
    #[error("the object is malformed: {0}")]
    Malformed(#[from] ObjectError),
    /// It would be the copy of another object, or of none.
    #[error(
        "overrides change the kind, name or namespace of the object: change parts of /metadata only"
    )]
    Renamed,
    #[error(transparent)]
    Retention(#[from] RetentionError),
    #[error(transparent)]
    Overrides(#[from] PatchError),
}

impl RenderError {
    /// The status of a copy that cannot be rendered.
    pub fn status(&self) -> CopyStatus {
        match self {
            Self::Template { .. } | Self::Malformed(_) => CopyStatus::ComputeResourceFailed,
            Self::Retention(_) => CopyStatus::FieldRetentionFailed,
            Self::Overrides(_) | Self::Renamed => CopyStatus::ApplyOverridesFailed,
        }
    }
}

impl Ignored {
    /// The reason of its event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Annotations => "AnnotationsNotSupported",
            Self::Finalizers => "FinalizersNotSupported",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Annotations => "annotations",
            Self::Finalizers => "finalizers",
        }
    }

    pub fn message(self) -> String {
        format!(
            "metadata.{} cannot be set via template to avoid conflicting with controllers in member clusters. \
             Consider using an override to add or remove elements from this collection.",
            self.field()
        )
    }
}

/// Renders the object of one member. `steps` are the member's overrides; `copy` is the existing object.
pub fn render(
    federated: &Object,
    target: &ApiResource,
    steps: &[Step],
    copy: Option<&Object>,
    annotations: TemplateAnnotations,
) -> Result<Rendered, RenderError> {
    let spec = federated.root().get("spec").unwrap_or(&Value::Null);
    let mut root = object(spec.get("template"), "spec.template")?;
    let mut metadata = object(root.get("metadata"), "spec.template.metadata")?;
    let mut given = Map::new();
    if annotations == TemplateAnnotations::Federated {
        let there = metadata.remove("annotations");
        given = object(there.as_ref(), "spec.template.metadata.annotations")?;
    }
    let mut ignored = Vec::new();
    for part in [Ignored::Annotations, Ignored::Finalizers] {
        let there = metadata.remove(part.field());
        if there.is_some_and(|value| !is_empty(&value)) {
            ignored.push(part);
        }
    }
    metadata.insert("name".into(), federated.name().into());
    match federated.namespace().filter(|_| target.is_namespaced()) {
        Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
        None => metadata.remove("namespace"),
    };
    root.insert("metadata".into(), Value::Object(metadata));
    root.insert("kind".into(), target.kind.clone().into());
    let version = root.get("apiVersion").and_then(Value::as_str);
    if version.is_none_or(str::is_empty) {
        root.insert("apiVersion".into(), target.gvk().api_version().into());
    }

    let mut wanted = Value::Object(root);
    if let Some(copy) = copy {
        retain(&mut wanted, copy, federated)?;
    }
    if !given.is_empty() {
        let annotations = &mut wanted["metadata"]["annotations"];
        match annotations {
            Value::Object(own) => own.extend(given),
            _ => *annotations = given.into(),
        }
    }
    let identity = |object: &Value| {
        let metadata = &object["metadata"];
        let parts = [&object["kind"], &metadata["name"], &metadata["namespace"]];
        parts.map(|part| part.as_str().unwrap_or_default().to_owned())
    };
    let before = identity(&wanted);
    patch::apply(&mut wanted, steps)?;
    if let Some(copy) = copy {
        keep_reserved_annotations(&mut wanted, copy, steps);
    }
    if identity(&wanted) != before {
        return Err(RenderError::Renamed);
    }
    drop_malformed_labels(&mut wanted);
    let mut object = Object::new(wanted)?;
    object.set_label(MANAGED, "true");
    Ok(Rendered { object, ignored })
}

/// Whether an object opts out of management.
pub fn opted_out(copy: &Object) -> bool {
    copy.label(MANAGED) == Some("false")
}

/// Whether an object is managed by the control plane.
pub fn is_managed(copy: &Object) -> bool {
    copy.label(MANAGED) == Some("true")
}

fn object(value: Option<&Value>, field: &'static str) -> Result<Map<String, Value>, RenderError> {
    match value.unwrap_or(&Value::Null) {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields.clone()),
        other => Err(RenderError::Template {
            field,
            found: json_type(other),
        }),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Keeps the copy's annotations that are reserved for Kubernetes where an override replaces all annotations. The
/// controllers of the member write them again at once, such as the revision of a Deployment. An override that names one
/// of them applies.
fn keep_reserved_annotations(wanted: &mut Value, copy: &Object, steps: &[Step]) {
    let named = |key: &str| {
        let mut keys = (steps.iter()).filter_map(|step| step.path.strip_prefix(ANNOTATION_PATH));
        keys.any(|named| unescape(named) == key)
    };
    let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for (key, value) in copy.annotations() {
        if !is_reserved(key) || named(key) {
            continue;
        }
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.entry(key).or_insert_with(|| value.into());
        }
    }
}

/// Whether a key has a prefix that is reserved for Kubernetes.
fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/');
    prefix.is_some_and(|(prefix, _)| is_community_domain(prefix))
}

/// Removes labels that are no map of strings, as KubeFed does when it sets the managed label.
fn drop_malformed_labels(wanted: &mut Value) {
    let Some(Value::Object(metadata)) = wanted.get_mut("metadata") else {
        return;
    };
    let texts = |labels: &Value| {
        let labels = labels.as_object();
        labels.is_some_and(|labels| labels.values().all(Value::is_string))
    };
    if metadata.get("labels").is_some_and(|labels| !texts(labels)) {
        metadata.remove("labels");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overrides;

    fn target(group: &str, kind: &str, scope: &str) -> ApiResource {
        ApiResource {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural_name: format!("{}s", kind.to_lowercase()),
            scope: scope.into(),
        }
    }

    fn federated(spec: &Value) -> Object {
        Object::new(json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
            "metadata": {"name": "cm", "namespace": "ns", "labels": {"not": "taken"}},
            "spec": spec,
        }))
        .unwrap()
    }

    fn rendered(spec: &Value, copy: Option<&Object>) -> Result<Rendered, RenderError> {
        let federated = federated(spec);
        let mut steps = overrides::read(&federated).unwrap();
        let steps = steps.remove("c").unwrap_or_default();
        let target = target("", "ConfigMap", "Namespaced");
        let annotations = TemplateAnnotations::Ignored;
        render(&federated, &target, &steps, copy, annotations)
    }

    #[test]
    fn a_copy_is_the_template_under_the_name_of_the_federated_object() {
        let spec = json!({"template": {
            "metadata": {"name": "other", "namespace": "other", "labels": {"a": "b"}, "generateName": "g-", "ownerReferences": []},
            "data": {"k": "v"},
        }});
        let got = rendered(&spec, None).unwrap();
        assert_eq!(
            got.object.as_value(),
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                "metadata": {
                    "name": "cm", "namespace": "ns", "generateName": "g-", "ownerReferences": [],
                    "labels": {"a": "b", "kubefed.io/managed": "true"},
                },
            })
        );
        assert!(got.ignored.is_empty());
        let empty = rendered(&json!({}), None).unwrap();
        assert_eq!(
            empty.object.as_value(),
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "cm", "namespace": "ns", "labels": {"kubefed.io/managed": "true"}},
            })
        );
    }

    #[test]
    fn the_version_of_a_template_counts_and_its_kind_does_not() {
        let federated =
            federated(&json!({"template": {"apiVersion": "apps/v1beta1", "kind": "Other"}}));
        let target = target("apps", "Deployment", "Cluster");
        let got = render(&federated, &target, &[], None, TemplateAnnotations::Ignored).unwrap();
        assert_eq!(got.object.gvk().to_string(), "apps/v1beta1 Deployment");
        assert_eq!(
            got.object.namespace(),
            None,
            "its target is in no namespace"
        );
    }

    #[test]
    fn annotations_of_a_template_are_set_beside_those_of_the_copy_where_that_is_switched_on() {
        let annotated = |annotations: Value| {
            let metadata = json!({"annotations": annotations});
            federated(&json!({"template": {"metadata": metadata}}))
        };
        let target = target("", "ConfigMap", "Namespaced");
        let rendered = |of: &Object, copy: Option<&Object>| {
            render(of, &target, &[], copy, TemplateAnnotations::Federated)
        };
        let of = annotated(json!({"a": "1"}));
        let created = rendered(&of, None).unwrap();
        assert_eq!(created.object.annotation("a"), Some("1"));
        assert!(created.ignored.is_empty());
        let copy = json!({"metadata": {"name": "cm", "annotations": {"a": "0", "b": "2"}}});
        let copy = Object::new(copy).unwrap();
        let updated = rendered(&of, Some(&copy)).unwrap().object;
        let annotations: Vec<(&str, &str)> = updated.annotations().collect();
        assert_eq!(annotations, [("a", "1"), ("b", "2")]);
        let refused = rendered(&annotated(json!("text")), None).unwrap_err();
        assert_eq!(refused.status(), CopyStatus::ComputeResourceFailed);
    }

    #[test]
    fn annotations_and_finalizers_of_a_template_are_left_out_and_told() {
        let spec =
            json!({"template": {"metadata": {"annotations": {"a": "b"}, "finalizers": ["f"]}}});
        let got = rendered(&spec, None).unwrap();
        assert_eq!(got.ignored, [Ignored::Annotations, Ignored::Finalizers]);
        assert_eq!(got.object.annotations().count(), 0);
        assert_eq!(got.ignored[0].reason(), "AnnotationsNotSupported");
        assert_eq!(
            got.ignored[1].message(),
            "metadata.finalizers cannot be set via template to avoid conflicting with controllers in member \
             clusters. Consider using an override to add or remove elements from this collection."
        );
        let spec = json!({"template": {"metadata": {"annotations": {}, "finalizers": null}}});
        assert!(rendered(&spec, None).unwrap().ignored.is_empty());
    }

    #[test]
    fn overrides_come_after_what_is_kept_and_the_label_comes_last() {
        let copy =
            Object::new(json!({"metadata": {"resourceVersion": "5", "annotations": {"own": "1"}}}));
        let spec = json!({
            "template": {"metadata": {"labels": {"a": "b"}}},
            "overrides": [{"clusterName": "c", "clusterOverrides": [
                {"path": "/metadata/annotations/mine", "op": "add", "value": "2"},
                {"path": "/metadata/labels", "value": {"only": "this"}},
            ]}],
        });
        let got = rendered(&spec, copy.ok().as_ref()).unwrap().object;
        assert_eq!(
            got.annotations().collect::<Vec<_>>(),
            [("mine", "2"), ("own", "1")]
        );
        assert_eq!(
            got.labels().collect::<Vec<_>>(),
            [("kubefed.io/managed", "true"), ("only", "this")]
        );
        assert_eq!(got.resource_version(), Some("5"));
        let spec = json!({"template": {"metadata": {"labels": {"a": 1}}}});
        let labels = rendered(&spec, None).unwrap().object;
        assert_eq!(
            labels.labels().collect::<Vec<_>>(),
            [("kubefed.io/managed", "true")]
        );
    }

    #[test]
    fn annotations_of_kubernetes_outlive_an_override_of_all_annotations() {
        let own = json!({"deployment.kubernetes.io/revision": "3", "k8s.io/a": "1", "own": "1"});
        let copy = Object::new(json!({"metadata": {"annotations": own}})).unwrap();
        let keys = |steps: Value| {
            let spec = json!({"overrides": [{"clusterName": "c", "clusterOverrides": steps}]});
            let got = rendered(&spec, Some(&copy)).unwrap().object;
            let keys = got.annotations().map(|(key, _)| key.to_owned());
            keys.collect::<Vec<_>>()
        };
        let all = json!({"path": "/metadata/annotations", "value": {"mine": "2"}});
        assert_eq!(
            keys(json!([all])),
            ["deployment.kubernetes.io/revision", "k8s.io/a", "mine"]
        );
        let path = "/metadata/annotations/deployment.kubernetes.io~1revision";
        let one = json!({"path": path, "op": "remove"});
        assert_eq!(keys(json!([one])), ["k8s.io/a", "own"]);
        assert!(!is_reserved("notk8s.io/a") && !is_reserved("kubernetes.io"));
    }

    #[test]
    fn every_failure_is_told_and_has_its_status() {
        let replace = |path: &str, value: Value| json!({"overrides": [{"clusterName": "c", "clusterOverrides": [{"path": path, "value": value}]}]});
        let copy = Object::new(json!({"spec": {"replicas": "many"}})).unwrap();
        for (spec, wanted, status) in [
            (
                json!({"template": []}),
                "spec.template must be an object, found a list",
                "ComputeResourceFailed",
            ),
            (
                json!({"template": {"metadata": 1}}),
                "spec.template.metadata must be an object, found a number",
                "ComputeResourceFailed",
            ),
            (
                replace("/metadata/annotations", json!(1)),
                "the object is malformed: annotations must be a map of strings, found a number",
                "ComputeResourceFailed",
            ),
            (
                replace("/a/b", json!(1)),
                "replace operation does not apply: doc is missing path: \"/a/b\": missing value",
                "ApplyOverridesFailed",
            ),
            (
                replace("/metadata", json!({"name": "other", "namespace": "ns"})),
                "overrides change the kind, name or namespace of the object: change parts of /metadata only",
                "ApplyOverridesFailed",
            ),
            (
                replace(
                    "",
                    json!({"kind": "Secret", "metadata": {"name": "cm", "namespace": "ns"}}),
                ),
                "overrides change the kind, name or namespace of the object: change parts of /metadata only",
                "ApplyOverridesFailed",
            ),
            (
                json!({"retainReplicas": true}),
                "spec.replicas must be an integer, found a string",
                "FieldRetentionFailed",
            ),
        ] {
            let error = rendered(&spec, Some(&copy)).unwrap_err();
            assert_eq!(error.to_string(), wanted);
            assert_eq!(error.status().as_str(), status);
        }
    }

    #[test]
    fn an_object_says_by_its_label_whose_it_is() {
        let of = |value: &str| {
            Object::new(json!({"metadata": {"labels": {"kubefed.io/managed": value}}})).unwrap()
        };
        assert!(opted_out(&of("false")) && !opted_out(&of("true")));
        assert!(is_managed(&of("true")) && !is_managed(&of("")));
    }
}
