use super::*;
use crate::api::ApiBody;
use crate::protobuf::{self, decode, decode_event, decode_list};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// As clients of Go ask.
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

fn said(response: &ApiResponse) -> Option<&str> {
    let header = response.headers.get(CONTENT_TYPE);
    header.map(|value| value.to_str().unwrap())
}

impl Ground {
    async fn asked(&self, method: Method, target: &str, accept: &str, body: &Value) -> ApiResponse {
        let headers = match method {
            Method::PATCH => vec![(ACCEPT, accept), (CONTENT_TYPE, MERGE)],
            _ => vec![(ACCEPT, accept)],
        };
        self.raw(method, target, &headers, body.to_string().as_bytes())
            .await
    }

    /// An answer in protobuf, as JSON.
    async fn packed(&self, method: Method, target: &str, body: &Value) -> Value {
        let response = self.asked(method, target, EITHER, body).await;
        assert_eq!(said(&response), Some(PROTOBUF), "{}", response.status);
        decode(&response.body.whole().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn built_in_kinds_are_answered_as_protobuf_to_who_asks_for_it() {
    let ground = Ground::new();
    let map = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}, "binaryData": {"b": "AAE="}});
    let a = format!("{MAPS}/a");
    let made = ground.packed(Method::POST, MAPS, &map).await;
    assert_eq!(made, ground.get(&a).await.ok());
    assert!(made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"].is_object());
    assert_eq!(ground.packed(Method::GET, &a, &json!({})).await, made);
    let change = json!({"data": {"k": null}, "metadata": {"finalizers": ["example.com/x"]}});
    let changed = ground.packed(Method::PATCH, &a, &change).await;
    assert_eq!(changed, ground.get(&a).await.ok());
    assert_eq!(ground.packed(Method::PUT, &a, &changed).await, changed);
    let marked = ground.packed(Method::DELETE, &a, &json!({})).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let free = json!({"metadata": {"finalizers": null}});
    ground.packed(Method::PATCH, &a, &free).await;

    // What is not shown as an object is JSON, and so is all that is asked for in another form.
    let gone = ground.asked(Method::GET, &a, EITHER, &json!({})).await;
    assert_eq!((gone.status, said(&gone)), (404, None));
    let table = format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json");
    let json = ground.asked(Method::GET, MAPS, &table, &json!({})).await;
    assert_eq!((json.status, said(&json)), (200, None));
    let json = ground.asked(Method::GET, MAPS, "*/*", &json!({})).await;
    assert_eq!(said(&json), None);
    // Both views of an event, one of which is not as it is stored.
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    for path in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let path = format!("{path}/namespaces/default/events");
        if path.starts_with("/api/") {
            ground.packed(Method::POST, &path, &event).await;
        }
        let target = format!("{path}/e");
        let packed = ground.packed(Method::GET, &target, &json!({})).await;
        let mut json = ground.get(&target).await.ok();
        // What is null in JSON is nothing at all.
        let fields = json.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        assert_eq!(packed, json);
    }
}

#[tokio::test]
async fn lists_are_protobuf_with_their_pages() {
    let ground = Ground::new();
    for name in ["a", "b", "c"] {
        let map = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(40_000)}});
        ground.post(MAPS, map).await.ok();
    }
    for query in ["?limit=2", "?limit=500", "?labelSelector=none"] {
        let target = format!("{MAPS}{query}");
        let response = ground.asked(Method::GET, &target, EITHER, &json!({})).await;
        assert_eq!(said(&response), Some(PROTOBUF));
        let (meta, items) = decode_list(&response.body.whole().unwrap());
        let json = ground.get(&target).await.ok();
        for field in ["resourceVersion", "remainingItemCount"] {
            assert_eq!(meta.get(field), json["metadata"].get(field), "{query}");
        }
        assert_eq!(
            meta.get("continue").is_some(),
            json["metadata"].get("continue").is_some()
        );
        assert_eq!(Value::from(items), json["items"], "{query}");
    }
    let response = ground.asked(Method::DELETE, MAPS, EITHER, &json!({})).await;
    assert_eq!(said(&response), Some(PROTOBUF));
    assert_eq!(decode_list(&response.body.whole().unwrap()).1.len(), 3);
}

#[tokio::test]
async fn events_are_frames_of_protobuf() {
    let ground = Ground::new();
    ground
        .post(MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .ok();
    let target = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let response = ground.asked(Method::GET, &target, EITHER, &json!({})).await;
    assert_eq!(said(&response), Some(protobuf::EVENTS));
    let ApiBody::Stream(mut events) = response.body else {
        panic!("no stream");
    };
    let mut next = async || {
        let (kind, document) = decode_event(&events.next().await.unwrap());
        (kind, document)
    };
    let (kind, document) = next().await;
    let a = format!("{MAPS}/a");
    assert_eq!(
        (&*kind, decode(&document).unwrap()),
        ("ADDED", ground.get(&a).await.ok())
    );
    let (kind, document) = next().await;
    let bookmark = decode(&document).unwrap();
    assert_eq!(
        (&*kind, &bookmark["kind"]),
        ("BOOKMARK", &json!("ConfigMap"))
    );
    assert_eq!(
        bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    let changed = ground
        .packed(Method::PATCH, &a, &json!({"data": {"k": "v"}}))
        .await;
    let (kind, document) = next().await;
    assert_eq!((&*kind, decode(&document).unwrap()), ("MODIFIED", changed));
    ground.asked(Method::DELETE, &a, EITHER, &json!({})).await;
    let (kind, document) = next().await;
    let last = decode(&document).unwrap();
    assert_eq!((&*kind, &last["data"]["k"]), ("DELETED", &json!("v")));
    let revision = ground.store.revision().to_string();
    assert_eq!(last["metadata"]["resourceVersion"], *revision);

    // A watch that came too late is told so in the same way.
    ground.store.compact();
    let target = format!("{MAPS}?watch=true&resourceVersion=2");
    let response = ground.asked(Method::GET, &target, EITHER, &json!({})).await;
    let ApiBody::Stream(mut events) = response.body else {
        panic!("no stream");
    };
    let (kind, document) = decode_event(&events.next().await.unwrap());
    assert_eq!(kind, "ERROR");
    let message = b"too old resource version";
    assert!(memchr::memmem::find(&document, message).is_some());
    assert!(document.starts_with(b"k8s\0"));
}

#[tokio::test]
async fn what_has_no_numbers_is_json_or_refused_before_anything_is_done() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let a = format!("{THINGS}/a");
    let before = ground.get(&a).await.ok();
    for path in [&a, THINGS] {
        let json = ground.asked(Method::GET, path, EITHER, &json!({})).await;
        assert_eq!((json.status, said(&json)), (200, None));
    }
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    let watch = format!("{THINGS}?watch=true");
    for (method, path, body) in [
        (Method::GET, &*a, json!({})),
        (Method::GET, THINGS, json!({})),
        (Method::GET, &*watch, json!({})),
        (Method::POST, THINGS, thing("b", &json!({}))),
        (Method::PATCH, &*a, change),
        (Method::PUT, &*a, before.clone()),
        (Method::DELETE, &*a, json!({})),
        (Method::DELETE, THINGS, json!({})),
    ] {
        let refused = ground.asked(method.clone(), path, PROTOBUF, &body).await;
        assert_eq!(refused.status, 406, "{method} {path}");
    }
    assert_eq!(ground.get(&a).await.ok(), before);
    let crds = ground.asked(Method::GET, CRDS, EITHER, &json!({})).await;
    assert_eq!((crds.status, said(&crds)), (200, None));
    let discovery = ground
        .asked(Method::GET, "/api", PROTOBUF, &json!({}))
        .await;
    assert_eq!(discovery.status, 406);
}

#[tokio::test]
async fn an_answer_is_in_the_one_notation_that_it_says() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let a = format!("{MAPS}/a");
    for (accept, expected) in [
        (
            "application/vnd.kubernetes.protobuf, application/json",
            Some(PROTOBUF),
        ),
        (
            "application/yaml, application/vnd.kubernetes.protobuf",
            Some(PROTOBUF),
        ),
        (
            "application/vnd.kubernetes.protobuf;q=0.5, application/json;q=0.4",
            Some(PROTOBUF),
        ),
        (
            "application/json, application/vnd.kubernetes.protobuf",
            None,
        ),
        ("application/vnd.kubernetes.protobuf;q=0.5, */*", None),
        ("*/*, application/vnd.kubernetes.protobuf", Some(PROTOBUF)),
        (
            "application/vnd.kubernetes.protobuf;charset=utf-8",
            Some(PROTOBUF),
        ),
        (
            "application/vnd.kubernetes.protobuf;stream=watch",
            Some(PROTOBUF),
        ),
        (
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1, application/json",
            None,
        ),
    ] {
        for target in [&*a, MAPS] {
            let answer = ground.asked(Method::GET, target, accept, &json!({})).await;
            assert_eq!(
                (answer.status, said(&answer)),
                (200, expected),
                "{accept} {target}"
            );
            let body = answer.body.whole().unwrap();
            assert_eq!(
                body.starts_with(b"k8s\0"),
                expected == Some(PROTOBUF),
                "{accept} {target}"
            );
            assert_eq!(
                body.starts_with(b"{"),
                expected.is_none(),
                "{accept} {target}"
            );
        }
        let missing = ground
            .asked(Method::GET, &format!("{MAPS}/b"), accept, &json!({}))
            .await;
        assert_eq!(missing.status, 404);
        assert_ne!(said(&missing), Some(PROTOBUF));
    }
}
