use super::*;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// The cells of an object that is two hours old, name and age left out where `expected` has them not.
#[expect(clippy::needless_pass_by_value, reason = "cases read better so")]
#[track_caller]
fn check(kind: &str, mut object: Value, expected: Value) {
    object["metadata"] = json!({"name": "a", "creationTimestamp": "2026-03-01T10:00:00Z"});
    let printer = printer(kind);
    let cells = printer.cells(&object, now());
    assert_eq!(Value::from(cells.clone()), expected, "{kind}");
    assert_eq!(cells.len(), printer.columns().len(), "{kind}");
}

#[test]
fn data_is_counted() {
    check(
        "ConfigMap",
        json!({"data": {"a": "b", "c": "d"}, "binaryData": {"e": "Zg=="}}),
        json!(["a", 3, "120m"]),
    );
    check("ConfigMap", json!({}), json!(["a", 0, "120m"]));
    check(
        "Secret",
        json!({"type": "Opaque", "data": {"a": "Yg=="}}),
        json!(["a", "Opaque", 1, "120m"]),
    );
    check("ServiceAccount", json!({}), json!(["a", "120m"]));
    check(
        "Namespace",
        json!({"status": {"phase": "Active"}}),
        json!(["a", "Active", "120m"]),
    );
}

#[test]
fn quotas_show_what_is_used_limits_apart() {
    check(
        "ResourceQuota",
        json!({"status": {
            "hard": {"pods": "10", "limits.cpu": "2", "configmaps": "5"},
            "used": {"pods": "3", "configmaps": "0"},
        }}),
        json!([
            "a",
            "configmaps: 0/5, pods: 3/10",
            "limits.cpu: 0/2",
            "120m"
        ]),
    );
}

#[test]
fn bindings_show_their_subjects_by_kind() {
    let object = json!({
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [
            {"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"},
            {"kind": "Group", "name": "devs"},
            {"kind": "ServiceAccount", "namespace": "ns", "name": "robot"},
        ],
    });
    let cells = json!([
        "a",
        "ClusterRole/edit",
        "120m",
        "ann, bob",
        "devs",
        "ns/robot"
    ]);
    check("RoleBinding", object.clone(), cells.clone());
    check("ClusterRoleBinding", object, cells);
}

#[test]
fn events_show_when_they_were_seen_and_who_tells() {
    check(
        "Event",
        json!({
            "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.x"},
            "type": "Normal", "reason": "Started", "message": " it runs\n", "count": 3,
            "firstTimestamp": "2026-03-01T11:00:00Z", "lastTimestamp": "2026-03-01T11:59:00Z",
            "source": {"component": "kubelet", "host": "n1"},
        }),
        json!([
            "60s",
            "Normal",
            "Started",
            "pod/web",
            "spec.x",
            "kubelet, n1",
            "it runs",
            "60m",
            3,
            "a"
        ]),
    );
    check(
        "Event",
        json!({
            "involvedObject": {"kind": "Pod"}, "reason": "Started",
            "eventTime": "2026-03-01T11:00:00.000000Z", "reportingComponent": "me",
        }),
        json!(["60m", "", "Started", "pod", "", "me", "", "60m", 1, "a"]),
    );
    check(
        "Event",
        json!({
            "eventTime": "2026-03-01T11:00:00.000000Z",
            "series": {"count": 7, "lastObservedTime": "2026-03-01T11:59:30.000000Z"},
        }),
        json!(["30s", "", "", "", "", "", "", "60m", 7, "a"]),
    );
    check(
        "Event",
        json!({}),
        json!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "a"]),
    );
}

#[test]
fn admission_and_certificates_show_what_they_are_about() {
    check(
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{}, {}]}),
        json!(["a", 2, "120m"]),
    );
    check(
        "ValidatingAdmissionPolicy",
        json!({"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}),
        json!(["a", 1, "v1/ConfigMap", "120m"]),
    );
    check(
        "ValidatingAdmissionPolicy",
        json!({"spec": {}}),
        json!(["a", 0, "<unset>", "120m"]),
    );
    check(
        "ValidatingAdmissionPolicyBinding",
        json!({"spec": {"policyName": "p", "paramRef": {"name": "x"}}}),
        json!(["a", "p", "*/x", "120m"]),
    );
    check(
        "CertificateSigningRequest",
        json!({
            "spec": {"signerName": "e.com/s", "username": "ann", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "Yg=="},
        }),
        json!(["a", "120m", "e.com/s", "ann", "60m", "Approved,Issued"]),
    );
    check(
        "Lease",
        json!({"spec": {"holderIdentity": "me"}}),
        json!(["a", "me", "120m"]),
    );
}

#[test]
fn a_kind_without_columns_of_its_own_shows_when_it_was_created() {
    check(
        "ClusterRole",
        json!({}),
        json!(["a", "2026-03-01T10:00:00Z"]),
    );
    let columns = printer("ClusterRole");
    assert_eq!(&*columns.columns()[1].name, "Created At");
    assert_eq!(columns.no_rows(), json!(null));
    assert_eq!(printer("Namespace").no_rows(), json!([]));
}
