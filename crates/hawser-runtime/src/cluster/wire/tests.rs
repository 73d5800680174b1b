use std::collections::HashSet;

use super::*;
use crate::cluster::cache::{Cache, Coverage, Listed};
use crate::cluster::connection::FIELD_MANAGER;
use crate::cluster::ground::{Ground, fault};
use hawser_sync::{Labels, Scope, Side};
use kcp_playground::server::{Action, When};
use serde_json::Value;

/// Everything is on the service cluster, the plural of a kind is its name with an s.
struct Plain(Connection);

impl Router for Plain {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        (*scope.side.0 == *"service").then(|| Endpoint {
            connection: self.0.clone(),
            resource: format!("{}s", scope.kind.kind.to_lowercase()).into(),
        })
    }
}

impl Plain {
    async fn send(&self, request: &Request) -> Answer {
        let client = GuardedClient::new(&Cache::new());
        let sent = client.send(self, None, &|| Ok(()), request).await;
        sent.expect("a new client knows no contest").0
    }
}

/// The same, with managed fields.
struct WithManagers(Plain);

impl Router for WithManagers {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        self.0.endpoint(scope)
    }

    fn keeps_managed_fields(&self, _: &Scope) -> bool {
        true
    }
}

struct Wired {
    ground: Ground,
    wire: Plain,
}

impl Wired {
    async fn start() -> Self {
        let ground = Ground::start().await;
        let wire = Plain(ground.service.clone());
        Self { ground, wire }
    }

    async fn create(&self, key: &Key, content: Value) -> Answer {
        let mut object = Object::empty(&key.kind, key.namespace.as_deref(), &key.name);
        if let Value::Object(content) = content {
            for (field, value) in content {
                match (field.as_str(), value) {
                    ("metadata", Value::Object(more)) => object.metadata_mut().extend(more),
                    (_, value) => {
                        object.root_mut().insert(field, value);
                    }
                }
            }
        }
        let key = key.clone();
        self.wire.send(&Request::Create { key, object }).await
    }

    async fn made(&self, key: &Key, content: Value) -> Arc<Object> {
        match self.create(key, content).await {
            Answer::Object(object) => object,
            answer => panic!("{answer:?}"),
        }
    }
}

fn key(kind: &str, namespace: Option<&str>, name: &str) -> Key {
    let kind = Arc::new(Gvk::new("", "v1", kind));
    Scope::new(&Side::new("service"), &kind, "").key(namespace, name)
}

fn config(name: &str) -> Key {
    key("ConfigMap", Some("default"), name)
}

fn uid(object: &Object) -> Arc<str> {
    object.uid().unwrap().into()
}

#[test]
fn paths_are_made_for_core_and_named_groups_and_nothing_in_a_name_leaves_its_segment() {
    let secret = Gvk::new("", "v1", "Secret");
    let thing = Gvk::new("a.b", "v2", "Thing");
    assert_eq!(collection(&secret, None, "secrets"), "/api/v1/secrets");
    assert_eq!(
        collection(&thing, Some("../x"), "things"),
        "/apis/a.b/v2/namespaces/..%2Fx/things"
    );
    let labels = Labels::from([
        ("a/b".to_owned(), "c".to_owned()),
        ("d".to_owned(), "e".to_owned()),
    ]);
    assert_eq!(label_query(&labels), "labelSelector=a%2Fb%3Dc%2Cd%3De");
}

#[test]
fn options_of_a_deletion_go_with_its_precondition() {
    let sent = |options: Value| -> Value {
        let Value::Object(options) = options else {
            panic!("{options}")
        };
        let (key, uid) = (config("a"), "u".into());
        let delete = Request::Delete { key, uid, options };
        let call = call(&delete, &config("a"), "configmaps");
        serde_json::from_slice(&call.body).unwrap()
    };
    let with = |more: &Value| {
        let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
        kube_lang::object::merge_patch::apply(&mut options, more);
        options
    };
    let mine = json!({ "preconditions": { "uid": "u" } });
    assert_eq!(sent(json!({})), with(&mine));
    let orphans = json!({ "propagationPolicy": "Orphan", "preconditions": { "uid": "u" } });
    assert_eq!(
        sent(json!({ "propagationPolicy": "Orphan" })),
        with(&orphans)
    );
    let other = json!({ "preconditions": { "resourceVersion": "7", "uid": "u" } });
    let given = json!({ "preconditions": { "resourceVersion": "7" } });
    assert_eq!(sent(given), with(&other));
}

#[tokio::test]
async fn an_object_is_made_read_patched_replaced_and_deleted() {
    let wired = Wired::start().await;
    let (key, wire) = (config("a"), &wired.wire);
    let read = || async { wire.send(&Request::Read { key: key.clone() }).await };
    assert_eq!(read().await, Answer::Gone);
    let made = wired.made(&key, json!({ "data": { "a": "1" } })).await;
    assert_eq!(read().await, Answer::Object(Arc::clone(&made)));
    let patch = json!({ "metadata": { "uid": made.uid() }, "data": { "b": "2" } });
    let patched = wire
        .send(&Request::Patch {
            key: key.clone(),
            patch,
        })
        .await;
    let Answer::Object(patched) = patched else {
        panic!("{patched:?}")
    };
    assert_eq!(patched.root()["data"], json!({ "a": "1", "b": "2" }));
    let mut object = Object::clone(&patched);
    object.root_mut().remove("data");
    let replace = Request::Replace {
        key: key.clone(),
        object,
    };
    assert!(matches!(wire.send(&replace).await, Answer::Object(_)));
    assert_eq!(wire.send(&replace).await, Answer::Failed(Failure::Conflict));
    let delete = Request::delete(key.clone(), uid(&made));
    assert_eq!(wire.send(&delete).await, Answer::Gone);
    assert_eq!(wire.send(&delete).await, Answer::Gone);
}

#[tokio::test]
async fn another_incarnation_is_told_apart_from_a_change() {
    let wired = Wired::start().await;
    let (key, wire) = (config("a"), &wired.wire);
    wired.made(&key, json!({})).await;
    let uid = Arc::from("11111111-1111-1111-1111-111111111111");
    let other = Answer::Failed(Failure::OtherIncarnation);
    let patch = json!({ "metadata": { "uid": &*uid }, "data": {} });
    assert_eq!(
        wire.send(&Request::Patch {
            key: key.clone(),
            patch
        })
        .await,
        other
    );
    assert_eq!(wire.send(&Request::delete(key.clone(), uid)).await, other);
    let patch = json!({ "metadata": { "resourceVersion": "1" }, "data": { "x": "y" } });
    let answer = wire.send(&Request::Patch { key, patch }).await;
    assert_eq!(answer, Answer::Failed(Failure::Conflict));
}

#[tokio::test]
async fn a_deletion_that_waits_for_a_finalizer_answers_with_the_object() {
    let wired = Wired::start().await;
    let key = config("a");
    let made = wired
        .made(&key, json!({ "metadata": { "finalizers": ["a/b"] } }))
        .await;
    let answer = wired.wire.send(&Request::delete(key, uid(&made))).await;
    let Answer::Object(object) = answer else {
        panic!("{answer:?}")
    };
    assert!(object.in_deletion());
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_creation_is_told_apart() {
    let wired = Wired::start().await;
    wired.made(&config("a"), json!({})).await;
    let again = wired.create(&config("a"), json!({})).await;
    assert_eq!(again, Answer::Failed(Failure::AlreadyExists));
    let in_missing = key("ConfigMap", Some("missing"), "a");
    assert_eq!(
        wired.create(&in_missing, json!({})).await,
        Answer::Failed(Failure::NotFound)
    );
    let wrong = wired.create(&config("Not-A-Name"), json!({})).await;
    assert!(matches!(wrong, Answer::Failed(Failure::Invalid(why)) if why.contains("Not-A-Name")));
    let going = key("Namespace", None, "going");
    let namespace = wired.made(&going, json!({})).await;
    let held = json!({ "metadata": { "finalizers": ["a/b"] } });
    wired
        .made(&key("ConfigMap", Some("going"), "held"), held)
        .await;
    let delete = Request::delete(going, uid(&namespace));
    assert!(matches!(wired.wire.send(&delete).await, Answer::Object(_)));
    let late = wired
        .create(&key("ConfigMap", Some("going"), "late"), json!({}))
        .await;
    assert_eq!(late, Answer::Failed(Failure::NamespaceTerminating));
}

#[tokio::test]
async fn a_resource_that_is_not_served_is_unknown_and_not_absent() {
    let wired = Wired::start().await;
    let nothing = key("Nothing", Some("default"), "a");
    for request in [
        Request::Read {
            key: nothing.clone(),
        },
        Request::delete(nothing.clone(), "x"),
        Request::Find {
            scope: nothing.scope(),
            labels: Labels::default(),
        },
        Request::Patch {
            key: nothing.clone(),
            patch: json!({}),
        },
    ] {
        let answer = wired.wire.send(&request).await;
        assert!(
            matches!(&answer, Answer::Failed(Failure::Unavailable(why)) if why.contains("not served")),
            "{request:?}: {answer:?}"
        );
    }
    let elsewhere = Scope::new(&Side::new("elsewhere"), &nothing.kind, &nothing.cluster);
    let key = elsewhere.key(nothing.namespace.as_deref(), &nothing.name);
    let answer = wired.wire.send(&Request::Read { key }).await;
    assert!(matches!(answer, Answer::Failed(Failure::Unavailable(_))));
}

#[tokio::test]
async fn objects_are_found_by_their_labels_in_every_namespace() {
    let wired = Wired::start().await;
    let labelled = json!({ "metadata": { "labels": { "a/b": "c" } } });
    for n in 0..3 {
        wired
            .made(&config(&format!("n{n}")), labelled.clone())
            .await;
    }
    wired.made(&config("other"), json!({})).await;
    let labels = Labels::from([("a/b".to_owned(), "c".to_owned())]);
    let scope = config("x").scope();
    let answer = wired.wire.send(&Request::Find { scope, labels }).await;
    let Answer::Listed(found) = answer else {
        panic!("{answer:?}")
    };
    let names: Vec<_> = found.iter().map(|(key, _)| key.name.to_string()).collect();
    assert_eq!(names, ["n0", "n1", "n2"]);
    assert!(found.iter().all(|(key, object)| object.gvk() == *key.kind));
}

#[track_caller]
fn check(code: u16, reason: &str, message: &str, want: &Failure) {
    let refusal = Refusal {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Refusal::default()
    };
    assert_eq!(failure(&refusal), *want, "{code} {reason} {message}");
}

#[test]
fn every_refusal_has_one_meaning() {
    check(
        401,
        "Unauthorized",
        "no",
        &Failure::Unavailable("status 401: no".into()),
    );
    check(403, "Forbidden", "no", &Failure::Forbidden("no".into()));
    check(
        409,
        "Conflict",
        "the object has been modified",
        &Failure::Conflict,
    );
    check(
        413,
        "RequestEntityTooLarge",
        "limit is 3145728",
        &Failure::TooLarge,
    );
    check(
        500,
        "InternalError",
        "etcdserver: request is too large",
        &Failure::TooLarge,
    );
    check(
        500,
        "InternalError",
        "boom",
        &Failure::Unavailable("status 500: boom".into()),
    );
    check(400, "BadRequest", "what", &Failure::Invalid("what".into()));
    check(
        415,
        "UnsupportedMediaType",
        "what",
        &Failure::Invalid("what".into()),
    );
    check(503, "", "", &Failure::Unavailable("status 503".into()));
}

#[tokio::test]
async fn a_write_without_an_answer_is_neither_done_nor_refused() {
    let wired = Wired::start().await;
    let cut = Action::Reset(When::After);
    wired
        .ground
        .playground
        .faults()
        .add(fault("create", "configmaps", cut).once());
    let answer = wired.create(&config("a"), json!({})).await;
    assert!(
        matches!(answer, Answer::Failed(Failure::Unavailable(_))),
        "{answer:?}"
    );
    let read = wired.wire.send(&Request::Read { key: config("a") }).await;
    assert!(matches!(read, Answer::Object(_)));
}

#[tokio::test]
async fn a_list_of_more_than_a_pass_may_hold_is_unknown() {
    let wired = Wired::start().await;
    let marks = json!({"l": "v"});
    let create = |number: usize| {
        let data = json!({"k": "x".repeat(1_000_000)});
        let content = json!({"metadata": {"labels": marks.clone()}, "data": data});
        let key = config(&format!("large{number}"));
        let wired = &wired;
        async move { wired.made(&key, content).await }
    };
    let find = Request::Find {
        scope: config("any").scope(),
        labels: Labels::from([("l".to_owned(), "v".to_owned())]),
    };
    let most = LARGEST_LIST / 1_000_000;
    for number in 0..most {
        create(number).await;
    }
    let Answer::Listed(all) = wired.wire.send(&find).await else {
        panic!("no list");
    };
    assert_eq!(all.len(), most);
    create(most).await;
    let answer = wired.wire.send(&find).await;
    let Answer::Failed(Failure::Unavailable(why)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(why, "the list is larger than 32 MiB");
}

#[tokio::test]
async fn a_client_that_hides_contents_has_none_in_its_failures() {
    let wired = Wired::start().await;
    let key = config("a");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"l": "hunter2 and more"}},
    });
    let request = Request::Create {
        key: key.clone(),
        object: Object::new(body.clone()).unwrap(),
    };
    let refused = |answer: Answer| match answer {
        Answer::Failed(Failure::Invalid(told)) => told,
        answer => panic!("{answer:?}"),
    };
    let open = refused(wired.wire.send(&request).await);
    assert!(open.contains("hunter2"), "{open}");
    let client = GuardedClient::hiding_contents(&Cache::new());
    let sent = client.send(&wired.wire, None, &|| Ok(()), &request).await;
    let application = Application {
        key: &key,
        body: &body,
        manager: "m",
        force: true,
        dry_run: false,
    };
    let applied = client.apply(&wired.wire, &|| Ok(()), &application).await;
    for told in [refused(sent.unwrap().0), refused(applied.unwrap().0)] {
        assert!(
            told.contains("metadata.labels: Invalid value: \"…\""),
            "{told}"
        );
        assert!(!told.contains("hunter2"), "{told}");
    }
    let error = RequestError::Refused(Refusal {
        code: 422,
        message: open,
        ..Refusal::default()
    });
    let told = clean_error(&error, &[&body]).to_string();
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn managed_fields_are_in_answers_on_request_and_never_in_the_cache() {
    let Wired { ground, wire } = Wired::start().await;
    let (cache, key) = (Cache::new(), config("a"));
    cache.route(&key.side, "", &"service".into());
    cache.add(&key.side, &key.kind, &"service".into(), Coverage::default());
    let client = GuardedClient::new(&cache);
    let object = Object::new(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
        "data": {"k": "v"},
    }));
    let requests = [
        Request::Create {
            key: key.clone(),
            object: object.unwrap(),
        },
        Request::Read { key: key.clone() },
    ];
    let managers = |object: &Object| object.as_value()["metadata"]["managedFields"].clone();
    let router = WithManagers(wire);
    for request in &requests {
        let sent = client.send(&router, None, &|| Ok(()), request).await;
        let (Answer::Object(object), _) = sent.unwrap() else {
            panic!("no object");
        };
        let entry = &managers(&object)[0];
        assert_eq!(entry["manager"], FIELD_MANAGER);
        assert_eq!(entry["fieldsV1"]["f:data"]["f:k"], json!({}));
    }
    let Seen::Present(kept) = cache.get(&key) else {
        panic!("it is not in the cache");
    };
    assert_eq!(managers(&kept), Value::Null);
    let sent = client.send(&router.0, None, &|| Ok(()), &requests[1]).await;
    let (Answer::Object(object), _) = sent.unwrap() else {
        panic!("no object");
    };
    assert_eq!(managers(&object), Value::Null);
    drop(ground);
}

#[tokio::test]
async fn what_shows_while_a_read_that_does_not_find_it_is_under_way_stays_in_the_cache() {
    let Wired { ground, wire } = Wired::start().await;
    let (cache, key) = (Cache::new(), config("late"));
    cache.route(&key.side, "", &"service".into());
    let table = cache.add(&key.side, &key.kind, &"service".into(), Coverage::default());
    table.finish(&HashSet::new(), 1);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "late", "namespace": "default", "uid": "u", "resourceVersion": "5"}});
    let event = Listed {
        key: key.clone(),
        version: 5,
        object: Object::new(object).unwrap().into(),
    };
    let shows = || {
        table.upsert(&event);
        Ok(())
    };
    let client = GuardedClient::new(&cache);
    let request = Request::Read { key: key.clone() };
    let sent = client.send(&wire, None, &shows, &request).await;
    assert_eq!(sent.unwrap(), (Answer::Gone, Vec::new()));
    assert_eq!(cache.get(&key), Seen::Present(event.object));
    drop(ground);
}
