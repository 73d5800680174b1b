//! The webhook's answer to a write, and its configuration.

use kube_schema::admission::{Verdict, WebhookAddress};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    KindScope, Problems, check_budget, check_cluster_override, check_eviction, check_member,
    check_override, check_placement, check_placement_update,
};
use crate::types::cluster::MemberCluster;
use crate::types::eviction::{DisruptionBudget, Eviction};
use crate::types::overrides::{ClusterResourceOverride, ResourceOverride};
use crate::types::placement::Placement;
use crate::types::policy::ResourceSelectorTerm;
use crate::types::{CLUSTER_GROUP, PLACEMENT_GROUP, STORED_VERSION};

/// The name of the configuration, which is the original's.
const NAME: &str = "fleet-validating-webhook-configuration";

/// A kind whose writes are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewed {
    ClusterPlacement,
    Placement,
    ClusterOverride,
    Override,
    Eviction,
    Budget,
    Member,
}

const ALL: [Reviewed; 7] = [
    Reviewed::ClusterPlacement,
    Reviewed::Placement,
    Reviewed::ClusterOverride,
    Reviewed::Override,
    Reviewed::Eviction,
    Reviewed::Budget,
    Reviewed::Member,
];

/// The facts that a verdict needs in addition to the request. Facts that it does not need are empty.
pub struct ReviewContext<'a> {
    pub scope_of: &'a dyn Fn(&ResourceSelectorTerm) -> KindScope,
    /// The objects at the path that [`needs`] names.
    pub found: &'a [Value],
}

impl Reviewed {
    pub fn of_path(path: &str) -> Option<Self> {
        ALL.into_iter().find(|one| one.path() == path)
    }

    fn kind(self) -> &'static str {
        match self {
            Self::ClusterPlacement => "ClusterResourcePlacement",
            Self::Placement => "ResourcePlacement",
            Self::ClusterOverride => "ClusterResourceOverride",
            Self::Override => "ResourceOverride",
            Self::Eviction => "ClusterResourcePlacementEviction",
            Self::Budget => "ClusterResourcePlacementDisruptionBudget",
            Self::Member => "MemberCluster",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Member => CLUSTER_GROUP,
            _ => PLACEMENT_GROUP,
        }
    }

    fn path(self) -> String {
        let group = self.group().replace('.', "-");
        format!(
            "/validate-{group}-{STORED_VERSION}-{}",
            self.kind().to_lowercase()
        )
    }

    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Eviction => &["CREATE"],
            Self::Member => &["CREATE", "UPDATE", "DELETE"],
            _ => &["CREATE", "UPDATE"],
        }
    }
}

/// The configuration of a webhook at this address; `bundle` are the authorities in base64.
pub fn configuration(address: &WebhookAddress, bundle: &str) -> Value {
    let webhooks = ALL.iter().map(|one| {
        let plural = format!("{}s", one.kind().to_lowercase());
        let scope = match one {
            Reviewed::Placement | Reviewed::Override => "Namespaced",
            _ => "Cluster",
        };
        json!({
            "name": format!("{}.{}", plural, one.group()),
            "admissionReviewVersions": ["v1"],
            "clientConfig": address.client(&one.path(), bundle),
            // What the server would add is written too, so that the two can be compared.
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "objectSelector": {},
            "namespaceSelector": {},
            "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [one.group()], "apiVersions": [STORED_VERSION],
                "operations": one.operations(), "resources": [plural], "scope": scope,
            }],
            "sideEffects": "None",
        })
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks.collect::<Vec<Value>>(),
    })
}

/// The path of the object or list that a verdict on a request depends on, if it depends on any.
pub fn needs(kind: Reviewed, request: &Value) -> Option<String> {
    let group = format!("/apis/{PLACEMENT_GROUP}/{STORED_VERSION}");
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let placement = |name: &Value| {
        let name = text(name);
        is_name(&name).then(|| format!("{group}/clusterresourceplacements/{name}"))
    };
    let object = &request["object"];
    match kind {
        Reviewed::ClusterOverride => Some(format!("{group}/clusterresourceoverrides")),
        Reviewed::Override => {
            let namespace = text(&request["namespace"]);
            is_name(&namespace).then(|| format!("{group}/namespaces/{namespace}/resourceoverrides"))
        }
        Reviewed::Eviction => placement(&object["spec"]["placementName"]),
        Reviewed::Budget => placement(&object["metadata"]["name"]),
        Reviewed::Member if request["operation"] == "DELETE" => {
            let name = text(&request["name"]);
            let namespace = crate::names::member_namespace(&name);
            is_name(&name).then(|| format!(
                "/apis/networking.fleet.azure.com/v1alpha1/namespaces/{namespace}/internalserviceexports"
            ))
        }
        Reviewed::ClusterPlacement | Reviewed::Placement | Reviewed::Member => None,
    }
}

/// Whether a text has the form of object names: only such texts become part of a path, because any client can send a
/// review.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(allowed)
        && text
            .bytes()
            .all(|byte| allowed(byte) || byte == b'-' || byte == b'.')
}

/// The verdict on a request.
pub fn judge(kind: Reviewed, request: &Value, around: &ReviewContext<'_>) -> Verdict {
    let judged = match request["operation"].as_str() {
        Some("CREATE" | "UPDATE") => problems(kind, request, around),
        Some("DELETE") if kind == Reviewed::Member => leaving(request, around),
        Some(_) => return Verdict::Allowed,
        None => Err("the body is not an AdmissionReview with a request".to_owned()),
    };
    match judged {
        Err(problem) => Verdict::Unreadable(problem),
        Ok(problems) if problems.is_empty() => Verdict::Allowed,
        Ok(problems) => Verdict::Denied(problems.join("; ")),
    }
}

fn problems(
    kind: Reviewed,
    request: &Value,
    around: &ReviewContext<'_>,
) -> Result<Problems, String> {
    let object = &request["object"];
    // Metadata alone is nobody's mistake: the hub, too, adds finalizers to what was made before it watched.
    if request["operation"] == "UPDATE" && object["spec"] == request["oldObject"]["spec"] {
        return Ok(Problems::new());
    }
    Ok(match kind {
        Reviewed::ClusterPlacement | Reviewed::Placement => {
            let new: Placement = read(object)?;
            if request["operation"] == "UPDATE" {
                let old: Placement = read(&request["oldObject"])?;
                check_placement_update(&old, &new, around.scope_of)
            } else {
                check_placement(&new, around.scope_of)
            }
        }
        Reviewed::ClusterOverride => {
            let one: ClusterResourceOverride = read(object)?;
            check_cluster_override(&one, &others(object, around))
        }
        Reviewed::Override => {
            let one: ResourceOverride = read(object)?;
            check_override(&one, &others(object, around))
        }
        Reviewed::Eviction => {
            let eviction: Eviction = read(object)?;
            check_eviction(&eviction, placement(around)?.as_ref())
        }
        Reviewed::Budget => {
            let budget: DisruptionBudget = read(object)?;
            check_budget(&budget, placement(around)?.as_ref())
        }
        Reviewed::Member => {
            let member: MemberCluster = read(object)?;
            check_member(&member.spec)
        }
    })
}

/// The problems of a member that is deleted.
fn leaving(request: &Value, around: &ReviewContext<'_>) -> Result<Problems, String> {
    let member: MemberCluster = read(&request["oldObject"])?;
    let options = member.spec.delete_options.as_ref();
    let is_skipped = options.is_some_and(|options| json!(options)["validationMode"] == "Skip");
    let mut problems = Problems::new();
    if !is_skipped && !around.found.is_empty() {
        problems.push(format!(
            "Please delete serviceExport in the member cluster before leaving: {} are still exported",
            around.found.len()
        ));
    }
    Ok(problems)
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    serde_json::from_value(object.clone())
        .map_err(|error| format!("the object cannot be read: {error}"))
}

/// The placement that was found.
fn placement(around: &ReviewContext<'_>) -> Result<Option<Placement>, String> {
    around.found.first().map(read).transpose()
}

/// The objects that were found, without the object itself.
fn others<T: DeserializeOwned>(object: &Value, around: &ReviewContext<'_>) -> Vec<T> {
    let others = around.found.iter();
    let others = others.filter(|other| other["metadata"]["name"] != object["metadata"]["name"]);
    // One that cannot be read is left out by the hub too.
    others.filter_map(|other| read(other).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: Reviewed, request: &Value, found: &[Value]) -> String {
        let scope_of = |term: &ResourceSelectorTerm| match &*term.kind {
            "Namespace" => KindScope::Cluster,
            _ => KindScope::Unknown,
        };
        let around = ReviewContext {
            scope_of: &scope_of,
            found,
        };
        match judge(kind, request, &around) {
            Verdict::Allowed => String::new(),
            Verdict::Denied(problem) | Verdict::Unreadable(problem) => problem,
            other => panic!("{other:?}"),
        }
    }

    fn placement(policy: &Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"policy": policy, "resourceSelectors": [
            {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]}})
    }

    #[test]
    fn every_path_of_the_configuration_is_answered() {
        let address = WebhookAddress::Url("https://127.0.0.1:9443".into());
        let made = configuration(&address, "Y2E=");
        assert_eq!(made["metadata"]["name"], NAME);
        let mut paths = Vec::new();
        for hook in made["webhooks"].as_array().unwrap() {
            let url = hook["clientConfig"]["url"].as_str().unwrap();
            let path = url.strip_prefix("https://127.0.0.1:9443").unwrap();
            assert!(Reviewed::of_path(path).is_some(), "{path}");
            paths.push(path.to_owned());
        }
        assert_eq!(
            paths[0],
            "/validate-placement-kubernetes-fleet-io-v1beta1-clusterresourceplacement"
        );
        assert_eq!(
            paths[6],
            "/validate-cluster-kubernetes-fleet-io-v1beta1-membercluster"
        );
        assert_eq!(paths.len(), 7);
    }

    #[test]
    fn a_placement_may_only_gain_tolerations_and_metadata_is_its_own() {
        let tolerating = |tolerations: Value| {
            placement(
                &json!({"placementType": "PickN", "numberOfClusters": 1, "tolerations": tolerations}),
            )
        };
        let one = tolerating(json!([{"key": "k", "operator": "Exists"}]));
        let update = |old: &Value, new: &Value| {
            let request = json!({"operation": "UPDATE", "object": new, "oldObject": old});
            ask(Reviewed::ClusterPlacement, &request, &[])
        };
        assert_eq!(update(&tolerating(json!([])), &one), "");
        let problem = update(&one, &tolerating(json!([])));
        assert!(
            problem.contains("only additions to tolerations are allowed"),
            "{problem}"
        );
        let invalid = placement(&json!({"placementType": "PickN"}));
        let mut marked = invalid.clone();
        marked["metadata"]["finalizers"] = json!(["f"]);
        assert_eq!(update(&invalid, &marked), "");
        let create = json!({"operation": "CREATE", "object": invalid});
        let problem = ask(Reviewed::ClusterPlacement, &create, &[]);
        assert!(
            problem.contains("number of clusters must be set"),
            "{problem}"
        );
    }

    #[test]
    fn an_override_knows_the_others_and_not_itself() {
        let named = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {
                "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
                "policy": {"overrideRules": [{"jsonPatchOverrides": [
                    {"op": "add", "path": "/metadata/labels/a", "value": "b"}]}]}}})
        };
        let request = json!({"operation": "CREATE", "object": named("a")});
        assert_eq!(ask(Reviewed::ClusterOverride, &request, &[named("a")]), "");
        let problem = ask(Reviewed::ClusterOverride, &request, &[named("b")]);
        assert!(
            problem.contains("selected by both this override and b"),
            "{problem}"
        );
        let path = needs(Reviewed::Override, &json!({"namespace": "n"}));
        assert!(path.unwrap().ends_with("/namespaces/n/resourceoverrides"));
    }

    #[test]
    fn evictions_and_budgets_fit_the_policy_of_their_placement() {
        let fixed = placement(&json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
        let all = placement(&json!({"placementType": "PickAll"}));
        let create = |object: Value| json!({"operation": "CREATE", "object": object});
        let eviction = create(json!({"metadata": {"name": "e"},
            "spec": {"placementName": "p", "clusterName": "a"}}));
        assert!(
            needs(Reviewed::Eviction, &eviction)
                .unwrap()
                .ends_with("/clusterresourceplacements/p")
        );
        assert!(ask(Reviewed::Eviction, &eviction, &[fixed]).contains("PickFixed"));
        assert_eq!(
            ask(Reviewed::Eviction, &eviction, std::slice::from_ref(&all)),
            ""
        );
        assert_eq!(ask(Reviewed::Eviction, &eviction, &[]), "");
        let budget = |spec: Value| create(json!({"metadata": {"name": "p"}, "spec": spec}));
        for wrong in [json!({"maxUnavailable": 1}), json!({"minAvailable": "5%"})] {
            let problem = ask(Reviewed::Budget, &budget(wrong), std::slice::from_ref(&all));
            assert!(problem.contains("PickAll"), "{problem}");
        }
        assert_eq!(
            ask(
                Reviewed::Budget,
                &budget(json!({"minAvailable": 1})),
                &[all]
            ),
            ""
        );
    }

    #[test]
    fn a_member_with_exports_leaves_only_if_nobody_asks() {
        let member = |options: Value| {
            json!({"metadata": {"name": "m"}, "spec": {"identity": {"kind": "User", "name": "u"},
                   "deleteOptions": options}})
        };
        let delete = |options: Value| json!({"operation": "DELETE", "name": "m", "oldObject": member(options)});
        let path = needs(Reviewed::Member, &delete(json!({}))).unwrap();
        assert!(
            path.ends_with("/namespaces/fleet-member-m/internalserviceexports"),
            "{path}"
        );
        let export = [json!({"metadata": {"name": "x"}})];
        assert_eq!(ask(Reviewed::Member, &delete(json!({})), &[]), "");
        assert!(ask(Reviewed::Member, &delete(json!({})), &export).contains("serviceExport"));
        let skip = delete(json!({"validationMode": "Skip"}));
        assert_eq!(ask(Reviewed::Member, &skip, &export), "");
        assert!(ask(Reviewed::Member, &json!({}), &[]).contains("AdmissionReview"));
    }
}
