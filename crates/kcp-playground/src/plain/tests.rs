use serde_json::{Value, json};

use super::fixture::{Api, CLUSTER, CRDS, Cluster, NAMESPACES, scope};
use super::*;

fn crd(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": format!("{name}s"), "kind": format!("K{name}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    })
}

#[test]
fn a_plain_cluster_has_the_namespaces_that_clients_take_for_granted() {
    let cluster = Cluster::new();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace = cluster.get(NAMESPACES, "", name).unwrap();
        assert_eq!(namespace["status"], json!({"phase": "Active"}), "{name}");
        assert!(namespace["metadata"]["uid"].is_string());
    }
}

#[test]
fn only_known_clusters_have_a_catalog() {
    let cluster = Cluster::new();
    let code = |scope: Scope| {
        let found = cluster
            .store
            .read(|read| cluster.scopes.catalog(read, &scope));
        found.map_err(|status| status.code).err()
    };
    assert_eq!(code(scope()), None);
    assert_eq!(code(Scope::Cluster("elsewhere".into())), Some(404));
    let wildcard = Scope::ExportWildcard {
        owner: CLUSTER.into(),
        export: "e".into(),
        shard: None,
    };
    assert_eq!(code(wildcard), Some(404));
    assert!(cluster.scopes.serves(CLUSTER));
    assert!(!cluster.scopes.serves("elsewhere"));
}

#[test]
fn a_catalog_is_made_again_only_when_a_definition_changes() {
    let cluster = Cluster::new();
    let first = cluster.catalog();
    assert!(Arc::ptr_eq(&first, &cluster.catalog()));
    cluster.put(CRDS, crd("a")).unwrap();
    let second = cluster.catalog();
    assert!(!Arc::ptr_eq(&first, &second));
    cluster.put(CRDS, crd("b")).unwrap();
    let kept = |catalog: &Catalog| {
        let found = catalog.find("example.com", "v1", "as");
        Arc::clone(found.unwrap())
    };
    assert!(Arc::ptr_eq(&kept(&second), &kept(&cluster.catalog())));
}

#[test]
fn a_transaction_that_is_undone_leaves_no_catalog_behind() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("a")).unwrap();
    let key = cluster
        .resource(CRDS)
        .table
        .key(CLUSTER, "", "as.example.com");
    let undone = cluster.store.write(|tx| -> Result<(), Status> {
        tx.remove(&key);
        let catalog = cluster.scopes.catalog(tx, &scope())?;
        assert!(catalog.version("example.com", "v1").is_none());
        Err(Status::bad_request("undone"))
    });
    assert!(undone.is_err());
    let mut other = crd("a");
    other["metadata"]["labels"] = json!({"a": "b"});
    cluster.put(CRDS, other).unwrap();
    assert!(cluster.catalog().version("example.com", "v1").is_some());
}

#[test]
fn nothing_of_a_workspace_with_pods_is_served() {
    let catalog = Cluster::new().catalog();
    let served: Vec<String> = catalog
        .groups()
        .flat_map(|(group, versions)| {
            versions
                .iter()
                .map(move |version| format!("{group}/{}:{}", version.name, version.resources.len()))
        })
        .collect();
    assert_eq!(
        served,
        [
            "/v1:6",
            "admissionregistration.k8s.io/v1:4",
            "apiextensions.k8s.io/v1:1",
            "authentication.k8s.io/v1:2",
            "authorization.k8s.io/v1:4",
            "certificates.k8s.io/v1:1",
            "coordination.k8s.io/v1:1",
            "events.k8s.io/v1:1",
            "rbac.authorization.k8s.io/v1:4",
        ]
    );
    assert!(catalog.find("", "v1", "pods").is_none());
    let Api(_, plural) = NAMESPACES;
    assert!(!catalog.find("", "v1", plural).unwrap().namespaced);
}
