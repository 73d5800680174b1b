//! The answer to a consumer, by what was read in the workspace.

#![expect(
    clippy::needless_pass_by_value,
    reason = "documents are written down where they are passed"
)]

use serde_json::json;

use super::*;
use crate::publish::agent::events::COMPONENT;

const NOW: &str = "2030-01-31T17:05:00Z";

/// A view of a database that an agent has accepted, in a workspace that binds its API.
fn view(metadata: Value, status: Value) -> WorkspaceView {
    let mut object = json!({
        "apiVersion": "example.org/v1", "kind": "Database",
        "metadata": {
            "name": "orders", "namespace": "default", "uid": "u", "generation": 2,
            "finalizers": [FINALIZER], "creationTimestamp": "2030-01-31T10:00:00Z",
        },
        "status": status,
    });
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    WorkspaceView {
        object: Object::new(object).unwrap(),
        resource: "databases".to_owned(),
        namespace: Some(Ok(Object::new(namespace).unwrap())),
        events: Ok(Vec::new()),
        bindings: Ok(vec![binding(json!({}))]),
    }
}

fn binding(more: Value) -> Object {
    let mut binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": "databases"},
        "spec": {"permissionClaims": [
            {"group": "", "resource": "events", "state": "Accepted", "all": true},
        ]},
        "status": {
            "phase": "Bound",
            "boundResources": [{"group": "example.org", "resource": "databases"}],
            "exportPermissionClaims": [{"group": "", "resource": "events", "all": true}],
        },
    });
    for (field, value) in more.as_object().unwrap() {
        let part = binding[field].as_object_mut().unwrap();
        part.extend(value.as_object().unwrap().clone());
    }
    Object::new(binding).unwrap()
}

fn event(reason: Told, message: &str, at: &str) -> Value {
    json!({
        "involvedObject": {"uid": "u", "kind": "Database", "name": "orders"},
        "source": {"component": COMPONENT},
        "reason": reason.as_str(), "message": message,
        "firstTimestamp": "2030-01-31T11:00:00Z", "lastTimestamp": at,
    })
}

fn told(events: Vec<Value>) -> WorkspaceView {
    WorkspaceView {
        events: Ok(events),
        ..view(json!({}), json!({}))
    }
}

#[track_caller]
fn check(view: &WorkspaceView, in_sync: Option<bool>, code: &str) -> ConsumerAnswer {
    let answer = view.explain(NOW.parse().unwrap());
    assert_eq!(
        (answer.in_sync, answer.cause.code),
        (in_sync, code),
        "{answer:#?}"
    );
    answer
}

const LATE: &str = "2030-01-31T17:00:00Z";
const TOO_LARGE: &str = "The object is too large.";

#[test]
fn without_a_report_or_an_event_nothing_is_concluded() {
    let answer = check(&view(json!({}), json!({})), None, "NotReported");
    assert!(answer.unknown.is_empty() && answer.provider_is_asked());
    // As behind another agent, which reports with words of its own.
    let other = event(Told::Refused, "failed to sync: no such thing", LATE);
    let answer = check(&told(vec![other]), Some(false), "ReconcilingError");
    assert!(answer.cause.text.contains("no such thing"));
}

impl ConsumerAnswer {
    fn provider_is_asked(&self) -> bool {
        self.cause.advice.is_none() && self.cause.provider.is_some()
    }
}

#[test]
fn the_last_refusal_blocks_and_has_its_code_and_time() {
    let events = vec![
        event(Told::Synced, "", "2030-01-31T16:00:00Z"),
        event(Told::Refused, TOO_LARGE, LATE),
    ];
    let answer = check(&told(events), Some(false), "TooLarge");
    assert_eq!(answer.cause.since.as_deref(), Some("2030-01-31T11:00:00Z"));
    assert_eq!(answer.cause.advice, Some("make the object smaller"));
    let events = vec![
        event(Told::Refused, TOO_LARGE, "2030-01-31T16:00:00Z"),
        event(Told::Synced, "", LATE),
    ];
    check(&told(events), None, "NotReported");
    // Within a second, versions tell which was last, else the time of creation, else the number of occurrences.
    let numbered = |mut event: Value, version: &str| {
        event["metadata"]["resourceVersion"] = version.into();
        event
    };
    let events = vec![
        numbered(event(Told::Refused, TOO_LARGE, LATE), "99"),
        numbered(event(Told::Synced, "", LATE), "100"),
    ];
    check(&told(events), None, "NotReported");
    let events = vec![
        event(Told::Synced, "", LATE),
        event(Told::Refused, TOO_LARGE, LATE),
    ];
    check(&told(events), Some(false), "TooLarge");
    let given = |mut later: Value, field: &str, value: Value| {
        later[field] = value;
        later
    };
    let taken =
        "The object cannot be processed: an object of this name already exists in the service.";
    let pair = |version: [&str; 2], field: &str, values: [Value; 2]| {
        let [first, second] = values;
        vec![
            given(
                numbered(event(Told::Refused, TOO_LARGE, LATE), version[0]),
                field,
                first,
            ),
            given(
                numbered(event(Told::Refused, taken, LATE), version[1]),
                field,
                second,
            ),
        ]
    };
    let time = |text: &str| json!(text);
    let (early, late) = ("2030-01-31T17:00:00.1Z", "2030-01-31T17:00:00.9Z");
    for events in [
        pair(["99", "100"], "count", [json!(7), json!(1)]),
        pair(["a", "b"], "eventTime", [time(early), time(late)]),
        pair(["a", "b"], "count", [json!(1), json!(2)]),
    ] {
        let reversed = events.iter().rev().cloned().collect();
        check(&told(events), Some(false), "AdoptionRefused");
        check(&told(reversed), Some(false), "AdoptionRefused");
    }
}

/// The view after somebody changed the object.
fn changed(mut view: WorkspaceView, time: &str) -> WorkspaceView {
    let managed = json!([{"manager": "kubectl-edit", "time": time}]);
    let metadata = view.object.metadata_mut();
    metadata.insert("managedFields".to_owned(), managed);
    view
}

#[test]
fn a_refusal_counts_until_the_object_is_changed_or_the_event_is_not_repeated() {
    let refused = |at: &str| told(vec![event(Told::Refused, TOO_LARGE, at)]);
    let before = "2030-01-31T16:59:00Z";
    for still in [before, LATE] {
        check(&changed(refused(LATE), still), Some(false), "TooLarge");
    }
    let quiet = "2030-01-31T16:49:59Z";
    for over in [
        changed(refused(LATE), "2030-01-31T17:00:01Z"),
        refused(quiet),
    ] {
        let answer = check(&over, None, "NotReported");
        let text = &answer.cause.text;
        assert!(
            text.starts_with("the service refused an earlier state of the object at 2030-01-31T1"),
            "{text}"
        );
        assert_eq!(answer.cause.class, Class::Waiting);
    }
    check(&refused("2030-01-31T16:50:00Z"), Some(false), "TooLarge");
    let paused = told(vec![event(Told::Paused, "", quiet)]);
    let answer = check(&paused, None, "NotReported");
    assert!(
        answer.cause.text.starts_with("the service was paused"),
        "{answer:#?}"
    );
    // The report says more.
    let mut seen = report(2, "True", "Copied", "it has it");
    seen.events = Ok(vec![event(Told::Refused, TOO_LARGE, quiet)]);
    let answer = check(&seen, Some(true), "InStep");
    assert_eq!(answer.also[0].code, "NotReported");
}

#[test]
fn a_refusal_lasts_since_the_first_of_equal_events() {
    let from = |mut event: Value, first: &str| {
        event["firstTimestamp"] = first.into();
        event
    };
    let refused = |first: &str, last: &str| from(event(Told::Refused, TOO_LARGE, last), first);
    let events = vec![
        refused("2030-01-31T09:00:00Z", "2030-01-31T09:30:00Z"),
        event(Told::Synced, "", "2030-01-31T10:00:00Z"),
        refused("2030-01-31T12:00:00Z", "2030-01-31T14:00:00Z"),
        event(Told::StatusMissing, "", "2030-01-31T14:30:00Z"),
        refused("2030-01-31T15:00:00Z", LATE),
    ];
    let answer = check(&told(events), Some(false), "TooLarge");
    assert_eq!(answer.cause.since.as_deref(), Some("2030-01-31T12:00:00Z"));
}

#[test]
fn a_refusal_in_the_workspace_is_the_consumers_to_mend() {
    let claim = "An object that belongs to this one (ca) cannot be processed: this workspace does not let the service write it; its APIBinding has to accept the permission claim.";
    let mut view = told(vec![event(Told::Refused, claim, LATE)]);
    let claims = json!([{"resource": "events"}, {"resource": "secrets"}]);
    view.bindings = Ok(vec![binding(
        json!({"status": {"exportPermissionClaims": claims}}),
    )]);
    let answer = check(&view, Some(false), "Forbidden");
    assert!(answer.cause.advice.is_some() && answer.cause.provider.is_none());
    assert_eq!(answer.also[0].code, "ClaimsNotAccepted");
    assert!(answer.also[0].text.ends_with("on secrets"), "{answer:#?}");
}

#[test]
fn events_of_others_and_of_an_earlier_object_of_the_name_count_for_nothing() {
    let mut before = event(Told::Refused, TOO_LARGE, LATE);
    before["involvedObject"]["uid"] = "earlier".into();
    let mut foreign = event(Told::Refused, TOO_LARGE, LATE);
    foreign["source"]["component"] = "somebody".into();
    check(&told(vec![before, foreign]), None, "NotReported");
}

#[test]
fn an_event_tells_of_no_problem_if_the_object_was_not_changed_after_it() {
    let placed = || Ok(vec![event(Told::Placed, "", LATE)]);
    let changed = |time: &str, manager: &str, subresource: &str| {
        let managed = json!([{"manager": manager, "time": time, "subresource": subresource}]);
        WorkspaceView {
            events: placed(),
            ..view(json!({"managedFields": managed}), json!({}))
        }
    };
    let (kubectl, well) = ("kubectl-edit", "NoProblemReported");
    let before = changed("2030-01-31T16:59:59Z", kubectl, "");
    let answer = check(&before, None, well);
    assert_eq!(answer.cause.since.as_deref(), Some(LATE));
    for time in [LATE, "2030-01-31T17:00:00.5Z", "2030-01-31T17:00:01Z"] {
        check(&changed(time, kubectl, ""), None, "NotReported");
    }
    let never = "2030-01-31T09:00:00Z";
    for (manager, subresource) in [(FIELD_MANAGER, ""), (kubectl, "status")] {
        let mut view = changed(NOW, manager, subresource);
        let managed = &mut view.object.metadata_mut()["managedFields"];
        let own = json!({"manager": kubectl, "time": never});
        managed.as_array_mut().unwrap().push(own);
        check(&view, None, well);
    }
    let first = WorkspaceView {
        events: placed(),
        ..view(json!({"generation": 1}), json!({}))
    };
    check(&first, None, well);
    let accepted = WorkspaceView {
        events: Ok(vec![event(Told::Accepted, "", LATE)]),
        ..view(json!({"generation": 1}), json!({}))
    };
    check(&accepted, None, "NotReported");
}

fn report(generation: i64, status: &str, reason: &str, message: &str) -> WorkspaceView {
    let report = json!({
        "generation": generation, "status": status, "reason": reason, "message": message,
        "since": "2030-01-31T12:00:00Z",
    });
    let annotations = json!({ crate::publish::marks::SYNCED: report.to_string() });
    view(json!({"annotations": annotations}), json!({}))
}

#[test]
fn a_report_on_this_generation_is_the_answer() {
    check(
        &report(2, "True", "Copied", "it has it"),
        Some(true),
        "InStep",
    );
    let earlier = report(1, "True", "Copied", "it has it");
    check(&earlier, Some(false), "Working");
    let refused = report(2, "False", "NameConflict", Code::NameConflict.sentence());
    let answer = check(&refused, Some(false), "NameConflict");
    assert_eq!(answer.cause.since.as_deref(), Some("2030-01-31T12:00:00Z"));
    check(
        &report(2, "False", "NotObserved", "not yet"),
        Some(false),
        "NotObserved",
    );
    for (reason, code) in [("NoAnswer", "NoAnswer"), ("Other", "NotSeen")] {
        check(&report(2, "Unknown", reason, "a server"), None, code);
    }
    // What the service has seen since is no longer refused.
    let mut over = report(2, "True", "Copied", "it has it");
    over.events = Ok(vec![event(
        Told::Refused,
        TOO_LARGE,
        "2030-01-31T11:00:00Z",
    )]);
    let answer = check(&over, Some(true), "InStep");
    assert!(answer.also.is_empty(), "{answer:#?}");
    over.events = Ok(vec![event(Told::Refused, TOO_LARGE, LATE)]);
    check(&over, Some(false), "TooLarge");
}

#[test]
fn a_condition_is_a_report_if_it_has_the_words_of_one() {
    let condition = |reason: &str, message: &str| {
        let condition = json!({
            "type": "Anything", "status": "True", "reason": reason, "message": message,
            "observedGeneration": 2, "lastTransitionTime": LATE,
        });
        view(json!({}), json!({"conditions": [condition]}))
    };
    let ours = condition(
        "Observed",
        "the service has observed this generation of the object",
    );
    check(&ours, Some(true), "InStep");
    check(
        &condition("Observed", "by another controller"),
        None,
        "NotReported",
    );
}

#[test]
fn a_deletion_waits_for_the_service_and_then_for_others() {
    let deleted = json!({"deletionTimestamp": LATE});
    let answer = check(&view(deleted, json!({})), Some(false), "WaitingForDeletion");
    assert_eq!(answer.cause.since.as_deref(), Some(LATE));
    let mut unbound = view(json!({"deletionTimestamp": LATE}), json!({}));
    unbound.bindings = Ok(Vec::new());
    let answer = check(&unbound, Some(false), "NotBound");
    assert_eq!(answer.also[0].code, "WaitingForDeletion");
    let left = json!({"deletionTimestamp": LATE, "finalizers": ["example.org/backup"]});
    let answer = check(&view(left, json!({})), Some(true), "Gone");
    assert!(
        answer.cause.text.contains("example.org/backup"),
        "{answer:#?}"
    );
}

#[test]
fn a_binding_that_is_missing_leaving_or_not_bound_blocks() {
    let with = |bindings: Vec<Object>| WorkspaceView {
        bindings: Ok(bindings),
        ..told(vec![event(Told::Refused, TOO_LARGE, LATE)])
    };
    check(&with(Vec::new()), Some(false), "NotBound");
    let other =
        json!({"status": {"boundResources": [{"group": "other.org", "resource": "databases"}]}});
    check(&with(vec![binding(other)]), Some(false), "NotBound");
    let leaving = json!({"metadata": {"deletionTimestamp": LATE}});
    let answer = check(&with(vec![binding(leaving)]), Some(false), "NotBound");
    assert_eq!(answer.cause.since.as_deref(), Some(LATE));
    assert_eq!(answer.also[0].code, "TooLarge");
    let why = json!([{"type": "Ready", "status": "False", "message": "no export", "lastTransitionTime": LATE}]);
    let broken = json!({"status": {"phase": "Binding", "conditions": why}});
    let answer = check(&with(vec![binding(broken)]), Some(false), "NotBound");
    assert!(
        answer.cause.text.ends_with("is Binding: no export"),
        "{answer:#?}"
    );
    let silent = json!({"status": {"phase": "Binding"}});
    let answer = check(&with(vec![binding(silent)]), Some(false), "NotBound");
    assert!(answer.cause.text.ends_with("is Binding"), "{answer:#?}");
}

fn paused(until: &str) -> Value {
    json!({"annotations": {
        "syncagent.kcp.io/pause-until": until, "syncagent.kcp.io/pause-by": "anna",
        "syncagent.kcp.io/pause-reason": "mission",
    }})
}

#[test]
fn a_pause_in_force_holds_what_the_service_says_and_one_that_is_over_holds_nothing() {
    let until = "2030-01-31T19:00:00Z";
    let open = "cannot be known from here";
    let mut own = view(paused(until), json!({}));
    let answer = check(&own, None, "Paused");
    let text = &answer.cause.text;
    assert!(
        text.contains("by anna: mission") && text.ends_with(open),
        "{text}"
    );
    own.events = Ok(vec![event(Told::Paused, "", LATE)]);
    let answer = check(&own, Some(false), "Paused");
    assert!(answer.cause.text.ends_with("by anna: mission") && answer.cause.provider.is_none());
    let changed = changed(own, "2030-01-31T17:00:01Z");
    let answer = check(&changed, None, "Paused");
    assert!(
        answer.cause.text.ends_with(open) && answer.also.is_empty(),
        "{answer:#?}"
    );
    check(&view(paused(LATE), json!({})), None, "NotReported");
    let mut of_workspace = view(json!({}), json!({}));
    of_workspace.bindings = Ok(vec![binding(json!({ "metadata": paused(until) }))]);
    check(&of_workspace, None, "Paused");
    of_workspace.events = Ok(vec![event(Told::Paused, "", LATE)]);
    check(&of_workspace, Some(false), "Paused");
    // The provider's pause is known by the event only.
    let by_provider = told(vec![event(Told::Paused, "", LATE)]);
    let answer = check(&by_provider, Some(false), "Paused");
    assert!(answer.provider_is_asked());
    // What is in sync all the same is in sync.
    let mut idle = report(2, "True", "Copied", "it has it");
    for (name, value) in paused(until)["annotations"].as_object().unwrap() {
        idle.object.set_annotation(name, value.as_str().unwrap());
    }
    let answer = check(&idle, Some(true), "InStep");
    assert_eq!(answer.also[0].code, "Paused");
}

#[test]
fn a_pause_that_is_ignored_is_told_beside_the_answer() {
    let incomplete = json!({"annotations": {"syncagent.kcp.io/pause-until": LATE}});
    let answer = check(&view(incomplete, json!({})), None, "NotReported");
    assert_eq!(answer.also[0].code, "ObjectPauseIgnored");
    let mut forbidden = view(paused("2030-01-31T19:00:00Z"), json!({}));
    forbidden.events = Ok(vec![event(Told::PauseIgnored, "", LATE)]);
    let answer = check(&forbidden, None, "NotReported");
    assert_eq!(answer.also[0].code, "ObjectPauseIgnored");
}

#[test]
fn an_object_that_the_service_has_not_accepted_is_not_in_sync() {
    let new = json!({"finalizers": null});
    let answer = check(&view(new, json!({})), Some(false), "NotAccepted");
    assert_eq!(answer.cause.since.as_deref(), Some("2030-01-31T10:00:00Z"));
}

#[test]
fn what_cannot_be_read_is_named_and_nothing_follows_from_it() {
    let mut blind = view(json!({}), json!({}));
    blind.events = Err("403".to_owned());
    blind.bindings = Err("403".to_owned());
    blind.namespace = Some(Err("403".to_owned()));
    let answer = check(&blind, None, "NotReported");
    assert_eq!(answer.unknown.len(), 3, "{answer:#?}");
    let mut silent = view(json!({}), json!({}));
    silent.bindings = Ok(vec![binding(json!({"spec": {"permissionClaims": []}}))]);
    let answer = check(&silent, None, "NotReported");
    assert!(answer.unknown[0].contains("permission claim on events"));
    assert_eq!(answer.also[0].code, "ClaimsNotAccepted");
}

#[test]
fn a_namespace_in_deletion_is_told() {
    let mut view = view(json!({}), json!({}));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "deletionTimestamp": LATE}});
    view.namespace = Some(Ok(Object::new(namespace).unwrap()));
    let answer = check(&view, None, "NotReported");
    assert_eq!(answer.also[0].code, "NamespaceTerminating");
}
