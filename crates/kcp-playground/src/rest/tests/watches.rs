use super::*;

#[tokio::test]
async fn a_watch_from_a_revision_tells_everything_after_it() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let from = ground.store.revision();
    let mut events = ground
        .watch(&format!("{MAPS}?watch=true&resourceVersion={from}"))
        .await;
    events.is_silent();
    ground.post(MAPS, map("b")).await.ok();
    let changed = ground
        .patch(&format!("{MAPS}/a"), MERGE, json!({"data": {"a": "c"}}))
        .await
        .ok();
    ground.delete(&format!("{MAPS}/a")).await.ok();
    assert_eq!(events.brief().await, ("ADDED".into(), "b".into()));
    let event = events.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("MODIFIED"), &changed)
    );
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["data"], changed["data"]);
    assert_eq!(version(&event["object"]), ground.store.revision());
    events.is_silent();
}

#[tokio::test]
async fn a_watch_of_no_revision_begins_with_what_is_there() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    for from in ["", "&resourceVersion=0"] {
        let mut events = ground.watch(&format!("{MAPS}?watch=1{from}")).await;
        assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
        events.is_silent();
    }
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_that_says_so() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let list = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = ground.watch(&format!("{THINGS}?{list}")).await;
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    let object = &event["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("Thing"), &json!("example.com/v1"))
    );
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(version(object), ground.store.revision());
    ground.post(THINGS, thing("b", &json!({}))).await.ok();
    assert_eq!(events.brief().await, ("ADDED".into(), "b".into()));
    for wrong in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
    ] {
        let refused = ground.get(&format!("{THINGS}?watch=true&{wrong}")).await;
        assert_eq!(refused.code, 422, "{wrong}");
    }
}

#[tokio::test]
async fn objects_come_and_go_with_the_selector() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let from = ground.store.revision();
    let mut events = ground
        .watch(&format!(
            "{MAPS}?watch=true&resourceVersion={from}&labelSelector=on"
        ))
        .await;
    let at = format!("{MAPS}/a");
    let label = |value: Value| json!({"metadata": {"labels": {"on": value}}});
    ground.patch(&at, MERGE, label("1".into())).await.ok();
    ground.patch(&at, MERGE, label("2".into())).await.ok();
    ground.patch(&at, MERGE, label(Value::Null)).await.ok();
    assert_eq!(events.next().await.unwrap()["type"], "ADDED");
    assert_eq!(events.next().await.unwrap()["type"], "MODIFIED");
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["on"], "2");
    assert_eq!(version(&event["object"]), ground.store.revision());
}

#[tokio::test]
async fn one_object_is_watched_by_its_name() {
    let ground = Ground::new();
    let mut events = ground
        .watch("/api/v1/configmaps?watch=true&fieldSelector=metadata.name%3Db")
        .await;
    ground.post(MAPS, map("a")).await.ok();
    ground.post(MAPS, map("b")).await.ok();
    assert_eq!(events.brief().await, ("ADDED".into(), "b".into()));
    events.is_silent();
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends_in_time() {
    let ground = Ground::new();
    let from = ground.store.revision();
    let mut events = ground
        .watch(&format!(
            "{MAPS}?watch=true&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=90"
        ))
        .await;
    ground
        .post(
            "/api/v1/namespaces/default/secrets",
            json!({"metadata": {"name": "s"}}),
        )
        .await
        .ok();
    for _ in 0..2 {
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(version(&event["object"]), ground.store.revision());
        assert_eq!(event["object"]["metadata"].get("annotations"), None);
    }
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn watches_end_when_their_definition_goes() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let mut events = ground.watch(&format!("{THINGS}?watch=true")).await;
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    let mut others = ground.watch(&format!("{MAPS}?watch=true")).await;
    ground
        .delete(&format!("{CRDS}/things.example.com"))
        .await
        .ok();
    assert_eq!(events.brief().await, ("DELETED".into(), "a".into()));
    assert_eq!(events.next().await, None);
    others.is_silent();
    assert_eq!(ground.get(THINGS).await.code, 404);
}

#[tokio::test]
async fn watches_survive_a_change_of_the_schema() {
    let ground = Ground::with_things().await;
    let mut events = ground.watch(&format!("{THINGS}?watch=true")).await;
    let column = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more", "value": {"type": "string"}}]);
    ground
        .patch(&format!("{CRDS}/things.example.com"), JSON_PATCH, column)
        .await
        .ok();
    ground
        .post(THINGS, thing("a", &json!({"more": "yes"})))
        .await
        .ok();
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["spec"]["more"], "yes");
}

#[tokio::test]
async fn a_watch_of_metadata_shows_metadata() {
    let ground = Ground::new();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let target = format!("{MAPS}?watch=true");
    let response = ground
        .raw(Method::GET, &target, &[(ACCEPT, accept)], b"")
        .await;
    let ApiBody::Stream(lines) = response.body else {
        panic!("no stream")
    };
    let mut events = Events { lines };
    ground.post(MAPS, map("a")).await.ok();
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"].get("data"), None);
}
