//! Links that break, and clouds that refuse.

use super::*;

const CUT: Action = Action::Reset(When::Before);

#[tokio::test]
async fn nothing_goes_before_the_cloud_was_heard_once() {
    let clusters = Clusters::with(true, &json!({})).await;
    clusters.create(ROBOT, "orphan", &json!({})).await;
    for verb in ["list", "watch"] {
        clusters.fault(CLOUD, verb, CUT, None);
    }
    let mirror = clusters.mirror(r1()).await;
    clusters.until_sent(CLOUD, 0, |r| r.code == 0).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    assert!(clusters.get(ROBOT, "orphan").await.is_some());
    clusters.cloud.faults().clear();
    clusters.until_gone(ROBOT, "orphan").await;
    clusters.until(ROBOT, "a", |_| true).await;
    mirror.stop().await;
}

#[tokio::test]
async fn after_a_time_offline_the_newest_status_is_sent_once() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.create(CLOUD, "b", &json!({})).await;
    clusters.until(ROBOT, "b", |_| true).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters.fault(CLOUD, "update", CUT, None);
    clusters.patch_status(ROBOT, "a", &json!({"step": 0})).await;
    clusters
        .until_sent(CLOUD, 0, |r| r.verb == "update" && r.code == 0)
        .await;
    for step in 1..20 {
        clusters
            .patch_status(ROBOT, "a", &json!({"step": step}))
            .await;
    }
    clusters.patch_status(ROBOT, "b", &json!({"step": 1})).await;
    let mark = clusters.mark(CLOUD);
    clusters.cloud.faults().clear();
    for (name, step) in [("a", 19), ("b", 1)] {
        clusters
            .until(CLOUD, name, |o| o["status"]["step"] == step)
            .await;
    }
    let mut written = clusters.written(CLOUD, mark);
    written.retain(|line| line.ends_with("200"));
    written.sort();
    assert_eq!(
        written,
        [
            "update missions/status a 200",
            "update missions/status b 200"
        ]
    );
    mirror.stop().await;
}

#[tokio::test]
async fn metrics_tell_what_waits_for_the_cloud_and_that_it_is_not_known() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let until = async |lines: &[&str]| {
        let looking = async {
            loop {
                mirror.following.count();
                let text = mirror.numbers.render();
                if lines
                    .iter()
                    .all(|line| text.contains(&format!("\n{line}\n")))
                {
                    return;
                }
                pause().await;
            }
        };
        let found = tokio::time::timeout(std::time::Duration::from_mins(1), looking).await;
        found.unwrap_or_else(|_| panic!("{lines:?} is not in {}", mirror.numbers.render()));
    };
    let fresh = r#"hawser_mirror_fresh{resource="missions.example.com"}"#;
    let backlog = r#"hawser_mirror_backlog{resource="missions.example.com"}"#;
    let of =
        |is_fresh: u8, waits: u8| [format!("{fresh} {is_fresh}"), format!("{backlog} {waits}")];
    let [at_rest, nothing] = of(1, 0);
    until(&[&at_rest, &nothing, "hawser_mirror_cloud_up 1"]).await;
    for verb in ["list", "watch", "update"] {
        clusters.fault(CLOUD, verb, CUT, None);
    }
    clusters.patch_status(ROBOT, "a", &json!({"step": 1})).await;
    let [stale, waits] = of(0, 1);
    until(&[&stale, &waits, "hawser_mirror_cloud_up 0"]).await;
    clusters.cloud.faults().clear();
    clusters
        .until(CLOUD, "a", |o| o["status"]["step"] == 1)
        .await;
    until(&[&at_rest, &nothing, "hawser_mirror_cloud_up 1"]).await;
    mirror.stop().await;
}

#[tokio::test]
async fn what_went_while_the_watch_was_lost_goes_by_the_next_list() {
    let clusters = Clusters::with(true, &json!({})).await;
    for name in ["a", "b"] {
        clusters.create(CLOUD, name, &json!({})).await;
    }
    // The watch ends, and what happened since is not known to whoever wants to go on.
    let cut = Action::CutWatch(std::time::Duration::from_secs(1));
    let too_old = Action::Status {
        code: 410,
        when: When::Before,
    };
    clusters.fault(CLOUD, "watch", cut, Some(1));
    clusters.fault(CLOUD, "watch", too_old, None);
    let mirror = clusters.mirror(r1()).await;
    for name in ["a", "b"] {
        clusters.until(ROBOT, name, |_| true).await;
    }
    clusters.until_sent(CLOUD, 0, |r| r.code == 410).await;
    clusters.delete(CLOUD, "a").await;
    clusters
        .patch(CLOUD, "b", &json!({"spec": {"goal": 2}}))
        .await;
    clusters.cloud.faults().clear();
    clusters.until_gone(ROBOT, "a").await;
    clusters
        .until(ROBOT, "b", |copy| copy["spec"]["goal"] == 2)
        .await;
    mirror.stop().await;
}

#[tokio::test]
async fn a_watch_that_was_cut_for_long_goes_on_where_it_was() {
    let clusters = Clusters::with(true, &json!({})).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    let cut = Action::CutWatch(std::time::Duration::from_secs(1));
    clusters.fault(CLOUD, "watch", cut, Some(1));
    let mirror = clusters.mirror(r1()).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters.fault(CLOUD, "watch", CUT, None);
    clusters.fault(CLOUD, "list", CUT, None);
    let cuts = || {
        clusters
            .sent(CLOUD, 0)
            .iter()
            .filter(|r| r.code == 0)
            .count()
    };
    let tried = async {
        while cuts() < 12 {
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), tried)
        .await
        .expect("it is tried");
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters.cloud.faults().clear();
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    let listed = |r: &kcp_playground::server::LoggedRequest| {
        // One object is asked for to know the version.
        let is_whole = r.verb == "list" && !r.query.ends_with("limit=1");
        is_whole || r.query.contains("sendInitialEvents")
    };
    let lists = clusters.sent(CLOUD, 0).into_iter().filter(listed).count();
    assert_eq!(lists, 1, "the first one");
    mirror.stop().await;
}

#[tokio::test]
async fn conflicts_in_the_cloud_are_tried_again_and_too_many_of_them_list_everything_anew() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mut syncer_config = syncer_config();
    syncer_config.conflict_limit = 2;
    let mirror = clusters.mirror_in(r1(), syncer_config).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let conflict = Action::Status {
        code: 409,
        when: When::Before,
    };
    clusters.fault(CLOUD, "update", conflict, Some(2));
    let mark = clusters.mark(CLOUD);
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    clusters
        .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
        .await;
    assert_eq!(
        clusters.written(CLOUD, mark),
        [
            "update missions/status a 409",
            "update missions/status a 409",
            "update missions/status a 200",
        ]
    );
    let listed = |r: &kcp_playground::server::LoggedRequest| {
        // One object is asked for to know the version.
        let is_whole = r.verb == "list" && !r.query.ends_with("limit=1");
        is_whole || r.query.contains("sendInitialEvents")
    };
    assert!(clusters.sent(CLOUD, mark).iter().any(listed));
    clusters.check_cloud(None);
    mirror.stop().await;
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_no_trouble() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.fault(ROBOT, "create", Action::Reset(When::After), Some(1));
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    mirror.stop().await;
}

#[tokio::test]
async fn many_new_objects_do_not_wait_for_each_other() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "first", &json!({})).await;
    clusters.until(ROBOT, "first", |_| true).await;
    let begun = tokio::time::Instant::now();
    for n in 0..150 {
        clusters.create(CLOUD, &format!("m{n}"), &json!({})).await;
    }
    let created = begun.elapsed();
    clusters.until(ROBOT, "m149", |_| true).await;
    // The original took 31 seconds, five in each. How long the machine takes to create them says how
    // slow it is.
    let took = begun.elapsed();
    let bound = std::time::Duration::from_secs(15) + created * 4;
    assert!(took < bound, "{took:?}, created within {created:?}");
    mirror.stop().await;
}

#[tokio::test]
async fn what_a_server_refuses_while_it_begins_is_tried_again_soon() {
    for status in [true, false] {
        let clusters = Clusters::with(status, &json!({})).await;
        let mirror = clusters.mirror(r1()).await;
        clusters.create(CLOUD, "a", &json!({})).await;
        clusters.until(ROBOT, "a", |_| true).await;
        // A server that has not read the roles yet.
        let forbidden = Action::Status {
            code: 403,
            when: When::Before,
        };
        let (in_cloud, on_robot) = (clusters.mark(CLOUD), clusters.mark(ROBOT));
        clusters.fault(CLOUD, "update", forbidden.clone(), Some(2));
        clusters.fault(ROBOT, "update", forbidden.clone(), Some(2));
        let begun = tokio::time::Instant::now();
        let done = json!({"phase": "done"});
        if status {
            clusters.patch_status(ROBOT, "a", &done).await;
        } else {
            let done = json!({"status": done});
            clusters.patch(ROBOT, "a", &done).await;
        }
        clusters
            .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
            .await;
        clusters
            .until(CLOUD, "a", |o| o["status"]["phase"] == "done")
            .await;
        clusters
            .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
            .await;
        for (plane, mark) in [(CLOUD, in_cloud), (ROBOT, on_robot)] {
            let written = clusters.written(plane, mark);
            let refused = written.iter().filter(|line| line.ends_with("403")).count();
            assert_eq!(refused, 2, "{written:?}");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        mirror.stop().await;
    }
}

#[tokio::test]
async fn what_waits_for_a_robot_that_was_away_is_written_when_it_is_back() {
    let clusters = Clusters::with(true, &json!({})).await;
    let cut = Action::CutWatch(std::time::Duration::from_secs(1));
    clusters.fault(ROBOT, "watch", cut, Some(2));
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let mark = clusters.mark(ROBOT);
    for verb in ["list", "watch", "update", "get"] {
        clusters.fault(ROBOT, verb, CUT, None);
    }
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    // Often enough that the next time would be long from now.
    let tried = async {
        while clusters.written(ROBOT, mark).len() < 8 {
            pause().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), tried)
        .await
        .expect("it is tried");
    clusters.robot.faults().clear();
    let begun = tokio::time::Instant::now();
    clusters
        .until(ROBOT, "a", |copy| copy["spec"]["goal"] == 2)
        .await;
    // The ninth time would come six seconds or more after the eighth.
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
    mirror.stop().await;
}

#[tokio::test]
async fn after_a_long_time_offline_what_is_to_go_goes_before_all_that_is_to_be_written() {
    const OTHERS: usize = 150;
    let clusters = Clusters::with(true, &json!({})).await;
    for n in 0..OTHERS {
        clusters.create(CLOUD, &format!("m{n}"), &json!({})).await;
    }
    clusters.create(CLOUD, "zz", &json!({})).await;
    let cut = Action::CutWatch(std::time::Duration::from_secs(3));
    let too_old = Action::Status {
        code: 410,
        when: When::Before,
    };
    clusters.fault(CLOUD, "watch", cut, Some(1));
    clusters.fault(CLOUD, "watch", too_old, None);
    let mirror = clusters.mirror(r1()).await;
    for n in 0..OTHERS {
        clusters.until(ROBOT, &format!("m{n}"), |_| true).await;
    }
    clusters.until(ROBOT, "zz", |_| true).await;
    clusters.until_sent(CLOUD, 0, |r| r.code == 410).await;
    for n in 0..OTHERS {
        let goal = json!({"spec": {"goal": 2}});
        clusters.patch(CLOUD, &format!("m{n}"), &goal).await;
    }
    clusters.delete(CLOUD, "zz").await;
    // A robot that is slow to write: all of it takes seconds.
    let slow = Action::Latency(std::time::Duration::from_millis(400));
    clusters.fault(ROBOT, "update", slow, None);
    let mark = clusters.mark(ROBOT);
    clusters.cloud.faults().clear();
    clusters.until_gone(ROBOT, "zz").await;
    let written = clusters.written(ROBOT, mark);
    let before = written.iter().filter(|l| l.starts_with("update")).count();
    // What was under way, and what was begun in the moment that a deletion waits for others.
    assert!(before <= 64, "{before} of {OTHERS} were written before");
    clusters.robot.faults().clear();
    for n in 0..OTHERS {
        let name = format!("m{n}");
        clusters
            .until(ROBOT, &name, |copy| copy["spec"]["goal"] == 2)
            .await;
    }
    assert_eq!(clusters.written(ROBOT, mark).len(), OTHERS + 1);
    mirror.stop().await;
}
