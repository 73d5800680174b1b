//! `kubefedctl federate`: creates federated objects from existing objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use kube_lang::object::{Gvk, Object};
use kube_schema::names::dns1123_subdomain;

use super::{Resource, rank};
use crate::types::type_config::{ApiResource, NAMESPACES, plural_of};
use crate::types::{CORE_GROUP, TYPES_GROUP, TYPES_VERSION};

/// A federated object, and the warning to print.
#[derive(Clone, Debug, PartialEq)]
pub struct Federated {
    pub object: Value,
    pub warning: Option<String>,
}

/// The command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Type and name.
    pub names: Vec<String>,
    pub output_yaml: bool,
    pub enable_type: bool,
    pub contents: bool,
    pub filename: Option<String>,
}

/// An invalid command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("TYPE-NAME is required")]
    Type,
    #[error("RESOURCE-NAME is required")]
    Name,
    #[error("Flag '--enable-type' cannot be used with '--output [yaml]'")]
    EnableType,
    #[error("Flag '--filename' does not take any args. Got args: [{}]", .0.join(" "))]
    Filename(Vec<String>),
    #[error("Flag '--contents' can only be used with type 'namespaces'.")]
    Contents,
}

/// The reason why an object was not federated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FederateError {
    #[error(
        "federatedtypeconfigs.{CORE_GROUP} {0:?} not found. Consider using '--enable-type' to optionally enable type while federating the resource"
    )]
    NotEnabled(String),
    #[error("Error retrieving target {kind} {name:?}: {error}")]
    Target {
        kind: String,
        name: String,
        error: String,
    },
    #[error("Error creating federated resource {name:?}: {error}")]
    Create { name: String, error: String },
}

impl Arguments {
    /// Checks the arguments before any type is looked up.
    pub fn check(&self) -> Result<(), ArgumentError> {
        if self.filename.is_some() {
            return if self.names.is_empty() {
                Ok(())
            } else {
                Err(ArgumentError::Filename(self.names.clone()))
            };
        }
        match self.names.len() {
            0 => Err(ArgumentError::Type),
            1 => Err(ArgumentError::Name),
            _ if self.enable_type && self.output_yaml => Err(ArgumentError::EnableType),
            _ => Ok(()),
        }
    }

    /// Checks the arguments against the type.
    pub fn check_type(&self, target: &ApiResource) -> Result<(), ArgumentError> {
        if self.contents && !is_namespaces(target) {
            return Err(ArgumentError::Contents);
        }
        Ok(())
    }
}

fn is_namespaces(target: &ApiResource) -> bool {
    target.group.is_empty() && target.plural_name == NAMESPACES
}

/// The default federated type of a target type.
pub fn default_type(target: &ApiResource) -> ApiResource {
    let scope = if is_namespaces(target) {
        "Namespaced"
    } else {
        &target.scope
    };
    ApiResource {
        group: TYPES_GROUP.to_owned(),
        version: TYPES_VERSION.to_owned(),
        kind: format!("Federated{}", target.kind),
        plural_name: format!("federated{}", target.plural_name),
        scope: scope.to_owned(),
    }
}

/// The target type of an object from a file, guessed without a server.
pub fn guessed_type(object: &Object) -> ApiResource {
    let Gvk {
        group,
        version,
        kind,
    } = object.gvk();
    let scope = match object.namespace() {
        Some(_) => "Namespaced",
        None => "Cluster",
    };
    ApiResource {
        plural_name: plural_of(&kind),
        group,
        version,
        kind,
        scope: scope.to_owned(),
    }
}

/// The federated object with `object` as its template, placed on all members.
pub fn federate(object: &Object, federated: &ApiResource) -> Federated {
    let mut template = object.root().clone();
    drop_defaults(&mut template, object.kind());
    for field in ["apiVersion", "kind", "status", "metadata"] {
        template.remove(field);
    }
    let labels: Map<String, Value> = object
        .labels()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    if !labels.is_empty() {
        template.insert("metadata".into(), json!({"labels": labels}));
    }

    let mut metadata = json!({"name": object.name()});
    if federated.is_namespaced() {
        let own = match object.gvk() {
            Gvk { group, kind, .. } if group.is_empty() && kind == "Namespace" => object.name(),
            _ => object.namespace().unwrap_or_default(),
        };
        metadata["namespace"] = own.into();
    }
    let federated = json!({
        "apiVersion": federated.gvk().api_version(),
        "kind": federated.kind,
        "metadata": metadata,
        "spec": {
            "placement": {"clusterSelector": {"matchLabels": {}}},
            "template": template,
        },
    });
    Federated {
        object: federated,
        warning: warning(object),
    }
}

/// Removes fields that servers and controllers fill in.
fn drop_defaults(template: &mut Map<String, Value>, kind: &str) {
    match kind {
        "ServiceAccount" => {
            template.remove("secrets");
        }
        "Namespace" => {
            if let Some(Value::Object(spec)) = template.get_mut("spec") {
                spec.remove("finalizers");
            }
        }
        "Service" => {
            if let Some(Value::Object(spec)) = template.get_mut("spec") {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
                let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
                for port in ports.into_iter().flatten() {
                    if let Value::Object(port) = port {
                        port.remove("nodePort");
                    }
                }
            }
        }
        _ => {}
    }
}

fn warning(object: &Object) -> Option<String> {
    let annotations: BTreeMap<&str, &str> = object.annotations().collect();
    if annotations.is_empty() {
        return None;
    }
    let shown: Vec<String> = annotations
        .iter()
        .map(|(k, v)| format!("{k}:{v}"))
        .collect();
    Some(format!(
        "Annotations defined for {} {:?} will not appear in the template of the federated resource: map[{}]",
        object.kind(),
        qualified_name(object),
        shown.join(" ")
    ))
}

/// `namespace/name`, or the name alone.
pub fn qualified_name(object: &Object) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name()),
        None => object.name().to_owned(),
    }
}

/// The line printed after a federated object was created.
pub fn created(target_kind: &str, federated: &Object) -> String {
    format!(
        "Successfully created {} {:?} from {target_kind}",
        federated.kind(),
        qualified_name(federated)
    )
}

/// The types that `--contents` federates, sorted by name, each at its preferred version. `skipped` are names of types
/// or groups.
pub fn contents<'a>(resources: &'a [Resource], skipped: &[String]) -> Vec<&'a Resource> {
    let mut chosen: BTreeMap<String, &Resource> = BTreeMap::new();
    for resource in resources.iter().filter(|r| is_content(r, skipped)) {
        let slot = chosen.entry(resource.api.qualified_name());
        let best = slot.or_insert(resource);
        if rank(&best.api.version, &resource.api.version).is_lt() {
            *best = resource;
        }
    }
    chosen.into_values().collect()
}

fn is_content(resource: &Resource, skipped: &[String]) -> bool {
    let api = &resource.api;
    let name = api.qualified_name();
    let propagated = format!("propagatedversions.{CORE_GROUP}");
    let controlled = ["endpoints", "events", "events.events.k8s.io", &propagated];
    let is_federated = api.kind.starts_with("Federated") && api.group == TYPES_GROUP;
    api.is_namespaced()
        && resource.can_list
        && api.group != "extensions"
        && !is_federated
        && !controlled.contains(&&*name)
        && !skipped
            .iter()
            .any(|skip| resource.is_named(skip) || (!skip.is_empty() && *skip == api.group))
}

/// The warning about an object that `--contents` skips because of its name.
pub fn unfit(object: &Object) -> Option<String> {
    let problems = dns1123_subdomain(object.name());
    (!problems.is_empty()).then(|| {
        let name = qualified_name(object);
        format!(
            "Skipping {} {name:?}: {}",
            object.kind(),
            problems.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::resource;
    use super::*;

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    fn of(value: Value) -> Federated {
        let object = object(value);
        federate(&object, &default_type(&guessed_type(&object)))
    }

    #[test]
    fn an_object_becomes_the_template_for_all_members() {
        let got = of(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "my-configmap", "namespace": "my-namespace", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}, "ownerReferences": []},
            "data": {"k": "v"}, "status": {},
        }));
        assert_eq!(
            got.object,
            json!({
                "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
                "metadata": {"name": "my-configmap", "namespace": "my-namespace"},
                "spec": {
                    "placement": {"clusterSelector": {"matchLabels": {}}},
                    "template": {"data": {"k": "v"}, "metadata": {"labels": {"a": "b"}}},
                },
            })
        );
        assert_eq!(got.warning, None);
    }

    #[test]
    fn a_namespace_is_federated_within_itself() {
        let namespace = object(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {}}, "spec": {"finalizers": ["kubernetes"]},
        }));
        let mut target = guessed_type(&namespace);
        assert_eq!(
            (&*target.plural_name, &*target.scope),
            ("namespaces", "Cluster")
        );
        let got = federate(&namespace, &default_type(&target));
        assert_eq!(
            got.object["metadata"],
            json!({"name": "ns", "namespace": "ns"})
        );
        assert_eq!(got.object["spec"]["template"], json!({"spec": {}}));
        target.group = "other".into();
        assert_eq!(default_type(&target).scope, "Cluster");
    }

    #[test]
    fn what_servers_fill_in_is_left_out() {
        let got = of(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}, "secrets": [{}], "imagePullSecrets": [{}]}),
        );
        assert_eq!(
            got.object["spec"]["template"],
            json!({"imagePullSecrets": [{}]})
        );
        let got = of(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 3, "ports": [{"port": 1, "nodePort": 2}]},
        }));
        assert_eq!(
            got.object["spec"]["template"]["spec"],
            json!({"healthCheckNodePort": 3, "ports": [{"port": 1}]})
        );
    }

    #[test]
    fn annotations_that_are_lost_are_told() {
        let got = of(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n", "annotations": {"b": "2", "a": "1"}},
        }));
        assert_eq!(
            got.warning.unwrap(),
            "Annotations defined for Secret \"n/a\" will not appear in the template of the federated resource: map[a:1 b:2]"
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_the_words_of_the_original() {
        let names = |count: usize| vec!["x".to_owned(); count];
        let two = Arguments {
            names: names(2),
            ..Arguments::default()
        };
        for (arguments, wanted) in [
            (Arguments::default(), "TYPE-NAME is required"),
            (
                Arguments {
                    names: names(1),
                    ..two.clone()
                },
                "RESOURCE-NAME is required",
            ),
            (
                Arguments {
                    enable_type: true,
                    output_yaml: true,
                    ..two.clone()
                },
                "Flag '--enable-type' cannot be used with '--output [yaml]'",
            ),
            (
                Arguments {
                    filename: Some("f".into()),
                    ..two.clone()
                },
                "Flag '--filename' does not take any args. Got args: [x x]",
            ),
        ] {
            assert_eq!(arguments.check().unwrap_err().to_string(), wanted);
        }
        assert!(two.check().is_ok());
        let file = Arguments {
            filename: Some("-".into()),
            ..Arguments::default()
        };
        assert!(file.check().is_ok());
        let contents = Arguments {
            contents: true,
            ..two
        };
        let jobs = resource("batch", "v1", "Job", "jobs", &[]);
        assert_eq!(
            contents.check_type(&jobs.api).unwrap_err().to_string(),
            "Flag '--contents' can only be used with type 'namespaces'."
        );
        let namespaces = resource("", "v1", "Namespace", "namespaces", &[]);
        assert!(contents.check_type(&namespaces.api).is_ok());
    }

    #[test]
    fn failures_are_told_in_the_words_of_the_original() {
        let (name, error) = (|| "ns/n".to_owned(), || "x".to_owned());
        let kind = "ConfigMap".to_owned();
        for (failure, wanted) in [
            (
                FederateError::NotEnabled("jobs.batch".to_owned()),
                "federatedtypeconfigs.core.kubefed.io \"jobs.batch\" not found. Consider using '--enable-type' to optionally enable type while federating the resource",
            ),
            (
                FederateError::Target {
                    kind,
                    name: name(),
                    error: error(),
                },
                "Error retrieving target ConfigMap \"ns/n\": x",
            ),
            (
                FederateError::Create {
                    name: name(),
                    error: error(),
                },
                "Error creating federated resource \"ns/n\": x",
            ),
        ] {
            assert_eq!(failure.to_string(), wanted);
        }
    }

    #[test]
    fn success_is_told() {
        let federated =
            object(json!({"kind": "FederatedX", "metadata": {"name": "n", "namespace": "ns"}}));
        assert_eq!(
            created("X", &federated),
            "Successfully created FederatedX \"ns/n\" from X"
        );
    }

    #[test]
    fn what_goes_with_a_namespace() {
        let mut unlistable = resource("", "v1", "Binding", "bindings", &[]);
        unlistable.can_list = false;
        let mut nodes = resource("", "v1", "Node", "nodes", &[]);
        nodes.api.scope = "Cluster".into();
        let known = [
            resource("apps", "v1beta1", "Deployment", "deployments", &["deploy"]),
            resource("apps", "v1", "Deployment", "deployments", &["deploy"]),
            resource("apps", "v1", "ReplicaSet", "replicasets", &["rs"]),
            resource("", "v1", "ConfigMap", "configmaps", &["cm"]),
            resource("", "v1", "Endpoints", "endpoints", &[]),
            resource("", "v1", "Event", "events", &[]),
            resource("events.k8s.io", "v1", "Event", "events", &[]),
            resource(
                "core.kubefed.io",
                "v1alpha1",
                "PropagatedVersion",
                "propagatedversions",
                &[],
            ),
            resource("extensions", "v1beta1", "Ingress", "ingresses", &[]),
            resource(
                "types.kubefed.io",
                "v1beta1",
                "FederatedJob",
                "federatedjobs",
                &[],
            ),
            resource("other.io", "v1", "FederatedJob", "federatedjobs", &[]),
            unlistable,
            nodes,
        ];
        let names = |skipped: &[&str]| {
            let skipped: Vec<String> = skipped.iter().map(|&s| s.to_owned()).collect();
            let chosen = contents(&known, &skipped).into_iter();
            chosen
                .map(|r| super::super::shown(&r.api))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            names(&[]),
            "configmaps/v1 deployments.apps/v1 federatedjobs.other.io/v1 replicasets.apps/v1"
        );
        assert_eq!(names(&["configmaps", "apps"]), "federatedjobs.other.io/v1");
        assert_eq!(
            names(&["cm", "deployments.apps", "ReplicaSet"]),
            "federatedjobs.other.io/v1"
        );
    }

    #[test]
    fn names_that_no_federated_object_can_have_are_skipped() {
        let named = |name: &str| {
            object(json!({"kind": "Role", "metadata": {"name": name, "namespace": "n"}}))
        };
        assert_eq!(unfit(&named("a.b")), None);
        let told = unfit(&named("system:x")).unwrap();
        assert!(told.starts_with("Skipping Role \"n/system:x\": a lowercase RFC 1123 subdomain"));
    }
}
