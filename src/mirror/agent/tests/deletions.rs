//! The deletion matrix, and what makes objects look deleted.

use super::*;
use hawser_runtime::cluster::connection::Call;

#[tokio::test]
async fn deleted_in_the_cloud_it_goes_on_the_robot_while_the_cloud_still_holds_it() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters
        .create(
            CLOUD,
            "held",
            &json!({"metadata": {"finalizers": ["example.com/f"]}}),
        )
        .await;
    for name in ["a", "held"] {
        clusters.until(ROBOT, name, |_| true).await;
        clusters.delete(CLOUD, name).await;
        clusters.until_gone(ROBOT, name).await;
    }
    assert!(clusters.get(CLOUD, "held").await.is_some());
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn deleted_while_nobody_looked_it_goes_on_the_robot_afterwards() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.create(CLOUD, "b", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters.until(ROBOT, "b", |_| true).await;
    mirror.stop().await;
    clusters.delete(CLOUD, "a").await;
    let mark = clusters.mark(ROBOT);
    let mirror = clusters.mirror(r1()).await;
    clusters.until_gone(ROBOT, "a").await;
    assert_eq!(clusters.written(ROBOT, mark), ["delete missions a 200"]);
    mirror.stop().await;
}

#[tokio::test]
async fn deleted_on_the_robot_it_is_made_again_and_the_clouds_status_stays() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    let before = clusters.until(ROBOT, "a", |_| true).await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
        .await;
    let mark = clusters.mark(CLOUD);
    clusters.delete(ROBOT, "a").await;
    let again = |copy: &Value| copy["metadata"]["uid"] != before["metadata"]["uid"];
    clusters.until(ROBOT, "a", again).await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "again"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "again")
        .await;
    assert_eq!(
        clusters.written(CLOUD, mark),
        ["update missions/status a 200"]
    );
    mirror.stop().await;
}

#[tokio::test]
async fn what_is_made_on_the_robot_alone_goes() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(ROBOT, "a", &json!({})).await;
    clusters.until_gone(ROBOT, "a").await;
    mirror.stop().await;
}

#[tokio::test]
async fn a_copy_that_is_slow_to_go_holds_nobody_up_and_tells_nobody_what_was_before() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let held = json!({"metadata": {"finalizers": ["example.com/f"]}});
    clusters.patch(ROBOT, "a", &held).await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "old"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "old")
        .await;
    clusters.delete(CLOUD, "a").await;
    clusters
        .until(ROBOT, "a", |copy| {
            copy["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    let mark = clusters.mark(CLOUD);
    clusters
        .create(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "going"}))
        .await;
    // Something else shows that the mirror has been there.
    clusters.create(CLOUD, "b", &json!({})).await;
    clusters.until(ROBOT, "b", |_| true).await;
    clusters
        .patch_status(ROBOT, "b", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "b", |o| o["status"]["phase"] == "done")
        .await;
    assert_eq!(
        clusters.written(CLOUD, mark),
        ["update missions/status b 200"]
    );
    clusters
        .patch(ROBOT, "a", &json!({"metadata": {"finalizers": null}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    assert_eq!(clusters.get(CLOUD, "a").await.unwrap().get("status"), None);
    mirror.stop().await;
}

#[tokio::test]
async fn a_copy_that_robots_hold_while_it_goes_has_what_its_living_owner_says() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let held = json!({"metadata": {"finalizers": ["example.com/f"]}});
    clusters.patch(ROBOT, "a", &held).await;
    clusters.delete(ROBOT, "a").await;
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    let copy = clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    assert!(copy["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        copy["metadata"]["finalizers"],
        held["metadata"]["finalizers"]
    );
    mirror.stop().await;
}

async fn with_missions(count: usize) -> Clusters {
    let clusters = Clusters::with(true, &json!({})).await;
    for n in 0..count {
        clusters.create(CLOUD, &format!("m{n}"), &json!({})).await;
    }
    clusters
}

async fn count(clusters: &Clusters) -> usize {
    let call = Call::get(MISSIONS);
    let list = clusters.at(ROBOT).ask(call).await.unwrap();
    list["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn copies_stay_when_the_clouds_definition_vanishes_until_it_is_back_or_somebody_approves() {
    let clusters = with_missions(8).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.until(ROBOT, "m7", |_| true).await;
    clusters.until(ROBOT, "m0", |_| true).await;
    let definition = format!("{CRDS}/missions.example.com");
    clusters.delete_at(CLOUD, &definition).await;
    let held = || {
        mirror
            .numbers
            .render()
            .contains("hawser_mirror_held_deletions{resource=\"missions.example.com\"} 8")
    };
    let waiting = async {
        while !held() {
            mirror.following.count();
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), waiting)
        .await
        .expect("held");
    assert_eq!(count(&clusters).await, 8);

    // Back with half of it: the others still wait.
    clusters.define(CLOUD, &missions(true, &json!({}))).await;
    for n in 0..4 {
        clusters
            .create(CLOUD, &format!("m{n}"), &json!({"spec": {"goal": 2}}))
            .await;
    }
    clusters
        .until(ROBOT, "m3", |copy| copy["spec"]["goal"] == 2)
        .await;
    assert_eq!(count(&clusters).await, 8);
    let ids = mirror.following.holds();
    assert_eq!(ids.len(), 1, "{ids:?}");
    clusters
        .annotate_definition(ROBOT, &json!({APPROVAL: ids[0]}))
        .await;
    for n in 4..8 {
        clusters.until_gone(ROBOT, &format!("m{n}")).await;
    }
    assert_eq!(count(&clusters).await, 4);
    mirror.stop().await;
}

#[tokio::test]
async fn without_a_brake_copies_go_as_fast_as_the_clouds_objects() {
    let clusters = with_missions(8).await;
    let mut syncer_config = syncer_config();
    syncer_config.brake = None;
    let mirror = clusters.mirror_in(r1(), syncer_config).await;
    clusters.until(ROBOT, "m7", |_| true).await;
    clusters
        .delete_at(CLOUD, &format!("{CRDS}/missions.example.com"))
        .await;
    for n in 0..8 {
        clusters.until_gone(ROBOT, &format!("m{n}")).await;
    }
    mirror.stop().await;
}

#[tokio::test]
async fn a_type_that_was_not_served_for_a_while_holds_nothing_afterwards() {
    let clusters = with_missions(3).await;
    let missing = Action::Status {
        code: 404,
        when: When::Before,
    };
    // The watch ends, and is answered then as a proxy does that has lost its server.
    let cut = Action::CutWatch(std::time::Duration::from_secs(1));
    clusters.fault(CLOUD, "watch", cut, Some(1));
    clusters.fault(CLOUD, "watch", missing, Some(2));
    let mirror = clusters.mirror(r1()).await;
    clusters.until(ROBOT, "m2", |_| true).await;
    clusters.until_sent(CLOUD, 0, |r| r.code == 404).await;
    clusters
        .patch(CLOUD, "m0", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "m0", |copy| copy["spec"]["goal"] == 2)
        .await;
    clusters.delete(CLOUD, "m1").await;
    clusters.until_gone(ROBOT, "m1").await;
    assert_eq!(mirror.following.holds(), Vec::<String>::new());
    mirror.stop().await;
}

#[tokio::test]
async fn a_list_that_comes_back_empty_is_not_believed_until_somebody_approves() {
    let clusters = with_missions(6).await;
    let too_old = Action::Status {
        code: 410,
        when: When::Before,
    };
    let cut = Action::CutWatch(std::time::Duration::from_secs(1));
    clusters.fault(CLOUD, "watch", cut, Some(1));
    clusters.fault(CLOUD, "watch", too_old, None);
    let mirror = clusters.mirror(r1()).await;
    for n in 0..6 {
        clusters.until(ROBOT, &format!("m{n}"), |_| true).await;
    }
    clusters.until_sent(CLOUD, 0, |r| r.code == 410).await;
    for n in 0..6 {
        clusters.delete(CLOUD, &format!("m{n}")).await;
    }
    clusters.cloud.faults().clear();
    let held = async {
        while !mirror
            .numbers
            .render()
            .contains("hawser_mirror_held_deletions{resource=\"missions.example.com\"} 6")
        {
            mirror.following.count();
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), held)
        .await
        .expect("held");
    assert_eq!(count(&clusters).await, 6);
    let ids = mirror.following.holds().join(",");
    clusters
        .annotate_definition(ROBOT, &json!({APPROVAL: ids}))
        .await;
    for n in 0..6 {
        clusters.until_gone(ROBOT, &format!("m{n}")).await;
    }
    // What comes later is deleted as ever.
    clusters.create(CLOUD, "later", &json!({})).await;
    clusters.until(ROBOT, "later", |_| true).await;
    clusters.delete(CLOUD, "later").await;
    clusters.until_gone(ROBOT, "later").await;
    mirror.stop().await;
}

#[tokio::test]
async fn copies_of_one_name_in_many_namespaces_that_go_together_are_held_together() {
    const COUNT: usize = 24;
    let clusters = Clusters::with(true, &json!({})).await;
    let collection = |n: usize| format!("/apis/example.com/v1/namespaces/n{n}/missions");
    for n in 0..COUNT {
        let namespace = json!({"metadata": {"name": format!("n{n}")}});
        for plane in [CLOUD, ROBOT] {
            let call = Call::post("/api/v1/namespaces", &namespace);
            clusters.at(plane).ask(call).await.unwrap();
        }
        let place = collection(n);
        clusters
            .create_in(CLOUD, &place, "config", &json!({}))
            .await;
    }
    let left = async || {
        let call = Call::get("/apis/example.com/v1/missions");
        let list = clusters.at(ROBOT).ask(call).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    let settings = Settings {
        namespaces: (0..COUNT).map(|n| format!("n{n}").into()).collect(),
        ..r1()
    };
    let mirror = clusters.mirror(settings).await;
    let until = async |what: &str, wanted: usize| {
        let found = async {
            while left().await != wanted {
                pause().await;
            }
        };
        let found = tokio::time::timeout(std::time::Duration::from_mins(1), found);
        let found = found.await;
        assert!(found.is_ok(), "{what}: {} are left", left().await);
    };
    until("copies", COUNT).await;
    for n in 0..COUNT {
        clusters
            .delete_at(CLOUD, &format!("{}/config", collection(n)))
            .await;
    }
    // 19 may go, and the next one makes a mass.
    until("a mass", 5).await;
    let held = "hawser_mirror_held_deletions{resource=\"missions.example.com\"} 5";
    let told = async {
        while !mirror.numbers.render().contains(held) {
            mirror.following.count();
            pause().await;
        }
    };
    let told = tokio::time::timeout(std::time::Duration::from_mins(1), told);
    told.await.expect("held");
    assert_eq!(left().await, 5);
    mirror.stop().await;
}
