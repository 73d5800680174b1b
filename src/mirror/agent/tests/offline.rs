//! Hours without the cloud, by a clock that runs ahead.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;
use crate::mirror::agent::syncer::SyncerConfig;
use hawser_runtime::cluster::feed::Pace;

const HOURS: u64 = 2;
/// Objects at rest, beside those that something happens to.
const RESTING: usize = 20;

const CUT: Action = Action::Reset(When::Before);

/// As the process has it, but for the longest wait of a watch: that one is waited for in earnest.
fn in_earnest() -> SyncerConfig {
    SyncerConfig {
        pace: Pace {
            retry: (Duration::from_millis(800), Duration::from_secs(10)),
            lasts: (300, 300),
            ..Pace::default()
        },
        ..syncer_config()
    }
}

/// Lets the time pass that nothing is done in.
async fn pass(time: Duration) {
    tokio::time::pause();
    sleep(time).await;
    tokio::time::resume();
}

async fn phase(clusters: &Clusters, name: &str, phase: u64) {
    clusters
        .patch_status(ROBOT, name, &json!({"phase": phase}))
        .await;
}

#[tokio::test]
async fn after_hours_offline_the_newest_state_of_what_changed_is_sent_once_and_nothing_else() {
    let clusters = Clusters::with(true, &json!({})).await;
    let resting: Vec<String> = (0..RESTING).map(|n| format!("rest{n}")).collect();
    let busy = ["told", "ordered", "dropped", "both"];
    let all = || resting.iter().map(String::as_str).chain(busy);
    for name in all() {
        clusters.create(CLOUD, name, &json!({})).await;
    }
    let mirror = clusters.mirror_in(r1(), in_earnest()).await;
    for name in all() {
        clusters.until(ROBOT, name, |_| true).await;
        phase(&clusters, name, 0).await;
    }
    for name in all() {
        clusters
            .until(CLOUD, name, |o| o["status"]["phase"] == 0)
            .await;
    }

    for verb in ["list", "watch", "update"] {
        clusters.fault(CLOUD, verb, CUT, None);
    }
    // The watch that is open ends by itself.
    pass(Duration::from_mins(11)).await;
    let offline = (clusters.mark(CLOUD), clusters.mark(ROBOT));
    clusters.delete(CLOUD, "dropped").await;
    for hour in 1..=HOURS {
        for name in ["told", "both"] {
            phase(&clusters, name, hour).await;
        }
        for name in ["ordered", "both"] {
            let goal = json!({"spec": {"goal": 100 + hour}});
            clusters.patch(CLOUD, name, &goal).await;
        }
        pass(Duration::from_hours(1)).await;
    }
    assert_eq!(clusters.written(ROBOT, offline.1), Vec::<String>::new());
    assert!(clusters.get(ROBOT, "dropped").await.is_some());
    // It does not give up, and does not storm.
    let tried = clusters.sent(CLOUD, offline.0).len() as u64;
    assert!(tried > HOURS * 6, "only {tried} times in {HOURS} hours");
    assert!(tried < HOURS * 3600, "{tried} times in {HOURS} hours");

    // What happened so long ago is known to no server any more.
    let back = (clusters.mark(CLOUD), clusters.mark(ROBOT));
    clusters.cloud.faults().clear();
    let too_old = Action::Status {
        code: 410,
        when: When::Before,
    };
    clusters.fault(CLOUD, "watch", too_old, Some(1));
    let begun = Instant::now();
    for name in ["told", "both"] {
        clusters
            .until(CLOUD, name, |o| o["status"]["phase"] == HOURS)
            .await;
    }
    for name in ["ordered", "both"] {
        clusters
            .until(ROBOT, name, |copy| copy["spec"]["goal"] == 100 + HOURS)
            .await;
    }
    clusters.until_gone(ROBOT, "dropped").await;
    assert!(
        begun.elapsed() < Duration::from_mins(1),
        "{:?}",
        begun.elapsed()
    );
    // Something that happens now shows that all before is done.
    phase(&clusters, "rest0", 1).await;
    clusters
        .until(CLOUD, "rest0", |o| o["status"]["phase"] == 1)
        .await;
    let written = |plane, mark| {
        let mut written = clusters.written(plane, mark);
        // Whoever changed on both sides may be written before its change is heard of, which is refused.
        written.retain(|line| line.ends_with(" 200"));
        written.sort();
        written
    };
    assert_eq!(
        written(CLOUD, back.0),
        ["both", "rest0", "told"].map(|name| format!("update missions/status {name} 200"))
    );
    assert_eq!(
        written(ROBOT, back.1),
        [
            "delete missions dropped 200",
            "update missions both 200",
            "update missions ordered 200"
        ]
    );
    clusters.check_cloud(None);
    mirror.stop().await;
}
