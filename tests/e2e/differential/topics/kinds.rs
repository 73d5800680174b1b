//! Other built-in kinds, and those of the cluster's scope: every verb, and what they check.

use serde_json::{Value, json};

use super::super::step::{
    MERGE, Script, Topic, definition, delete, get, install, patch, post, put, script,
};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(super) fn topic() -> Topic {
    let mut beacons = definition(
        "beacons",
        "Beacon",
        json!({"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}),
    );
    beacons["spec"]["scope"] = json!("Cluster");
    Topic::new("kinds", cluster_roles())
        .then(install(beacons))
        .then(beacons_of_the_cluster())
        .then(accounts())
        .then(leases())
        .then(quotas())
        .then(access_reviews())
        .then(who())
}

fn cluster_roles() -> Script {
    let all = format!("{RBAC}/clusterroles");
    let one = format!("{all}/diff-kinds");
    let rule = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let binding = |subject: Value| {
        post(
            &format!("{RBAC}/clusterrolebindings"),
            json!({"metadata": {"name": "diff-kinds"}, "roleRef": {"kind": "ClusterRole", "name": "diff-kinds"}, "subjects": [subject]}),
        )
    };
    script![
        post(
            &all,
            json!({"metadata": {"name": "diff-kinds"}, "rules": rule})
        )
        .keep("role"),
        post(
            &all,
            json!({"metadata": {"name": "diff-kinds"}, "rules": rule})
        ),
        get(&one),
        put(
            &one,
            json!({"metadata": {"name": "diff-kinds"}, "rules": []})
        ).tolerate("an empty list of rules stays, instead of null").only_in(&["/body/rules"]),
        put(
            &one,
            json!({"metadata": {"name": "diff-kinds", "resourceVersion": "$rv(role)"}, "rules": []})
        ),
        patch(
            &one,
            MERGE,
            json!({"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]})
        ),
        patch(
            &one,
            MERGE,
            json!({"rules": [{"nonResourceURLs": ["/x"], "resources": ["y"], "verbs": ["get"]}]})
        ),
        patch(&one, MERGE, json!({"rules": [{"verbs": ["get"]}]})),
        patch(
            &one,
            MERGE,
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"diff-none": "b"}}]}, "rules": null})
        ).tolerate("null rules are left out").only_in(&["/body/rules"]),
        patch(
            &one,
            MERGE,
            json!({"aggregationRule": {"clusterRoleSelectors": []}})
        ).tolerate("an aggregation without selectors is stored"),
        binding(json!({"kind": "User", "name": "u"})),
        binding(json!({"kind": "User", "name": "u"})),
        patch(
            &format!("{RBAC}/clusterrolebindings/diff-kinds"),
            MERGE,
            json!({"roleRef": {"name": "x"}})
        )
        .free_text(),
        patch(
            &format!("{RBAC}/clusterrolebindings/diff-kinds"),
            MERGE,
            json!({"subjects": [{"kind": "Odd", "name": "u"}]})
        ),
        patch(
            &format!("{RBAC}/clusterrolebindings/diff-kinds"),
            MERGE,
            json!({"subjects": [{"kind": "User", "name": ""}]})
        ),
        patch(
            &format!("{RBAC}/clusterrolebindings/diff-kinds"),
            MERGE,
            json!({"subjects": [{"kind": "User", "name": "x", "apiGroup": "odd"}]})
        ),
        patch(
            &format!("{RBAC}/clusterrolebindings/diff-kinds"),
            MERGE,
            json!({"subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "y", "apiGroup": "odd"}]})
        ),
        delete(&format!("{RBAC}/clusterrolebindings/diff-kinds")),
        delete(&one),
        delete(&one),
        get(&format!("{RBAC}/namespaces/$ns/clusterroles")),
        get(&format!(
            "{RBAC}/clusterroles?fieldSelector=metadata.name%3Ddiff-kinds"
        )),
        post(&format!("{RBAC}/roles"), json!({"metadata": {"name": "x"}})),
        get(&format!("{RBAC}/roles?labelSelector=none")),
    ]
}

fn beacons_of_the_cluster() -> Script {
    let all = "/apis/$group/v1/beacons";
    let one = "/apis/$group/v1/beacons/a";
    let beacon = |more: Value| json!({"apiVersion": "$group/v1", "kind": "Beacon", "metadata": more, "spec": {"a": 1}});
    script![
        get(all),
        post(all, beacon(json!({"name": "a"}))).keep("beacon"),
        post(all, beacon(json!({"name": "b", "namespace": "$ns"}))),
        post(
            "/apis/$group/v1/namespaces/$ns/beacons",
            beacon(json!({"name": "c"}))
        ),
        get("/apis/$group/v1/namespaces/$ns/beacons"),
        get("/apis/$group/v1/namespaces/$ns/beacons/a"),
        get(one),
        put(one, beacon(json!({"name": "a"}))),
        put(
            one,
            beacon(json!({"name": "a", "resourceVersion": "$rv(beacon)", "labels": {"x": "y"}}))
        ),
        patch(one, MERGE, json!({"spec": {"a": "x"}})),
        patch(one, MERGE, json!({"spec": {"a": 2}})),
        get(&format!("{all}?labelSelector=x")),
        get(&format!("{all}?fieldSelector=metadata.namespace%3Dx")),
        delete(one),
        delete(all),
        get(one),
    ]
}

fn accounts() -> Script {
    let all = "/api/v1/namespaces/$ns/serviceaccounts";
    let one = "/api/v1/namespaces/$ns/serviceaccounts/a";
    script![
        post(all, json!({"metadata": {"name": "a"}})),
        put(
            one,
            json!({"metadata": {"name": "a"}, "secrets": [{"name": "x"}], "automountServiceAccountToken": true})
        ),
        patch(one, MERGE, json!({"imagePullSecrets": [{"name": "p"}]})),
        post(all, json!({"metadata": {"name": "b"}, "secrets": "x"})).free_text(),
        post(&format!("{one}/nothing"), json!({})),
        delete(one),
        get(one),
    ]
}

fn leases() -> Script {
    let all = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases";
    let one = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases/a";
    let lease = |spec: Value| post(all, json!({"metadata": {"name": "a"}, "spec": spec}));
    script![
        lease(json!({"leaseDurationSeconds": 0})),
        lease(json!({"leaseTransitions": -1})),
        post(&format!("{all}?dryRun=All"), json!({"metadata": {"name": "t"}, "spec": {"acquireTime": "now"}})),
        lease(json!({"holderIdentity": "nobody"})),
        lease(json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 1, "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.123456Z"})).keep("lease"),
        patch(one, MERGE, json!({"spec": {"holderIdentity": null}})),
        put(one, json!({"metadata": {"name": "a", "resourceVersion": "$rv(lease)"}, "spec": {"holderIdentity": "you"}})),
        put(one, json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "you", "renewTime": "2020-01-01T00:00:01Z"}})).tolerate("times of a lease are checked after its revision"),
        get(all),
        get("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.namespace%3D$ns"),
        delete(one),
    ]
}

fn quotas() -> Script {
    let all = "/api/v1/namespaces/$ns/resourcequotas";
    script![
        get(all),
        post(
            all,
            json!({"metadata": {"name": "a"}, "spec": {"hard": {"count/things.e.com": "5"}}})
        )
        .settle(|body| {
            if let Some(body) = body.as_object_mut() {
                body.remove("status");
            }
        }),
        delete(&format!("{all}/a")).settle(|body| {
            if let Some(body) = body.as_object_mut() {
                body.remove("status");
            }
        }),
        get("/apis/certificates.k8s.io/v1/certificatesigningrequests?labelSelector=topic%3D$ns"),
        get(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?labelSelector=topic%3D$ns"
        ),
        get(
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?labelSelector=topic%3D$ns"
        ),
    ]
}

fn access_reviews() -> Script {
    let group = "/apis/authorization.k8s.io/v1";
    let may = |attributes: Value| {
        post(
            &format!("{group}/selfsubjectaccessreviews"),
            json!({"spec": {"resourceAttributes": attributes}}),
        )
    };
    script![
        may(json!({"verb": "get", "resource": "configmaps", "namespace": "$ns"})).free_text().settle(unreasoned),
        may(json!({"verb": "*", "group": "*", "resource": "*"})).settle(unreasoned),
        post(&format!("{group}/selfsubjectaccessreviews"), json!({"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}})).settle(unreasoned),
        post(&format!("{group}/selfsubjectaccessreviews"), json!({"spec": {}})),
        post(&format!("{group}/selfsubjectaccessreviews"), json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}})),
        post(&format!("{group}/selfsubjectaccessreviews"), json!({})),
        post(&format!("{group}/subjectaccessreviews"), json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})),
        post(&format!("{group}/subjectaccessreviews"), json!({"spec": {"user": "root", "groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}}})).settle(unreasoned),
        post(&format!("{group}/namespaces/$ns/localsubjectaccessreviews"), json!({"spec": {"user": "root", "groups": ["system:masters"], "resourceAttributes": {"namespace": "$ns", "verb": "get", "resource": "pods"}}})).settle(unreasoned),
        post(&format!("{group}/namespaces/$ns/localsubjectaccessreviews"), json!({"spec": {"user": "root", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}}})),
        post(&format!("{group}/selfsubjectrulesreviews"), json!({"spec": {"namespace": "$ns"}})).settle(|body| body["status"] = json!("…")),
        post(&format!("{group}/selfsubjectrulesreviews"), json!({"spec": {}})),
        get(&format!("{group}/selfsubjectaccessreviews")),
        get(&format!("{group}/selfsubjectaccessreviews/x")),
        delete(&format!("{group}/selfsubjectaccessreviews/x")),
    ]
}

fn unreasoned(body: &mut Value) {
    if let Some(status) = body.pointer_mut("/status").and_then(Value::as_object_mut) {
        status.remove("reason");
    }
}

fn who() -> Script {
    let group = "/apis/authentication.k8s.io/v1";
    script![
        post(&format!("{group}/selfsubjectreviews"), json!({}))
            .settle(|body| body["status"]["userInfo"] = json!("…")),
        post(
            &format!("{group}/tokenreviews"),
            json!({"spec": {"token": "nonsense"}})
        )
        .settle(|body| {
            if let Some(status) = body.pointer_mut("/status").and_then(Value::as_object_mut) {
                status.remove("error");
            }
        }),
        post(
            &format!("{group}/tokenreviews"),
            json!({"spec": {"token": ""}})
        ),
        post(&format!("{group}/tokenreviews"), json!({"spec": {}})),
        get(&format!("{group}/selfsubjectreviews")),
    ]
}
