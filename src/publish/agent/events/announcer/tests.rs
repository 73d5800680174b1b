//! Announcements over the playground, for a workspace that takes part and one that does not.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Change, Coverage, Table};
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::events::line;
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

#[tokio::test]
async fn what_came_of_a_pass_is_announced_where_its_object_is() {
    let ground = Ground::start().await;
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
    let _table = cache.add(&sides.kcp, &kind, &source, Coverage::default());
    let key = |cluster| Scope::new(&sides.kcp, &kind, cluster).key(None, "thing");
    let thing = json!({
        "apiVersion": "a.b/v1", "kind": "Thing",
        "metadata": { "name": "thing", "uid": "uid-1", "resourceVersion": "7" },
    });
    let read = Request::Read { key: key("root") };
    let thing = Arc::new(Object::new(thing).unwrap());
    cache.learn(&read, &Answer::Object(thing));

    let (recorder, sender) = line(noon);
    let announcer = Announcer {
        recorder,
        workspaces: Arc::new(workspaces),
        cache,
    };
    announcer.announce(key("root"), &report(Effect::Placed));
    announcer.announce(key("root"), &report(Effect::Looked));
    announcer.announce(key("elsewhere"), &report(Effect::Placed));
    drop(announcer);
    sender.run().await;

    let events = events(&ground).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["reason"], "ObjectPlaced");
    assert_eq!(events[0]["involvedObject"]["uid"], "uid-1");
}
