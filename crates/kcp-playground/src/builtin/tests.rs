use serde_json::{Value, json};

use super::namespaces;
use crate::plain::fixture::{Api, CLUSTER, CONFIG_MAPS, Cluster, NAMESPACES, NOW, SECRETS};
use crate::status::Status;
use kube_lang::object::Object;

const EVENTS: Api = Api("v1", "events");
const NEW_EVENTS: Api = Api("events.k8s.io/v1", "events");
const QUOTAS: Api = Api("v1", "resourcequotas");
const BINDINGS: Api = Api("rbac.authorization.k8s.io/v1", "rolebindings");

fn named(name: &str, rest: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "namespace": "default"}});
    for (field, value) in rest.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// What was refused: the code, and the errors of fields if there are any.
#[track_caller]
fn refused(result: Result<Value, Status>) -> (u16, Vec<String>) {
    let status = result.unwrap_err();
    let causes = status.details.map(|details| details.causes);
    let texts = causes
        .unwrap_or_default()
        .into_iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    (status.code, texts)
}

#[track_caller]
fn check_invalid(api: Api, rest: &Value, want: &[&str]) {
    let got = refused(Cluster::new().put(api, named("x", rest)));
    assert_eq!(got, (422, want.iter().map(|w| (*w).to_owned()).collect()));
}

#[test]
fn a_secret_is_opaque_unless_it_says_otherwise_and_folds_plain_texts() {
    let cluster = Cluster::new();
    let secret = cluster
        .put(
            SECRETS,
            named(
                "s",
                &json!({"data": {"a": "YQ==", "b": null}, "stringData": {"a": "b"}}),
            ),
        )
        .unwrap();
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret["data"], json!({"a": "Yg==", "b": ""}));
    assert!(secret.get("stringData").is_none());
    let (code, errors) = refused(cluster.put(SECRETS, named("s", &json!({"type": "mine"}))));
    assert_eq!(code, 422);
    assert_eq!(
        errors,
        ["type: Invalid value: \"mine\": field is immutable"]
    );
}

#[test]
fn data_that_is_no_base64_is_a_bad_request() {
    for data in [json!({"a": "%"}), json!({"a": 1}), json!([1])] {
        let secret = named("s", &json!({"data": data}));
        assert_eq!(refused(Cluster::new().put(SECRETS, secret)).0, 400);
    }
    let map = named("c", &json!({"data": {"a": {}}}));
    assert_eq!(refused(Cluster::new().put(CONFIG_MAPS, map)).0, 400);
}

#[test]
fn secrets_of_known_types_have_what_the_type_asks_for() {
    check_invalid(
        SECRETS,
        &json!({"type": "kubernetes.io/tls"}),
        &[
            "data[tls.crt]: Required value",
            "data[tls.key]: Required value",
        ],
    );
    check_invalid(
        SECRETS,
        &json!({"type": "kubernetes.io/service-account-token"}),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    );
    check_invalid(
        SECRETS,
        &json!({"type": "kubernetes.io/dockercfg"}),
        &["data[.dockercfg]: Required value"],
    );
}

#[test]
fn keys_of_data_could_be_file_names() {
    check_invalid(
        CONFIG_MAPS,
        &json!({"data": {"..a": "1"}}),
        &["data[..a]: Invalid value: \"..a\": must not start with '..'"],
    );
    check_invalid(
        CONFIG_MAPS,
        &json!({"data": {"a": "1"}, "binaryData": {"a": "YQ=="}}),
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
    let big = "x".repeat(1024 * 1024 + 1);
    let map = named("x", &json!({"data": {"a": big}}));
    let (code, errors) = refused(Cluster::new().put(CONFIG_MAPS, map));
    assert_eq!(code, 422);
    assert!(errors[0].contains("may not be more than 1048576 bytes"));
}

#[test]
fn what_is_sealed_stays_as_it_is() {
    for api in [CONFIG_MAPS, SECRETS] {
        let cluster = Cluster::new();
        let sealed = json!({"data": {"a": "YQ=="}, "immutable": true});
        cluster.put(api, named("x", &sealed)).unwrap();
        cluster.put(api, named("x", &sealed)).unwrap();
        let opened = cluster.put(api, named("x", &json!({"data": {"a": "Yg=="}})));
        assert_eq!(
            refused(opened).1,
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ]
        );
    }
}

#[test]
fn bindings_name_their_groups_and_keep_their_role() {
    let cluster = Cluster::new();
    let binding = |role: &str| {
        named(
            "b",
            &json!({
                "roleRef": {"kind": "Role", "name": role},
                "subjects": [
                    {"kind": "User", "name": "ann"},
                    {"kind": "ServiceAccount", "name": "sa", "namespace": "default"},
                ],
            }),
        )
    };
    let stored = cluster.put(BINDINGS, binding("a")).unwrap();
    assert_eq!(stored["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(
        stored["subjects"][0]["apiGroup"],
        "rbac.authorization.k8s.io"
    );
    assert!(stored["subjects"][1].get("apiGroup").is_none());
    let (code, errors) = refused(cluster.put(BINDINGS, binding("b")));
    assert_eq!(code, 422);
    assert!(
        errors[0].starts_with("roleRef: Invalid value"),
        "{errors:?}"
    );
    assert!(errors[0].ends_with("cannot change roleRef"), "{errors:?}");
}

#[test]
fn roles_and_bindings_say_what_they_are_about() {
    check_invalid(
        Api("rbac.authorization.k8s.io/v1", "roles"),
        &json!({"rules": [{"apiGroups": [""], "resources": ["secrets"]}]}),
        &["rules[0].verbs: Required value: verbs must contain at least one value"],
    );
    check_invalid(
        BINDINGS,
        &json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Robot", "name": "r"}]}),
        &[
            "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        ],
    );
}

#[test]
fn a_namespace_begins_active_and_can_be_found_by_its_name() {
    let cluster = Cluster::new();
    let namespace =
        json!({"metadata": {"name": "n"}, "spec": {}, "status": {"phase": "Terminating"}});
    let stored = cluster.put(NAMESPACES, namespace.clone()).unwrap();
    assert_eq!(stored["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(stored["status"], json!({"phase": "Active"}));
    let label = json!({"kubernetes.io/metadata.name": "n"});
    assert_eq!(stored["metadata"]["labels"], label);
    let again = cluster.put(NAMESPACES, namespace).unwrap();
    assert_eq!(again, stored, "an update changes neither spec nor status");
}

#[test]
fn some_namespaces_cannot_be_deleted() {
    for name in ["default", "kube-system", "kube-public"] {
        let status = Cluster::new().delete(NAMESPACES, "", name).unwrap_err();
        assert_eq!(status.code, 403, "{name}");
    }
}

fn in_namespace(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "finalizers": finalizers}})
}

#[test]
fn a_namespace_goes_with_all_it_holds() {
    let cluster = Cluster::new();
    cluster
        .put(NAMESPACES, json!({"metadata": {"name": "n"}}))
        .unwrap();
    cluster.put(CONFIG_MAPS, in_namespace("c", &[])).unwrap();
    cluster.put(SECRETS, in_namespace("s", &[])).unwrap();
    cluster
        .put(CONFIG_MAPS, named("other", &json!({})))
        .unwrap();
    cluster.delete(NAMESPACES, "", "n").unwrap();
    assert_eq!(cluster.get(NAMESPACES, "", "n"), None);
    assert_eq!(cluster.get(CONFIG_MAPS, "n", "c"), None);
    assert_eq!(cluster.get(SECRETS, "n", "s"), None);
    assert!(cluster.get(CONFIG_MAPS, "default", "other").is_some());
}

#[test]
fn what_is_held_back_holds_its_namespace() {
    let cluster = Cluster::new();
    cluster
        .put(NAMESPACES, json!({"metadata": {"name": "n"}}))
        .unwrap();
    cluster.put(CONFIG_MAPS, in_namespace("free", &[])).unwrap();
    cluster
        .put(CONFIG_MAPS, in_namespace("held", &["example.com/hold"]))
        .unwrap();
    cluster.delete(NAMESPACES, "", "n").unwrap();

    let namespace = cluster.get(NAMESPACES, "", "n").unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(namespace["metadata"]["deletionTimestamp"], NOW);
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    assert_eq!(
        conditions[0]["message"],
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert!(conditions.iter().all(|c| c["status"] == "True"));
    assert_eq!(cluster.get(CONFIG_MAPS, "n", "free"), None);
    let held = cluster.get(CONFIG_MAPS, "n", "held").unwrap();
    assert_eq!(held["metadata"]["deletionTimestamp"], NOW);

    let late = cluster.put(CONFIG_MAPS, in_namespace("late", &[]));
    let status = late.unwrap_err();
    assert_eq!(status.code, 403);
    let causes = &status.details.unwrap().causes;
    assert_eq!(causes[0].reason, "NamespaceTerminating");

    cluster.release(CONFIG_MAPS, "n", "held");
    assert_eq!(cluster.get(NAMESPACES, "", "n"), None);
}

#[test]
fn a_namespace_with_a_spec_finalizer_waits_for_finalize() {
    let cluster = Cluster::new();
    cluster
        .put(NAMESPACES, json!({"metadata": {"name": "n"}}))
        .unwrap();
    let with =
        json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes", "example.com/a"]}});
    cluster.write(NAMESPACES, "finalize", with).unwrap();
    cluster.delete(NAMESPACES, "", "n").unwrap();
    let namespace = cluster.get(NAMESPACES, "", "n").unwrap();
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/a"]));
    let without = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    cluster.write(NAMESPACES, "finalize", without).unwrap();
    assert_eq!(cluster.get(NAMESPACES, "", "n"), None);
}

#[test]
fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let status = Cluster::new()
        .put(CONFIG_MAPS, in_namespace("c", &[]))
        .unwrap_err();
    assert_eq!(status.code, 404);
    assert_eq!(status.message, "namespaces \"n\" not found");
}

fn event(rest: &Value) -> Value {
    let mut event = named(
        "e",
        &json!({"involvedObject": {"kind": "Pod", "namespace": "default"}, "message": "hello"}),
    );
    for (field, value) in rest.as_object().unwrap() {
        event[field] = value.clone();
    }
    event
}

#[test]
fn an_event_is_one_object_in_two_views() {
    let cluster = Cluster::new();
    let core = json!({"lastTimestamp": NOW, "count": 3, "source": {"component": "c"}});
    cluster.put(EVENTS, event(&core)).unwrap();
    let mut view = cluster.get(NEW_EVENTS, "default", "e").unwrap();
    assert_eq!(view["apiVersion"], "events.k8s.io/v1");
    assert_eq!(view["regarding"]["kind"], "Pod");
    assert_eq!(view["note"], "hello");
    assert_eq!(view["deprecatedCount"], 3);
    assert_eq!(view["deprecatedSource"]["component"], "c");
    for field in ["involvedObject", "message", "count", "source"] {
        assert!(view.get(field).is_none(), "{field}");
    }
    let mut other = view.clone();
    other["note"] = "changed".into();
    assert_eq!(
        refused(cluster.put(NEW_EVENTS, other)).0,
        422,
        "only counted"
    );
    let at = "2026-03-01T12:00:00.000001Z";
    view["series"] = json!({"count": 4, "lastObservedTime": at});
    cluster.put(NEW_EVENTS, view).unwrap();
    let core = cluster.get(EVENTS, "default", "e").unwrap();
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["series"]["lastObservedTime"], at);
    assert_eq!(core["count"], 3);
}

#[test]
fn events_live_where_their_subject_does() {
    let wrong = json!({"involvedObject": {"namespace": "elsewhere"}});
    assert_eq!(
        refused(Cluster::new().put(EVENTS, event(&wrong))).1,
        ["involvedObject.namespace: Invalid value: \"elsewhere\": does not match event.namespace"]
    );
    let of_a_cluster = json!({"involvedObject": {"kind": "Node"}});
    assert!(Cluster::new().put(EVENTS, event(&of_a_cluster)).is_ok());
}

#[test]
fn a_new_style_event_is_complete() {
    let view = named("e", &json!({"regarding": {}, "type": "Odd"}));
    assert_eq!(
        refused(Cluster::new().put(NEW_EVENTS, view)).1,
        [
            "eventTime: Required value",
            "type: Invalid value: \"\": has invalid value: Odd",
        ]
    );
}

#[test]
fn events_are_forgotten_after_an_hour() {
    let cluster = Cluster::new();
    let old = event(&json!({"lastTimestamp": "2026-03-01T10:59:59Z"}));
    cluster.put(EVENTS, old).unwrap();
    assert_eq!(cluster.get(EVENTS, "default", "e"), None);
    let recent = event(&json!({"lastTimestamp": "2026-03-01T11:00:01Z"}));
    cluster.put(EVENTS, recent).unwrap();
    assert!(cluster.get(EVENTS, "default", "e").is_some());
}

#[test]
fn reviews_allow_everything_and_know_tokens() {
    const AUTHORIZATION: &str = "authorization.k8s.io/v1";
    const AUTHENTICATION: &str = "authentication.k8s.io/v1";
    let cluster = Cluster::new();
    let access = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
    let own = Api(AUTHORIZATION, "selfsubjectaccessreviews");
    assert_eq!(
        cluster.ask(own, access.clone()).unwrap()["status"]["allowed"],
        true
    );
    let whose = Api(AUTHORIZATION, "subjectaccessreviews");
    assert_eq!(
        refused(cluster.ask(whose, access)).1,
        ["spec.user: Invalid value: \"\": at least one of user or group must be specified"]
    );
    assert_eq!(refused(cluster.ask(own, json!({"spec": {}}))).0, 422);
    let rules = Api(AUTHORIZATION, "selfsubjectrulesreviews");
    let answer = cluster
        .ask(rules, json!({"spec": {"namespace": "default"}}))
        .unwrap();
    assert_eq!(answer["status"]["resourceRules"][0]["verbs"], json!(["*"]));

    let tokens = Api(AUTHENTICATION, "tokenreviews");
    let token = |token: &str| cluster.ask(tokens, json!({"spec": {"token": token}}));
    assert_eq!(token("good").unwrap()["status"]["user"]["username"], "ann");
    let unknown = token("bad").unwrap();
    assert!(unknown["status"].get("authenticated").is_none());
    assert_eq!(refused(token("")).0, 400);
    let me = cluster
        .ask(Api(AUTHENTICATION, "selfsubjectreviews"), json!({}))
        .unwrap();
    assert_eq!(me["status"]["userInfo"]["username"], "tester");
    assert_eq!(me["status"]["userInfo"]["groups"], json!(["devs"]));
}

#[test]
fn nothing_survives_a_namespace_that_was_removed_outright() {
    let cluster = Cluster::new();
    cluster
        .put(NAMESPACES, json!({"metadata": {"name": "n"}}))
        .unwrap();
    cluster.put(SECRETS, in_namespace("s", &[])).unwrap();
    let key = namespaces::key(CLUSTER, "n");
    cluster.store.write(|tx| Ok(tx.remove(&key))).unwrap();
    assert_eq!(cluster.get(SECRETS, "n", "s"), None);
}

#[test]
fn an_object_may_be_written_before_its_namespace() {
    let cluster = Cluster::new();
    let object = Object::new(in_namespace("c", &[])).unwrap();
    let key = cluster.resource(CONFIG_MAPS).table.key(CLUSTER, "n", "c");
    let made = cluster.store.write(|tx| {
        tx.put(&key, object)?;
        namespaces::ensure(tx, CLUSTER, "n")
    });
    assert!(made.is_ok());
    assert!(cluster.get(CONFIG_MAPS, "n", "c").is_some());
}

#[test]
fn typed_kinds_drop_what_they_do_not_know() {
    let cluster = Cluster::new();
    let mut sent = named(
        "x",
        &json!({"data": {"a": "1"}, "odd": 1, "apiVersion": "v1", "kind": "ConfigMap"}),
    );
    sent["metadata"]["odd"] = 1.into();
    let stored = cluster.put(CONFIG_MAPS, sent).unwrap();
    assert_eq!(stored["data"], json!({"a": "1"}));
    assert!(stored.get("odd").is_none());
    assert!(stored["metadata"].get("odd").is_none());
    assert_eq!(stored["kind"], "ConfigMap");
}

#[test]
fn fields_of_the_wrong_type_are_a_bad_request() {
    let lease = Api("coordination.k8s.io/v1", "leases");
    for (api, rest) in [
        (lease, json!({"spec": {"leaseDurationSeconds": "15"}})),
        (lease, json!({"spec": []})),
        (lease, json!({"spec": {"leaseTransitions": 1_u64 << 31}})),
        (QUOTAS, json!({"spec": {"hard": {"cpu": "much"}}})),
        (QUOTAS, json!({"spec": {"hard": {"cpu": true}}})),
        (CONFIG_MAPS, json!({"immutable": "yes"})),
        (BINDINGS, json!({"roleRef": "admin"})),
        (BINDINGS, json!({"subjects": [1]})),
        (EVENTS, json!({"involvedObject": "pod"})),
        (NEW_EVENTS, json!({"series": {"count": "many"}})),
        (
            Api("rbac.authorization.k8s.io/v1", "roles"),
            json!({"rules": {}}),
        ),
    ] {
        let status = Cluster::new().put(api, named("x", &rest)).unwrap_err();
        assert_eq!(status.code, 400, "{rest}: {status}");
    }
    let time = "2026-03-01T12:00:00.000000Z";
    let nulls = json!({"spec": {"holderIdentity": null, "renewTime": time}});
    let stored = Cluster::new().put(lease, named("x", &nulls)).unwrap();
    assert_eq!(stored["spec"], json!({"renewTime": time}));
    let whole = json!({"spec": {"renewTime": NOW}});
    let refused = Cluster::new().put(lease, named("x", &whole)).unwrap_err();
    assert_eq!(refused.code, 400);
}

#[test]
fn metadata_have_their_types_in_every_kind() {
    let owner = |controller: Value| json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": controller}]);
    for (field, value, code) in [
        ("generateName", json!(1), Some(400)),
        ("ownerReferences", json!("o"), Some(400)),
        ("ownerReferences", owner(json!("yes")), Some(400)),
        ("ownerReferences", owner(json!(null)), None),
        ("generateName", json!(null), None),
    ] {
        for api in [CONFIG_MAPS, QUOTAS] {
            let mut sent = named("x", &json!({}));
            sent["metadata"][field] = value.clone();
            let refused = Cluster::new().put(api, sent).err();
            assert_eq!(refused.map(|status| status.code), code, "{field} {value}");
        }
    }
}

#[test]
fn amounts_of_quotas_are_texts() {
    let hard = json!({"pods": 3, "cpu": "500m", "memory": null, "storage": 0.5});
    let sent = named("x", &json!({"spec": {"hard": hard}}));
    let stored = Cluster::new().put(QUOTAS, sent).unwrap();
    let expected = json!({"pods": "3", "cpu": "500m", "memory": "0", "storage": "0.5"});
    assert_eq!(stored["spec"]["hard"], expected);
}

#[test]
fn conditions_of_namespaces_have_times() {
    let cluster = Cluster::new();
    let made = cluster
        .store
        .write(|tx| namespaces::ensure(tx, CLUSTER, "n"));
    assert!(made.is_ok());
    let mut namespace = cluster.get(NAMESPACES, "", "n").unwrap();
    for (time, expected) in [
        ("2026-03-01T13:00:00.5+01:00", Ok(json!(NOW))),
        ("0001-01-01T00:00:00Z", Ok(json!(null))),
        ("now", Err(400)),
    ] {
        let condition = json!({"type": "T", "status": "True", "lastTransitionTime": time});
        namespace["status"]["conditions"] = json!([condition]);
        let stored = cluster.write(NAMESPACES, "status", namespace.clone());
        let found = stored.map(|n| n["status"]["conditions"][0]["lastTransitionTime"].clone());
        assert_eq!(found.map_err(|status| status.code), expected, "{time}");
    }
}

#[test]
fn a_lease_lasts_some_time() {
    check_invalid(
        Api("coordination.k8s.io/v1", "leases"),
        &json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        &[
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}
