use std::time::Duration;

use serde_json::{Value, json};

use super::ground::{
    CLOUD, CRDS, Clusters, MISSIONS, Mirror, ROBOT, missions, pause, syncer_config,
};
use crate::mirror::definition::{
    FILTER_BY_ROBOT_NAME, REMOTE_RESOURCE_VERSION, ROBOT_NAME, RobotSpecSource, SPEC_SOURCE,
    Settings,
};
use hawser_runtime::controller::brakes::APPROVAL;
use hawser_runtime::overview::Overview;
use hawser_runtime::overview::recent::Minute;
use hawser_runtime::overview::site::{ObjectPath, OverviewSource as _};
use kcp_playground::server::{Action, When};

mod contests;
mod definitions;
mod deletions;
mod explain;
mod links;
mod offline;
mod process;

fn r1() -> Settings {
    Settings::of_robot("r1")
}

fn filtered() -> Value {
    json!({FILTER_BY_ROBOT_NAME: "true"})
}

fn labelled(robot: &str) -> Value {
    json!({"metadata": {"labels": {ROBOT_NAME: robot}}})
}

/// Awaits an overview.
async fn until_overview(mirror: &Mirror, is_so: impl Fn(&Overview) -> bool) -> Overview {
    let looking = async {
        loop {
            let overview = mirror.following.overview();
            if is_so(&overview) {
                return overview;
            }
            pause().await;
        }
    };
    let found = tokio::time::timeout(Duration::from_mins(1), looking).await;
    found.unwrap_or_else(|_| panic!("{:#?}", mirror.following.overview()))
}

#[tokio::test]
async fn the_overview_has_what_is_out_of_sync_and_for_how_long_it_was_tried() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let carried = |minutes: &[Minute]| minutes.iter().any(|minute| minute.spec > 0);
    let well = until_overview(&mirror, |overview| carried(&overview.recent.minutes)).await;
    assert_eq!((well.objects(), well.out_of_sync()), (1, 0));

    let refusal = Action::Status {
        code: 403,
        when: When::Before,
    };
    clusters.fault(ROBOT, "create", refusal, None);
    clusters.create(CLOUD, "b", &json!({})).await;
    let ill = until_overview(&mirror, |overview| overview.out_of_sync() == 1).await;
    let [reason] = ill.reasons.as_slice() else {
        panic!("{ill:#?}");
    };
    let object = &reason.objects[0];
    assert_eq!((&*reason.code, &*object.name), ("Forbidden", "b"));
    assert_eq!((&*object.tenant, ill.tenants[0].out_of_sync), ("r1", 1));
    let path = ObjectPath {
        config: "missions.example.com",
        tenant: "r1",
        namespace: Some("default"),
        name: "b",
    };
    assert!(
        mirror
            .following
            .attempts(&path)
            .is_some_and(|known| known.attempts >= 1)
    );

    clusters.robot.faults().clear();
    let well = until_overview(&mirror, |overview| overview.out_of_sync() == 0).await;
    assert_eq!(well.objects(), 2);
    mirror.stop().await;
}

#[tokio::test]
async fn spec_goes_to_the_robot_and_status_to_the_cloud_and_then_all_is_quiet() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters
        .create(CLOUD, "a", &json!({"metadata": {"labels": {"l": "1"}}}))
        .await;
    let copy = clusters.until(ROBOT, "a", |_| true).await;
    assert_eq!(copy["metadata"]["labels"], json!({"l": "1"}));
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    let generation = json!({"phase": "running", "observedGeneration": 2});
    clusters.patch_status(ROBOT, "a", &generation).await;
    let owner = clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "running")
        .await;
    assert_eq!(
        owner["status"]["observedGeneration"],
        owner["metadata"]["generation"]
    );

    // What is at rest stays so, restarted or not.
    mirror.stop().await;
    let marks = (clusters.mark(CLOUD), clusters.mark(ROBOT));
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "b", &json!({})).await;
    clusters.until(ROBOT, "b", |_| true).await;
    clusters
        .patch_status(ROBOT, "b", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "b", |o| o["status"]["phase"] == "done")
        .await;
    assert_eq!(
        clusters.written(CLOUD, marks.0),
        ["update missions/status b 200"]
    );
    assert_eq!(clusters.written(ROBOT, marks.1), ["create missions  201"]);
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn without_a_status_subresource_the_object_is_written_whole() {
    let clusters = Clusters::with(false, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters
        .create(CLOUD, "a", &json!({"status": {"phase": "seed"}}))
        .await;
    let copy = clusters.until(ROBOT, "a", |_| true).await;
    assert_eq!(copy["status"]["phase"], "seed");
    clusters
        .patch(ROBOT, "a", &json!({"status": {"phase": "done"}}))
        .await;
    let owner = clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
        .await;
    let version = &owner["metadata"]["annotations"][REMOTE_RESOURCE_VERSION];
    let copy = clusters
        .until(ROBOT, "a", |copy| {
            copy["metadata"]["resourceVersion"] == *version
        })
        .await;
    assert_eq!(copy["metadata"].get("annotations"), None);
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn what_the_robot_changes_is_put_right_at_once() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let mark = clusters.mark(ROBOT);
    let drift = json!({"metadata": {"labels": {"mine": "1"}}, "spec": {"goal": 7, "more": 1}});
    clusters.patch(ROBOT, "a", &drift).await;
    let copy = clusters
        .until(ROBOT, "a", |copy| copy["spec"] == json!({"goal": 1}))
        .await;
    assert_eq!(copy["metadata"].get("labels"), None);
    assert_eq!(clusters.written(ROBOT, mark), ["update missions a 200"]);
    mirror.stop().await;
}

#[tokio::test]
async fn changes_of_a_status_within_a_moment_are_told_together() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let mark = clusters.mark(CLOUD);
    for step in 1..=5 {
        clusters
            .patch_status(ROBOT, "a", &json!({"step": step}))
            .await;
    }
    clusters
        .until(CLOUD, "a", |o| o["status"]["step"] == 5)
        .await;
    assert_eq!(
        clusters.written(CLOUD, mark),
        ["update missions/status a 200"]
    );
    mirror.stop().await;
}

#[tokio::test]
async fn a_robot_gets_its_own_objects_alone_and_asks_for_no_others() {
    let clusters = Clusters::with(true, &filtered()).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "others", &labelled("r2")).await;
    clusters.create(CLOUD, "nobodys", &json!({})).await;
    clusters.create(ROBOT, "local", &json!({})).await;
    clusters.create(ROBOT, "foreign", &labelled("r2")).await;
    clusters.create(ROBOT, "orphan", &labelled("r1")).await;
    clusters.create(CLOUD, "own", &labelled("r1")).await;
    clusters.until(ROBOT, "own", |_| true).await;
    clusters.until_gone(ROBOT, "orphan").await;
    for (name, there) in [
        ("others", false),
        ("nobodys", false),
        ("local", true),
        ("foreign", true),
    ] {
        assert_eq!(clusters.get(ROBOT, name).await.is_some(), there, "{name}");
    }
    clusters.check_cloud(Some("cloudrobotics.com/robot-name=r1"));
    mirror.stop().await;
}

#[tokio::test]
async fn an_object_that_is_given_to_another_robot_goes() {
    let clusters = Clusters::with(true, &filtered()).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &labelled("r1")).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters.patch(CLOUD, "a", &labelled("r2")).await;
    clusters.until_gone(ROBOT, "a").await;
    clusters.patch(CLOUD, "a", &labelled("r1")).await;
    clusters.until(ROBOT, "a", |_| true).await;
    mirror.stop().await;
}

#[tokio::test]
async fn a_label_that_is_lost_on_the_robot_is_put_back() {
    let clusters = Clusters::with(true, &filtered()).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &labelled("r1")).await;
    let copy = clusters.until(ROBOT, "a", |_| true).await;
    for label in [Value::Null, json!("r2")] {
        let patch = json!({"metadata": {"labels": {ROBOT_NAME: label}}});
        clusters.patch(ROBOT, "a", &patch).await;
        let again = clusters
            .until(ROBOT, "a", |copy| {
                copy["metadata"]["labels"][ROBOT_NAME] == "r1"
            })
            .await;
        assert_eq!(again["metadata"]["uid"], copy["metadata"]["uid"]);
    }
    // One that was there before under the name of a new one.
    clusters
        .create(ROBOT, "b", &json!({"spec": {"goal": 9}}))
        .await;
    clusters.create(CLOUD, "b", &labelled("r1")).await;
    let taken = clusters
        .until(ROBOT, "b", |copy| copy["spec"]["goal"] == 1)
        .await;
    assert_eq!(taken["metadata"]["labels"][ROBOT_NAME], "r1");
    mirror.stop().await;
}

#[tokio::test]
async fn other_namespaces_are_nobodys_business_unless_they_are_named() {
    let clusters = Clusters::with(true, &json!({})).await;
    let other = MISSIONS.replace("default", "other");
    for plane in [CLOUD, ROBOT] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        let call =
            hawser_runtime::cluster::connection::Call::post("/api/v1/namespaces", &namespace);
        clusters.at(plane).ask(call).await.unwrap();
    }
    clusters.create_in(CLOUD, &other, "x", &json!({})).await;
    clusters.create_in(ROBOT, &other, "y", &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let of = |request: &kcp_playground::server::LoggedRequest| request.namespace == "other";
    assert!(!clusters.sent(ROBOT, 0).iter().any(of));
    mirror.stop().await;

    let named = Settings {
        namespaces: vec!["default".into(), "other".into()],
        ..r1()
    };
    let mirror = clusters.mirror(named).await;
    clusters
        .until_at(ROBOT, &format!("{other}/x"), |_| true)
        .await;
    clusters
        .until_sent(ROBOT, 0, |request| {
            request.verb == "delete" && request.name == "y"
        })
        .await;
    mirror.stop().await;
}

#[tokio::test]
async fn objects_without_a_namespace_are_kept_in_step_as_well() {
    let clusters = Clusters::start().await;
    let mut crd = missions(true, &json!({}));
    crd["spec"]["scope"] = "Cluster".into();
    for plane in [CLOUD, ROBOT] {
        clusters.define(plane, &crd).await;
    }
    let mirror = clusters.mirror(r1()).await;
    let all = "/apis/example.com/v1/missions";
    clusters.create_in(CLOUD, all, "a", &json!({})).await;
    clusters
        .until_at(ROBOT, &format!("{all}/a"), |_| true)
        .await;
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn the_robot_can_be_the_owner_where_that_is_enabled() {
    let annotations = json!({SPEC_SOURCE: "robot", FILTER_BY_ROBOT_NAME: "true"});
    let clusters = Clusters::with(true, &annotations).await;
    let enabled = Settings {
        robot_spec_source: RobotSpecSource::Enabled,
        ..r1()
    };
    let mirror = clusters.mirror(enabled).await;
    clusters.create(ROBOT, "a", &labelled("r1")).await;
    clusters.until(CLOUD, "a", |_| true).await;
    clusters.create(CLOUD, "others", &labelled("r2")).await;
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 9}}))
        .await;
    clusters
        .until(CLOUD, "a", |copy| copy["spec"]["goal"] == 1)
        .await;
    clusters
        .patch_status(CLOUD, "a", &json!({"phase": "seen"}))
        .await;
    clusters
        .until(ROBOT, "a", |owner| owner["status"]["phase"] == "seen")
        .await;
    clusters.delete(ROBOT, "a").await;
    clusters.until_gone(CLOUD, "a").await;
    assert!(clusters.get(CLOUD, "others").await.is_some());
    let read = clusters.sent(CLOUD, 0).into_iter();
    let wrong: Vec<_> = read
        .filter(|r| ["get", "patch"].contains(&&*r.verb))
        .collect();
    assert_eq!(wrong, []);
    mirror.stop().await;
}
