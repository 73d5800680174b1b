//! Selected resources: those that are never placed, the placed part of an object, and the order of objects.

use std::collections::BTreeSet;

use kube_lang::object::Gvk;
use serde_json::{Map, Value};

use crate::types::{CLUSTER_GROUP, PLACEMENT_GROUP};

/// Fields of the metadata that belong to the hub: no manifest has them.
pub(crate) const HUB_METADATA: [&str; 9] = [
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
];

/// Annotations that belong to clients and controllers of the hub.
const HUB_ANNOTATIONS: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
];

/// Labels that the Job controller adds to its pods.
const JOB_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Kinds in the order of snapshots; all others come after them.
const ORDER: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The kinds that are placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFilter {
    /// All but these.
    Deny(Vec<ApiPattern>),
    /// Only these.
    Allow(Vec<ApiPattern>),
}

/// A group, a version of it, or a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPattern {
    group: String,
    version: Option<String>,
    /// Empty for all kinds.
    kinds: BTreeSet<String>,
}

/// A pattern of `--skipped-propagating-apis` or `--allowed-propagating-apis` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not an API: write group, group/version, group/version/Kind,Kind or v1/Kind, separated by ;"
)]
pub struct ApiPatternError(String);

impl Default for ApiFilter {
    fn default() -> Self {
        Self::Deny(ApiPattern::always_denied())
    }
}

impl ApiFilter {
    /// The deny list of the original, with the flag `--skipped-propagating-apis`.
    pub fn deny(flag: &str) -> Result<Self, ApiPatternError> {
        let mut patterns = ApiPattern::always_denied();
        patterns.extend(ApiPattern::parse_list(flag)?);
        Ok(Self::Deny(patterns))
    }

    /// The flag `--allowed-propagating-apis`.
    pub fn allow(flag: &str) -> Result<Self, ApiPatternError> {
        Ok(Self::Allow(ApiPattern::parse_list(flag)?))
    }

    /// True if objects of the kind are placed.
    pub fn admits(&self, gvk: &Gvk) -> bool {
        let matches = |patterns: &[ApiPattern]| patterns.iter().any(|one| one.matches(gvk));
        match self {
            // Of the placement group, envelopes alone are made for members.
            Self::Deny(_) if gvk.group == PLACEMENT_GROUP => {
                matches!(&*gvk.kind, "ClusterResourceEnvelope" | "ResourceEnvelope")
            }
            Self::Deny(patterns) => !matches(patterns),
            Self::Allow(patterns) => matches(patterns),
        }
    }
}

impl ApiPattern {
    /// The deny list of the original.
    fn always_denied() -> Vec<Self> {
        let group = |group: &str| Self {
            group: group.to_owned(),
            version: None,
            kinds: BTreeSet::new(),
        };
        let kinds = |of: &str, kinds: &[&str]| Self {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            ..group(of)
        };
        let mut patterns: Vec<Self> = [
            CLUSTER_GROUP,
            "events.k8s.io",
            "coordination.k8s.io",
            "metrics.k8s.io",
        ]
        .map(group)
        .into();
        patterns.push(kinds("", &["Pod", "Node", "Event"]));
        patterns.push(kinds(
            "networking.fleet.azure.com",
            &[
                "ServiceImport",
                "TrafficManagerProfile",
                "TrafficManagerBackend",
            ],
        ));
        patterns
    }

    fn parse_list(flag: &str) -> Result<Vec<Self>, ApiPatternError> {
        let tokens = flag.split(';').map(str::trim);
        tokens
            .filter(|token| !token.is_empty())
            .map(Self::parse)
            .collect()
    }

    fn parse(token: &str) -> Result<Self, ApiPatternError> {
        let parts: Vec<&str> = token.split('/').collect();
        let (group, version, kinds) = match parts[..] {
            [group] => (group, None, ""),
            // The core group has no name: what follows `v1` is a kind.
            ["v1", kinds] => ("", Some("v1"), kinds),
            [group, version] => (group, Some(version), ""),
            [group, version, kinds] => (group, Some(version), kinds),
            _ => return Err(ApiPatternError(token.to_owned())),
        };
        if version.is_some_and(str::is_empty) {
            return Err(ApiPatternError(token.to_owned()));
        }
        let kinds = kinds.split(',').filter(|kind| !kind.is_empty());
        Ok(Self {
            group: group.to_owned(),
            version: version.map(str::to_owned),
            kinds: kinds.map(str::to_owned).collect(),
        })
    }

    fn matches(&self, gvk: &Gvk) -> bool {
        self.group == gvk.group
            && self
                .version
                .as_ref()
                .is_none_or(|version| *version == gvk.version)
            && (self.kinds.is_empty() || self.kinds.contains(&gvk.kind))
    }
}

/// True for namespaces that belong to Kubernetes or to the fleet. `skipped` is the flag
/// `--skipped-propagating-namespaces`.
pub fn is_reserved_namespace(name: &str, skipped: &[String]) -> bool {
    name == "default"
        || name.starts_with("kube-")
        || name.starts_with("fleet-")
        || skipped.iter().any(|other| other == name)
}

/// The facts, apart from the objects, that decide about single objects.
#[derive(Clone, Copy, Debug)]
pub struct SelectionContext<'a> {
    /// Whether the hub runs workloads.
    pub hub_runs_workloads: bool,
    /// The names of the Services of the namespace.
    pub services: &'a BTreeSet<String>,
}

/// The domain of the groups of the fleet.
const FLEET_DOMAIN: &str = "kubernetes-fleet.io";

/// The reason why [`is_of_fleet`] keeps an object out.
pub const OF_FLEET: &str = "objects of the fleet itself are not placed";

/// The group of an object, or of a reference to one; empty for the core group.
pub fn group_of(object: &Value) -> &str {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// True for objects of the fleet itself, and for the definitions and the `APIService`s of their groups. A placement that
/// had them in a member would own the records of all other placements there, and take them along when it goes.
pub fn is_of_fleet(object: &Value) -> bool {
    let is_ours = |group: &str| {
        let above = group.strip_suffix(FLEET_DOMAIN);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    };
    // A definition is called PLURAL.GROUP, an APIService VERSION.GROUP.
    let named = || object["metadata"]["name"].as_str()?.split_once('.');
    let group = group_of(object);
    let is_named = matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
    is_ours(group) || is_named && named().is_some_and(|(_, group)| is_ours(group))
}

/// True if an object of an admitted kind is placed.
pub fn is_placed(object: &Value, around: &SelectionContext<'_>) -> bool {
    let metadata = &object["metadata"];
    if metadata
        .get("deletionTimestamp")
        .is_some_and(|time| !time.is_null())
    {
        return false;
    }
    let name = metadata["name"].as_str().unwrap_or_default();
    let is_owned = metadata["ownerReferences"]
        .as_array()
        .is_some_and(|owners| !owners.is_empty());
    match (
        group_of(object),
        object["kind"].as_str().unwrap_or_default(),
    ) {
        ("apps", "ReplicaSet" | "ControllerRevision") => !is_owned,
        (PLACEMENT_GROUP, "ClusterResourceEnvelope" | "ResourceEnvelope") => true,
        _ if is_of_fleet(object) => false,
        ("", "Pod") => !(around.hub_runs_workloads && is_owned),
        ("", "ConfigMap") => name != "kube-root-ca.crt",
        ("", "ServiceAccount") => name != "default",
        ("", "Secret") => object["type"] != "kubernetes.io/service-account-token",
        ("", "PersistentVolumeClaim") => !around.hub_runs_workloads,
        ("", "Endpoints") => !around.services.contains(name),
        ("discovery.k8s.io", "EndpointSlice") => metadata["labels"]
            .get("endpointslice.kubernetes.io/managed-by")
            .is_none(),
        _ => true,
    }
}

/// Removes what belongs to the hub.
pub fn normalise(object: &mut Value) {
    let Value::Object(root) = object else {
        return;
    };
    root.remove("status");
    if let Some(Value::Object(metadata)) = root.get_mut("metadata") {
        metadata.retain(|field, _| !HUB_METADATA.contains(&field.as_str()));
        if remove_keys(metadata, "annotations", &HUB_ANNOTATIONS) {
            metadata.remove("annotations");
        }
    }
    let text = |field: &str| root.get(field).and_then(Value::as_str).unwrap_or_default();
    let normalise_spec = match (text("apiVersion"), text("kind")) {
        ("v1", "Service") => normalise_service,
        ("batch/v1", "Job") => normalise_job,
        _ => return,
    };
    if let Some(spec) = root.get_mut("spec") {
        normalise_spec(spec);
    }
}

/// Removes keys of a map. Returns whether this emptied the map.
fn remove_keys(fields: &mut Map<String, Value>, map: &str, keys: &[&str]) -> bool {
    let Some(Value::Object(entries)) = fields.get_mut(map) else {
        return false;
    };
    let before = entries.len();
    entries.retain(|key, _| !keys.contains(&key.as_str()));
    entries.is_empty() && before > 0
}

fn normalise_service(spec: &mut Value) {
    let Value::Object(spec) = spec else {
        return;
    };
    if spec
        .get("clusterIP")
        .is_none_or(|address| address != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Value::Object(port) = port {
            port.remove("nodePort");
        }
    }
}

fn normalise_job(spec: &mut Value) {
    if spec["manualSelector"] == Value::Bool(true) {
        return;
    }
    if let Some(Value::Object(selector)) = spec.get_mut("selector") {
        remove_keys(selector, "matchLabels", &JOB_LABELS);
    }
    if let Some(Value::Object(metadata)) = spec.pointer_mut("/template/metadata") {
        metadata.remove("creationTimestamp");
        remove_keys(metadata, "labels", &JOB_LABELS);
    }
}

/// Puts objects into the order of snapshots: by kind, then by name.
pub fn sort(objects: &mut [Value]) {
    objects.sort_by_cached_key(|object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        let rank = ORDER.iter().position(|known| *known == kind);
        let metadata = &object["metadata"];
        let mut version = text(&object["apiVersion"]);
        if rank.is_none() && !version.contains('/') {
            // Kinds without a rank are in the order of Go's text of a group, a version and a kind.
            version.insert(0, '/');
        }
        (
            rank.unwrap_or(ORDER.len()),
            (version, kind),
            (text(&metadata["namespace"]), text(&metadata["name"])),
        )
    });
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "literals are shorter to pass by value"
    )]

    use serde_json::json;

    use super::*;

    fn normalised(mut object: Value) -> Value {
        normalise(&mut object);
        object
    }

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn what_belongs_to_the_hub_is_removed() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "d", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 3,
                "creationTimestamp": "t", "managedFields": [], "ownerReferences": [{}], "selfLink": "/",
                "labels": {"a": "b"}, "finalizers": ["f"],
                "annotations": {"deployment.kubernetes.io/revision": "1", "keep": "me"},
            },
            "spec": {}, "status": {"replicas": 1},
        });
        assert_eq!(
            normalised(object),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "n", "labels": {"a": "b"}, "finalizers": ["f"],
                             "annotations": {"keep": "me"}},
                "spec": {},
            })
        );
        let applied = json!({"metadata": {
            "name": "d", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        }});
        assert_eq!(normalised(applied), json!({"metadata": {"name": "d"}}));
    }

    #[test]
    fn a_service_loses_its_addresses_unless_it_is_headless() {
        let service =
            |spec| json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": spec});
        let given = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 1,
                           "ports": [{"port": 80, "nodePort": 30000}]});
        assert_eq!(
            normalised(service(given)),
            service(json!({"ports": [{"port": 80}]}))
        );
        let headless = service(json!({"clusterIP": "None", "clusterIPs": ["None"]}));
        assert_eq!(normalised(headless.clone()), headless);
    }

    #[test]
    fn a_job_loses_what_its_controller_added_unless_the_selector_is_manual() {
        let job =
            |spec| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec});
        let spec = |manual| {
            json!({
                "manualSelector": manual,
                "selector": {"matchLabels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}},
                "template": {"metadata": {"creationTimestamp": null, "labels": {"controller-uid": "u", "a": "b"}}},
            })
        };
        assert_eq!(
            normalised(job(spec(false))),
            job(
                json!({"manualSelector": false, "selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"a": "b"}}}})
            )
        );
        assert_eq!(normalised(job(spec(true))), job(spec(true)));
    }

    #[test]
    fn objects_stand_in_the_order_of_their_kinds() {
        let mut objects = vec![
            object("example.com/v1", "Zoo", "z"),
            object("example.com/v1", "Ark", "z"),
            object("v1", "ConfigMap", "b"),
            object("v1", "ConfigMap", "a"),
            object("v1", "Secret", "s"),
            object("v1", "Namespace", "n"),
        ];
        sort(&mut objects);
        let names: Vec<String> = objects
            .iter()
            .map(|one| {
                format!(
                    "{} {}",
                    one["kind"].as_str().unwrap(),
                    one["metadata"]["name"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                "Namespace n",
                "Secret s",
                "ConfigMap a",
                "ConfigMap b",
                "Ark z",
                "Zoo z"
            ]
        );
    }

    #[test]
    fn kinds_are_placed_unless_they_are_denied() {
        let deny = ApiFilter::deny("example.com/v1/Ark,Zoo; other.io").unwrap();
        let placed = |filter: &ApiFilter, group: &str, kind: &str| {
            filter.admits(&Gvk::new(group, "v1", kind))
        };
        for (group, kind, wanted) in [
            ("", "ConfigMap", true),
            ("", "Pod", false),
            ("", "Event", false),
            ("apps", "Deployment", true),
            ("coordination.k8s.io", "Lease", false),
            (CLUSTER_GROUP, "MemberCluster", false),
            (PLACEMENT_GROUP, "ClusterResourcePlacement", false),
            (PLACEMENT_GROUP, "ResourceEnvelope", true),
            ("example.com", "Zoo", false),
            ("example.com", "Other", true),
            ("other.io", "Any", false),
        ] {
            assert_eq!(placed(&deny, group, kind), wanted, "{group}/{kind}");
        }
        let allow = ApiFilter::allow("v1/ConfigMap").unwrap();
        assert!(placed(&allow, "", "ConfigMap") && !placed(&allow, "", "Secret"));
        assert!(ApiFilter::deny("a/b/c/d").is_err() && ApiFilter::deny("a//c").is_err());
    }

    #[test]
    fn objects_that_controllers_make_are_not_placed() {
        let services = BTreeSet::from(["web".to_owned()]);
        let around = |hub_runs_workloads| SelectionContext {
            hub_runs_workloads,
            services: &services,
        };
        let with = |api_version, kind, name, field: &str, value: Value| {
            let mut object = object(api_version, kind, name);
            match object.pointer_mut(field) {
                Some(place) => *place = value,
                None => object["metadata"][field] = value,
            }
            object
        };
        let mut token = object("v1", "Secret", "t");
        token["type"] = "kubernetes.io/service-account-token".into();
        for (object, wanted) in [
            (object("v1", "ConfigMap", "c"), true),
            (object("v1", "ConfigMap", "kube-root-ca.crt"), false),
            (object("v1", "ServiceAccount", "default"), false),
            (token, false),
            (
                with("apps/v1", "ReplicaSet", "r", "ownerReferences", json!([{}])),
                false,
            ),
            (object("apps/v1", "ReplicaSet", "r"), true),
            (
                with("v1", "ConfigMap", "c", "deletionTimestamp", json!("t")),
                false,
            ),
            (object("v1", "Endpoints", "web"), false),
            (object("v1", "Endpoints", "own"), true),
            (
                with(
                    "discovery.k8s.io/v1",
                    "EndpointSlice",
                    "e",
                    "labels",
                    json!({"endpointslice.kubernetes.io/managed-by": "c"}),
                ),
                false,
            ),
            (object("v1", "PersistentVolumeClaim", "p"), true),
            (
                object(
                    "apiextensions.k8s.io/v1",
                    "CustomResourceDefinition",
                    "appliedworks.placement.kubernetes-fleet.io",
                ),
                false,
            ),
            (
                object(
                    "apiextensions.k8s.io/v1",
                    "CustomResourceDefinition",
                    "arks.example.com",
                ),
                true,
            ),
            (
                object(
                    "apiregistration.k8s.io/v1",
                    "APIService",
                    "v1beta1.placement.kubernetes-fleet.io",
                ),
                false,
            ),
            (
                object(
                    "apiregistration.k8s.io/v1",
                    "APIService",
                    "v1.not-kubernetes-fleet.io",
                ),
                true,
            ),
            (object("newer.kubernetes-fleet.io/v1", "Thing", "t"), false),
            (
                object("placement.kubernetes-fleet.io/v1beta1", "AppliedWork", "w"),
                false,
            ),
            (
                object(
                    "placement.kubernetes-fleet.io/v1beta1",
                    "ResourceEnvelope",
                    "e",
                ),
                true,
            ),
        ] {
            assert_eq!(is_placed(&object, &around(false)), wanted, "{object}");
        }
        assert!(!is_placed(
            &object("v1", "PersistentVolumeClaim", "p"),
            &around(true)
        ));
        assert!(is_reserved_namespace("kube-system", &[]) && is_reserved_namespace("default", &[]));
        assert!(is_reserved_namespace("x", &["x".to_owned()]) && !is_reserved_namespace("x", &[]));
    }
}
