//! What is told of updates, how often, and what of them does not count.

use super::*;

fn causes(refused: &Value, field: &str) -> usize {
    let causes = refused["details"]["causes"].as_array().unwrap();
    causes
        .iter()
        .filter(|cause| cause["field"] == field)
        .count()
}

#[tokio::test]
async fn wrong_metadata_of_an_update_are_told_as_often_as_a_kube_apiserver_tells_them() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    ground.post(MAPS, map("a")).await.ok();
    for (one, labels, finalizers) in [(format!("{THINGS}/a"), 3, 0), (format!("{MAPS}/a"), 4, 2)] {
        let wrong = json!({"metadata": {"labels": {"a": "b!"}}});
        let refused = ground.patch(&one, MERGE, wrong).await;
        let refused = refused.refused(422, "Invalid", "metadata.labels");
        assert_eq!(causes(&refused, "metadata.labels"), labels);
        let wrong = json!({"metadata": {"uid": "other"}});
        let refused = ground.patch(&one, MERGE, wrong).await;
        let refused = refused.refused(422, "Invalid", "metadata.uid");
        assert_eq!(causes(&refused, "metadata.uid"), 2);
        let doubtful = json!({"metadata": {"finalizers": ["nobodys"]}});
        let answer = ground.patch(&one, MERGE, doubtful).await;
        if finalizers == 0 {
            assert_eq!((answer.code, answer.warnings.len()), (200, 1));
        } else {
            let refused = answer.refused(422, "Invalid", "nor is it fully qualified");
            assert_eq!(causes(&refused, "metadata.finalizers[0]"), finalizers);
        }
    }
}

#[tokio::test]
async fn a_patch_leaves_a_custom_object_its_kind_its_version_and_its_revision() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let one = format!("{THINGS}/a");
    let merge = async |body: Value| ground.patch(&one, MERGE, body).await;
    for version in [Value::Null, json!("0")] {
        merge(json!({"metadata": {"resourceVersion": version}}))
            .await
            .refused(422, "Invalid", "must be specified for an update");
    }
    let other = json!({"apiVersion": "other.com/v1", "kind": "Other"});
    let refused = merge(other)
        .await
        .refused(422, "Invalid", "Other.other.com");
    assert_eq!(refused["details"]["causes"].as_array().unwrap().len(), 2);
    merge(json!({"kind": null}))
        .await
        .refused(422, "Invalid", "Object 'Kind' is missing in");
    merge(json!({"apiVersion": null})).await.refused(
        500,
        "InternalError",
        "Object 'apiVersion' is missing",
    );
    merge(json!({"metadata": {"labels": {"a": 1}}}))
        .await
        .refused(422, "Invalid", "json: cannot unmarshal number");
    // A patch of the status says nothing of the rest.
    let status = json!({"metadata": {"uid": "other"}, "status": {"ready": true}});
    let patched = ground
        .patch(&format!("{one}/status"), MERGE, status)
        .await
        .ok();
    assert_eq!(patched["status"], json!({"ready": true}));
}

#[tokio::test]
async fn only_of_typed_kinds_an_empty_account_is_the_end_of_it() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    ground.post(MAPS, map("a")).await.ok();
    let empty = json!({"metadata": {"managedFields": []}});
    for (all, kept) in [(THINGS, true), (MAPS, false)] {
        let one = format!("{all}/a");
        let patched = ground.patch(&one, MERGE, empty.clone()).await.ok();
        assert_eq!(patched["metadata"].get("managedFields").is_some(), kept);
    }
}

#[tokio::test]
async fn a_strategic_patch_does_not_change_what_an_object_is() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let other = json!({"apiVersion": "v2", "kind": "Secret", "data": {"a": "b"}});
    let one = format!("{MAPS}/a");
    let patched = ground.patch(&one, STRATEGIC, other).await.ok();
    assert_eq!(patched["kind"], "ConfigMap");
    assert_eq!(patched["data"], json!({"a": "b"}));
}

#[tokio::test]
async fn phases_and_finalizers_of_namespaces_are_held_to_what_they_may_be() {
    let ground = Ground::new();
    let namespace = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let all = "/api/v1/namespaces";
    ground
        .post(all, namespace("bad", json!({"finalizers": ["bad"]})))
        .await
        .refused(422, "Invalid", "spec.finalizers: Invalid value: \"bad\"");
    let made = namespace("a", json!({"finalizers": ["e.com/x"]}));
    let made = ground.post(all, made).await.ok();
    assert_eq!(made["spec"]["finalizers"], json!(["e.com/x", "kubernetes"]));
    let going = json!({"status": {"phase": "Terminating"}});
    ground
        .patch(&format!("{all}/a/status"), MERGE, going)
        .await
        .refused(422, "Invalid", "may only be 'Active'");
}
