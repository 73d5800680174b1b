//! Announcements over the playground, for a workspace that takes part and one that does not.

use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Change, Coverage, Table};
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::events::{Sender, line};
use hawser_runtime::cluster::feed::{EventHandler, Pace};
use hawser_runtime::cluster::ground::Ground;
use hawser_runtime::controller::WatchRegistry;
use hawser_sync::{Answer, Effect, Request, Scope};
use kube_lang::object::{Gvk, Object};

struct IgnoreEvents;

impl EventHandler for IgnoreEvents {
    fn changed(&self, _: &Arc<Table>, _: Change) {}
}

fn noon() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().unwrap()
}

fn report(effect: Effect) -> Report {
    Report {
        outcomes: vec![],
        happened: vec![(None, effect)],
        reverted: vec![],
        requests: 1,
        recheck: None,
        asked: vec![],
        fingerprints: Vec::new(),
    }
}

async fn events(ground: &Ground) -> Vec<Value> {
    let call = Call::get("/api/v1/namespaces/default/events");
    let list = ground.kcp.ask(call).await.unwrap();
    let all = list["items"].as_array().unwrap().iter();
    let ours = all.filter(|event| event["source"]["component"] == "syncagent-sync");
    ours.cloned().collect()
}

/// An announcer of things in the workspace `root`, what sends its events, the key of a thing in a workspace, and the
/// table of things.
fn office(ground: &Ground) -> (Announcer, Sender, impl Fn(&str) -> Key + use<>, Arc<Table>) {
    let (sides, cache) = (Sides::default(), Cache::new());
    let feeds = WatchRegistry::new(&cache, Pace::default(), Arc::new(IgnoreEvents));
    let workspaces = Workspaces::new(&sides, &cache, &feeds, ground.kcp.clone());
    let url = ground.kcp.url().replace("/clusters/root", "");
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
        "metadata": { "name": "slice" }, "status": { "endpoints": [{ "url": url }] },
    });
    workspaces.slice(Some(&Object::new(slice).unwrap()));
    let source: Arc<str> = url.as_str().into();
    cache.route(&sides.kcp, "root", &source);

    let kind = Arc::new(Gvk::new("a.b", "v1", "Thing"));
    let table = cache.add(&sides.kcp, &kind, &source, Coverage::default());
    let key = move |cluster: &str| Scope::new(&sides.kcp, &kind, cluster).key(None, "thing");
    let thing = json!({
        "apiVersion": "a.b/v1", "kind": "Thing",
        "metadata": { "name": "thing", "uid": "uid-1", "resourceVersion": "7" },
    });
    let read = Request::Read { key: key("root") };
    let thing = Arc::new(Object::new(thing).unwrap());
    cache.learn(&read, Answer::Object(thing), None);

    let (recorder, sender) = line(noon);
    let announcer = Announcer {
        recorder,
        service: ground.kcp.clone(),
        workspaces: Arc::new(workspaces),
        cache,
    };
    (announcer, sender, key, table)
}

#[tokio::test]
async fn what_came_of_a_pass_is_announced_where_its_object_is() {
    let ground = Ground::start().await;
    let (announcer, sender, key, _table) = office(&ground);
    let guard: Arc<Guard<'static>> = Arc::new(|| Ok(()));
    announcer.announce(key("root"), &report(Effect::Placed), &guard);
    announcer.announce(key("root"), &report(Effect::Looked), &guard);
    announcer.announce(key("elsewhere"), &report(Effect::Placed), &guard);
    drop(announcer);
    sender.run().await;

    let events = events(&ground).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["reason"], "ObjectPlaced");
    assert_eq!(events[0]["involvedObject"]["uid"], "uid-1");
}

#[tokio::test]
async fn drift_is_announced_on_the_copy_even_of_a_workspace_that_has_left() {
    let ground = Ground::start().await;
    let (announcer, sender, key, _table) = office(&ground);
    let guard: Arc<Guard<'static>> = Arc::new(|| Ok(()));
    let tell = |mode| {
        announcer.tell_of_drift(
            key("root"),
            "elsewhere",
            mode,
            "spec.size".to_owned(),
            &guard,
        );
    };
    tell(DriftMode::Keep);
    tell(DriftMode::Report);
    tell(DriftMode::Revert);
    drop(announcer);
    sender.run().await;

    let told: Vec<_> = events(&ground).await;
    let reasons = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
    let mut reasons: Vec<_> = told.iter().map(reasons).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["DriftReported", "DriftReverted"]);
    assert_eq!(told[0]["involvedObject"]["uid"], "uid-1");
}

#[tokio::test]
async fn what_waits_to_be_announced_is_dropped_once_it_is_no_longer_published() {
    let ground = Ground::start().await;
    let (announcer, sender, key, _table) = office(&ground);
    let is_on = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_on);
    let guard: Arc<Guard<'static>> = Arc::new(move || {
        let is_on = asked.load(Ordering::Relaxed);
        is_on
            .then_some(())
            .ok_or_else(|| "no longer published".to_owned())
    });
    announcer.announce(key("root"), &report(Effect::Placed), &guard);
    is_on.store(false, Ordering::Relaxed);
    drop(announcer);
    sender.run().await;
    assert_eq!(events(&ground).await, Vec::<Value>::new());
}
