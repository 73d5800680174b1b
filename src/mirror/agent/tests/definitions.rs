//! Definitions that come, change and go.

use super::*;

#[tokio::test]
async fn only_what_matters_in_a_definition_begins_anew() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let first = mirror.until_standing(Result::is_ok).await;
    let mark = clusters.mark(ROBOT);
    clusters
        .annotate_definition(ROBOT, &json!({"unrelated": "1"}))
        .await;
    clusters
        .until_sent(ROBOT, mark, |r| {
            r.resource == "customresourcedefinitions" && r.verb == "get"
        })
        .await;
    clusters.create(CLOUD, "b", &json!({})).await;
    clusters.until(ROBOT, "b", |_| true).await;
    assert_eq!(mirror.until_standing(Result::is_ok).await, first);
    let lists = clusters.sent(ROBOT, mark);
    assert!(
        !lists
            .iter()
            .any(|r| r.resource == "missions" && r.verb != "create"),
        "{lists:?}"
    );
    clusters
        .annotate_definition(
            ROBOT,
            &json!({crate::mirror::definition::STATUS_SUBTREE: "robot"}),
        )
        .await;
    let second = mirror.until_standing(|now| *now != first).await;
    assert!(second.is_ok(), "{second:?}");
    mirror.stop().await;
}

#[tokio::test]
async fn a_filter_that_is_unclear_syncs_nothing_and_says_why() {
    let clusters = Clusters::with(true, &json!({FILTER_BY_ROBOT_NAME: "yes"})).await;
    clusters.create(ROBOT, "local", &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    let why = mirror.until_standing(Result::is_err).await.unwrap_err();
    assert!(why.contains("neither true nor false"), "{why}");
    clusters
        .annotate_definition(ROBOT, &json!({SPEC_SOURCE: "robot"}))
        .await;
    let enable = |now: &Result<tokio::time::Instant, String>| {
        now.as_ref()
            .is_err_and(|why| why.contains("--enable-robot"))
    };
    mirror.until_standing(enable).await.unwrap_err();
    assert!(clusters.sent(CLOUD, 0).is_empty());
    assert!(clusters.get(ROBOT, "local").await.is_some());
    clusters
        .annotate_definition(
            ROBOT,
            &json!({SPEC_SOURCE: "cloud", FILTER_BY_ROBOT_NAME: "true"}),
        )
        .await;
    clusters.create(CLOUD, "a", &labelled("r1")).await;
    clusters.until(ROBOT, "a", |_| true).await;
    assert!(clusters.get(ROBOT, "local").await.is_some());
    mirror.stop().await;
}

#[tokio::test]
async fn without_its_annotation_a_definition_is_left_alone_until_it_has_it_again() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters
        .annotate_definition(ROBOT, &json!({SPEC_SOURCE: null}))
        .await;
    let stopped = async {
        while !mirror.following.standing().is_empty() {
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), stopped)
        .await
        .unwrap();
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters.create(ROBOT, "local", &json!({})).await;
    clusters
        .annotate_definition(ROBOT, &json!({SPEC_SOURCE: "cloud"}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    clusters.until_gone(ROBOT, "local").await;
    mirror.stop().await;
}

#[tokio::test]
async fn a_definition_that_goes_on_the_robot_takes_nothing_from_the_cloud() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
        .await;
    clusters
        .delete_at(ROBOT, &format!("{CRDS}/missions.example.com"))
        .await;
    clusters.until_gone(ROBOT, "a").await;
    clusters.define(ROBOT, &missions(true, &json!({}))).await;
    clusters.until(ROBOT, "a", |_| true).await;
    assert_eq!(
        clusters.get(CLOUD, "a").await.unwrap()["status"]["phase"],
        "done"
    );
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn nothing_happens_before_the_cloud_has_the_definition() {
    let clusters = Clusters::start().await;
    clusters.define(ROBOT, &missions(true, &json!({}))).await;
    clusters.create(ROBOT, "orphan", &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.until_sent(CLOUD, 0, |r| r.code == 404).await;
    assert!(clusters.get(ROBOT, "orphan").await.is_some());
    clusters.define(CLOUD, &missions(true, &json!({}))).await;
    clusters.until_gone(ROBOT, "orphan").await;
    mirror.stop().await;
}
