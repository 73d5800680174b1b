//! Rows of built-in kinds: their columns. Kinds without columns of their own show the time of their creation.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{age, column, name, number, wide};
use super::{Column, Printer, columns};

mod cells;
#[cfg(test)]
mod tests;

/// Renders the cells of a row.
type MakeCells = fn(&Value, Timestamp) -> Vec<Value>;

/// Renders the objects of a kind with columns of its own.
struct KindColumns {
    columns: Vec<Column>,
    cells: MakeCells,
}

/// Renders the objects of any other kind.
struct Unknown {
    columns: [Column; 2],
}

/// The renderer of a built-in kind, in its storage version.
pub(crate) fn printer(kind: &str) -> Arc<dyn Printer> {
    match known(kind) {
        Some((columns, cells)) => Arc::new(KindColumns { columns, cells }),
        None => Arc::new(Unknown {
            columns: [
                name(),
                Column {
                    kind: "date".into(),
                    ..column("Created At", columns::CREATED)
                },
            ],
        }),
    }
}

fn known(kind: &str) -> Option<(Vec<Column>, MakeCells)> {
    let (columns, cells): (Vec<Column>, MakeCells) = match kind {
        "Namespace" => (
            vec![
                name(),
                column("Status", "The status of the namespace"),
                age(),
            ],
            cells::namespace,
        ),
        "ConfigMap" => (
            vec![name(), column("Data", CONFIG_DATA), age()],
            cells::config_map,
        ),
        "Secret" => (
            vec![
                name(),
                column(
                    "Type",
                    "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
                ),
                column("Data", SECRET_DATA),
                age(),
            ],
            cells::secret,
        ),
        "ServiceAccount" => (vec![name(), age()], cells::name_and_age),
        "ResourceQuota" => (
            vec![
                name(),
                column(
                    "Request",
                    "Request represents a minimum amount of cpu/memory that a container may consume.",
                ),
                column(
                    "Limit",
                    "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
                ),
                age(),
            ],
            cells::resource_quota,
        ),
        "Event" => (event(), cells::event),
        "RoleBinding" => (
            binding(
                "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
                [
                    "Users in the roleBinding",
                    "Groups in the roleBinding",
                    "ServiceAccounts in the roleBinding",
                ],
            ),
            cells::binding,
        ),
        "ClusterRoleBinding" => (
            binding(
                "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
                [
                    "Users in the clusterRoleBinding",
                    "Groups in the clusterRoleBinding",
                    "ServiceAccounts in the clusterRoleBinding",
                ],
            ),
            cells::binding,
        ),
        "Lease" => (
            vec![
                name(),
                column(
                    "Holder",
                    "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
                ),
                age(),
            ],
            cells::lease,
        ),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => (
            vec![
                name(),
                number(
                    "Webhooks",
                    "Webhooks indicates the number of webhooks registered in this configuration",
                ),
                age(),
            ],
            cells::webhooks,
        ),
        "ValidatingAdmissionPolicy" => (
            vec![
                name(),
                number(
                    "Validations",
                    "Validations indicates the number of validation rules defined in this configuration",
                ),
                column(
                    "ParamKind",
                    "ParamKind specifies the kind of resources used to parameterize this policy",
                ),
                age(),
            ],
            cells::policy,
        ),
        "ValidatingAdmissionPolicyBinding" => (
            vec![
                name(),
                column(
                    "PolicyName",
                    "PolicyName indicates the policy definition which the policy binding binded to",
                ),
                column(
                    "ParamRef",
                    "ParamRef indicates the param resource which sets the configuration param",
                ),
                age(),
            ],
            cells::policy_binding,
        ),
        "CertificateSigningRequest" => (
            vec![
                name(),
                age(),
                column("SignerName", SIGNER),
                column("Requestor", "Base64-encoded PKCS#10 CSR data"),
                column("RequestedDuration", EXPIRATION),
                column(
                    "Condition",
                    "Conditions applied to the request, such as approval or denial.",
                ),
            ],
            cells::signing_request,
        ),
        _ => return None,
    };
    Some((columns, cells))
}

fn event() -> Vec<Column> {
    vec![
        column(
            "Last Seen",
            "The time at which the most recent occurrence of this event was recorded.",
        ),
        column(
            "Type",
            "Type of this event (Normal, Warning), new types could be added in the future",
        ),
        column(
            "Reason",
            "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
        ),
        column("Object", "The object that this event is about."),
        wide(column("Subobject", SUBOBJECT)),
        wide(column(
            "Source",
            "The component reporting this event. Should be a short machine understandable string.",
        )),
        column(
            "Message",
            "A human-readable description of the status of this operation.",
        ),
        wide(column(
            "First Seen",
            "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        )),
        wide(column(
            "Count",
            "The number of times this event has occurred.",
        )),
        wide(name()),
    ]
}

fn binding(role: &'static str, [users, groups, accounts]: [&'static str; 3]) -> Vec<Column> {
    vec![
        name(),
        column("Role", role),
        age(),
        wide(column("Users", users)),
        wide(column("Groups", groups)),
        wide(column("ServiceAccounts", accounts)),
    ]
}

const CONFIG_DATA: &str = "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.";
const SECRET_DATA: &str = "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4";
const SUBOBJECT: &str = "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.";
const SIGNER: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";
const EXPIRATION: &str = "expirationSeconds is the requested duration of validity of the issued certificate. The certificate signer may issue a certificate with a different validity duration so a client must check the delta between the notBefore and and notAfter fields in the issued certificate to determine the actual duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes signers will honor this field as long as the requested duration is not greater than the maximum duration they will honor per the --cluster-signing-duration CLI flag to the Kubernetes controller manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old signer that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. Signer whose configured maximum is shorter than the requested duration\n  3. Signer whose configured minimum is longer than the requested duration\n\nThe minimum valid value for expirationSeconds is 600, i.e. 10 minutes.";

impl Printer for KindColumns {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

impl Printer for Unknown {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let metadata = |field: &str| object["metadata"][field].as_str();
        vec![
            metadata("name").unwrap_or_default().into(),
            metadata("creationTimestamp")
                .unwrap_or("0001-01-01T00:00:00Z")
                .into(),
        ]
    }

    fn no_rows(&self) -> Value {
        json!(null)
    }
}
