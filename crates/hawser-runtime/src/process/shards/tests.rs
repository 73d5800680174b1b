//! Processes that share work at the playground's service cluster, in real time that is short.

use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::cluster::ground::{Ground, fault, in_time};
use crate::process::lease::Fenced;
use kcp_playground::server::{Action, When};

/// Between two looks at the Leases.
const RETRY: Duration = Duration::from_millis(100);
const LONG: Terms = Terms {
    retry: RETRY,
    ..Terms::LONG
};
const SHORT: Terms = Terms {
    retry: RETRY,
    ..Terms::SHORT
};
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const NAME: &str = "agents.one";
const PAUSE: Duration = Duration::from_millis(10);

struct Process {
    shards: Arc<Shards>,
    stop: CancellationToken,
    keeper: JoinHandle<()>,
    notes: watch::Receiver<BTreeMap<String, String>>,
    _note: watch::Sender<String>,
    _changes: tokio::sync::mpsc::UnboundedReceiver<ShardChange>,
}

impl Process {
    fn start(ground: &Ground, identity: &str, count: usize, terms: Terms) -> Self {
        let (shards, changes) = Shards::new(count);
        let (note, told) = watch::channel(format!("from {identity}"));
        let (heard, notes) = watch::channel(BTreeMap::new());
        let connection = ground.service.clone();
        let ready = CancellationToken::new();
        ready.cancel();
        let options = options(identity, terms);
        let keeper = ShardKeeper::new(connection, options, &shards, told, heard, ready);
        let stop = CancellationToken::new();
        Self {
            shards,
            keeper: tokio::spawn(keeper.run(stop.clone())),
            stop,
            notes,
            _note: note,
            _changes: changes,
        }
    }

    async fn leave(self) {
        self.stop.cancel();
        in_time(self.keeper).await.unwrap();
    }

    fn held(&self) -> usize {
        self.shards.held().len()
    }
}

fn options(identity: &str, terms: Terms) -> ShardOptions {
    ShardOptions {
        namespace: "default".to_owned(),
        name: NAME.to_owned(),
        identity: identity.to_owned(),
        terms,
        leader: Fence::always_open(),
        metrics: Arc::new(Metrics::new()),
    }
}

/// Writes that this process leads and knows this number of shards.
async fn declare(ground: &Ground, identity: &str, count: usize) {
    let marks = marks(NAME, count, identity);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": NAME, "labels": marks.labels, "annotations": marks.annotations},
        "spec": {"holderIdentity": identity, "leaseDurationSeconds": 15},
    });
    let made = ground
        .service
        .call(Call::post(LEASES, &lease))
        .await
        .unwrap();
    if made.status == 409 {
        let patch = Call::merge_patch(format!("{LEASES}/{NAME}"), &lease);
        ground.service.ask(patch).await.unwrap();
    }
}

async fn until(mut is_so: impl FnMut() -> bool) {
    in_time(async {
        while !is_so() {
            sleep(PAUSE).await;
        }
    })
    .await;
}

/// Waits until a process has looked this often.
async fn looks(ground: &Ground, member: &str, times: usize) {
    let path = format!("{LEASES}/{NAME}.replica-{member}");
    let shown = async || {
        let reply = ground.service.call(Call::get(&*path)).await.unwrap();
        reply.ok().unwrap_or_default()["spec"]["renewTime"].clone()
    };
    for _ in 0..times {
        let before = shown().await;
        in_time(async {
            while shown().await == before {
                sleep(PAUSE).await;
            }
        })
        .await;
    }
}

/// The names of all Leases.
async fn names(ground: &Ground) -> Vec<String> {
    let list = ground.service.ask(Call::get(LEASES)).await.unwrap();
    let items = list["items"].as_array().unwrap();
    let names = items
        .iter()
        .map(|lease| lease["metadata"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn shards_are_spread_and_move_to_those_that_join_and_from_those_that_leave() {
    let ground = Ground::start().await;
    let first = Process::start(&ground, "h_1", 6, LONG);
    // Nothing is opened before there is a leader that has the same number.
    looks(&ground, "1", 3).await;
    assert_eq!(first.held(), 0);
    declare(&ground, "h_1", 6).await;
    until(|| first.held() == 6).await;

    let before = first.shards.held();
    let second = Process::start(&ground, "h_2", 6, LONG);
    until(|| first.held() == 3 && second.held() == 3).await;
    let of_second = BTreeMap::from([("h_2".to_owned(), "from h_2".to_owned())]);
    until(|| *first.notes.borrow() == of_second).await;
    let third = Process::start(&ground, "h_3", 6, LONG);
    until(|| first.held() == 2 && second.held() == 2 && third.held() == 2).await;
    assert!(
        first
            .shards
            .held()
            .iter()
            .all(|shard| before.contains(shard))
    );

    let (of_first, of_second) = (first.shards.held(), second.shards.held());
    third.leave().await;
    // Long before a Lease runs out.
    until(|| first.held() == 3 && second.held() == 3).await;
    assert!(of_first.iter().all(|shard| first.shards.is_held(*shard)));
    assert!(of_second.iter().all(|shard| second.shards.is_held(*shard)));
    assert!(
        !names(&ground)
            .await
            .contains(&"agents.one.replica-3".to_owned())
    );
    first.leave().await;
    second.leave().await;
}

#[tokio::test]
async fn the_shards_of_a_process_that_crashes_are_taken_when_their_leases_have_run_out() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 4).await;
    let first = Process::start(&ground, "h_1", 4, SHORT);
    let second = Process::start(&ground, "h_2", 4, SHORT);
    until(|| first.held() == 2 && second.held() == 2).await;
    let lost = second.shards.held();
    let fences: Vec<_> = lost
        .iter()
        .map(|shard| second.shards.begin(*shard).unwrap())
        .collect();
    second.keeper.abort();
    let mut overlap = false;
    until(|| {
        let both = |(shard, work): (&usize, &ShardWork)| {
            first.shards.check(*shard).is_ok() && work.check().is_ok()
        };
        overlap |= lost.iter().zip(&fences).any(both);
        first.held() == 4
    })
    .await;
    assert!(!overlap);
    // The leader deletes what it left.
    in_time(async {
        while names(&ground)
            .await
            .contains(&"agents.one.replica-2".to_owned())
        {
            sleep(PAUSE).await;
        }
    })
    .await;
    first.leave().await;
}

#[tokio::test]
async fn a_shard_that_is_lost_closes_and_is_taken_again_with_another_fence() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 1).await;
    let process = Process::start(&ground, "h_1", 1, LONG);
    until(|| process.held() == 1).await;
    let work = process.shards.begin(0).unwrap();
    let stolen = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}});
    let path = format!("{LEASES}/{NAME}.shard-0");
    ground
        .service
        .ask(Call::merge_patch(path, &stolen))
        .await
        .unwrap();
    until(|| work.check() == Err(Fenced)).await;
    until(|| process.shards.check(0).is_ok()).await;
    assert_eq!(work.check(), Err(Fenced));
    drop(work);
    process.leave().await;
}

#[tokio::test]
async fn processes_with_another_number_of_shards_wait_for_each_other() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 3).await;
    let three = [1, 2].map(|n| Process::start(&ground, &format!("h_{n}"), 3, LONG));
    let five = [4, 5].map(|n| Process::start(&ground, &format!("h_{n}"), 5, LONG));
    let held = |all: &[Process]| all.iter().map(Process::held).sum::<usize>();
    let open = |all: &[Process]| {
        let shards = all
            .iter()
            .flat_map(|one| (0..one.shards.count()).map(|at| one.shards.check(at)));
        shards.flatten().count()
    };
    until(|| held(&three) == 3).await;
    // Work that takes its time keeps a shard of the old number, until it is given up.
    let work = three.iter().find_map(|one| one.shards.begin(0)).unwrap();
    for (leader, count) in [("h_4", 5), ("h_1", 3)] {
        declare(&ground, leader, count).await;
        let (before, now) = if count == 5 {
            (&three, &five)
        } else {
            (&five, &three)
        };
        if count == 5 {
            looks(&ground, "4", 3).await;
            assert_eq!(
                held(&five),
                0,
                "the shard of the running work is still held"
            );
        }
        until(|| {
            assert!(open(&three) == 0 || open(&five) == 0, "both may write");
            held(before) == 0
        })
        .await;
        if count == 5 {
            // Its work does not end in time, so its Lease is not released: it has to run out.
            until(|| work.check() == Err(Fenced)).await;
            let expire = json!({"spec": {"holderIdentity": ""}});
            let path = format!("{LEASES}/{NAME}.shard-0");
            ground
                .service
                .ask(Call::merge_patch(path, &expire))
                .await
                .unwrap();
        }
        until(|| {
            assert!(open(&three) == 0 || open(&five) == 0, "both may write");
            held(now) == count
        })
        .await;
    }
    for process in three.into_iter().chain(five) {
        process.leave().await;
    }
}

#[tokio::test]
async fn a_leader_without_shards_works_when_all_shards_are_released() {
    let ground = Ground::start().await;
    let alone = options("h_9", LONG);
    // There are none.
    in_time(await_no_shards(&ground.service, &alone)).await;
    declare(&ground, "h_1", 2).await;
    let process = Process::start(&ground, "h_1", 2, LONG);
    until(|| process.held() == 2).await;
    let waits = {
        let (service, alone) = (ground.service.clone(), alone.clone());
        tokio::spawn(async move { await_no_shards(&service, &alone).await })
    };
    looks(&ground, "1", 3).await;
    assert!(!waits.is_finished());
    // It leads, and does not know the annotation that the last leader left.
    let leads = json!({"spec": {"holderIdentity": "h_9"}});
    let path = format!("{LEASES}/{NAME}");
    ground
        .service
        .ask(Call::merge_patch(path, &leads))
        .await
        .unwrap();
    in_time(waits).await.unwrap();
    assert_eq!(process.held(), 0);
    process.leave().await;

    let refused = Action::Status {
        code: 403,
        when: When::Before,
    };
    ground
        .playground
        .faults()
        .add(fault("list", "leases", refused));
    in_time(await_no_shards(&ground.service, &alone)).await;
}

#[tokio::test]
async fn who_may_not_list_leases_releases_its_shards_and_a_leader_without_shards_waits_for_that() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 2).await;
    let process = Process::start(&ground, "h_1", 2, SHORT);
    until(|| process.held() == 2).await;
    let refused = Action::Status {
        code: 403,
        when: When::Before,
    };
    let refused = fault("list", "leases", refused);
    ground.playground.faults().add(refused);
    in_time(await_no_shards(&ground.service, &options("h_9", SHORT))).await;
    assert_eq!(process.held(), 0);
    ground.playground.faults().clear();
    until(|| process.held() == 2).await;
    process.leave().await;
}

#[tokio::test]
async fn shards_are_not_left_to_a_process_that_cannot_list_leases() {
    let ground = Ground::start().await;
    let refused = Action::Status {
        code: 500,
        when: When::Before,
    };
    let faults = ground.playground.faults();
    faults.add(fault("list", "leases", refused));
    let process = Process::start(&ground, "h_1", 4, SHORT);
    until(|| faults.struck()[0] >= 3).await;
    let shown = Call::get(format!("{LEASES}/{NAME}.replica-1"));
    assert_eq!(ground.service.call(shown).await.unwrap().status, 404);
    faults.clear();
    looks(&ground, "1", 1).await;
    process.leave().await;
}

#[tokio::test]
async fn the_lease_of_a_held_shard_that_somebody_deletes_is_not_taken_at_once() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 2).await;
    let first = Process::start(&ground, "h_1", 2, LONG);
    until(|| first.held() == 2).await;
    // It does not renew its Leases any more, which last.
    first.keeper.abort();
    let second = Process::start(&ground, "h_2", 2, LONG);
    looks(&ground, "2", 1).await;
    for shard in 0..2 {
        let path = format!("{LEASES}/{NAME}.shard-{shard}");
        let deleted = Call::delete(path, &json!({}));
        ground.service.ask(deleted).await.unwrap();
    }
    looks(&ground, "2", 3).await;
    assert_eq!(names(&ground).await.len(), 3);
    assert_eq!(second.held(), 0);
    second.leave().await;
}

#[tokio::test]
async fn a_shard_that_cannot_be_taken_keeps_no_other_one() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 4).await;
    // Its first shard has a Lease without the label, and the second one cannot be written.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("{NAME}.shard-0")},
        "spec": {"holderIdentity": "old", "leaseDurationSeconds": 1},
    });
    let made = ground.service.ask(Call::post(LEASES, &lease)).await;
    made.unwrap();
    let free = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("{NAME}.shard-1"), "labels": marks(NAME, 4, "").labels},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    });
    ground.service.ask(Call::post(LEASES, &free)).await.unwrap();
    let refused = Action::Status {
        code: 403,
        when: When::Before,
    };
    let mut refused = fault("update", "leases", refused);
    refused.matcher.name = Some(format!("{NAME}.shard-1"));
    let faults = ground.playground.faults();
    faults.add(refused);
    let process = Process::start(&ground, "h_1", 4, LONG);
    until(|| process.shards.held() == [0, 2, 3]).await;
    faults.clear();
    until(|| process.held() == 4).await;
    process.leave().await;
}

/// Processes that come and go under faults, and what their fences say at the same moment.
#[tokio::test]
async fn whatever_happens_no_two_may_write_in_a_shard_at_the_same_time() {
    let ground = Ground::start().await;
    declare(&ground, "h_1", 3).await;
    for (verb, action) in [
        ("update", Action::Reset(When::After)),
        (
            "update",
            Action::Status {
                code: 503,
                when: When::Before,
            },
        ),
        (
            "list",
            Action::Status {
                code: 500,
                when: When::Before,
            },
        ),
        ("create", Action::Reset(When::After)),
    ] {
        let mut fault = fault(verb, "leases", action);
        fault.rate = 0.3;
        ground.playground.faults().add(fault);
    }
    // Every second one crashes, and what it began goes on.
    let mut seen: Vec<(usize, Arc<Shards>)> = Vec::new();
    let mut opened = 0;
    for life in 0..3_usize {
        let processes = [0, 1].map(|n| Process::start(&ground, &format!("h_{life}-{n}"), 3, SHORT));
        seen.extend(
            processes
                .iter()
                .enumerate()
                .map(|(n, one)| (n, Arc::clone(&one.shards))),
        );
        let begun = Instant::now();
        while begun.elapsed() < SHORT.duration * 2 {
            for shard in 0..3 {
                let may = seen
                    .iter()
                    .filter(|(_, shards)| shards.check(shard).is_ok());
                let may = may.count();
                assert!(may <= 1, "{may} may write in shard {shard}");
                opened = opened.max(may);
            }
            sleep(PAUSE / 5).await;
        }
        for (number, process) in processes.into_iter().enumerate() {
            if number == life % 2 {
                process.keeper.abort();
            } else {
                process.stop.cancel();
                let _ = timeout(SHORT.renew_deadline, process.keeper).await;
            }
        }
    }
    assert_eq!(opened, 1);
}
