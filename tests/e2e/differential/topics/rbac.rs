//! Roles and bindings are checked, whoever wants them.

use serde_json::json;

use super::super::step::{MERGE, Script, Topic, patch, post, script};

pub(super) fn topic() -> Topic {
    Topic::new("rbac", rbac())
}

fn rbac() -> Script {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings";
    script![
        post(
            roles,
            json!({"metadata": {"name": "a:b"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        post(
            roles,
            json!({"metadata": {"name": "bad"}, "rules": [{"verbs": [], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        post(
            roles,
            json!({"metadata": {"name": "bad"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
        ),
        post(roles, json!({"metadata": {"name": "a/b"}})),
        post(
            bindings,
            json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a:b"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        ),
        post(
            bindings,
            json!({"metadata": {"name": "bad"}, "roleRef": {"kind": "Other", "name": "x"}}),
        ),
        post(
            bindings,
            json!({"metadata": {"name": "bad"}, "roleRef": {"kind": "Role", "name": "a:b"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        ),
        patch(
            &format!("{bindings}/a"),
            MERGE,
            json!({"roleRef": {"name": "other"}}),
        ),
    ]
}
