//! The webhook's answer to a write, and its configuration.

use kube_schema::admission::{Verdict, WebhookAddress};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::defaults::complete;
use super::guard::{self, GuardRail, is_system};
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

/// The names of the configurations, which are the original's.
const VALIDATION: &str = "fleet-validating-webhook-configuration";
const MUTATION: &str = "fleet-mutating-webhook-configuration";

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewTarget {
    ClusterPlacement,
    Placement,
    ClusterOverride,
    Override,
    Eviction,
    Budget,
    Member,
    /// Objects that have effects on the hub, which is there to place others.
    Pod,
    ReplicaSet,
    PodBudget,
    /// A placement whose defaults are filled in.
    Defaults,
    /// Everything that belongs to the fleet.
    Guarded,
}

/// What is validated.
const VALIDATED: [ReviewTarget; 10] = [
    ReviewTarget::ClusterPlacement,
    ReviewTarget::Placement,
    ReviewTarget::ClusterOverride,
    ReviewTarget::Override,
    ReviewTarget::Eviction,
    ReviewTarget::Budget,
    ReviewTarget::Member,
    ReviewTarget::Pod,
    ReviewTarget::ReplicaSet,
    ReviewTarget::PodBudget,
];

/// The objects that the webhook refuses besides invalid objects of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubGuards {
    /// Whether Pods and `ReplicaSet`s may be created.
    pub workloads: bool,
    /// Whether `PodDisruptionBudget`s may be created.
    pub budgets: bool,
    /// The namespace of the hub, in which all of them may be created.
    pub namespace: String,
    pub rail: Option<GuardRail>,
}

/// The facts that a verdict needs in addition to the request. Facts that it does not need are empty.
pub struct ReviewContext<'a> {
    pub scope_of: &'a dyn Fn(&ResourceSelectorTerm) -> KindScope,
    /// The objects at the path that [`needs`] names.
    pub found: &'a [Value],
    pub guards: &'a HubGuards,
}

impl HubGuards {
    fn refuses(&self, kind: ReviewTarget) -> bool {
        match kind {
            ReviewTarget::Pod | ReviewTarget::ReplicaSet => !self.workloads,
            ReviewTarget::PodBudget => !self.budgets,
            _ => false,
        }
    }

    /// Whether a namespace is one of Kubernetes or of the fleet.
    fn is_free(&self, namespace: &str) -> bool {
        is_system(namespace) || namespace == self.namespace
    }

    /// The namespaces in which API servers ask, as an expression of CEL.
    fn matched_namespaces(&self) -> String {
        let fleet =
            "!request.namespace.startsWith('fleet-') && !request.namespace.startsWith('kube-')";
        // Nothing but a name becomes part of an expression.
        if is_name(&self.namespace) {
            format!("{fleet} && request.namespace != '{}'", self.namespace)
        } else {
            fleet.to_owned()
        }
    }
}

impl ReviewTarget {
    pub fn of_path(path: &str) -> Option<Self> {
        let all = VALIDATED.into_iter().chain([Self::Defaults, Self::Guarded]);
        all.into_iter().find(|one| one.path() == path)
    }

    fn kind(self) -> &'static str {
        match self {
            Self::ClusterPlacement | Self::Defaults => "ClusterResourcePlacement",
            Self::Placement => "ResourcePlacement",
            Self::ClusterOverride => "ClusterResourceOverride",
            Self::Override => "ResourceOverride",
            Self::Eviction => "ClusterResourcePlacementEviction",
            Self::Budget => "ClusterResourcePlacementDisruptionBudget",
            Self::Member => "MemberCluster",
            Self::Pod => "Pod",
            Self::ReplicaSet => "ReplicaSet",
            Self::PodBudget => "PodDisruptionBudget",
            Self::Guarded => "",
        }
    }

    fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Self::Member => (CLUSTER_GROUP, STORED_VERSION),
            Self::Pod => ("", "v1"),
            Self::ReplicaSet => ("apps", "v1"),
            Self::PodBudget => ("policy", "v1"),
            _ => (PLACEMENT_GROUP, STORED_VERSION),
        }
    }

    fn path(self) -> String {
        let verb = match self {
            Self::Guarded => return guard::PATH.to_owned(),
            Self::Defaults => "mutate",
            _ => "validate",
        };
        let (group, version) = self.group_version();
        let (group, kind) = (group.replace('.', "-"), self.kind().to_lowercase());
        format!("/{verb}-{group}-{version}-{kind}")
    }

    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Eviction | Self::Pod | Self::ReplicaSet | Self::PodBudget => &["CREATE"],
            Self::Member => &["CREATE", "UPDATE", "DELETE"],
            _ => &["CREATE", "UPDATE"],
        }
    }

    /// The entry of a configuration.
    fn webhook(self, address: &WebhookAddress, bundle: &str, policy: &str) -> Value {
        let plural = format!("{}s", self.kind().to_lowercase());
        let (group, version) = self.group_version();
        let scope = match self {
            Self::Placement | Self::Override | Self::Pod | Self::ReplicaSet | Self::PodBudget => {
                "Namespaced"
            }
            _ => "Cluster",
        };
        let name = match self {
            Self::Pod | Self::ReplicaSet | Self::PodBudget => {
                format!("{plural}.hub.kubernetes-fleet.io")
            }
            _ => format!("{plural}.{group}"),
        };
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": address.client(&self.path(), bundle),
            // What the server would add is written too, so that the two can be compared.
            "failurePolicy": policy,
            "matchPolicy": "Equivalent",
            "objectSelector": {},
            "namespaceSelector": {},
            "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [group], "apiVersions": [version],
                "operations": self.operations(), "resources": [plural], "scope": scope,
            }],
            "sideEffects": "None",
        })
    }
}

/// The configurations of a webhook at this address, each with its plural; `bundle` are the authorities in base64.
pub fn configurations(
    guards: &HubGuards,
    address: &WebhookAddress,
    bundle: &str,
) -> Vec<(&'static str, Value)> {
    let refused = [
        ReviewTarget::Pod,
        ReviewTarget::ReplicaSet,
        ReviewTarget::PodBudget,
    ];
    let validated = VALIDATED
        .iter()
        .filter(|one| !refused.contains(one) || guards.refuses(**one));
    let validated = validated.map(|one| {
        let mut hook = one.webhook(address, bundle, "Fail");
        if refused.contains(one) {
            // The cluster, and the hub in it, start without the webhook.
            hook["matchConditions"] =
                json!([{"name": "not-of-the-system", "expression": guards.matched_namespaces()}]);
        }
        hook
    });
    let mut defaults = ReviewTarget::Defaults.webhook(address, bundle, "Ignore");
    defaults["reinvocationPolicy"] = "Never".into();
    let of = |kind: &str, name: &str, webhooks: Vec<Value>| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "webhooks": webhooks,
        })
    };
    let (validating, mutating) = (
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    );
    let mut all = vec![
        (
            "validatingwebhookconfigurations",
            of(validating, VALIDATION, validated.collect()),
        ),
        (
            "mutatingwebhookconfigurations",
            of(mutating, MUTATION, vec![defaults]),
        ),
    ];
    let guard = match &guards.rail {
        Some(rail) => guard::configuration(rail, address, bundle),
        // The configuration of a guard rail that was turned off has no webhooks.
        None => of(validating, guard::NAME, Vec::new()),
    };
    all.push(("validatingwebhookconfigurations", guard));
    all
}

/// The path of the object or list that a verdict on a request depends on, if it depends on any.
pub fn needs(kind: ReviewTarget, request: &Value) -> Option<String> {
    let group = format!("/apis/{PLACEMENT_GROUP}/{STORED_VERSION}");
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let placement = |name: &Value| {
        let name = text(name);
        is_name(&name).then(|| format!("{group}/clusterresourceplacements/{name}"))
    };
    let object = &request["object"];
    match kind {
        ReviewTarget::ClusterOverride => Some(format!("{group}/clusterresourceoverrides")),
        ReviewTarget::Override => {
            let namespace = text(&request["namespace"]);
            is_name(&namespace).then(|| format!("{group}/namespaces/{namespace}/resourceoverrides"))
        }
        ReviewTarget::Eviction => placement(&object["spec"]["placementName"]),
        ReviewTarget::Budget => placement(&object["metadata"]["name"]),
        ReviewTarget::Member if request["operation"] == "DELETE" => {
            let name = text(&request["name"]);
            let namespace = crate::names::member_namespace(&name);
            is_name(&name).then(|| format!(
                "/apis/networking.fleet.azure.com/v1alpha1/namespaces/{namespace}/internalserviceexports"
            ))
        }
        ReviewTarget::Guarded => {
            let member = guard::member_of(request).filter(|name| is_name(name));
            member
                .map(|name| format!("/apis/{CLUSTER_GROUP}/{STORED_VERSION}/memberclusters/{name}"))
        }
        ReviewTarget::ClusterPlacement
        | ReviewTarget::Placement
        | ReviewTarget::Member
        | ReviewTarget::Pod
        | ReviewTarget::ReplicaSet
        | ReviewTarget::PodBudget
        | ReviewTarget::Defaults => None,
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
pub fn judge(kind: ReviewTarget, request: &Value, around: &ReviewContext<'_>) -> Verdict {
    let judged = match request["operation"].as_str() {
        Some(_) if kind == ReviewTarget::Guarded => guarded(request, around),
        Some("CREATE" | "UPDATE") if kind == ReviewTarget::Defaults => return defaults(request),
        Some("CREATE" | "UPDATE") => problems(kind, request, around),
        Some("DELETE") if kind == ReviewTarget::Member => leaving(request, around),
        Some(_) => return Verdict::Allowed,
        None => Err("the body is not an AdmissionReview with a request".to_owned()),
    };
    match judged {
        Err(problem) => Verdict::Unreadable(problem),
        Ok(problems) if problems.is_empty() => Verdict::Allowed,
        Ok(problems) => Verdict::Denied(problems.join("; ")),
    }
}

/// The problem of a request that the guard rail refuses.
fn guarded(request: &Value, around: &ReviewContext<'_>) -> Result<Problems, String> {
    let member: Option<MemberCluster> = around.found.first().map(read).transpose()?;
    let problem = around.guards.rail.as_ref();
    let problem = problem.and_then(|rail| guard::problem(rail, request, member.as_ref()));
    Ok(problem.into_iter().collect())
}

/// Fills in what a placement does not say. One whose spec stays as it is gets nothing new, so that nothing is
/// scheduled anew.
fn defaults(request: &Value) -> Verdict {
    let object = &request["object"];
    let is_same =
        request["operation"] == "UPDATE" && object["spec"] == request["oldObject"]["spec"];
    let mut spec = object["spec"].clone();
    complete(&mut spec);
    if is_same || spec == object["spec"] {
        return Verdict::Allowed;
    }
    Verdict::Patched(json!([{"op": "replace", "path": "/spec", "value": spec}]))
}

fn problems(
    kind: ReviewTarget,
    request: &Value,
    around: &ReviewContext<'_>,
) -> Result<Problems, String> {
    let object = &request["object"];
    // Metadata alone is nobody's mistake: the hub, too, adds finalizers to what was made before it watched.
    if request["operation"] == "UPDATE" && object["spec"] == request["oldObject"]["spec"] {
        return Ok(Problems::new());
    }
    Ok(match kind {
        ReviewTarget::ClusterPlacement | ReviewTarget::Placement => {
            let new: Placement = read(object)?;
            if request["operation"] == "UPDATE" {
                let old: Placement = read(&request["oldObject"])?;
                check_placement_update(&old, &new, around.scope_of)
            } else {
                check_placement(&new, around.scope_of)
            }
        }
        ReviewTarget::ClusterOverride => {
            let one: ClusterResourceOverride = read(object)?;
            check_cluster_override(&one, &others(object, around))
        }
        ReviewTarget::Override => {
            let one: ResourceOverride = read(object)?;
            check_override(&one, &others(object, around))
        }
        ReviewTarget::Eviction => {
            let eviction: Eviction = read(object)?;
            check_eviction(&eviction, placement(around)?.as_ref())
        }
        ReviewTarget::Budget => {
            let budget: DisruptionBudget = read(object)?;
            check_budget(&budget, placement(around)?.as_ref())
        }
        ReviewTarget::Member => {
            let member: MemberCluster = read(object)?;
            check_member(&member.spec)
        }
        ReviewTarget::Pod | ReviewTarget::ReplicaSet | ReviewTarget::PodBudget => {
            let namespace = request["namespace"].as_str().unwrap_or_default();
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str();
            let name = name.or(metadata["generateName"].as_str());
            let is_refused = around.guards.refuses(kind) && !around.guards.is_free(namespace);
            let problem = || {
                format!(
                    "{} {namespace}/{} creation is disallowed in the fleet hub cluster",
                    kind.kind(),
                    name.unwrap_or_default()
                )
            };
            is_refused.then(problem).into_iter().collect()
        }
        ReviewTarget::Defaults | ReviewTarget::Guarded => Problems::new(),
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

    fn ask(kind: ReviewTarget, request: &Value, found: &[Value]) -> String {
        let scope_of = |term: &ResourceSelectorTerm| match &*term.kind {
            "Namespace" => KindScope::Cluster,
            _ => KindScope::Unknown,
        };
        let around = ReviewContext {
            scope_of: &scope_of,
            found,
            guards: &HubGuards {
                namespace: "the-hub".to_owned(),
                rail: Some(GuardRail::default()),
                ..HubGuards::default()
            },
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
    fn a_guard_rail_that_is_turned_off_has_no_webhooks() {
        let address = WebhookAddress::Url("https://127.0.0.1:9443".into());
        let made = configurations(&HubGuards::default(), &address, "Y2E=");
        let found = made.iter().map(|(_, one)| one);
        let mut rails = found.filter(|one| one["metadata"]["name"] == guard::NAME);
        assert_eq!(rails.next().unwrap()["webhooks"], json!([]));
    }

    #[test]
    fn every_path_of_the_configurations_is_answered() {
        let address = WebhookAddress::Url("https://127.0.0.1:9443".into());
        let paths = |guards: &HubGuards| {
            let made = configurations(guards, &address, "Y2E=");
            let hooks = made.iter().flat_map(|(_, made)| {
                let name = made["metadata"]["name"].as_str().unwrap().to_owned();
                let hooks = made["webhooks"].as_array().unwrap().iter();
                hooks.map(move |hook| (name.clone(), hook.clone()))
            });
            let paths = hooks.map(|(name, hook)| {
                let url = hook["clientConfig"]["url"].as_str().unwrap();
                let path = url.strip_prefix("https://127.0.0.1:9443").unwrap();
                assert!(ReviewTarget::of_path(path).is_some(), "{path}");
                // A name of a webhook has three parts.
                assert!(
                    hook["name"].as_str().unwrap().split('.').count() > 2,
                    "{hook}"
                );
                format!("{name} {path} {}", hook["failurePolicy"].as_str().unwrap())
            });
            paths.collect::<Vec<_>>()
        };
        let group = "placement-kubernetes-fleet-io-v1beta1";
        let all = paths(&HubGuards {
            rail: Some(GuardRail::default()),
            ..HubGuards::default()
        });
        assert_eq!(all.len(), 15);
        for wanted in [
            format!("{VALIDATION} /validate-{group}-clusterresourceplacement Fail"),
            format!(
                "{VALIDATION} /validate-cluster-kubernetes-fleet-io-v1beta1-membercluster Fail"
            ),
            format!("{VALIDATION} /validate--v1-pod Fail"),
            format!("{VALIDATION} /validate-apps-v1-replicaset Fail"),
            format!("{VALIDATION} /validate-policy-v1-poddisruptionbudget Fail"),
            format!("{MUTATION} /mutate-{group}-clusterresourceplacement Ignore"),
            "fleet-guard-rail-webhook-configuration /validate-fleet-guard-rail Ignore".to_owned(),
        ] {
            assert!(all.contains(&wanted), "{wanted} is not among {all:#?}");
        }
        // What is allowed is not asked about.
        let open = HubGuards {
            workloads: true,
            budgets: true,
            ..HubGuards::default()
        };
        assert_eq!(paths(&open).len(), 8);
    }

    #[test]
    fn the_hub_runs_no_workloads_but_those_of_the_system() {
        let create = |namespace: &str, metadata: Value| json!({"operation": "CREATE", "namespace": namespace, "object": {"metadata": metadata}});
        let pod = create("app", json!({"name": "p"}));
        assert_eq!(
            ask(ReviewTarget::Pod, &pod, &[]),
            "Pod app/p creation is disallowed in the fleet hub cluster"
        );
        let unnamed = create("app", json!({"generateName": "p-"}));
        assert_eq!(
            ask(ReviewTarget::ReplicaSet, &unnamed, &[]),
            "ReplicaSet app/p- creation is disallowed in the fleet hub cluster"
        );
        assert!(ask(ReviewTarget::PodBudget, &pod, &[]).starts_with("PodDisruptionBudget app/p"));
        for namespace in ["kube-system", "fleet-member-a", "the-hub"] {
            let pod = create(namespace, json!({"name": "p"}));
            assert_eq!(ask(ReviewTarget::Pod, &pod, &[]), "", "{namespace}");
        }
        let hostile = HubGuards {
            namespace: "x' || true || '".to_owned(),
            ..HubGuards::default()
        };
        assert!(!hostile.matched_namespaces().contains("true"));
    }

    #[test]
    fn defaults_are_filled_in_unless_the_spec_stays() {
        let bare = json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors": []}});
        let around = |request: &Value| {
            let context = ReviewContext {
                scope_of: &|_| KindScope::Cluster,
                found: &[],
                guards: &HubGuards::default(),
            };
            judge(ReviewTarget::Defaults, request, &context)
        };
        let create = json!({"operation": "CREATE", "object": bare});
        let Verdict::Patched(patch) = around(&create) else {
            panic!("nothing is filled in");
        };
        assert_eq!(patch[0]["path"], "/spec");
        assert_eq!(
            patch[0]["value"]["policy"],
            json!({"placementType": "PickAll"})
        );
        let mut marked = bare.clone();
        marked["metadata"]["finalizers"] = json!(["f"]);
        let mark = json!({"operation": "UPDATE", "object": marked, "oldObject": bare});
        assert_eq!(around(&mark), Verdict::Allowed);
        let full = json!({"operation": "CREATE", "object": {"spec": patch[0]["value"]}});
        assert_eq!(around(&full), Verdict::Allowed);
        let mut changed = bare.clone();
        changed["spec"]["revisionHistoryLimit"] = 3.into();
        let change = json!({"operation": "UPDATE", "object": changed, "oldObject": bare});
        assert!(matches!(around(&change), Verdict::Patched(_)));
    }

    #[test]
    fn the_guard_knows_the_member_of_a_namespace() {
        let request = json!({"operation": "UPDATE", "namespace": "fleet-member-m", "name": "w",
            "resource": {"group": PLACEMENT_GROUP, "resource": "works"},
            "userInfo": {"username": "agent", "groups": []}});
        let path = needs(ReviewTarget::Guarded, &request).unwrap();
        assert!(path.ends_with("/memberclusters/m"), "{path}");
        let member = json!({"metadata": {"name": "m"}, "spec": {"identity": {"kind": "User", "name": "agent"}}});
        assert_eq!(ask(ReviewTarget::Guarded, &request, &[member]), "");
        assert!(ask(ReviewTarget::Guarded, &request, &[]).contains("'agent' is not allowed"));
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
            ask(ReviewTarget::ClusterPlacement, &request, &[])
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
        let problem = ask(ReviewTarget::ClusterPlacement, &create, &[]);
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
        assert_eq!(
            ask(ReviewTarget::ClusterOverride, &request, &[named("a")]),
            ""
        );
        let problem = ask(ReviewTarget::ClusterOverride, &request, &[named("b")]);
        assert!(
            problem.contains("selected by both this override and b"),
            "{problem}"
        );
        let path = needs(ReviewTarget::Override, &json!({"namespace": "n"}));
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
            needs(ReviewTarget::Eviction, &eviction)
                .unwrap()
                .ends_with("/clusterresourceplacements/p")
        );
        assert!(ask(ReviewTarget::Eviction, &eviction, &[fixed]).contains("PickFixed"));
        assert_eq!(
            ask(
                ReviewTarget::Eviction,
                &eviction,
                std::slice::from_ref(&all)
            ),
            ""
        );
        assert_eq!(ask(ReviewTarget::Eviction, &eviction, &[]), "");
        let budget = |spec: Value| create(json!({"metadata": {"name": "p"}, "spec": spec}));
        for wrong in [json!({"maxUnavailable": 1}), json!({"minAvailable": "5%"})] {
            let problem = ask(
                ReviewTarget::Budget,
                &budget(wrong),
                std::slice::from_ref(&all),
            );
            assert!(problem.contains("PickAll"), "{problem}");
        }
        assert_eq!(
            ask(
                ReviewTarget::Budget,
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
        let path = needs(ReviewTarget::Member, &delete(json!({}))).unwrap();
        assert!(
            path.ends_with("/namespaces/fleet-member-m/internalserviceexports"),
            "{path}"
        );
        let export = [json!({"metadata": {"name": "x"}})];
        assert_eq!(ask(ReviewTarget::Member, &delete(json!({})), &[]), "");
        assert!(ask(ReviewTarget::Member, &delete(json!({})), &export).contains("serviceExport"));
        let skip = delete(json!({"validationMode": "Skip"}));
        assert_eq!(ask(ReviewTarget::Member, &skip, &export), "");
        assert!(ask(ReviewTarget::Member, &json!({}), &[]).contains("AdmissionReview"));
    }
}
