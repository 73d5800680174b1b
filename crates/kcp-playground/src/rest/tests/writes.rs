use super::*;

#[tokio::test]
async fn a_create_gives_the_object_its_identity() {
    let ground = Ground::with_things().await;
    let mut sent = thing("a", &json!({"size": 3}));
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["creationTimestamp"] = Value::Null;
    sent["metadata"]["generation"] = 7.into();
    sent["metadata"]["managedFields"] = json!([]);
    sent["status"] = json!({"ready": true});
    let answer = ground.post(THINGS, sent).await;
    assert_eq!(answer.code, 201);
    let made = answer.ok();
    let metadata = &made["metadata"];
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(
        metadata["creationTimestamp"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    let entry = &metadata["managedFields"][0];
    assert_eq!(
        (&entry["manager"], &entry["operation"], &entry["fieldsV1"]),
        (
            &json!("unknown"),
            &json!("Update"),
            &json!({"f:spec": {".": {}, "f:mode": {}, "f:size": {}}})
        )
    );
    assert_eq!(made["spec"], json!({"size": 3, "mode": "slow"}));
    assert_eq!(made.get("status"), None);
    assert_eq!(ground.get(&format!("{THINGS}/a")).await.ok(), made);
}

#[tokio::test]
async fn built_in_kinds_have_no_generation() {
    let ground = Ground::new();
    let made = ground.post(MAPS, map("a")).await.ok();
    assert_eq!(made["metadata"].get("generation"), None);
    assert_eq!(
        (&made["apiVersion"], &made["kind"]),
        (&json!("v1"), &json!("ConfigMap"))
    );
}

#[tokio::test]
async fn what_is_there_already_is_a_conflict() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let refused = ground.post(MAPS, map("a")).await.refused(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    assert_eq!(
        refused["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
}

#[tokio::test]
async fn a_create_that_brings_a_resource_version_is_refused() {
    let ground = Ground::new();
    let mut sent = map("a");
    sent["metadata"]["resourceVersion"] = "5".into();
    let refused = ground.post(MAPS, sent).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.body["message"],
        "resourceVersion should not be set on objects to be created"
    );
}

#[tokio::test]
async fn generated_names_begin_as_asked() {
    let ground = Ground::new();
    let made = ground
        .post(MAPS, json!({"metadata": {"generateName": "web-"}}))
        .await
        .ok();
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    assert_eq!(made["metadata"]["generateName"], "web-");
    ground.post(MAPS, json!({"data": {}})).await.refused(
        422,
        "Invalid",
        "name or generateName is required",
    );
}

#[tokio::test]
async fn an_object_needs_its_namespace() {
    let ground = Ground::new();
    let elsewhere = "/api/v1/namespaces/nowhere/configmaps";
    let refused = ground.post(elsewhere, map("a")).await.refused(
        404,
        "NotFound",
        "namespaces \"nowhere\" not found",
    );
    assert_eq!(refused["details"]["kind"], "namespaces");
    let mut sent = map("a");
    sent["metadata"]["namespace"] = "other".into();
    ground
        .post(MAPS, sent)
        .await
        .refused(400, "BadRequest", "does not match the namespace");
}

#[tokio::test]
async fn what_the_schema_does_not_allow_is_invalid_with_its_causes() {
    let ground = Ground::with_things().await;
    let refused = ground
        .post(THINGS, thing("a", &json!({"size": 0})))
        .await
        .refused(
            422,
            "Invalid",
            "Thing.example.com \"a\" is invalid: spec.size",
        );
    assert_eq!(refused["details"]["kind"], "Thing");
    assert_eq!(refused["details"]["group"], "example.com");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.size");
    assert_eq!(cause["reason"], "FieldValueInvalid");
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let ground = Ground::with_things().await;
    let sent = thing("a", &json!({"size": 1, "colour": "red"}));
    let answer = ground
        .post(&format!("{THINGS}?dryRun=All"), sent.clone())
        .await;
    assert_eq!(
        answer.warnings,
        ["299 - \"unknown field \\\"spec.colour\\\"\""]
    );
    assert_eq!(answer.ok()["spec"].get("colour"), None);
    let ignore = format!("{THINGS}?dryRun=All&fieldValidation=Ignore");
    assert!(ground.post(&ignore, sent.clone()).await.warnings.is_empty());
    ground
        .post(&format!("{THINGS}?fieldValidation=Strict"), sent)
        .await
        .refused(
            400,
            "BadRequest",
            "strict decoding error: unknown field \"spec.colour\"",
        );
}

#[tokio::test]
async fn a_dry_run_answers_and_stores_nothing() {
    let ground = Ground::new();
    let made = ground
        .post(&format!("{MAPS}?dryRun=All"), map("a"))
        .await
        .ok();
    assert_eq!(made["data"]["a"], "b");
    ground
        .get(&format!("{MAPS}/a"))
        .await
        .refused(404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test]
async fn bodies_in_protobuf_are_understood() {
    let ground = Ground::new();
    // Namespace "n" with an empty time and an empty spec, as typed clients send it.
    let body = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x0b\n\x05\n\x01nB\x00\x12\x00\x1a\x00";
    let headers = [(CONTENT_TYPE, "application/vnd.kubernetes.protobuf")];
    let answer = ground
        .raw(Method::POST, "/api/v1/namespaces", &headers, body)
        .await;
    assert_eq!(answer.status, 201);
    let made = ground.get("/api/v1/namespaces/n").await.ok();
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    assert_eq!(made["status"]["phase"], "Active");
}

#[tokio::test]
async fn an_update_is_held_to_the_version_it_is_based_on() {
    let ground = Ground::with_things().await;
    let made = ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let at = format!("{THINGS}/a");
    let mut next = made.clone();
    next["spec"]["size"] = 2.into();
    let updated = ground.put(&at, next.clone()).await.ok();
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(updated["metadata"]["uid"], made["metadata"]["uid"]);
    ground.put(&at, next.clone()).await.refused(
        409,
        "Conflict",
        "the object has been modified; please apply your changes",
    );
    next["metadata"]["resourceVersion"] = Value::Null;
    ground.put(&at, next.clone()).await.refused(
        422,
        "Invalid",
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    );
    let mut stranger = updated;
    stranger["metadata"]["uid"] = "other".into();
    ground
        .put(&at, stranger)
        .await
        .refused(409, "Conflict", "Precondition failed: UID");
    ground.put(&format!("{THINGS}/b"), next).await.refused(
        400,
        "BadRequest",
        "does not match the name on the URL",
    );
    ground
        .put(&format!("{THINGS}/b"), thing("b", &json!({})))
        .await
        .refused(404, "NotFound", "things.example.com \"b\" not found");
}

#[tokio::test]
async fn built_in_kinds_are_updated_without_a_version_too() {
    let ground = Ground::new();
    let made = ground.post(MAPS, map("a")).await.ok();
    let mut next = map("a");
    next["data"]["a"] = "c".into();
    let updated = ground.put(&format!("{MAPS}/a"), next).await.ok();
    assert_eq!(updated["data"]["a"], "c");
    assert_eq!(updated["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        updated["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
}

#[tokio::test]
async fn a_write_without_a_change_changes_nothing() {
    let ground = Ground::with_things().await;
    let made = ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let revision = ground.store.revision();
    let at = format!("{THINGS}/a");
    assert_eq!(ground.put(&at, made.clone()).await.ok(), made);
    assert_eq!(
        ground
            .patch(&at, MERGE, json!({"spec": {"size": 1}}))
            .await
            .ok(),
        made
    );
    assert_eq!(
        ground.put(&format!("{at}/status"), made.clone()).await.ok(),
        made
    );
    assert_eq!(ground.store.revision(), revision);
}

#[tokio::test]
async fn status_and_the_rest_are_written_at_their_own_ends() {
    let ground = Ground::with_things().await;
    let made = ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let at = format!("{THINGS}/a");
    let mut both = made;
    both["spec"]["size"] = 5.into();
    both["status"] = json!({"ready": true});
    both["metadata"]["labels"] = json!({"x": "y"});
    let stated = ground.put(&format!("{at}/status"), both.clone()).await.ok();
    assert_eq!(
        (&stated["spec"]["size"], &stated["status"]["ready"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(stated["metadata"].get("labels"), None);
    assert_eq!(stated["metadata"]["generation"], 1);
    both["metadata"]["resourceVersion"] = stated["metadata"]["resourceVersion"].clone();
    both["status"] = json!({"ready": false});
    let wanted = ground.put(&at, both).await.ok();
    assert_eq!(
        (&wanted["spec"]["size"], &wanted["status"]["ready"]),
        (&json!(5), &json!(true))
    );
    assert_eq!(wanted["metadata"]["generation"], 2);
    let patched = ground
        .patch(
            &format!("{at}/status"),
            MERGE,
            json!({"status": {"ready": null}, "spec": {"size": 9}}),
        )
        .await
        .ok();
    assert_eq!(
        (&patched["spec"]["size"], &patched["status"]),
        (&json!(5), &json!({}))
    );
}

#[tokio::test]
async fn patches_of_each_kind_are_applied() {
    let ground = Ground::with_things().await;
    ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let at = format!("{THINGS}/a");
    let replace = json!([{"op": "replace", "path": "/spec/size", "value": 4}]);
    let patched = ground.patch(&at, JSON_PATCH, replace).await.ok();
    assert_eq!(patched["spec"]["size"], 4);
    assert_eq!(patched["metadata"]["generation"], 2);
    let failing = json!([{"op": "test", "path": "/spec/size", "value": 1}]);
    assert_eq!(ground.patch(&at, JSON_PATCH, failing).await.code, 422);
    assert_eq!(
        ground
            .patch(&at, JSON_PATCH, json!({"not": "a list"}))
            .await
            .code,
        400
    );
    ground.patch(&at, STRATEGIC, json!({})).await.refused(
        415,
        "UnsupportedMediaType",
        "application/merge-patch+json",
    );
    ground
        .patch(&at, "application/apply-patch+yaml", json!({}))
        .await
        .refused(422, "Invalid", "is required for apply patch");
    let mut config =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    config["spec"]["size"] = 9.into();
    let apply = |query: &str| format!("{at}?fieldManager=me{query}");
    let apply_type = "application/apply-patch+yaml";
    let told =
        "Apply failed with 1 conflict: conflict with \"unknown\" using example.com/v1: .spec.size";
    ground
        .patch(&apply(""), apply_type, config.clone())
        .await
        .refused(409, "Conflict", told);
    let applied = ground
        .patch(&apply("&force=true"), apply_type, config)
        .await
        .ok();
    assert_eq!(applied["spec"]["size"], 9);
    ground.patch(&at, "text/plain", json!({})).await.refused(
        415,
        "UnsupportedMediaType",
        "unknown format",
    );
    ground.post(MAPS, map("m")).await.ok();
    let patched = ground
        .patch(
            &format!("{MAPS}/m"),
            STRATEGIC,
            json!({"data": {"c": "d", "a": null}}),
        )
        .await
        .ok();
    assert_eq!(patched["data"], json!({"c": "d"}));
    ground
        .patch(&format!("{MAPS}/none"), MERGE, json!({}))
        .await
        .refused(404, "NotFound", "configmaps \"none\" not found");
}

#[tokio::test]
async fn a_patch_may_name_the_version_and_the_object_that_it_means() {
    let ground = Ground::new();
    let made = ground.post(MAPS, map("a")).await.ok();
    let at = format!("{MAPS}/a");
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}});
    ground
        .patch(&at, MERGE, stale)
        .await
        .refused(409, "Conflict", "has been modified");
    let other = json!({"metadata": {"uid": "other"}});
    ground.patch(&at, MERGE, other).await.refused(
        422,
        "Invalid",
        "metadata.uid: Invalid value: \"other\": field is immutable",
    );
    let same = json!({"metadata": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "y"}});
    assert_eq!(ground.patch(&at, MERGE, same).await.ok()["data"]["x"], "y");
    let renamed = json!({"metadata": {"name": "b"}});
    ground
        .patch(&at, MERGE, renamed)
        .await
        .refused(400, "BadRequest", "name on the URL");
}

#[tokio::test]
async fn a_deletion_without_finalizers_is_the_end() {
    let ground = Ground::with_things().await;
    let made = ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let at = format!("{THINGS}/a");
    let gone = ground.delete(&at).await.ok();
    assert_eq!(gone["status"], "Success");
    assert_eq!(
        gone["details"],
        json!({"name": "a", "group": "example.com", "kind": "things", "uid": made["metadata"]["uid"]})
    );
    assert_eq!(ground.get(&at).await.code, 404);
    assert_eq!(ground.delete(&at).await.code, 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let ground = Ground::with_things().await;
    let mut sent = thing("a", &json!({"size": 1}));
    sent["metadata"]["finalizers"] = json!(["example.com/x"]);
    ground.post(THINGS, sent.clone()).await.ok();
    let at = format!("{THINGS}/a");
    let going = ground.delete(&at).await.ok();
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(going["metadata"]["generation"], 2);
    assert_eq!(ground.delete(&at).await.ok(), going);
    ground.post(THINGS, sent).await.refused(
        409,
        "AlreadyExists",
        "object is being deleted: things.example.com \"a\" already exists",
    );
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    ground.patch(&at, MERGE, more).await.refused(
        422,
        "Invalid",
        "metadata.finalizers: Forbidden: no new finalizers can be added",
    );
    let undo = json!({"metadata": {"deletionTimestamp": null}});
    let kept = ground.patch(&at, MERGE, undo).await.ok();
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    let last = ground
        .patch(&at, MERGE, json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(last["metadata"]["name"], "a");
    assert_eq!(ground.get(&at).await.code, 404);
}

#[tokio::test]
async fn a_deletion_may_name_what_it_means() {
    let ground = Ground::new();
    let made = ground.post(MAPS, map("a")).await.ok();
    let at = format!("{MAPS}/a");
    let options = |preconditions: Value| json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": preconditions});
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = ground
            .ask(Method::DELETE, &at, "application/json", options(wrong))
            .await;
        assert_eq!(
            (refused.code, &refused.body["reason"]),
            (409, &json!("Conflict"))
        );
    }
    let dry = json!({"dryRun": ["All"]});
    ground
        .ask(Method::DELETE, &at, "application/json", dry)
        .await
        .ok();
    assert_eq!(ground.get(&at).await.code, 200);
    let bad = json!({"kind": "Pod"});
    assert_eq!(
        ground
            .ask(Method::DELETE, &at, "application/json", bad)
            .await
            .code,
        400
    );
    assert_eq!(
        ground
            .delete(&format!("{at}?propagationPolicy=Sideways"))
            .await
            .code,
        422
    );
    let right = options(json!({"uid": made["metadata"]["uid"]}));
    ground
        .ask(Method::DELETE, &at, "application/json", right)
        .await
        .ok();
    assert_eq!(ground.get(&at).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_selector() {
    let ground = Ground::new();
    for (name, tier) in [("a", "one"), ("b", "two"), ("c", "one")] {
        let mut sent = map(name);
        sent["metadata"]["labels"] = json!({"tier": tier});
        ground.post(MAPS, sent).await.ok();
    }
    let gone = ground
        .delete(&format!("{MAPS}?labelSelector=tier=one"))
        .await
        .ok();
    assert_eq!(gone["kind"], "ConfigMapList");
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&ground.get(MAPS).await.ok()), ["b"]);
    assert_eq!(ground.delete("/api/v1/configmaps").await.code, 405);
    assert_eq!(ground.delete("/api/v1/namespaces").await.code, 405);
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let ground = Ground::new();
    ground
        .post("/api/v1/namespaces", json!({"metadata": {"name": "n"}}))
        .await
        .ok();
    let inside = "/api/v1/namespaces/n/configmaps";
    ground.post(inside, map("a")).await.ok();
    let mut held = map("b");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    ground.post(inside, held).await.ok();
    let going = ground.delete("/api/v1/namespaces/n").await.ok();
    assert_eq!(going["status"]["phase"], "Terminating");
    assert_eq!(names(&ground.get(inside).await.ok()), ["b"]);
    let refused = ground.post(inside, map("c")).await.refused(
        403,
        "Forbidden",
        "because it is being terminated",
    );
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    let free = json!({"metadata": {"finalizers": []}});
    ground.patch(&format!("{inside}/b"), MERGE, free).await.ok();
    assert_eq!(ground.get("/api/v1/namespaces/n").await.code, 404);
    ground.delete("/api/v1/namespaces/default").await.refused(
        403,
        "Forbidden",
        "may not be deleted",
    );
}

#[tokio::test]
async fn an_empty_namespace_answers_its_deletion_with_itself() {
    let ground = Ground::new();
    ground
        .post("/api/v1/namespaces", json!({"metadata": {"name": "n"}}))
        .await
        .ok();
    let going = ground.delete("/api/v1/namespaces/n").await.ok();
    assert_eq!(going["kind"], "Namespace");
    assert_eq!(ground.get("/api/v1/namespaces/n").await.code, 404);
}

#[tokio::test]
async fn a_namespace_keeps_its_own_finalizer_until_it_is_finalized() {
    let ground = Ground::new();
    let mut sent = json!({"metadata": {"name": "n", "finalizers": ["example.com/x"]}});
    let made = ground.post("/api/v1/namespaces", sent.clone()).await.ok();
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    sent["spec"] = json!({"finalizers": []});
    let finalized = ground.put("/api/v1/namespaces/n/finalize", sent).await.ok();
    assert_eq!(finalized["spec"], json!({}));
    ground.delete("/api/v1/namespaces/n").await.ok();
    let free = json!({"metadata": {"finalizers": null}});
    ground.patch("/api/v1/namespaces/n", MERGE, free).await.ok();
    assert_eq!(ground.get("/api/v1/namespaces/n").await.code, 404);
}

#[tokio::test]
async fn objects_are_served_in_every_version() {
    let ground = Ground::with_things().await;
    ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let other = "/apis/example.com/v2/namespaces/default/things";
    let seen = ground.get(&format!("{other}/a")).await.ok();
    assert_eq!(seen["apiVersion"], "example.com/v2");
    let mut next = seen;
    next["spec"]["size"] = 2.into();
    assert_eq!(
        ground.put(&format!("{other}/a"), next).await.ok()["apiVersion"],
        "example.com/v2"
    );
    let stored = ground.get(&format!("{THINGS}/a")).await.ok();
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]["size"]),
        (&json!("example.com/v1"), &json!(2))
    );
    ground.post(other, thing("b", &json!({}))).await.refused(
        400,
        "BadRequest",
        "the API version in the data (example.com/v1) does not match",
    );
}

#[tokio::test]
async fn reviews_are_answered_and_never_stored() {
    let ground = Ground::new();
    let at = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}});
    let revision = ground.store.revision();
    let answer = ground.post(at, review).await;
    assert_eq!(answer.code, 201);
    let body = answer.ok();
    assert_eq!(body["status"]["allowed"], true);
    assert_eq!(body["kind"], "SelfSubjectAccessReview");
    assert_eq!(ground.store.revision(), revision);
    assert_eq!(ground.get(at).await.code, 405);
}

#[tokio::test]
async fn integers_are_exact() {
    let ground = Ground::with_things().await;
    let made = ground
        .post(THINGS, thing("a", &json!({"size": i64::MAX})))
        .await
        .ok();
    assert_eq!(made["spec"]["size"], json!(i64::MAX));
    let at = format!("{THINGS}/a");
    let patched = ground
        .patch(
            &at,
            MERGE,
            json!({"spec": {"size": 9_007_199_254_740_993_i64}}),
        )
        .await
        .ok();
    assert_eq!(patched["spec"]["size"], json!(9_007_199_254_740_993_i64));
}

#[tokio::test]
async fn events_are_one_object_in_two_groups() {
    let ground = Ground::new();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "name": "x"},
        "message": "hello", "type": "Normal", "reason": "Because",
    });
    ground
        .post("/api/v1/namespaces/default/events", event)
        .await
        .ok();
    let view = "/apis/events.k8s.io/v1/namespaces/default/events";
    let seen = ground.get(&format!("{view}/e")).await.ok();
    assert_eq!(
        (&seen["note"], &seen["regarding"]["name"]),
        (&json!("hello"), &json!("x"))
    );
    assert_eq!(seen["apiVersion"], "events.k8s.io/v1");
    let chosen = ground
        .get(&format!("{view}?fieldSelector=regarding.name=x"))
        .await
        .ok();
    assert_eq!(names(&chosen), ["e"]);
}

#[tokio::test]
async fn what_nobody_serves_is_missing_whatever_the_body_is() {
    let ground = Ground::new();
    let nowhere = "/apis/apps/v1/namespaces/default/deployments";
    let here = "/api/v1/namespaces/default/configmaps";
    for (target, code) in [(nowhere, 404), (here, 415)] {
        let sent = ground.ask(Method::POST, target, "text/plain", json!({}));
        assert_eq!(sent.await.code, code, "{target}");
        let target = format!("{target}/a");
        let sent = ground.ask(Method::PUT, &target, "text/plain", json!({}));
        assert_eq!(sent.await.code, code, "{target}");
    }
}
