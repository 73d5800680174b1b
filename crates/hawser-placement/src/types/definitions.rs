//! The definitions of the types, generated from the Rust types.
//!
//! `v1beta1` is stored; `v1` and `v1alpha1` are served with the same schema or fewer fields.

use kube_schema::generate::schema;
use serde_json::{Value, json};

use super::binding::{
    BindingSpec, BindingStatus, PolicySnapshotSpec, PolicySnapshotStatus, ResourceSnapshotSpec,
};
use super::cluster::{InternalMemberClusterSpec, MemberClusterSpec, MemberClusterStatus};
use super::eviction::{DisruptionBudgetSpec, EvictionSpec, EvictionStatus};
use super::overrides::{
    ClusterResourceOverrideSnapshotSpec, ClusterResourceOverrideSpec, EnvelopeData,
    ResourceOverrideSnapshotSpec, ResourceOverrideSpec,
};
use super::placement::{PlacementSpec, PlacementStatus};
use super::work::{AppliedWorkSpec, AppliedWorkStatus, WorkSpec, WorkStatus};
use super::{CLUSTER_GROUP, PLACEMENT_GROUP, STORED_VERSION};

mod kind;
mod runs;

use kind::{
    ALL, Kind, NAME_RULE, V1, add_rule, age, cluster_scoped, column, minor, namespaced, object,
    remove, spec_only, with_status,
};

const HEADER: &str = "# Generated from the types in crates/hawser-placement; do not edit.\n\
# To write it anew: HAWSER_WRITE_GENERATED=1 cargo test -p hawser-placement generated_\n";

/// The path of the manifest, below the root of the project.
pub const PATH: &str = "crds/kubernetes-fleet.io.yaml";

const V1_BETA_ONLY: &[&str] = &["v1beta1"];
const V1_ALPHA: &[&str] = &["v1alpha1", "v1beta1"];

/// Fields that `v1` does not have.
const NOT_IN_V1: &[&str] = &[
    "/properties/spec/properties/strategy/properties/deleteStrategy",
    "/properties/spec/properties/strategy/properties/reportBackStrategy",
    "/properties/spec/properties/reportBackStrategy",
    "/properties/spec/properties/deleteOptions",
    "/properties/status/properties/namespaces",
    "/properties/status/properties/manifestConditions/items/properties/backReportedStatus",
];

const SCOPE_RULE: (&str, &str) = (
    "!(has(self.statusReportingScope) && self.statusReportingScope == 'NamespaceAccessible') || size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) == 1",
    "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
);

/// All definitions, sorted by group and name.
pub fn definitions() -> Vec<Value> {
    let mut all: Vec<Value> = cluster_kinds()
        .into_iter()
        .map(|kind| definition(CLUSTER_GROUP, &kind))
        .collect();
    all.extend(
        placement_kinds()
            .into_iter()
            .map(|kind| definition(PLACEMENT_GROUP, &kind)),
    );
    all.sort_by_key(|definition| {
        let text = |pointer| definition.pointer(pointer).map(Value::to_string);
        (text("/spec/group"), text("/metadata/name"))
    });
    all
}

/// All definitions as YAML, as checked in.
pub fn yaml() -> String {
    let mut text = HEADER.to_owned();
    for definition in definitions() {
        text.push_str("---\n");
        let body = serde_saphyr::to_string(&definition);
        text.push_str(&body.expect("a definition is made of maps with string keys"));
    }
    text
}

fn cluster_kinds() -> Vec<Kind> {
    let mut member = with_status::<MemberClusterSpec, MemberClusterStatus>();
    add_rule(&mut member, NAME_RULE);
    vec![
        Kind {
            columns: json!([
                column(
                    "Joined",
                    "string",
                    ".status.conditions[?(@.type==\"Joined\")].status"
                ),
                age(),
                column(
                    "Member-Agent-Last-Seen",
                    "date",
                    ".status.agentStatus[?(@.type==\"MemberAgent\")].lastReceivedHeartbeat"
                ),
                column(
                    "Node-Count",
                    "string",
                    ".status.properties.kubernetes-fleet\\.io/node-count.value"
                ),
                column(
                    "Available-CPU",
                    "string",
                    ".status.resourceUsage.available.cpu"
                ),
                column(
                    "Available-Memory",
                    "string",
                    ".status.resourceUsage.available.memory"
                ),
                minor(column(
                    "Allocatable-CPU",
                    "string",
                    ".status.resourceUsage.allocatable.cpu"
                )),
                minor(column(
                    "Allocatable-Memory",
                    "string",
                    ".status.resourceUsage.allocatable.memory"
                )),
            ]),
            ..cluster_scoped("MemberCluster", Some("cluster"), V1, member)
        },
        Kind {
            columns: json!([age()]),
            ..namespaced(
                "InternalMemberCluster",
                Some("imc"),
                V1,
                with_status::<InternalMemberClusterSpec, MemberClusterStatus>(),
            )
        },
    ]
}

fn placement_kinds() -> Vec<Kind> {
    let placement = with_status::<PlacementSpec, PlacementStatus>();
    let mut cluster_placement = placement.clone();
    add_rule(&mut cluster_placement["properties"]["spec"], SCOPE_RULE);
    let mut policies = with_status::<PolicySnapshotSpec, PolicySnapshotStatus>();
    // A snapshot holds a part of the policy, without the number of clusters that the rules ask for.
    let policy = &mut policies["properties"]["spec"]["properties"]["policy"];
    if let Value::Object(policy) = policy {
        policy.remove("x-kubernetes-validations");
    }
    let mut resources = spec_only::<ResourceSnapshotSpec>();
    resources["properties"]["status"] = json!({
        "type": "object",
        "properties": {"conditions": json!({"type": "array", "items": schema::<super::Condition>(),
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})},
    });
    let bindings = with_status::<BindingSpec, BindingStatus>();
    let snapshot_columns = || json!([column("Gen", "string", ".metadata.generation"), age()]);
    let mut kinds = vec![
        Kind {
            columns: placement_columns("ClusterResourcePlacement"),
            ..cluster_scoped(
                "ClusterResourcePlacement",
                Some("crp"),
                V1,
                cluster_placement,
            )
        },
        Kind {
            columns: placement_columns("ResourcePlacement"),
            ..namespaced("ResourcePlacement", Some("rp"), V1, placement)
        },
        Kind {
            columns: json!([
                column(
                    "Resource-Index",
                    "string",
                    ".sourceStatus.observedResourceIndex"
                ),
                column("Last-Updated", "date", ".lastUpdatedTime"),
                age(),
            ]),
            status_subresource: false,
            ..namespaced(
                "ClusterResourcePlacementStatus",
                Some("crps"),
                V1,
                object(
                    json!({
                        "sourceStatus": schema::<PlacementStatus>(),
                        "lastUpdatedTime": {"type": "string", "format": "date-time"},
                    }),
                    &["lastUpdatedTime", "sourceStatus"],
                ),
            )
        },
        Kind {
            columns: snapshot_columns(),
            ..cluster_scoped(
                "ClusterSchedulingPolicySnapshot",
                Some("csps"),
                V1,
                policies.clone(),
            )
        },
        Kind {
            columns: snapshot_columns(),
            ..namespaced(
                "SchedulingPolicySnapshot",
                Some("sps"),
                V1_BETA_ONLY,
                policies,
            )
        },
        Kind {
            columns: snapshot_columns(),
            ..cluster_scoped(
                "ClusterResourceSnapshot",
                Some("crs"),
                V1,
                resources.clone(),
            )
        },
        Kind {
            columns: snapshot_columns(),
            ..namespaced("ResourceSnapshot", Some("rs"), V1_BETA_ONLY, resources)
        },
        Kind {
            columns: binding_columns(),
            ..cluster_scoped("ClusterResourceBinding", Some("crb"), V1, bindings.clone())
        },
        Kind {
            columns: binding_columns(),
            ..namespaced("ResourceBinding", Some("rb"), V1_BETA_ONLY, bindings)
        },
        namespaced(
            "Work",
            Some("work"),
            V1,
            with_status::<WorkSpec, WorkStatus>(),
        ),
        Kind {
            columns: eviction_columns(),
            ..cluster_scoped(
                "ClusterResourcePlacementEviction",
                Some("crpe"),
                V1_ALPHA,
                with_status::<EvictionSpec, EvictionStatus>(),
            )
        },
        cluster_scoped(
            "AppliedWork",
            Some("appliedwork"),
            V1,
            with_status::<AppliedWorkSpec, AppliedWorkStatus>(),
        ),
    ];
    kinds.extend(plain_kinds());
    kinds.extend(runs::kinds());
    kinds
}

/// Kinds without a status.
fn plain_kinds() -> Vec<Kind> {
    let envelope = || {
        let data = schema::<EnvelopeData>()["properties"]["data"].take();
        object(json!({"data": data}), &["data"])
    };
    let mut kinds = vec![
        cluster_scoped(
            "ClusterResourceOverride",
            None,
            ALL,
            spec_only::<ClusterResourceOverrideSpec>(),
        ),
        cluster_scoped(
            "ClusterResourceOverrideSnapshot",
            None,
            ALL,
            spec_only::<ClusterResourceOverrideSnapshotSpec>(),
        ),
        namespaced(
            "ResourceOverride",
            None,
            ALL,
            spec_only::<ResourceOverrideSpec>(),
        ),
        namespaced(
            "ResourceOverrideSnapshot",
            None,
            ALL,
            spec_only::<ResourceOverrideSnapshotSpec>(),
        ),
        cluster_scoped(
            "ClusterResourcePlacementDisruptionBudget",
            Some("crpdb"),
            V1_ALPHA,
            spec_only::<DisruptionBudgetSpec>(),
        ),
        cluster_scoped("ClusterResourceEnvelope", None, V1_BETA_ONLY, envelope()),
        namespaced("ResourceEnvelope", None, V1_BETA_ONLY, envelope()),
    ];
    for kind in &mut kinds {
        kind.status_subresource = false;
    }
    kinds
}

fn placement_columns(prefix: &str) -> Value {
    let of = |name: &str, type_: &str, field: &str| {
        let path = format!(".status.conditions[?(@.type==\"{prefix}{type_}\")].{field}");
        column(name, "string", &path)
    };
    json!([
        column("Gen", "string", ".metadata.generation"),
        minor(column("Type", "string", ".spec.policy.placementType")),
        of("Scheduled", "Scheduled", "status"),
        of("Scheduled-Gen", "Scheduled", "observedGeneration"),
        minor(of("Work-Synchronized", "WorkSynchronized", "status")),
        minor(of(
            "Work-Synchronized-Gen",
            "WorkSynchronized",
            "observedGeneration"
        )),
        of("Available", "Available", "status"),
        of("Available-Gen", "Available", "observedGeneration"),
        age(),
    ])
}

fn binding_columns() -> Value {
    let of = |name: &str, type_: &str| {
        let path = format!(".status.conditions[?(@.type==\"{type_}\")].status");
        column(name, "string", &path)
    };
    json!([
        of("WorkSynchronized", "WorkSynchronized"),
        of("ResourcesApplied", "Applied"),
        minor(of("ResourceAvailable", "Available")),
        age(),
    ])
}

fn eviction_columns() -> Value {
    let of = |type_: &str| {
        let path = format!(".status.conditions[?(@.type==\"{type_}\")].status");
        column(type_, "string", &path)
    };
    json!([of("Valid"), of("Executed")])
}

fn definition(group: &str, kind: &Kind) -> Value {
    let lower = kind.name.to_lowercase();
    let plural = match (lower.strip_suffix("y"), lower.ends_with("status")) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{lower}es"),
        (None, false) => format!("{lower}s"),
    };
    let versions: Vec<Value> = kind
        .versions
        .iter()
        .map(|name| {
            let mut schema = kind.schema.clone();
            match *name {
                "v1" => reduce_to_v1(&mut schema),
                "v1alpha1" => runs::reduce_to_v1_alpha(&mut schema),
                _ => {}
            }
            let mut version = json!({
                "name": name, "served": true, "storage": *name == STORED_VERSION,
                "schema": {"openAPIV3Schema": schema},
            });
            if kind.status_subresource {
                version["subresources"] = json!({"status": {}});
            }
            if !kind.columns.is_null() {
                version["additionalPrinterColumns"] = kind.columns.clone();
            }
            version
        })
        .collect();
    let categories = match group {
        CLUSTER_GROUP => ["fleet", "fleet-cluster"],
        _ => ["fleet", "fleet-placement"],
    };
    let mut names = json!({
        "kind": kind.name, "listKind": format!("{}List", kind.name),
        "plural": plural, "singular": lower, "categories": categories,
    });
    if let Some(short) = kind.short {
        names["shortNames"] = json!([short]);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": names,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    })
}

fn reduce_to_v1(schema: &mut Value) {
    remove(schema, NOT_IN_V1);
    drop_config_map_envelopes(schema);
}

/// In `v1` an envelope is always an object of one of the two kinds made for it.
fn drop_config_map_envelopes(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields
                .get("default")
                .is_some_and(|default| default == "ConfigMap")
            {
                fields.remove("default");
                if let Some(Value::Array(names)) = fields.get_mut("enum") {
                    names.retain(|name| name != "ConfigMap");
                }
            }
            fields.values_mut().for_each(drop_config_map_envelopes);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_config_map_envelopes),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
