use serde_json::json;

use super::*;
use crate::{Scope, Side};
use kube_lang::object::Gvk;

fn key(name: &str) -> Key {
    let kind = Gvk::new("example.com", "v1", "Thing").into();
    Scope::new(&Side::new("there"), &kind, "").key(Some("default"), name)
}

fn object(uid: &str, status: Value) -> Object {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": "7"},
    });
    object["status"] = status;
    Object::new(object).unwrap()
}

fn status(uid: &str, status: Value) -> Request {
    Request::ReplaceStatus {
        key: key("a"),
        object: object(uid, status),
    }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn judge(
    contests: &WriteHistory,
    request: &Request,
    live: Option<&Object>,
    now: Duration,
) -> Result<WrittenFields, WriteConflict> {
    let imposed = WrittenFields::of(request, || live.cloned().map(Arc::new));
    contests.judge(None, &imposed, now)?;
    Ok(imposed)
}

/// Writes over what somebody else has put there; whether that was sent, or for how long it waits.
fn write(
    contests: &mut WriteHistory,
    request: &Request,
    live: &Object,
    now: Duration,
) -> Option<WriteConflict> {
    match judge(contests, request, Some(live), now) {
        Ok(imposed) => {
            contests.made(None, imposed, now);
            None
        }
        Err(contest) => Some(contest),
    }
}

#[test]
fn rendered_content_without_a_uid_is_slowed_down_as_well() {
    let mut contests = WriteHistory::default();
    let rendered = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 1},
    });
    let ours = Request::Replace {
        key: key("a"),
        object: Object::new(rendered).unwrap(),
    };
    let theirs = object("u", Value::Null);
    for tick in 0..4 {
        assert_eq!(write(&mut contests, &ours, &theirs, at(tick)), None);
    }
    let contest = write(&mut contests, &ours, &theirs, at(4)).unwrap();
    assert_eq!(contest.place, "spec.size");
    // Another object of this name is nobody's repetition.
    assert_eq!(
        write(&mut contests, &ours, &object("v", Value::Null), at(5)),
        None
    );
}

#[test]
fn two_writers_who_insist_on_one_field_are_slowed_down_ever_more() {
    let mut contests = WriteHistory::default();
    let ours = status("u", json!({"phase": "ours", "n": 1}));
    let mut sent = Vec::new();
    // Ten times a second for an hour, and never the same.
    for tick in 0..36_000_u64 {
        let live = object("u", json!({"phase": format!("theirs {tick}"), "n": 1}));
        let now = at(tick * 100);
        match write(&mut contests, &ours, &live, now) {
            None => sent.push(tick / 10),
            Some(contest) => assert_eq!(contest.place, "status.phase"),
        }
    }
    assert_eq!(sent[..9], [0, 0, 0, 0, 1, 3, 7, 15, 31]);
    assert!(sent.len() < 30, "{sent:?}");
    let longest = sent.windows(2).map(|two| two[1] - two[0]).max().unwrap();
    assert_eq!(longest, 300);
}

#[test]
fn what_is_new_never_waits_and_neither_does_what_was_let_be_for_long() {
    let mut contests = WriteHistory::default();
    let theirs = object("u", json!({"phase": "theirs", "n": 0}));
    let ours = |n: u32| status("u", json!({"phase": "ours", "n": n}));
    for n in 0..100 {
        let now = at(100 * u64::from(n));
        assert_eq!(write(&mut contests, &ours(n + 1), &theirs, now), None);
    }
    // Only the phase is contested, and waits alone.
    let phase = object("u", json!({"phase": "theirs", "n": 100}));
    let waits = write(&mut contests, &ours(100), &phase, at(10_000));
    assert_eq!(waits.unwrap().place, "status.phase");
    assert_eq!(write(&mut contests, &ours(101), &phase, at(10_000)), None);
    let later = at(10_000) + KEPT;
    for n in 0..4 {
        assert_eq!(
            write(&mut contests, &ours(101), &theirs, later + at(n)),
            None
        );
    }
}

#[test]
fn a_value_that_changes_to_and_fro_by_our_own_writes_is_no_contest() {
    let mut contests = WriteHistory::default();
    for tick in 0..100_u64 {
        let (live, next) = if tick % 2 == 0 { (1, 2) } else { (2, 1) };
        let request = Request::Patch {
            key: key("a"),
            patch: json!({"metadata": {"uid": "u", "resourceVersion": tick.to_string()}, "spec": {"n": next}}),
        };
        let live = object("u", json!({"n": live}));
        assert_eq!(write(&mut contests, &request, &live, at(tick)), None);
    }
}

#[test]
fn another_object_of_the_same_name_begins_anew() {
    let mut contests = WriteHistory::default();
    for tick in 0..50_u64 {
        let uid = format!("u{tick}");
        let ours = status(&uid, json!({"phase": "ours"}));
        let live = object(&uid, json!({"phase": "theirs"}));
        assert_eq!(write(&mut contests, &ours, &live, at(tick)), None);
        let gone = Request::delete(key("a"), uid.as_str());
        assert_eq!(write(&mut contests, &gone, &live, at(tick)), None);
        let made = Request::Create {
            key: key("a"),
            object: object(&uid, Value::Null),
        };
        assert_eq!(write(&mut contests, &made, &live, at(tick)), None);
    }
}

#[test]
fn an_object_that_is_deleted_each_time_it_is_made_is_contested_as_a_whole() {
    let mut contests = WriteHistory::default();
    let mut waits = 0;
    for tick in 0..50_u64 {
        let made = Request::Create {
            key: key("a"),
            object: object("", json!({"tick": tick})),
        };
        match judge(&contests, &made, None, at(tick)) {
            Ok(imposed) => contests.made(None, imposed, at(tick)),
            Err(contest) => {
                assert_eq!(contest.place, "");
                waits += 1;
            }
        }
    }
    assert_eq!(waits, 46);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut contests = WriteHistory::default();
    for n in 0..3 * MOST {
        let request = Request::Patch {
            key: key(&n.to_string()),
            patch: json!({"metadata": {"uid": "u"}, "spec": {"n": n}}),
        };
        let imposed = judge(&contests, &request, None, at(0)).unwrap();
        contests.made(None, imposed, at(0));
    }
    let writes = &contests.tenants[&None];
    assert!(writes.len() <= MOST && contests.count == writes.len());
    for n in 0..1000_usize {
        let request = Request::Patch {
            key: key("many"),
            patch: json!({"metadata": {"uid": "u"}, "spec": {n.to_string(): n}}),
        };
        let imposed = judge(&contests, &request, None, at(0)).unwrap();
        contests.made(None, imposed, at(0));
    }
    let written = contests.written(None, &key("many")).unwrap();
    assert!(written.places.len() <= 2 * MOST_PLACES);
    let whole: Map<String, Value> = (0..1000).map(|n| (n.to_string(), n.into())).collect();
    let request = Request::Patch {
        key: key("whole"),
        patch: json!({"metadata": {"uid": "u"}, "spec": whole}),
    };
    let imposed = judge(&contests, &request, None, at(0)).unwrap();
    assert_eq!(imposed.places.len(), 1);
}

/// The writes of a tenant over what somebody else has put there, all at once; the number of those that wait.
fn insist(contests: &mut WriteHistory, tenant: &Arc<str>, now: Duration) -> usize {
    let ours = status("u", json!({"phase": "ours"}));
    let theirs = object("u", json!({"phase": "theirs"}));
    let waits = (0..10).filter(|_| {
        let imposed = WrittenFields::of(&ours, || Some(theirs.clone().into()));
        let judged = contests.judge(Some(tenant), &imposed, now);
        if judged.is_ok() {
            contests.made(Some(tenant), imposed, now);
        }
        judged.is_err()
    });
    waits.count()
}

#[test]
fn who_writes_much_forgets_its_own_writes_only() {
    let (mut contests, quiet) = (WriteHistory::default(), Arc::from("quiet"));
    assert_eq!(insist(&mut contests, &quiet, at(0)), 6);
    let busy = ["busy", "busier"].map(Arc::from);
    for n in 0..3 * MOST {
        let request = Request::Patch {
            key: key(&n.to_string()),
            patch: json!({"metadata": {"uid": "u"}, "spec": {"n": n}}),
        };
        let imposed = WrittenFields::of(&request, || None);
        contests.made(Some(&busy[usize::from(n % 3 == 0)]), imposed, at(1));
    }
    assert!(contests.count <= MOST);
    assert_eq!(insist(&mut contests, &quiet, at(2)), 10);
    // After a while nothing is left of anybody.
    let last = Arc::from("last");
    insist(&mut contests, &last, at(1) + KEPT);
    insist(&mut contests, &last, at(1) + 2 * KEPT);
    assert_eq!((contests.tenants.len(), contests.count), (1, 1));
}

#[test]
fn the_object_is_read_only_for_writes_that_are_compared_with_it() {
    let (key, patch) = (
        key("a"),
        json!({"metadata": {"uid": "u"}, "spec": {"size": 1}}),
    );
    let object = object("u", Value::Null);
    for request in [
        Request::Patch {
            key: key.clone(),
            patch,
        },
        Request::Create {
            key: key.clone(),
            object,
        },
        Request::delete(key, "u"),
    ] {
        let imposed = WrittenFields::of(&request, || panic!("read for {}", request.verb()));
        assert_eq!(imposed.places.len(), 1);
    }
}
