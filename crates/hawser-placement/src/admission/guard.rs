//! The guard rail: the fleet's own objects on the hub are changed by the fleet and by administrators alone.

use kube_schema::admission::WebhookAddress;
use serde_json::{Value, json};

use crate::names::member_namespace;
use crate::types::CLUSTER_GROUP;
use crate::types::cluster::MemberCluster;

/// The name of the configuration, which is the original's.
pub(super) const NAME: &str = "fleet-guard-rail-webhook-configuration";
pub(super) const PATH: &str = "/validate-fleet-guard-rail";

/// Groups that may change everything.
const GROUPS: [&str; 4] = [
    "system:masters",
    "kubeadm:cluster-admins",
    "system:serviceaccounts:kube-system",
    "system:nodes",
];
/// Users that may change everything.
const USERS: [&str; 3] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
];
/// The definitions of the fleet.
const DEFINITIONS: [&str; 2] = [".kubernetes-fleet.io", ".fleet.azure.com"];
const PREFIXES: [&str; 2] = ["fleet-", "kube-"];

/// The users who may change the fleet's own objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardRail {
    /// Users that may change everything, the hub among them.
    pub users: Vec<String>,
    /// Whether the labels of members are guarded too.
    pub labels: bool,
}

/// True for a namespace of Kubernetes or of the fleet.
pub(super) fn is_system(namespace: &str) -> bool {
    PREFIXES.iter().any(|prefix| namespace.starts_with(prefix))
}

/// The configuration by which the guard is asked, though never about those who may change everything.
pub(super) fn configuration(rail: &GuardRail, address: &WebhookAddress, bundle: &str) -> Value {
    let users: Vec<&str> = USERS
        .into_iter()
        .chain(rail.users.iter().map(String::as_str))
        .collect();
    let stranger = format!(
        "!request.userInfo.groups.exists(group, group in {}) && !(request.userInfo.username in {})",
        json!(GROUPS),
        json!(users)
    );
    let any = |field: &str, test: &str, of: &[&str]| {
        let tests = of.iter().map(|text| format!("{field}.{test}('{text}')"));
        tests.collect::<Vec<_>>().join(" || ")
    };
    // A deletion of a collection names no object.
    let name = "(request.operation == 'DELETE' ? oldObject.metadata.name : request.name)";
    let named = any(name, "startsWith", &PREFIXES);
    let near = any("request.namespace", "startsWith", &PREFIXES);
    let defined = any(name, "endsWith", &DEFINITIONS);
    let hooks = [
        (
            "definitions",
            ["apiextensions.k8s.io", "v1"],
            &["customresourcedefinitions"][..],
            "Cluster",
            Some(defined),
        ),
        (
            "namespaces",
            ["", "v1"],
            &["namespaces"],
            "Cluster",
            Some(named),
        ),
        ("objects", ["*", "*"], &["*/*"], "Namespaced", Some(near)),
        (
            "members",
            [CLUSTER_GROUP, "*"],
            &["memberclusters", "memberclusters/status"],
            "Cluster",
            None,
        ),
    ];
    let hooks = hooks.map(|(name, [group, version], resources, scope, about)| {
        let mut conditions = vec![json!({"name": "stranger", "expression": stranger})];
        conditions.extend(about.map(|about| json!({"name": "guarded", "expression": about})));
        json!({
            "name": format!("{name}.guard.kubernetes-fleet.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": address.client(PATH, bundle),
            "failurePolicy": "Ignore",
            "matchConditions": conditions,
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": [{
                "apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": resources, "scope": scope,
            }],
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": hooks,
    })
}

/// The member whose namespace a request is about.
pub(super) fn member_of(request: &Value) -> Option<&str> {
    request["namespace"]
        .as_str()?
        .strip_prefix(&member_namespace(""))
}

/// The reason why a request is refused. `member` is the one of [`member_of`].
pub(super) fn problem(
    rail: &GuardRail,
    request: &Value,
    member: Option<&MemberCluster>,
) -> Option<String> {
    let text = |field: &str| request[field].as_str().unwrap_or_default();
    let deleted = request["oldObject"]["metadata"]["name"].as_str();
    let name = match text("name") {
        "" => deleted.unwrap_or_default(),
        name => name,
    };
    let user = &request["userInfo"];
    let username = user["username"].as_str().unwrap_or_default();
    let is_trusted = USERS.contains(&username)
        || rail.users.iter().any(|one| one == username)
        || GROUPS.iter().any(|one| is_in(user, one));
    let resource = &request["resource"];
    let plural = resource["resource"].as_str().unwrap_or_default();
    let is_guarded = match (resource["group"].as_str().unwrap_or_default(), plural) {
        (CLUSTER_GROUP, "memberclusters") => !changes_metadata_only(rail, request),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            DEFINITIONS.iter().any(|end| name.ends_with(end))
        }
        ("", "namespaces") => is_system(name),
        _ => is_system(text("namespace")) && !member.is_some_and(|one| is_agent(one, user)),
    };
    (is_guarded && !is_trusted).then(|| {
        // A request about a namespace is in this namespace.
        let near = text("namespace");
        let near = Some(near).filter(|near| !near.is_empty() && plural != "namespaces");
        let place = near.into_iter().chain([name]);
        format!(
            "user: '{username}' is not allowed to {} resource {plural} {}: it belongs to the fleet",
            text("operation"),
            place.collect::<Vec<_>>().join("/")
        )
    })
}

fn is_in(user: &Value, group: &str) -> bool {
    let groups = user["groups"].as_array();
    groups.is_some_and(|groups| groups.iter().any(|one| one == group))
}

/// Whether a user is the agent of a member.
fn is_agent(member: &MemberCluster, user: &Value) -> bool {
    let identity = &member.spec.identity;
    match &*identity.kind {
        "Group" => is_in(user, &identity.name),
        "ServiceAccount" => {
            let name = format!(
                "system:serviceaccount:{}:{}",
                identity.namespace, identity.name
            );
            // The original is given the whole name.
            user["username"] == name || user["username"] == identity.name
        }
        _ => user["username"] == identity.name,
    }
}

/// Whether nothing but annotations and labels of a member changes.
fn changes_metadata_only(rail: &GuardRail, request: &Value) -> bool {
    let is_status = !request["subResource"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    if request["operation"] != "UPDATE" || is_status {
        return false;
    }
    let rest = |field: &str| {
        let mut object = request[field].clone();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for own in [
                "annotations",
                "managedFields",
                "resourceVersion",
                "generation",
            ] {
                metadata.remove(own);
            }
            if !rail.labels {
                metadata.remove("labels");
            }
        }
        object
    };
    rest("object") == rest("oldObject")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail() -> GuardRail {
        GuardRail {
            users: vec!["the-hub".to_owned()],
            labels: false,
        }
    }

    fn by(user: &str, group: &str, request: Value) -> Value {
        let mut request = request;
        request["userInfo"] = json!({"username": user, "groups": [group, "system:authenticated"]});
        request
    }

    fn of(group: &str, resource: &str, namespace: &str, name: &str) -> Value {
        json!({"operation": "UPDATE", "resource": {"group": group, "version": "v1", "resource": resource},
               "namespace": namespace, "name": name})
    }

    fn member() -> MemberCluster {
        let member = json!({"metadata": {"name": "m"}, "spec": {"identity": {"kind": "User", "name": "agent"}}});
        serde_json::from_value(member).unwrap()
    }

    #[test]
    fn what_belongs_to_the_fleet_is_changed_by_the_fleet_and_by_administrators() {
        let guarded = [
            of("", "namespaces", "", "fleet-member-m"),
            of("", "configmaps", "kube-system", "c"),
            of(
                "placement.kubernetes-fleet.io",
                "works",
                "fleet-member-m",
                "w",
            ),
            of(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "",
                "works.placement.kubernetes-fleet.io",
            ),
        ];
        let allowed = |user: &str, group: &str, request: &Value, member: Option<&MemberCluster>| {
            problem(&rail(), &by(user, group, request.clone()), member).is_none()
        };
        for request in &guarded {
            assert!(!allowed("bob", "dev", request, None), "{request}");
            assert!(allowed("the-hub", "dev", request, None), "{request}");
            assert!(allowed("bob", "system:masters", request, None), "{request}");
        }
        let said = problem(&rail(), &by("bob", "dev", guarded[2].clone()), None).unwrap();
        assert_eq!(
            said,
            "user: 'bob' is not allowed to UPDATE resource works fleet-member-m/w: it belongs to the fleet"
        );
        let mut named = guarded[0].clone();
        named["namespace"] = named["name"].clone();
        let said = problem(&rail(), &by("bob", "dev", named), None).unwrap();
        assert!(said.contains("namespaces fleet-member-m: it"), "{said}");
        // Of a collection, each object is asked about without its name.
        let mut collected = guarded[3].clone();
        collected["operation"] = "DELETE".into();
        collected["oldObject"] = json!({"metadata": {"name": collected["name"]}});
        collected["name"] = "".into();
        assert!(!allowed("bob", "dev", &collected, None));
        // A member writes in its own namespace.
        assert_eq!(member_of(&guarded[2]), Some("m"));
        assert!(allowed("agent", "dev", &guarded[2], Some(&member())));
        assert!(!allowed("agent", "dev", &guarded[1], None));
        let mut other = member();
        other.spec.identity.kind = "Group".to_owned();
        assert!(!allowed("agent", "dev", &guarded[2], Some(&other)));
        assert!(allowed("bob", "agent", &guarded[2], Some(&other)));
        for request in [
            of("", "namespaces", "", "app"),
            of("", "configmaps", "app", "c"),
            of(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "",
                "a.example.com",
            ),
        ] {
            assert!(allowed("bob", "dev", &request, None), "{request}");
        }
    }

    #[test]
    fn others_change_annotations_of_members_and_labels_unless_they_are_guarded() {
        let old = json!({"metadata": {"name": "m", "labels": {"a": "1"}, "annotations": {}, "generation": 1},
                         "spec": {"identity": {"kind": "User", "name": "agent"}}, "status": {}});
        let change = |pointer: &str, value: Value| {
            let mut request = of(CLUSTER_GROUP, "memberclusters", "", "m");
            request["oldObject"] = old.clone();
            request["object"] = old.clone();
            *request["object"].pointer_mut(pointer).unwrap() = value;
            by("bob", "dev", request)
        };
        let labels = change("/metadata/labels", json!({"a": "2"}));
        let annotations = change("/metadata/annotations", json!({"a": "2"}));
        let spec = change("/spec/identity/name", json!("bob"));
        let guarded = GuardRail {
            labels: true,
            ..rail()
        };
        assert_eq!(problem(&rail(), &labels, None), None);
        assert_eq!(problem(&rail(), &annotations, None), None);
        assert_eq!(problem(&guarded, &annotations, None), None);
        assert!(problem(&guarded, &labels, None).is_some());
        assert!(problem(&rail(), &spec, None).is_some());
        let mut status = annotations.clone();
        status["subResource"] = "status".into();
        assert!(problem(&rail(), &status, None).is_some());
        let mut deletion = annotations;
        deletion["operation"] = "DELETE".into();
        assert!(problem(&rail(), &deletion, None).is_some());
    }
}
