//! Two writers and one field: what is gathered, and what is slowed down.

use super::*;

const WAITS: &str = "hawser_mirror_contested_writes_total{resource=\"missions.example.com\"}";

/// Lets somebody else write the status in the cloud so often, each time to something else.
async fn write_foreign_status(clusters: &Clusters, times: u32) {
    for n in 0..times {
        let theirs = json!({"phase": format!("theirs {n}")});
        clusters.patch_status(CLOUD, "a", &theirs).await;
    }
}

#[tokio::test]
async fn what_others_write_into_the_clouds_status_is_put_right_together() {
    for status in [true, false] {
        let clusters = Clusters::with(status, &json!({})).await;
        let mirror = clusters.mirror(r1()).await;
        clusters.create(CLOUD, "a", &json!({})).await;
        clusters.until(ROBOT, "a", |_| true).await;
        let ours = json!({"status": {"phase": "ours"}});
        if status {
            clusters.patch_status(ROBOT, "a", &ours["status"]).await;
        } else {
            clusters.patch(ROBOT, "a", &ours).await;
        }
        let is_ours = |object: &Value| object["status"]["phase"] == "ours";
        clusters.until(CLOUD, "a", is_ours).await;
        let mark = clusters.mark(CLOUD);
        if status {
            write_foreign_status(&clusters, 40).await;
        } else {
            for n in 0..40 {
                let theirs = json!({"status": {"phase": format!("theirs {n}")}});
                clusters.patch(CLOUD, "a", &theirs).await;
            }
        }
        clusters.until(CLOUD, "a", is_ours).await;
        let written = clusters.written(CLOUD, mark);
        assert!(written.len() <= 10, "{written:?}");
        // What is the owner's goes to the robot without waiting for that.
        clusters.check_cloud(None);
        mirror.stop().await;
    }
}

#[tokio::test]
async fn a_writer_in_the_cloud_who_insists_on_the_status_slows_its_writes_down_and_news_go_at_once()
{
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let ours = json!({"phase": "ours"});
    clusters.patch_status(ROBOT, "a", &ours).await;
    let is_ours = |object: &Value| object["status"]["phase"] == "ours";
    let contested = || mirror.numbers.render().contains(WAITS);
    let insisting = async {
        while !contested() {
            let object = clusters.get(CLOUD, "a").await.unwrap();
            if is_ours(&object) {
                clusters
                    .patch_status(CLOUD, "a", &json!({"phase": "theirs"}))
                    .await;
            }
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), insisting)
        .await
        .expect("it is noticed");
    let written = clusters.written(CLOUD, 0);
    assert!(written.len() <= 5, "{written:?}");
    clusters
        .patch_status(CLOUD, "a", &json!({"phase": "theirs"}))
        .await;
    // A status that says something else, and a spec, are nobody's contest.
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
        .await;
    mirror.stop().await;
}

#[tokio::test]
async fn a_writer_on_the_robot_who_insists_on_the_spec_slows_its_writes_down_and_news_go_at_once() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let insisting = async {
        let mut drifts = 0;
        while !mirror.numbers.render().contains(WAITS) {
            let copy = clusters.get(ROBOT, "a").await.unwrap();
            if copy["spec"]["goal"] == 1 {
                clusters
                    .patch(ROBOT, "a", &json!({"spec": {"goal": 9}}))
                    .await;
                drifts += 1;
            }
            pause().await;
        }
        drifts
    };
    let drifts = tokio::time::timeout(std::time::Duration::from_mins(1), insisting)
        .await
        .expect("it is noticed");
    assert!((4..=6).contains(&drifts), "{drifts}");
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    mirror.stop().await;
}

#[tokio::test]
async fn an_object_that_somebody_makes_on_the_robot_again_and_again_is_deleted_ever_less_often() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    let insisting = async {
        let mut made = 0;
        while !mirror.numbers.render().contains(WAITS) {
            if clusters.get(ROBOT, "a").await.is_none() {
                clusters.create(ROBOT, "a", &json!({})).await;
                made += 1;
            }
            pause().await;
        }
        made
    };
    let made = tokio::time::timeout(std::time::Duration::from_mins(1), insisting)
        .await
        .expect("it is noticed");
    assert!((4..=6).contains(&made), "{made}");
    // It is the owner's to be there or not.
    clusters
        .create(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    clusters.delete(CLOUD, "a").await;
    clusters.until_gone(ROBOT, "a").await;
    mirror.stop().await;
}
