//! The sender over the playground.

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::cluster::ground::{Ground, fault};
use hawser_sync::{Scope, Side};
use kcp_playground::server::{Action, When};

fn noon() -> Timestamp {
    "2026-01-02T12:00:00.75Z".parse().unwrap()
}

struct Office {
    ground: Ground,
    recorder: Recorder,
    sender: Sender,
}

impl Office {
    async fn open() -> Self {
        let (recorder, sender) = line(noon);
        Self {
            ground: Ground::start().await,
            recorder,
            sender,
        }
    }

    fn note(&self, cluster: &str, name: &str) -> Note {
        let kind = Arc::new(Gvk::new("a.b", "v1", "Thing"));
        Note {
            trouble: None,
            connection: self.ground.kcp.clone(),
            about: InvolvedObject {
                key: Scope::new(&Side::new("kcp"), &kind, cluster).key(Some("default"), name),
                uid: Some("some-uid".into()),
            },
            tenant: cluster.into(),
            text: EventText {
                component: "some-agent".into(),
                kind: "Normal",
                reason: "ObjectPlaced".into(),
                message: "The object was handed over.".to_owned(),
            },
        }
    }

    /// Records an event and waits for what becomes of it.
    async fn send(&mut self, note: Note) {
        self.recorder.record(note);
        self.sender.one().await.unwrap();
    }

    async fn events(&self) -> Vec<Value> {
        let call = Call::get("/api/v1/namespaces/default/events");
        let mut list = self.ground.kcp.ask(call).await.unwrap();
        let Value::Array(events) = list["items"].take() else {
            panic!("no list: {list}");
        };
        let of_ours = |event: &Value| event["source"]["component"] == "some-agent";
        events.into_iter().filter(of_ours).collect()
    }

    fn refuse(&self, code: u16) {
        let action = Action::Status {
            code,
            when: When::Before,
        };
        let faults = self.ground.playground.faults();
        faults.add(fault("create", "events", action).once());
    }
}

#[tokio::test]
async fn an_event_reaches_the_workspace_in_one_request() {
    let mut office = Office::open().await;
    let mark = office.ground.playground.requests().mark();
    office.send(office.note("a", "thing")).await;
    assert_eq!(office.ground.playground.requests().since(mark).len(), 1);
    let events = office.events().await;
    assert_eq!(events.len(), 1);
    let event = &events[0];
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    assert_eq!(text("/reason"), "ObjectPlaced");
    assert_eq!(text("/message"), "The object was handed over.");
    assert_eq!(text("/type"), "Normal");
    assert_eq!(text("/involvedObject/kind"), "Thing");
    assert_eq!(text("/involvedObject/uid"), "some-uid");
    assert_eq!(text("/lastTimestamp"), "2026-01-02T12:00:00Z");
    assert!(text("/metadata/name").starts_with("thing."));
    assert_eq!(office.recorder.counts().sent, 1);
}

#[tokio::test]
async fn an_event_waits_while_other_requests_are_sent_to_the_server() {
    let mut office = Office::open().await;
    let playground = &office.ground.playground;
    let slow = Action::Latency(Duration::from_millis(300));
    let faults = playground.faults();
    faults.add(fault("list", "configmaps", slow).once());
    let kcp = office.ground.kcp.clone();
    let call = Call::get("/api/v1/namespaces/default/configmaps");
    let listing = tokio::spawn(async move { kcp.ask(call).await });
    while faults.struck() == [0] {
        tokio::task::yield_now().await;
    }
    office.send(office.note("a", "thing")).await;
    assert!(listing.is_finished(), "the event went first");
    assert_eq!(office.events().await.len(), 1);
}

#[tokio::test]
async fn the_same_is_sent_once_and_something_else_again() {
    let mut office = Office::open().await;
    office.send(office.note("a", "thing")).await;
    office.recorder.record(office.note("a", "thing"));
    office.send(office.note("a", "other")).await;
    let counts = Counts {
        sent: 2,
        held_back: 1,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
    assert_eq!(office.events().await.len(), 2);
}

#[tokio::test]
async fn a_workspace_that_accepts_no_events_is_left_alone() {
    let mut office = Office::open().await;
    office.refuse(403);
    office.send(office.note("a", "one")).await;
    office.recorder.record(office.note("a", "two"));
    office.send(office.note("b", "three")).await;
    let counts = Counts {
        sent: 1,
        held_back: 1,
        failed: 1,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
}

#[tokio::test]
async fn any_other_failure_drops_the_event_and_no_more() {
    let mut office = Office::open().await;
    for code in [404, 409, 500] {
        office.refuse(code);
        office.send(office.note("a", &format!("lost-{code}"))).await;
    }
    let mut unreachable = office.note("a", "nowhere");
    unreachable.connection = office.ground.kcp.at("https://127.0.0.1:1").unwrap();
    office.send(unreachable).await;
    office.send(office.note("a", "thing")).await;
    let counts = Counts {
        sent: 1,
        failed: 4,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
}

#[tokio::test]
async fn an_event_that_is_no_longer_wanted_is_dropped_and_the_next_is_sent() {
    let mut office = Office::open().await;
    let mut unwanted = office.note("a", "unwanted");
    let no = || Err("no longer published".to_owned());
    unwanted.connection = unwanted.connection.guarded_by(Arc::new(no));
    office.send(unwanted).await;
    office.send(office.note("a", "thing")).await;
    let counts = Counts {
        sent: 1,
        held_back: 1,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
}

#[tokio::test]
async fn a_full_line_drops_and_never_waits() {
    let office = Office::open().await;
    for number in 0..LINE + 10 {
        let cluster = format!("tenant-{}", number / 20);
        let name = format!("thing-{number}");
        office.recorder.record(office.note(&cluster, &name));
    }
    let counts = Counts {
        overflowed: 10,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
}

#[tokio::test]
async fn a_workspace_whose_events_are_slow_delays_nobody_elses() {
    let mut office = Office::open().await;
    let mut hangs = fault("create", "events", Action::Latency(Duration::from_mins(5)));
    hangs.matcher.cluster = Some("root".to_owned());
    office.ground.playground.faults().add(hangs);
    for name in ["one", "two", "three"] {
        office.recorder.record(office.note("slow", name));
    }
    let elsewhere = |name| Note {
        trouble: None,
        connection: office.ground.service.clone(),
        ..office.note("quick", name)
    };
    for note in ["four", "five"].map(elsewhere) {
        office.recorder.record(note);
    }
    office.sender.one().await.unwrap();
    office.sender.one().await.unwrap();
    let counts = Counts {
        sent: 2,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
    // The slow one is given up with all that waits behind it, and left alone for a while.
    office.sender.one().await.unwrap();
    office.recorder.record(office.note("slow", "six"));
    let counts = Counts {
        sent: 2,
        failed: 3,
        held_back: 1,
        ..Counts::default()
    };
    assert_eq!(office.recorder.counts(), counts);
}

#[tokio::test]
async fn the_sender_ends_when_nobody_can_record_any_more() {
    let Office {
        ground,
        recorder,
        sender,
    } = Office::open().await;
    let other = recorder.clone();
    drop(recorder);
    let shared = Arc::clone(&other.shared);
    let ending = tokio::spawn(sender.run());
    assert!(!ending.is_finished());
    drop(other);
    ending.await.unwrap();
    assert_eq!(shared.sent.load(Ordering::Relaxed), 0);
    ground.playground.stop().await;
}

#[test]
fn a_namespace_that_goes_away_says_nothing_of_its_workspace() {
    let refusal = |code, reason: &str| Refusal {
        code,
        causes: vec![StatusCause {
            reason: reason.to_owned(),
            ..StatusCause::default()
        }],
        ..Refusal::default()
    };
    assert!(is_not_accepted(&refusal(403, "")));
    assert!(!is_not_accepted(&refusal(403, "NamespaceTerminating")));
    assert!(!is_not_accepted(&refusal(404, "")));
}
