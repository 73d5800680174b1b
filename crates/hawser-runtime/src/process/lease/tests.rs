//! Candidates at the playground's service cluster, in real time that is short.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::cluster::connection::Call;
use crate::cluster::ground::{Ground, MAX_WAIT, fault, in_time};
use crate::process::metrics::Metrics;
use kcp_playground::server::{Action, When};

const LONG: Terms = Terms::LONG;
const SHORT: Terms = Terms::SHORT;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/syncagent.one";
/// Between two looks: whoever looks without end takes the time from what is looked at.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a server keeps silent that does not answer.
const SILENCE: Duration = Duration::from_mins(10);

struct Scene {
    ground: Ground,
    metrics: Arc<Metrics>,
}

impl Scene {
    async fn start() -> Self {
        Self {
            ground: Ground::start().await,
            metrics: Arc::new(Metrics::new()),
        }
    }

    fn candidate(&self, identity: &str, terms: Terms) -> impl Future<Output = Leadership> + use<> {
        self.candidate_for(Lock::Lease, identity, terms)
    }

    fn candidate_for(
        &self,
        lock: Lock,
        identity: &str,
        terms: Terms,
    ) -> impl Future<Output = Leadership> + use<> {
        let options = LeaseOptions {
            lock,
            namespace: "default".to_owned(),
            name: "syncagent.one".to_owned(),
            identity: identity.to_owned(),
            terms,
            fence: Fence::closed(),
            marks: Marks::default(),
            metrics: Arc::clone(&self.metrics),
        };
        elect(self.ground.service.clone(), options)
    }

    async fn leader(&self, identity: &str) -> Leadership {
        self.leader_on(identity, LONG).await
    }

    async fn leader_on(&self, identity: &str, terms: Terms) -> Leadership {
        in_time(self.candidate(identity, terms)).await
    }

    async fn lease(&self) -> Value {
        self.ground.service.ask(Call::get(LEASE)).await.unwrap()
    }

    /// Changes the Lease behind everybody's back.
    async fn meddle(&self, change: &Value) {
        let call = Call::merge_patch(LEASE, change);
        self.ground.service.ask(call).await.unwrap();
    }

    /// Waits for the Lease to be renewed this often; a moment before the last time.
    async fn renewals(&self, times: usize) -> Instant {
        let mut before = self.lease().await["spec"]["renewTime"].clone();
        let mut earlier = Instant::now();
        for _ in 0..times {
            before = in_time(async {
                loop {
                    let asked = Instant::now();
                    let now = self.lease().await["spec"]["renewTime"].clone();
                    if now != before {
                        return now;
                    }
                    earlier = asked;
                    sleep(PAUSE).await;
                }
            })
            .await;
        }
        earlier
    }

    /// Waits until a fault has struck.
    async fn struck(&self) {
        in_time(async {
            while self
                .ground
                .playground
                .faults()
                .struck()
                .iter()
                .all(|times| *times == 0)
            {
                sleep(PAUSE).await;
            }
        })
        .await;
    }

    fn strike(&self, verb: &str, action: Action, times: Option<u64>) {
        let mut fault = fault(verb, "leases", action);
        fault.times = times;
        self.ground.playground.faults().add(fault);
    }

    async fn events(&self) -> Vec<String> {
        let call = Call::get("/api/v1/namespaces/default/events");
        let list = self.ground.service.ask(call).await.unwrap();
        let events = list["items"].as_array().unwrap();
        events
            .iter()
            .filter(|event| event["reason"] == "LeaderElection")
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn one_leads_and_the_next_takes_over_what_is_released() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    assert_eq!(first.fence().check(), Ok(()));
    let mut second = tokio::spawn(scene.candidate("second", LONG));
    scene.renewals(3).await;
    assert!(!second.is_finished());
    let lease = scene.lease().await;
    assert_eq!(lease["spec"]["holderIdentity"], "first");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 120);

    let fence = first.fence().clone();
    first.release().await;
    let released = Instant::now();
    assert_eq!(fence.check(), Err(Fenced));
    let second = in_time(&mut second).await.unwrap();
    // Long before the duration of the Lease is over.
    assert!(
        released.elapsed() < LONG.duration / 2,
        "{:?}",
        released.elapsed()
    );
    assert_eq!(second.fence().check(), Ok(()));
    let lease = scene.lease().await;
    assert_eq!(lease["spec"]["holderIdentity"], "second");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}

#[tokio::test]
async fn what_is_released_belongs_to_nobody() {
    let scene = Scene::start().await;
    scene.leader("first").await.release().await;
    let lease = scene.lease().await;
    assert_eq!(lease["spec"]["holderIdentity"], "");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    let text = scene.metrics.render();
    assert!(text.contains("leader_election_master_status{name=\"syncagent.one\"} 0"));
}

#[tokio::test]
async fn after_a_crash_the_next_waits_until_the_lease_has_run_out() {
    let scene = Scene::start().await;
    // Twice as long, so that the first one is not late with what it renews.
    let terms = Terms {
        duration: SHORT.duration * 2,
        renew_deadline: SHORT.renew_deadline * 2,
        ..SHORT
    };
    let first = scene.leader_on("first", terms).await;
    let second = tokio::spawn(scene.candidate("second", terms));
    let renewed = scene.renewals(2).await;
    let fence = first.fence().clone();
    drop(first);
    assert_eq!(fence.check(), Err(Fenced));
    in_time(second).await.unwrap();
    assert!(
        renewed.elapsed() >= terms.duration,
        "{:?}",
        renewed.elapsed()
    );
    assert_eq!(scene.lease().await["spec"]["leaseTransitions"], 1);
}

#[tokio::test]
async fn faults_that_pass_cost_nobody_the_lead() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    for action in [
        Action::Status {
            code: 500,
            when: When::Before,
        },
        Action::Status {
            code: 500,
            when: When::After,
        },
        Action::Status {
            code: 409,
            when: When::Before,
        },
        Action::Reset(When::Before),
        Action::Reset(When::After),
        Action::Latency(Duration::from_millis(300)),
    ] {
        scene.strike("update", action.clone(), Some(2));
        scene.renewals(2).await;
        assert!(!first.lost().is_cancelled(), "{action:?}");
        assert_eq!(first.fence().check(), Ok(()), "{action:?}");
        scene.ground.playground.faults().clear();
    }
    assert_eq!(scene.lease().await["spec"]["leaseTransitions"], 0);
}

#[tokio::test]
async fn an_answer_that_is_lost_does_not_keep_a_candidate_from_leading() {
    let scene = Scene::start().await;
    scene.strike("create", Action::Reset(When::After), Some(1));
    let begun = Instant::now();
    let leader = scene.leader("first").await;
    // It knows its own Lease again, and need not wait for it to run out.
    assert!(begun.elapsed() < LONG.duration, "{:?}", begun.elapsed());
    leader.release().await;
}

#[tokio::test]
async fn who_cannot_renew_stops_before_another_may_begin() {
    let scene = Scene::start().await;
    let first = scene.leader_on("first", SHORT).await;
    let fence = first.fence().clone();
    // It does not reach the Lease any more; others do.
    let cut = fault(
        "update",
        "leases",
        Action::Status {
            code: 503,
            when: When::Before,
        },
    );
    scene.ground.playground.faults().add(cut);
    in_time(first.lost().cancelled()).await;
    assert_eq!(fence.check(), Err(Fenced));
    assert_eq!(scene.lease().await["spec"]["holderIdentity"], "first");

    scene.ground.playground.faults().clear();
    let second = scene.leader_on("second", SHORT).await;
    assert_eq!(fence.check(), Err(Fenced));
    assert_eq!(second.fence().check(), Ok(()));
    // Nothing is left to be released.
    first.release().await;
    assert_eq!(scene.lease().await["spec"]["holderIdentity"], "second");
}

#[tokio::test]
async fn a_server_that_does_not_answer_ends_a_term_in_time() {
    // Who could not renew for so long has given up by the time that others may begin, and there is
    // room between the two for a machine that is slow.
    let terms = Terms {
        duration: Duration::from_mins(1),
        ..SHORT
    };
    let scene = Scene::start().await;
    let first = scene.leader_on("first", terms).await;
    for verb in ["get", "update"] {
        scene.strike(verb, Action::Latency(SILENCE), None);
    }
    let begun = Instant::now();
    in_time(first.lost().cancelled()).await;
    assert!(begun.elapsed() < terms.duration, "{:?}", begun.elapsed());
    assert_eq!(first.fence().check(), Err(Fenced));
}

#[tokio::test]
async fn a_release_does_not_wait_for_a_server_that_does_not_answer() {
    let scene = Scene::start().await;
    // It waits for a fifth of the time that there is to renew.
    let terms = Terms {
        renew_deadline: Duration::from_secs(10),
        ..LONG
    };
    let first = scene.leader_on("first", terms).await;
    for verb in ["get", "update"] {
        scene.strike(verb, Action::Latency(SILENCE), None);
    }
    scene.struck().await;
    let begun = Instant::now();
    first.release().await;
    assert!(begun.elapsed() < MAX_WAIT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_release_in_the_middle_of_a_renewal_still_releases() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    scene.strike("update", Action::Latency(LONG.retry / 2), Some(1));
    scene.struck().await;
    first.release().await;
    assert_eq!(scene.lease().await["spec"]["holderIdentity"], "");
}

/// Candidates that come and go under faults, and what their fences say at the same moment.
#[tokio::test]
async fn whatever_happens_no_two_may_write_at_the_same_time() {
    let scene = Scene::start().await;
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
            "get",
            Action::Status {
                code: 500,
                when: When::Before,
            },
        ),
        ("create", Action::Reset(When::After)),
    ] {
        let mut fault = fault(verb, "leases", action);
        fault.rate = 0.4;
        scene.ground.playground.faults().add(fault);
    }
    let fences: Arc<Mutex<Vec<Fence>>> = Arc::default();
    let terms = Arc::new(AtomicUsize::new(0));
    let mut candidates = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (fences, terms) = (Arc::clone(&fences), Arc::clone(&terms));
        let elections: Vec<_> = (0..20)
            .map(|life| scene.candidate(&format!("candidate {number}, life {life}"), SHORT))
            .collect();
        candidates.spawn(async move {
            for (life, election) in elections.into_iter().enumerate() {
                let leadership = election.await;
                fences.lock().push(leadership.fence().clone());
                terms.fetch_add(1, Ordering::Relaxed);
                let lost = leadership.lost().cancelled();
                let _ = tokio::time::timeout(SHORT.retry * 2, lost).await;
                // Every second one crashes.
                if life % 2 == number % 2 {
                    leadership.release().await;
                }
            }
        });
    }
    in_time(async {
        while terms.load(Ordering::Relaxed) < 4 {
            let open = fences
                .lock()
                .iter()
                .filter(|fence| fence.check().is_ok())
                .count();
            assert!(open <= 1, "{open} may write");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stolen_lease_is_lost_at_once() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    let begun = Instant::now();
    scene
        .meddle(&serde_json::json!({"spec": {"holderIdentity": "thief"}}))
        .await;
    in_time(first.lost().cancelled()).await;
    assert!(
        begun.elapsed() < LONG.renew_deadline,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(first.fence().check(), Err(Fenced));
    first.release().await;
    assert_eq!(scene.lease().await["spec"]["holderIdentity"], "thief");
}

#[tokio::test]
async fn a_lease_that_others_only_label_is_kept() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    scene
        .meddle(&serde_json::json!({"metadata": {"labels": {"seen": "yes"}}}))
        .await;
    scene.renewals(2).await;
    assert!(!first.lost().is_cancelled());
    let lease = scene.lease().await;
    assert_eq!(lease["metadata"]["labels"]["seen"], "yes");
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
}

#[tokio::test]
async fn a_lease_that_is_deleted_is_made_again() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    let uid = scene.lease().await["metadata"]["uid"].clone();
    let gone = Call::delete(LEASE, &serde_json::json!({}));
    scene.ground.service.ask(gone).await.unwrap();
    let made = in_time(async {
        loop {
            let reply = scene.ground.service.call(Call::get(LEASE)).await.unwrap();
            if let Ok(lease) = reply.ok() {
                return lease;
            }
            sleep(PAUSE).await;
        }
    })
    .await;
    assert_ne!(made["metadata"]["uid"], uid);
    assert_eq!(made["spec"]["holderIdentity"], "first");
    assert_eq!(first.fence().check(), Ok(()));
}

#[tokio::test]
async fn a_lock_that_client_go_holds_in_an_annotation_is_respected_and_taken_over() {
    let scene = Scene::start().await;
    // Endpoints are locked in the same way; the playground does not serve them.
    let lock = Lock::ConfigMap;
    let all = "/api/v1/namespaces/default/configmaps";
    let path = format!("{all}/syncagent.one");
    let record = |holder: &str| {
        let record = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 1, "acquireTime": "2023-04-25T08:00:00Z",
            "renewTime": "2023-04-25T08:00:10Z", "leaderTransitions": 3,
        });
        json!({"metadata": {
            "name": "syncagent.one", "labels": {"a": "b"},
            "annotations": {"control-plane.alpha.kubernetes.io/leader": record.to_string()},
        }})
    };
    let left = Call::post(all, &record("original_1"));
    scene.ground.service.ask(left).await.unwrap();
    let begun = Instant::now();
    let leader = in_time(scene.candidate_for(lock, "one", LONG)).await;
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "it was not waited for"
    );
    let held = scene.ground.service.ask(Call::get(&*path)).await.unwrap();
    let read = lock.read(&held);
    assert_eq!((&*read.holder, read.transitions), ("one", 4));
    assert_eq!(held["metadata"]["labels"]["a"], "b");

    // KubeFed takes it back: this process must not work any more.
    let patch = Call::merge_patch(&*path, &record("original_2"));
    scene.ground.service.ask(patch).await.unwrap();
    in_time(leader.lost().cancelled()).await;
}

#[tokio::test]
async fn changes_of_the_lead_are_told() {
    let scene = Scene::start().await;
    let first = scene.leader("first").await;
    in_time(async {
        while scene.events().await != ["first became leader"] {
            sleep(PAUSE).await;
        }
    })
    .await;
    first.release().await;
    let mut events = scene.events().await;
    events.sort();
    assert_eq!(events, ["first became leader", "first stopped leading"]);
}

#[tokio::test]
async fn events_that_are_refused_change_nothing() {
    let scene = Scene::start().await;
    let refused = Action::Status {
        code: 500,
        when: When::Before,
    };
    scene
        .ground
        .playground
        .faults()
        .add(fault("create", "events", refused));
    let first = scene.leader("first").await;
    scene.renewals(2).await;
    assert_eq!(first.fence().check(), Ok(()));
    first.release().await;
    assert_eq!(scene.lease().await["spec"]["holderIdentity"], "");
}

#[test]
fn identities_say_where_and_are_never_the_same() {
    let (one, two) = (identity(), identity());
    assert_ne!(one, two);
    let (host, uuid) = one.rsplit_once('_').unwrap();
    assert!(!host.is_empty());
    assert!(uuid.parse::<Uuid>().is_ok());
}

#[test]
fn the_usual_terms_leave_room_between_the_last_write_and_the_next_leader() {
    let Terms {
        duration,
        renew_deadline,
        retry,
    } = Terms::USUAL;
    let now = Instant::now();
    let safe = Terms::USUAL.safe_until(now) - now;
    assert!(renew_deadline < safe && safe < duration);
    // A standby sees a released Lease in time.
    assert!(retry < Duration::from_secs(3));
}
