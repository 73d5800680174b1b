use super::*;

fn agent(elects_leader: bool) -> AgentNeeds {
    AgentNeeds {
        namespace: "hawser".to_owned(),
        slice: "wares".to_owned(),
        export: "wares".to_owned(),
        elects_leader,
        has_shards: false,
    }
}

fn kind(spec: Value) -> PublishedKindNeeds {
    PublishedKindNeeds {
        spec: serde_json::from_value(spec).unwrap(),
        plural: "things".to_owned(),
    }
}

fn things(more: &Value) -> PublishedKindNeeds {
    let mut spec = json!({"resource": {"apiGroup": "example.com", "kind": "Thing"}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    kind(spec)
}

fn verbs(rights: &[Right], wanted: &str, namespace: Option<&str>) -> Vec<&'static str> {
    let of = |right: &&Right| {
        matches!(&right.resource, RightResource::Object { resource, .. } if resource == wanted)
            && right.grantor == RightsSide::Service
            && right.namespace.as_deref() == namespace
    };
    rights.iter().filter(of).map(|right| right.verb).collect()
}

#[test]
fn originals_on_the_service_cluster_are_only_read() {
    let related = |origin: &str| {
        json!({"related": [{"identifier": "a", "origin": origin, "kind": "ConfigMap",
            "object": {"reference": {"path": "spec.a"}}}]})
    };
    let rights = needed(&agent(true), &[things(&related("service"))]);
    assert_eq!(verbs(&rights, "configmaps", None), ["get", "list", "watch"]);
    let rights = needed(&agent(true), &[things(&related("kcp"))]);
    assert_eq!(
        verbs(&rights, "configmaps", None),
        ["create", "delete", "get", "list", "patch", "watch"]
    );
}

#[test]
fn secrets_are_open_in_the_agents_namespace_only_unless_they_are_related() {
    let rights = needed(&agent(true), &[things(&json!({}))]);
    assert_eq!(verbs(&rights, "secrets", None), [""; 0]);
    assert_eq!(verbs(&rights, "secrets", Some("hawser")).len(), 6);
    let related = json!({"related": [{"identifier": "a", "origin": "kcp", "kind": "Secret",
        "object": {"reference": {"path": "spec.a"}}}]});
    let rights = needed(&agent(true), &[things(&related)]);
    assert_eq!(verbs(&rights, "secrets", None).len(), 6);
    // The update of the state's content has no other user.
    assert_eq!(verbs(&rights, "secrets", Some("hawser")), ["update"]);
}

#[test]
fn drift_that_is_told_takes_events_in_the_namespaces_of_copies() {
    let rule = |mode: &str| json!({"drift": [{"path": "spec", "mode": mode}]});
    for (mode, wanted) in [
        ("Keep", &[][..]),
        ("Revert", &["create"]),
        ("Report", &["create"]),
    ] {
        let rights = needed(&agent(true), &[things(&rule(mode))]);
        assert_eq!(verbs(&rights, "events", None), wanted, "{mode}");
    }
}

#[test]
fn a_kind_that_is_not_synchronized_needs_no_rights() {
    let off = things(&json!({"synchronization": {"enabled": false}}));
    let rights = needed(&agent(true), &[off]);
    assert_eq!(verbs(&rights, "things", None), [""; 0]);
}

#[test]
fn without_leader_election_no_lease_is_touched() {
    let rights = needed(&agent(false), &[]);
    assert_eq!(verbs(&rights, "leases", Some("hawser")), [""; 0]);
    assert_eq!(
        verbs(&needed(&agent(true), &[]), "leases", Some("hawser")),
        ["create", "get", "update"]
    );
}

#[test]
fn roles_have_exactly_the_rights() {
    let rights = needed(&agent(true), &[things(&json!({}))]);
    let mut granted = 0;
    for grantor in [RightsSide::Service, RightsSide::Provider] {
        let subject = json!({"kind": "User", "name": "agent"});
        let manifests = roles(&rights, grantor, "hawser", Some(&subject));
        let roles = manifests.iter().filter(|one| one["rules"].is_array());
        for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
            assert_ne!(rule["verbs"], json!(["*"]));
            granted += rule["verbs"].as_array().unwrap().len();
        }
        let bindings = manifests.iter().filter(|one| one["roleRef"].is_object());
        assert_eq!(bindings.count() * 2, manifests.len());
    }
    assert_eq!(granted, rights.len());
}

#[test]
fn replicas_that_share_workspaces_list_and_delete_leases() {
    let of = |has_shards| {
        let agent = AgentNeeds {
            has_shards,
            ..agent(true)
        };
        let needed = needed(&agent, &[]);
        verbs(&needed, "leases", Some("hawser"))
    };
    assert_eq!(of(false), ["create", "get", "update"]);
    assert_eq!(of(true), ["create", "delete", "get", "list", "update"]);
}
