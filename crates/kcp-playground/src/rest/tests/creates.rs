//! New objects while others are at work: what is done between the moment at which an object is made ready
//! and the transaction that stores it. That moment is made to last: the clock does the other's work.

use std::cell::RefCell;
use std::sync::mpsc;
use std::time::Duration;

use futures::executor::block_on;
use jiff::Timestamp;

use super::*;

/// Only guards against waiting without end.
const SOON: Duration = Duration::from_mins(1);

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    /// What is to be done when the clock of this thread is looked at: so often before, and then this.
    static BETWEEN: RefCell<Option<(usize, Work)>> = const { RefCell::new(None) };
}

/// The first look is for the time of creation, the second one for the account of fields, which comes after all
/// that is looked up in the store.
const LAST_LOOK: usize = 1;

fn clock() -> Timestamp {
    let due = BETWEEN.with_borrow_mut(|between| match between {
        Some((0, _)) => between.take(),
        Some((looks, _)) => {
            *looks -= 1;
            None
        }
        None => None,
    });
    if let Some((_, work)) = due {
        // By another thread, as one who is at work at the same time. Were anything held here, it would wait.
        let (done, is_done) = mpsc::channel();
        let other = std::thread::spawn(move || {
            work();
            done.send(()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(SOON), Ok(()), "others have to wait");
        other.join().unwrap();
    }
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn ground() -> Arc<Ground> {
    Arc::new(Ground::with(StoreOptions {
        clock,
        ..StoreOptions::default()
    }))
}

/// Has another one do something while the next object is made ready.
fn meanwhile(ground: &Arc<Ground>, work: impl AsyncFnOnce(&Ground) + Send + 'static) {
    let ground = Arc::clone(ground);
    let work: Work = Box::new(move || block_on(work(&ground)));
    BETWEEN.set(Some((LAST_LOOK, work)));
}

#[track_caller]
fn it_was_meanwhile() {
    assert!(BETWEEN.with_borrow(Option::is_none), "nothing was done");
}

#[tokio::test]
async fn of_two_who_create_the_same_at_once_one_is_refused() {
    let ground = ground();
    meanwhile(&ground, async |ground| {
        let mut other = map("a");
        other["data"] = json!({"of": "the other"});
        ground.post(MAPS, other).await.ok();
    });
    let refused = ground.post(MAPS, map("a")).await;
    it_was_meanwhile();
    refused.refused(409, "AlreadyExists", "configmaps \"a\" already exists");
    let list = ground.get(MAPS).await.ok();
    assert_eq!(names(&list), ["a"]);
    assert_eq!(list["items"][0]["data"], json!({"of": "the other"}));
    assert_eq!(version(&list["items"][0]), ground.store.revision());
}

#[tokio::test]
async fn objects_of_other_names_are_created_while_one_is_made_ready() {
    let ground = ground();
    meanwhile(&ground, async |ground| {
        for name in ["b", "c"] {
            ground.post(MAPS, map(name)).await.ok();
        }
    });
    let made = ground.post(MAPS, map("a")).await.ok();
    it_was_meanwhile();
    // The one that was begun first is stored last.
    assert_eq!(version(&made), ground.store.revision());
    assert_eq!(names(&ground.get(MAPS).await.ok()), ["a", "b", "c"]);
}

#[tokio::test]
async fn nothing_new_is_stored_in_a_namespace_that_began_to_end_meanwhile() {
    let ground = ground();
    let spaces = "/api/v1/namespaces";
    ground
        .post(spaces, json!({"metadata": {"name": "n"}}))
        .await
        .ok();
    let maps = format!("{spaces}/n/configmaps");
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    ground.post(&maps, held).await.ok();
    meanwhile(&ground, async |ground| {
        ground.delete("/api/v1/namespaces/n").await.ok();
    });
    let refused = ground.post(&maps, map("a")).await;
    it_was_meanwhile();
    refused.refused(403, "Forbidden", "because it is being terminated");
    assert_eq!(names(&ground.get(&maps).await.ok()), ["held"]);
}

#[tokio::test]
async fn an_object_is_made_ready_anew_where_its_definition_was_changed_meanwhile() {
    let ground = ground();
    ground.post(CRDS, things()).await.ok();
    meanwhile(&ground, async |ground| {
        let mode =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode/default";
        let change = json!([{"op": "replace", "path": mode, "value": "fast"}]);
        let definition = format!("{CRDS}/things.example.com");
        ground.patch(&definition, JSON_PATCH, change).await.ok();
    });
    let made = ground.post(THINGS, thing("a", &json!({}))).await.ok();
    it_was_meanwhile();
    assert_eq!(made["spec"]["mode"], "fast");

    meanwhile(&ground, async |ground| {
        ground
            .delete(&format!("{CRDS}/things.example.com"))
            .await
            .ok();
    });
    let gone = ground.post(THINGS, thing("b", &json!({}))).await;
    it_was_meanwhile();
    assert_eq!(gone.code, 404);
}
