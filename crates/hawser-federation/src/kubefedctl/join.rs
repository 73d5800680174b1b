//! `kubefedctl join` and `unjoin`: the objects that they create and delete in member and host.

use serde_json::{Value, json};

use crate::placement::Scope;
use crate::types::CORE_GROUP;
use crate::types::cluster::{KubeFedClusterSpec, SecretReference};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A member and the host that it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub cluster: String,
    /// The name of the host: its context, or `--host-cluster-name`.
    pub host: String,
    /// The namespace of the control plane, on both sides.
    pub namespace: String,
    pub scope: Scope,
}

/// The member's cluster entry in a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub server: String,
    /// The inline certificate authorities, in base64.
    pub ca_bundle: Option<String>,
    pub insecure: bool,
    pub proxy_url: String,
}

/// An error of join or unjoin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("NAME is required")]
    Name,
    #[error("host-cluster-name may not contain \"/\" or \":\"")]
    HostName,
    #[error(
        "host-cluster-name must be set if the name of the host cluster context contains one of \":\" or \"/\""
    )]
    HostContext,
    #[error("service account: {account} already exists in joining cluster: {cluster}")]
    Exists { account: String, cluster: String },
    #[error(
        "A KubeFedConfig named \"kubefed\" was not found in namespace {0:?}. Is a KubeFed control plane running in this namespace?"
    )]
    NoControlPlane(String),
    #[error("Failed to get kubefed cluster {0:?}: {1}")]
    NoCluster(String, String),
}

/// The name of the host, from the flag or the context.
pub fn host_name<'a>(
    cluster: Option<&str>,
    flag: Option<&'a str>,
    context: &'a str,
) -> Result<&'a str, JoinError> {
    let odd = |name: &str| name.contains([':', '/']);
    if cluster.is_none_or(str::is_empty) {
        return Err(JoinError::Name);
    }
    match flag.filter(|name| !name.is_empty()) {
        Some(name) if odd(name) => Err(JoinError::HostName),
        Some(name) => Ok(name),
        None if odd(context) => Err(JoinError::HostContext),
        None => Ok(context),
    }
}

impl Join {
    /// The name of the `ServiceAccount` in the member, and of the Secret with its token.
    pub fn account(&self) -> String {
        format!("{}-{}", self.cluster, self.host)
    }

    fn role(&self) -> String {
        format!("kubefed-controller-manager:{}", self.account())
    }

    fn health_role(&self) -> String {
        format!(
            "kubefed-controller-manager:{}:healthcheck-{}",
            self.namespace,
            self.account()
        )
    }

    /// The objects to create in the member, in order.
    pub fn member_objects(&self) -> Vec<Value> {
        let (account, namespace) = (self.account(), &self.namespace);
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false,
                "metadata": {
                    "name": account, "namespace": namespace,
                    "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"},
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {
                    "name": account, "namespace": namespace,
                    "annotations": {"kubernetes.io/service-account.name": account},
                },
            }),
        ];
        let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        match self.scope {
            Scope::Cluster => {
                let urls = json!({"nonResourceURLs": ["*"], "verbs": ["get"]});
                objects.extend(self.cluster_role(&self.role(), &json!([all, urls])));
            }
            Scope::Namespaced => {
                let (role, metadata) = (
                    self.role(),
                    |name: String| json!({"name": name, "namespace": namespace}),
                );
                objects.push(json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata(role.clone()), "rules": [all],
                }));
                objects.push(json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata(role.clone()),
                    "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role}, "subjects": [self.subject()],
                }));
                let health = json!([
                    {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
                    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
                ]);
                objects.extend(self.cluster_role(&self.health_role(), &health));
            }
        }
        objects
    }

    fn cluster_role(&self, name: &str, rules: &Value) -> [Value; 2] {
        let version = format!("{RBAC}/v1");
        [
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
            json!({
                "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": [self.subject()],
            }),
        ]
    }

    fn subject(&self) -> Value {
        json!({"kind": "ServiceAccount", "name": self.account(), "namespace": self.namespace})
    }

    /// The objects to delete in the member, in order: kind, namespace, name. The namespace is the last; it stays if
    /// it is the host's own.
    pub fn member_objects_to_delete(&self) -> Vec<(&'static str, Option<String>, String)> {
        let namespaced = |kind, name| (kind, Some(self.namespace.clone()), name);
        let (role, health) = (self.role(), self.health_role());
        vec![
            ("ClusterRoleBinding", None, role.clone()),
            ("ClusterRole", None, role.clone()),
            ("ClusterRoleBinding", None, health.clone()),
            ("ClusterRole", None, health),
            namespaced("RoleBinding", role.clone()),
            namespaced("Role", role),
            namespaced("ServiceAccount", self.account()),
            ("Namespace", None, self.namespace.clone()),
        ]
    }

    /// The Secret with the token, in the host; its name is generated if none is given.
    pub fn host_secret(&self, name: Option<&str>, token: &str) -> Value {
        let mut metadata = json!({"namespace": self.namespace});
        match name {
            Some(name) => metadata["name"] = name.into(),
            None => metadata["generateName"] = format!("{}-", self.cluster).into(),
        }
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": token}})
    }

    /// The `KubeFedCluster`. `secret` is the Secret with the token; `ca` are the authorities of the token's Secret in
    /// the member, used if the kubeconfig has none inline.
    pub fn cluster_object(&self, endpoint: &Endpoint, secret: &str, ca: Option<&str>) -> Value {
        let ca = endpoint.ca_bundle.as_deref().or(ca);
        let switches: &[&str] = if endpoint.insecure { &["*"] } else { &[] };
        let spec = KubeFedClusterSpec {
            api_endpoint: endpoint.server.clone(),
            ca_bundle: ca.map(str::to_owned),
            secret_ref: SecretReference {
                name: secret.to_owned(),
            },
            disabled_tls_validations: switches.iter().map(|&s| s.to_owned()).collect(),
            proxy_url: endpoint.proxy_url.clone(),
        };
        json!({
            "apiVersion": format!("{CORE_GROUP}/v1beta1"),
            "kind": "KubeFedCluster",
            "metadata": {"name": self.cluster, "namespace": self.namespace},
            "spec": spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use kube_lang::object::Object;

    use super::*;
    use crate::admission::check_cluster;

    fn join(scope: Scope) -> Join {
        Join {
            cluster: "c2".into(),
            host: "c1".into(),
            namespace: "kube-federation-system".into(),
            scope,
        }
    }

    fn names(objects: &[Value]) -> Vec<String> {
        let names = objects.iter().map(|object| {
            format!(
                "{} {}",
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap()
            )
        });
        names.collect()
    }

    #[test]
    fn a_member_gets_an_account_with_all_rights() {
        let objects = join(Scope::Cluster).member_objects();
        assert_eq!(
            names(&objects),
            [
                "Namespace kube-federation-system",
                "ServiceAccount c2-c1",
                "Secret c2-c1",
                "ClusterRole kubefed-controller-manager:c2-c1",
                "ClusterRoleBinding kubefed-controller-manager:c2-c1",
            ]
        );
        assert_eq!(
            objects[3]["rules"],
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ])
        );
        assert_eq!(objects[4]["subjects"][0]["name"], "c2-c1");
    }

    #[test]
    fn a_namespaced_control_plane_has_rights_in_its_namespace() {
        let objects = join(Scope::Namespaced).member_objects();
        assert_eq!(
            names(&objects)[3..],
            [
                "Role kubefed-controller-manager:c2-c1",
                "RoleBinding kubefed-controller-manager:c2-c1",
                "ClusterRole kubefed-controller-manager:kube-federation-system:healthcheck-c2-c1",
                "ClusterRoleBinding kubefed-controller-manager:kube-federation-system:healthcheck-c2-c1",
            ]
        );
        assert_eq!(objects[5]["rules"][0]["verbs"], json!(["get"]));
    }

    #[test]
    fn what_was_made_is_deleted_for_both_scopes() {
        let deleted = join(Scope::Cluster).member_objects_to_delete();
        for scope in [Scope::Cluster, Scope::Namespaced] {
            for object in join(scope)
                .member_objects()
                .iter()
                .filter(|o| o["kind"] != "Secret")
            {
                let is_same = |(kind, namespace, name): &(&str, Option<String>, String)| {
                    object["kind"] == *kind
                        && object["metadata"]["name"] == **name
                        && object["metadata"]["namespace"].as_str() == namespace.as_deref()
                };
                assert!(deleted.iter().any(is_same), "{object}");
            }
        }
        assert_eq!(
            deleted.last().unwrap().0,
            "Namespace",
            "the Secret goes with it"
        );
    }

    #[test]
    fn a_member_is_told_of_as_its_kubeconfig_has_it() {
        let join = join(Scope::Cluster);
        let endpoint = Endpoint {
            server: "https://a:6443".into(),
            ..Endpoint::default()
        };
        let object = join.cluster_object(&endpoint, "c2-x", Some("Y2E="));
        assert_eq!(
            object["spec"],
            json!({"apiEndpoint": "https://a:6443", "caBundle": "Y2E=", "secretRef": {"name": "c2-x"}, "proxyURL": ""})
        );
        assert!(check_cluster(&Object::new(object).unwrap()).is_ok());
        let open = Endpoint {
            insecure: true,
            ca_bundle: Some("b3du".into()),
            proxy_url: "socks5://p".into(),
            ..endpoint
        };
        let spec = &join.cluster_object(&open, "c2-x", Some("Y2E="))["spec"];
        assert_eq!(spec["disabledTLSValidations"], json!(["*"]));
        assert_eq!(
            (&spec["caBundle"], &spec["proxyURL"]),
            (&json!("b3du"), &json!("socks5://p"))
        );
        assert_eq!(
            join.host_secret(None, "dA==")["metadata"]["generateName"],
            "c2-"
        );
        assert_eq!(
            join.host_secret(Some("own"), "dA==")["metadata"]["name"],
            "own"
        );
    }

    #[test]
    fn names_and_errors_are_those_of_the_original() {
        let of = |cluster, flag, context| {
            host_name(cluster, flag, context).map_err(|error| error.to_string())
        };
        assert_eq!(of(Some("c2"), None, "c1"), Ok("c1"));
        assert_eq!(of(Some("c2"), Some("host"), "a/b"), Ok("host"));
        assert_eq!(of(None, None, "c1").unwrap_err(), "NAME is required");
        assert_eq!(
            of(Some("c2"), Some("a:b"), "c1").unwrap_err(),
            "host-cluster-name may not contain \"/\" or \":\""
        );
        assert_eq!(
            of(Some("c2"), None, "a/b").unwrap_err(),
            "host-cluster-name must be set if the name of the host cluster context contains one of \":\" or \"/\""
        );
        let exists = JoinError::Exists {
            account: "c2-c1".into(),
            cluster: "c2".into(),
        };
        assert_eq!(
            exists.to_string(),
            "service account: c2-c1 already exists in joining cluster: c2"
        );
        assert_eq!(
            JoinError::NoControlPlane("X".into()).to_string(),
            "A KubeFedConfig named \"kubefed\" was not found in namespace \"X\". Is a KubeFed control plane running in this namespace?"
        );
        assert_eq!(
            JoinError::NoCluster("ns/c".into(), "not found".into()).to_string(),
            "Failed to get kubefed cluster \"ns/c\": not found"
        );
    }
}
