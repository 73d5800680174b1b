//! The minimal rights of an agent on both sides, and what does not work without each of them.
//!
//! This list does not contain rights on objects in workspaces: consumers grant these by accepting permission claims.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::types::{DriftTreatment, LegacyKind, Origin, PublishedResourceSpec, RelatedSpec};

/// The server that grants a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightsSide {
    Service,
    /// The workspace of the `APIExport` and of its slice.
    Provider,
}

impl RightsSide {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "on the service cluster",
            Self::Provider => "in the workspace of the APIExport",
        }
    }
}

/// A right: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub grantor: RightsSide,
    /// The namespace of the right; `None` for all namespaces.
    pub namespace: Option<String>,
    pub resource: RightResource,
    pub verb: &'static str,
    /// What does not work without the right.
    pub purpose: String,
}

/// The resource of a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightResource {
    Object {
        group: String,
        /// The resource, with its subresource after a slash.
        resource: String,
        /// The name of the object, if the right is for one object only.
        name: Option<String>,
    },
    Path(&'static str),
}

/// The properties of an agent that its rights depend on.
#[derive(Clone, Debug)]
pub struct AgentNeeds {
    pub namespace: String,
    pub slice: String,
    pub export: String,
    pub elects_leader: bool,
    /// Whether replicas share the workspaces.
    pub has_shards: bool,
}

/// The properties of a published kind that rights depend on.
#[derive(Clone, Debug)]
pub struct PublishedKindNeeds {
    pub spec: PublishedResourceSpec,
    /// The plural of the kind on the service cluster.
    pub plural: String,
}

const READ: [(&str, &str); 3] = [
    ("list", "the agent cannot see them and synchronizes nothing"),
    (
        "watch",
        "the agent cannot see them and synchronizes nothing",
    ),
    (
        "get",
        "the agent cannot read an object again after a conflict",
    ),
];

/// The rights of an agent that publishes these kinds, sorted, each once.
pub fn needed(agent: &AgentNeeds, published: &[PublishedKindNeeds]) -> Vec<Right> {
    let mut needs = GroupedRights::default();
    of_agent(agent, &mut needs);
    in_provider_workspace(agent, &mut needs);
    for kind in published {
        if kind.spec.synchronizes() {
            of_kind(agent, kind, &mut needs);
        }
    }
    needs.least()
}

/// The rights by what they allow; a right with several purposes is kept once.
#[derive(Default)]
struct GroupedRights(BTreeMap<(RightsSide, Option<String>, RightResource, &'static str), Right>);

impl GroupedRights {
    /// The rights, without those in a namespace that are needed in all of them.
    fn least(self) -> Vec<Right> {
        let everywhere = |right: &Right| {
            let resource = match right.resource.clone() {
                RightResource::Object {
                    group, resource, ..
                } => RightResource::Object {
                    group,
                    resource,
                    name: None,
                },
                path @ RightResource::Path(_) => path,
            };
            let key = (right.grantor, None, resource, right.verb);
            right.namespace.is_some() && self.0.contains_key(&key)
        };
        let needed = self.0.values().filter(|right| !everywhere(right));
        needed.cloned().collect()
    }

    fn add(
        &mut self,
        (grantor, namespace): (RightsSide, Option<&str>),
        (group, resource, name): (&str, &str, Option<&str>),
        verbs: &[(&'static str, &str)],
    ) {
        let resource = RightResource::Object {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
        };
        let namespace = namespace.map(str::to_owned);
        for (verb, purpose) in verbs {
            let right = Right {
                grantor,
                namespace: namespace.clone(),
                resource: resource.clone(),
                verb,
                purpose: (*purpose).to_owned(),
            };
            let key = (grantor, namespace.clone(), resource.clone(), *verb);
            self.0.entry(key).or_insert(right);
        }
    }
}

fn of_agent(agent: &AgentNeeds, needs: &mut GroupedRights) {
    let own = (RightsSide::Service, Some(&*agent.namespace));
    let everywhere = (RightsSide::Service, None);
    needs.add(
        everywhere,
        ("syncagent.kcp.io", "publishedresources", None),
        &[
            ("list", "the agent does not know what to publish"),
            ("watch", "the agent does not know what to publish"),
        ],
    );
    needs.add(
        everywhere,
        ("syncagent.kcp.io", "publishedresources/status", None),
        &[(
            "patch",
            "the status lacks the name of the schema and the conditions",
        )],
    );
    needs.add(
        everywhere,
        ("apiextensions.k8s.io", "customresourcedefinitions", None),
        &[
            ("get", "no schema is published"),
            ("list", "changes of CRDs are not published"),
            ("watch", "changes of CRDs are not published"),
        ],
    );
    needs.add(
        (RightsSide::Service, Some("default")),
        ("", "events", None),
        &[("create", "no events are sent about PublishedResources")],
    );
    if agent.elects_leader {
        let leases = ("coordination.k8s.io", "leases", None);
        let purpose = "no leader is elected";
        let verbs = ["get", "create", "update"].map(|verb| (verb, purpose));
        needs.add(own, leases, &verbs);
        if agent.has_shards {
            let sees = ("list", "no replica takes a shard");
            let cleans = ("delete", "leases of replicas that are gone stay");
            needs.add(own, leases, &[sees, cleans]);
        }
        let events = ("", "events", None);
        needs.add(
            own,
            events,
            &[("create", "no events are sent about the leader")],
        );
    }
}

fn in_provider_workspace(agent: &AgentNeeds, needs: &mut GroupedRights) {
    let there = (RightsSide::Provider, None);
    let (export, slice) = (Some(&*agent.export), Some(&*agent.slice));
    let path = Right {
        grantor: RightsSide::Provider,
        namespace: None,
        resource: RightResource::Path("/"),
        verb: "access",
        purpose: "kcp refuses every request in the workspace".to_owned(),
    };
    let key = (RightsSide::Provider, None, path.resource.clone(), path.verb);
    needs.0.insert(key, path);
    needs.add(
        there,
        ("core.kcp.io", "logicalclusters", Some("cluster")),
        &[("get", "the agent does not start")],
    );
    let starts = |verb| (verb, "the agent does not start");
    needs.add(
        there,
        ("apis.kcp.io", "apiexportendpointslices", slice),
        &["get", "list", "watch"].map(starts),
    );
    needs.add(
        there,
        ("apis.kcp.io", "apiexports", export),
        &["get", "list", "watch"].map(starts),
    );
    needs.add(
        there,
        ("apis.kcp.io", "apiexports", export),
        &[("update", "nothing new is exported")],
    );
    needs.add(
        there,
        ("apis.kcp.io", "apiresourceschemas", None),
        &[
            ("get", "no schema is published"),
            ("create", "no schema is published"),
        ],
    );
    needs.add(
        there,
        ("", "events", None),
        &[("create", "no events are sent about the APIExport")],
    );
    let content = ("apis.kcp.io", "apiexports/content", export);
    needs.add(
        there,
        content,
        &["get", "list", "watch"].map(|verb| (verb, "the agent sees no object of any workspace")),
    );
    needs.add(
        there,
        content,
        &[
            (
                "create",
                "related objects and events are not created in workspaces",
            ),
            ("update", "no status is written to workspaces"),
            ("patch", "no object of a workspace is synchronized"),
            ("delete", "related objects in workspaces are not deleted"),
        ],
    );
}

fn of_kind(agent: &AgentNeeds, kind: &PublishedKindNeeds, needs: &mut GroupedRights) {
    let everywhere = (RightsSide::Service, None);
    needs.add(
        (RightsSide::Service, Some(&agent.namespace)),
        ("", "secrets", None),
        &[
            READ[0],
            READ[1],
            READ[2],
            (
                "create",
                "no object is synchronized, because its last known state cannot be stored",
            ),
            (
                "update",
                "no change is synchronized, because the last known state cannot be stored",
            ),
            ("delete", "state Secrets of deleted objects stay"),
        ],
    );
    needs.add(
        everywhere,
        ("", "namespaces", None),
        &[
            READ[0],
            READ[1],
            READ[2],
            (
                "create",
                "copies whose namespace does not exist are not created",
            ),
        ],
    );
    needs.add(
        everywhere,
        (&kind.spec.resource.api_group, &kind.plural, None),
        &copied(),
    );
    let mut rules = kind.spec.drift.iter();
    if rules.any(|rule| rule.mode != DriftTreatment::Keep) {
        needs.add(
            everywhere,
            ("", "events", None),
            &[(
                "create",
                "no events are sent about fields of copies that others changed",
            )],
        );
    }
    for entry in &kind.spec.related {
        of_related(entry, needs);
    }
}

fn of_related(entry: &RelatedSpec, needs: &mut GroupedRights) {
    let Some((group, resource)) = on_service(entry) else {
        return;
    };
    let everywhere = (RightsSide::Service, None);
    let verbs: &[_] = match entry.origin {
        Origin::Service => &READ,
        Origin::Kcp => &copied(),
    };
    needs.add(everywhere, (&group, &resource, None), verbs);
    if entry.origin == Origin::Kcp && entry.sync_status {
        needs.add(
            everywhere,
            (&group, &format!("{resource}/status"), None),
            &[("update", "the status of copies is not written")],
        );
    }
}

/// The verbs for objects that the agent creates.
fn copied() -> [(&'static str, &'static str); 6] {
    [
        READ[0],
        READ[1],
        READ[2],
        ("create", "no copy is created"),
        ("patch", "no change is copied"),
        (
            "delete",
            "when an object is deleted, its copy stays, and its deletion does not complete",
        ),
    ]
}

/// Group and plural of a related type on the service cluster.
fn on_service(entry: &RelatedSpec) -> Option<(String, String)> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (mut group, mut resource) = match (given(&entry.resource), entry.kind) {
        (Some(resource), _) => (given(&entry.group).unwrap_or_default(), resource),
        (None, Some(LegacyKind::ConfigMap)) => (String::new(), "configmaps".to_owned()),
        (None, Some(LegacyKind::Secret)) => (String::new(), "secrets".to_owned()),
        // An entry without a type is refused by the rules.
        (None, None) => return None,
    };
    if let (Origin::Kcp, Some(projection)) = (entry.origin, &entry.projection) {
        group = given(&projection.group).unwrap_or(group);
        resource = given(&projection.resource).unwrap_or(resource);
    }
    Some((group, resource))
}

/// In words: `delete secrets in namespace hawser on the service cluster`.
impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.resource {
            RightResource::Path(path) => write!(f, "{} {path}", self.verb)?,
            RightResource::Object {
                group,
                resource,
                name,
            } => {
                write!(f, "{} {resource}", self.verb)?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if let Some(name) = name {
                    write!(f, " named {name}")?;
                }
            }
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace}")?;
        }
        write!(f, " {}", self.grantor.as_str())
    }
}

impl Right {
    /// The access review that asks a server whether the caller has the right.
    pub fn review(&self) -> Value {
        let mut spec = json!({});
        match &self.resource {
            RightResource::Path(path) => {
                spec["nonResourceAttributes"] = json!({"path": path, "verb": self.verb});
            }
            RightResource::Object {
                group,
                resource,
                name,
            } => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                spec["resourceAttributes"] = json!({
                    "namespace": self.namespace.as_deref().unwrap_or_default(),
                    "verb": self.verb,
                    "group": group,
                    "resource": resource,
                    "subresource": subresource,
                    "name": name.as_deref().unwrap_or_default(),
                });
            }
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        })
    }
}

/// Roles with exactly these rights on one side, and bindings to the subject.
pub fn roles(
    rights: &[Right],
    grantor: RightsSide,
    name: &str,
    subject: Option<&Value>,
) -> Vec<Value> {
    let of_side = || rights.iter().filter(|right| right.grantor == grantor);
    let namespaces: BTreeSet<Option<&str>> =
        of_side().map(|right| right.namespace.as_deref()).collect();
    let mut manifests = Vec::new();
    for namespace in namespaces {
        let here = of_side().filter(|right| right.namespace.as_deref() == namespace);
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let mut metadata = json!({ "name": name });
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        manifests.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": format!("{prefix}Role"),
            "metadata": metadata,
            "rules": rules(here),
        }));
        if let Some(subject) = subject {
            manifests.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": format!("{prefix}RoleBinding"),
                "metadata": metadata,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": format!("{prefix}Role"),
                    "name": name,
                },
                "subjects": [subject],
            }));
        }
    }
    manifests
}

fn rules<'r>(rights: impl Iterator<Item = &'r Right>) -> Vec<Value> {
    let mut verbs: BTreeMap<&RightResource, Vec<&str>> = BTreeMap::new();
    for right in rights {
        verbs.entry(&right.resource).or_default().push(right.verb);
    }
    let rule = |(resource, verbs): (&RightResource, Vec<&str>)| match resource {
        RightResource::Path(path) => json!({"nonResourceURLs": [path], "verbs": verbs}),
        RightResource::Object {
            group,
            resource,
            name,
        } => {
            let mut rule = json!({"apiGroups": [group], "resources": [resource]});
            if let Some(name) = name {
                rule["resourceNames"] = json!([name]);
            }
            rule["verbs"] = json!(verbs);
            rule
        }
    };
    verbs.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests;
