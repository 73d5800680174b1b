//! The service clusters that the agents of the tests work on, and what an agent may do there.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::{ServiceCluster, eventually, unique};
use tokio::sync::OnceCell;

use super::SOON;
use super::plane::{Kind, Plane};

const OWN_CRD: &str = include_str!("../../../crds/syncagent.kcp.io_publishedresources.yaml");
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What an agent finds installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// A real kube-apiserver with the CRD and the rights that the original comes with.
    Original,
    /// A real kube-apiserver with our CRD and exactly the roles that `hawser rbac` prints.
    Ours,
    /// The same, and nobody else is on it.
    Apart,
    /// The same without any rights.
    Bare,
    /// The playground's own service cluster: its request log counts both sides, and its faults
    /// reach both. Our CRD; rights are not looked at.
    Playground,
}

/// Our CRD.
pub(super) fn own_crd() -> Value {
    serde_saphyr::from_str(OWN_CRD).expect("the CRD is YAML")
}

/// The CRD without anything that the original's does not have.
pub(super) fn original_crd() -> Value {
    let mut crd = own_crd();
    let version = &mut crd["spec"]["versions"][0];
    let version = version.as_object_mut().expect("a version");
    version.remove("additionalPrinterColumns");
    let schema = &mut version["schema"]["openAPIV3Schema"]["properties"];
    for (part, added) in [
        ("spec", vec!["mode", "safety", "templateEngine"]),
        ("status", vec!["conditions", "observedGeneration", "plan"]),
    ] {
        let properties = schema[part]["properties"].as_object_mut().expect(part);
        for field in added {
            properties.remove(field).expect(field);
        }
    }
    crd
}

/// The shared cluster of a kind; each test keeps to a group and a namespace of its own.
pub(super) async fn cluster(ground: Ground) -> Result<&'static ServiceCluster> {
    static OURS: OnceCell<&'static ServiceCluster> = OnceCell::const_new();
    static ORIGINAL: OnceCell<ServiceCluster> = OnceCell::const_new();
    static APART: OnceCell<ServiceCluster> = OnceCell::const_new();
    match ground {
        Ground::Ours | Ground::Bare => OURS
            .get_or_try_init(async || {
                let cluster = ServiceCluster::shared().await?;
                prepare(cluster, &own_crd()).await?;
                anyhow::Ok(cluster)
            })
            .await
            .copied(),
        Ground::Original => {
            ORIGINAL
                .get_or_try_init(async || {
                    let cluster = ServiceCluster::start().await?;
                    prepare(&cluster, &original_crd()).await?;
                    anyhow::Ok(cluster)
                })
                .await
        }
        // Of one test.
        Ground::Apart => {
            APART
                .get_or_try_init(async || {
                    let cluster = ServiceCluster::start().await?;
                    prepare(&cluster, &own_crd()).await?;
                    anyhow::Ok(cluster)
                })
                .await
        }
        Ground::Playground => anyhow::bail!("the playground is no real cluster"),
    }
}

async fn prepare(cluster: &ServiceCluster, crd: &Value) -> Result<()> {
    install(&Plane::new(cluster.admin().client()?), crd).await?;
    Ok(())
}

/// Creates a definition, and awaits that each of its served versions is.
pub(crate) async fn install(plane: &Plane, crd: &Value) -> Result<()> {
    plane.create(CRDS, crd).await?;
    await_served(plane, crd).await;
    Ok(())
}

pub(crate) fn crd_at(name: &str) -> String {
    format!("{CRDS}/{name}")
}

pub(super) async fn await_served(plane: &Plane, crd: &Value) {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for version in spec["versions"].as_array().into_iter().flatten() {
        if version["served"] != true {
            continue;
        }
        let kind = Kind {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&spec["names"]["plural"]),
            name: text(&spec["names"]["kind"]),
        };
        eventually(SOON, "the definition is served", async || -> Result<()> {
            plane
                .list(&format!("{}?limit=1", kind.everywhere()))
                .await?;
            let discovery = plane.get(&format!("/apis/{}", kind.api_version())).await?;
            let listed = discovery["resources"].as_array().into_iter().flatten();
            anyhow::ensure!(
                listed
                    .into_iter()
                    .any(|found| found["name"] == kind.plural.as_str()),
                "not in the discovery document"
            );
            Ok(())
        })
        .await;
    }
}

/// Who an agent is on a service cluster.
pub(super) struct Agency<'w> {
    pub(super) user: &'w str,
    /// Its own namespace: Leases, state Secrets.
    pub(super) namespace: &'w str,
    /// The groups of the kinds that are published.
    pub(super) groups: Vec<&'w str>,
}

/// Gives a user what the original's chart gives, and what an administrator has to add for the
/// published kinds.
pub(super) async fn grant(plane: &Plane, agency: &Agency<'_>) -> Result<()> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let own = [
        rule(
            "coordination.k8s.io",
            &["leases"],
            &[
                "get", "list", "watch", "create", "update", "patch", "delete",
            ],
        ),
        rule("", &["events"], &["create", "patch"]),
    ];
    let mut wide = vec![
        rule(
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "update"],
        ),
        rule("", &["namespaces"], &["get", "list", "watch", "create"]),
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "watch"],
        ),
        rule(
            "syncagent.kcp.io",
            &["publishedresources"],
            &["get", "list", "watch"],
        ),
        rule(
            "syncagent.kcp.io",
            &["publishedresources/status"],
            &["create", "get", "update", "patch"],
        ),
    ];
    for group in &agency.groups {
        wide.push(rule(
            group,
            &["*"],
            &[
                "get", "list", "watch", "create", "update", "patch", "delete",
            ],
        ));
    }
    bind(plane, agency.user, Some(agency.namespace), &own).await?;
    bind(
        plane,
        agency.user,
        Some("default"),
        &[rule("", &["events"], &["create", "update", "patch"])],
    )
    .await?;
    bind(plane, agency.user, None, &wide).await
}

/// A role with these rules for one user, in a namespace or everywhere.
pub(super) async fn bind(
    plane: &Plane,
    user: &str,
    namespace: Option<&str>,
    rules: &[Value],
) -> Result<()> {
    let name = unique("agent");
    let (path, prefix) = match namespace {
        Some(namespace) => (format!("{RBAC}/namespaces/{namespace}"), ""),
        None => (RBAC.to_owned(), "Cluster"),
    };
    let lower = prefix.to_lowercase();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"),
        "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    plane.create(&format!("{path}/{lower}roles"), &role).await?;
    plane
        .create(&format!("{path}/{lower}rolebindings"), &binding)
        .await
        .with_context(|| format!("binding {user}"))?;
    Ok(())
}
