#![expect(
    clippy::needless_pass_by_value,
    reason = "documents are written down where they are passed"
)]

use super::*;
use hawser_sync::{LinkId, Reason, Scope, Side};
use kube_lang::object::{Gvk, merge_patch};

fn object(value: Value) -> Object {
    let mut whole = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "uid": "u"}});
    merge_patch::apply(&mut whole, &value);
    Object::new(whole).unwrap()
}

/// A consumer's object of this generation.
fn source(generation: i64) -> Object {
    object(json!({"metadata": {"generation": generation}, "spec": {}}))
}

fn copy(generation: i64, status: Value) -> Object {
    object(json!({"metadata": {"generation": generation}, "status": status}))
}

fn time_at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The reports of one process on one object.
struct Reports {
    rules: SyncedRules,
    last: Option<LastReport>,
    now: i64,
    source: Object,
}

impl Reports {
    fn of(rules: SyncedRules) -> Self {
        Self {
            rules,
            last: None,
            now: 0,
            source: source(1),
        }
    }

    fn with_condition() -> Self {
        Self::of(rules(Some("Synced"), SyncedWhen::Observed))
    }

    fn with_annotations() -> Self {
        Self::of(rules(None, SyncedWhen::Observed))
    }

    /// Ends a pass; returns whether it wrote. A second pass has nothing to write.
    fn pass(&mut self, state: Result<(), Code>, copy: &Object) -> bool {
        self.now += 1;
        let wrote = self.once(state, copy);
        self.now += 1;
        assert!(!self.once(state, copy), "{}", self.source.as_value());
        wrote
    }

    fn once(&mut self, state: Result<(), Code>, copy: &Object) -> bool {
        let kind = Arc::new(Gvk::new("example.com", "v1", "Thing"));
        let key = Scope::new(&Side::new("kcp"), &kind, "c").key(None, "a");
        let outcome = Outcome {
            link: LinkId::new("primary"),
            reason: Reason::from(state.err().unwrap_or(Code::InStep)),
            copy: None,
            current: state.is_ok(),
            drift: None,
        };
        let context = self.context();
        let of = (&key, &self.source);
        let (step, last) = self.rules.step(of, &outcome, Some(copy), &context);
        self.last = last.or(self.last);
        let Some(step) = step else {
            return false;
        };
        self.source = match step.request {
            Request::ReplaceStatus { object, .. } => object,
            Request::Patch { patch, .. } => {
                let mut value = self.source.as_value().clone();
                merge_patch::apply(&mut value, &patch);
                Object::new(value).unwrap()
            }
            other => panic!("{other:?}"),
        };
        true
    }

    fn context(&self) -> SyncedContext {
        SyncedContext {
            last: self.last,
            now: time_at(self.now),
        }
    }

    fn generation(&mut self, generation: i64) {
        self.source
            .metadata_mut()
            .insert("generation".into(), generation.into());
    }

    fn condition(&self) -> &Value {
        &self.source.as_value()["status"]["conditions"][0]
    }

    #[track_caller]
    fn says(&self, status: &str, reason: &str, generation: i64) {
        let condition = self.condition();
        let said = [&condition["status"], &condition["reason"]];
        assert_eq!(said, [status, reason]);
        assert_eq!(condition["observedGeneration"], generation);
    }

    fn restart(&mut self) {
        self.last = None;
    }
}

fn rules(condition: Option<&str>, when: SyncedWhen) -> SyncedRules {
    SyncedRules {
        when,
        condition: condition.and_then(|type_| ConditionPlace::in_schema(type_, None)),
    }
}

#[test]
fn a_generation_is_seen_once_the_controller_of_the_copy_has_observed_it() {
    let mut reports = Reports::with_condition();
    assert!(reports.pass(Ok(()), &copy(1, json!({}))));
    reports.says("False", "NotObserved", 1);
    assert!(reports.pass(Ok(()), &copy(1, json!({"observedGeneration": 1}))));
    reports.says("True", "Observed", 1);
    let since = reports.condition()["lastTransitionTime"].clone();

    reports.generation(2);
    assert!(reports.pass(Ok(()), &copy(2, json!({"observedGeneration": 2}))));
    reports.says("True", "Observed", 2);
    assert_eq!(reports.condition()["lastTransitionTime"], since);
    reports.generation(3);
    assert!(reports.pass(Ok(()), &copy(3, json!({"observedGeneration": 2}))));
    reports.says("False", "NotObserved", 3);
    assert_ne!(reports.condition()["lastTransitionTime"], since);
}

#[test]
fn every_condition_that_has_a_generation_must_have_observed_it() {
    let conditions = |one: i64, other: i64| {
        let other = json!({"type": "B", "observedGeneration": other});
        json!({"conditions": [{"type": "A", "observedGeneration": one}, other, {"type": "C"}]})
    };
    let mut reports = Reports::with_condition();
    reports.pass(Ok(()), &copy(2, conditions(2, 1)));
    reports.says("False", "NotObserved", 1);
    reports.pass(Ok(()), &copy(2, conditions(2, 2)));
    reports.says("True", "Observed", 1);
}

#[test]
fn what_the_service_itself_changes_in_a_copy_does_not_matter_afterwards() {
    let mut reports = Reports::with_condition();
    let seen = json!({"observedGeneration": 1});
    reports.pass(Ok(()), &copy(1, seen.clone()));
    assert!(!reports.pass(Ok(()), &copy(2, seen.clone())));
    // Nor to a process that knows it from the object only.
    reports.restart();
    assert!(!reports.pass(Ok(()), &copy(2, seen)));
    reports.says("True", "Observed", 1);
    // A new copy has to be observed again.
    assert!(reports.pass(Ok(()), &copy(1, json!({}))));
    reports.says("False", "NotObserved", 1);
}

#[test]
fn a_consumer_who_edits_the_condition_is_not_believed() {
    let unseen = copy(2, json!({"observedGeneration": 1}));
    let mut reports = Reports::with_condition();
    reports.pass(Ok(()), &unseen);
    let honest = reports.source.clone();
    let edits = [
        json!({"status": "True"}),
        json!({"status": "True", "reason": "Observed", "lastTransitionTime": "2001-01-01T00:00:00Z"}),
        json!({"message": "all is well"}),
        json!({"lastTransitionTime": "2001-01-01T00:00:00Z"}),
        json!({"observedGeneration": 9}),
        json!({"type": "Sinked"}),
    ];
    for edit in edits {
        let mut value = honest.as_value().clone();
        merge_patch::apply(&mut value["status"]["conditions"][0], &edit);
        reports.source = Object::new(value).unwrap();
        assert!(reports.pass(Ok(()), &unseen), "{edit}");
        let conditions = reports.source.as_value()["status"]["conditions"].as_array();
        let restored = conditions.and_then(|all| all.last());
        assert_eq!(
            restored,
            honest.as_value()["status"]["conditions"].get(0),
            "{edit}"
        );
    }
}

#[test]
fn copied_is_enough_if_the_owner_says_so() {
    let mut reports = Reports::of(rules(Some("Synced"), SyncedWhen::Copied));
    reports.pass(Ok(()), &copy(1, json!({})));
    reports.says("True", "Copied", 1);
}

#[test]
fn a_pass_that_ends_otherwise_gives_its_reason() {
    let unseen = copy(1, json!({}));
    let mut reports = Reports::with_condition();
    reports.pass(Err(Code::NameConflict), &unseen);
    reports.says("False", "NameConflict", 1);
    let message = Code::NameConflict.sentence();
    assert_eq!(reports.condition()["message"], message);
    // That a server does not answer is no news about this generation, but all there is about the next.
    assert!(!reports.pass(Err(Code::NoAnswer), &unseen));
    reports.generation(2);
    assert!(reports.pass(Err(Code::NoAnswer), &unseen));
    reports.says("Unknown", "NoAnswer", 2);
    assert!(!reports.pass(Err(Code::NotSeen), &unseen));
    for code in [Code::Working, Code::NeedsToSee, Code::Kept, Code::NoSource] {
        assert!(!reports.pass(Err(code), &unseen), "{code}");
    }
    reports.pass(Err(Code::Paused), &unseen);
    reports.says("False", "Paused", 2);
}

#[test]
fn annotations_have_the_generations_of_both_sides() {
    let mut reports = Reports::with_annotations();
    let said = |reports: &Reports| -> Value {
        serde_json::from_str(reports.source.annotation(marks::SYNCED).unwrap()).unwrap()
    };
    reports.pass(Ok(()), &copy(7, json!({"observedGeneration": 6})));
    let report = said(&reports);
    assert_eq!(report["status"], "False");
    assert_eq!(report["reason"], "NotObserved");
    assert_eq!(report["generation"], 1);
    assert_eq!(report["copyGeneration"], 7);
    assert_eq!(report["copyObservedGeneration"], 6);
    assert_eq!(reports.source.annotation(marks::SYNCED_GENERATION), None);
    reports.pass(Ok(()), &copy(7, json!({"observedGeneration": 7})));
    let seen = |reports: &Reports| {
        let seen = reports.source.annotation(marks::SYNCED_GENERATION);
        seen.map(str::to_owned)
    };
    assert_eq!(seen(&reports).as_deref(), Some("1"));
    assert!(!reports.pass(Ok(()), &copy(9, json!({"observedGeneration": 8}))));
    // The generation that was seen last stays, and one that was not is not claimed.
    reports.generation(2);
    reports.pass(Err(Code::Invalid), &copy(9, json!({})));
    assert_eq!(seen(&reports).as_deref(), Some("1"));
    reports.source.set_annotation(marks::SYNCED_GENERATION, "2");
    reports.source.set_annotation(marks::SYNCED, "what?");
    assert!(reports.pass(Err(Code::Invalid), &copy(9, json!({}))));
    assert_eq!(seen(&reports), None);
    assert_eq!(said(&reports)["reason"], "Invalid");
}

#[test]
fn the_annotations_go_when_nobody_wants_them() {
    let kind = Arc::new(Gvk::new("example.com", "v1", "Thing"));
    let key = Scope::new(&Side::new("kcp"), &kind, "c").key(None, "a");
    let mut object = source(1);
    assert_eq!(without_annotations(&key, &object), None);
    object.set_annotation(marks::SYNCED_GENERATION, "1");
    let step = without_annotations(&key, &object).unwrap();
    let Request::Patch { patch, .. } = step.request else {
        panic!("{step:?}");
    };
    let removed = json!({(marks::SYNCED_GENERATION): null});
    assert_eq!(patch["metadata"]["annotations"], removed);
}

#[test]
fn the_condition_is_written_with_the_status_of_the_copy() {
    let mut reports = Reports::with_condition();
    let with = |status: Value, current| {
        let copy = copy(1, status.clone());
        let status = Some(Arc::new(status));
        let context = reports.context();
        let of = (&reports.source, &copy);
        let made = reports.rules.in_status(status, of, current, &context);
        made.map(Arc::unwrap_or_clone)
    };
    let theirs = json!({"type": "Synced", "status": "True", "reason": "Crossplane"});
    let ready = json!({"type": "Ready", "status": "True"});
    let status = json!({"observedGeneration": 1, "conditions": [theirs, ready]});
    let made = with(status.clone(), true).unwrap();
    assert_eq!(made["conditions"][0], ready);
    assert_eq!(made["conditions"][1]["reason"], "Observed");
    assert_eq!(made["conditions"].as_array().map(Vec::len), Some(2));
    // What is not as a status usually is stays.
    for odd in [json!({"conditions": "none"}), json!([1])] {
        assert_eq!(with(odd.clone(), true), Some(odd));
    }
    // Until the reason is known, nothing changes.
    assert_eq!(with(status.clone(), false), Some(status.clone()));
    reports.source.root_mut().insert("status".into(), made);
    let kept = Some(Arc::new(json!({"phase": "Busy"})));
    let of = (&reports.source, &copy(2, json!({"phase": "Busy"})));
    let context = reports.context();
    let kept = reports.rules.in_status(kept, of, false, &context).unwrap();
    assert_eq!(kept["conditions"][0]["reason"], "Observed");
}

#[test]
fn an_object_without_a_generation_or_in_deletion_is_not_reported_on() {
    let seen = copy(1, json!({"observedGeneration": 1}));
    for source in [
        object(json!({"spec": {}})),
        object(json!({"metadata": {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    ] {
        let mut reports = Reports::with_condition();
        reports.source = source;
        assert!(!reports.pass(Ok(()), &seen));
    }
}

/// A status as Kubernetes' own types have it, with this in the schema of a condition.
fn conditions(change: Value) -> Value {
    let text = || json!({"type": "string"});
    let mut item = json!({
        "type": "object", "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(), "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "message": text(), "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    });
    merge_patch::apply(&mut item, &change);
    json!({"type": "object", "properties": {
        "phase": text(),
        "conditions": {
            "type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        },
    }})
}

#[test]
fn a_condition_is_written_only_where_the_schema_keeps_it() {
    let fits = |schema: &Value| ConditionPlace::in_schema("Synced", Some(schema));
    assert!(fits(&conditions(json!({}))).is_some_and(|place| place.stands_alone));
    for (why, change) in [
        (
            "it would not say which generation",
            json!({"properties": {"observedGeneration": null}}),
        ),
        (
            "types are listed",
            json!({"properties": {"type": {"enum": ["Ready"]}}}),
        ),
        (
            "more is required",
            json!({"required": ["type", "severity"], "properties": {"severity": {"type": "string"}}}),
        ),
    ] {
        assert_eq!(fits(&conditions(change)), None, "{why}");
    }
    assert_eq!(fits(&json!({"type": "object"})), None);
    assert_eq!(fits(&Value::Null), None);
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert!(fits(&free).is_some());
}

#[test]
fn a_status_that_needs_other_fields_gets_the_condition_with_them_only() {
    let mut schema = conditions(json!({}));
    schema["required"] = json!(["phase"]);
    let place = ConditionPlace::in_schema("Synced", Some(&schema)).unwrap();
    assert!(!place.stands_alone);
    let condition = json!({"type": "Synced"});
    assert_eq!(place.with(None, condition.clone()), None);
    let status = Some(Arc::new(json!({"phase": "Busy"})));
    let made = place.with(status, condition).unwrap();
    assert_eq!(made["conditions"][0]["type"], "Synced");
}

#[test]
fn a_condition_without_a_place_is_a_warning_and_one_that_is_no_type_an_error() {
    let types = |remote_status| Types {
        local: Gvk::new("a.com", "v1", "Thing").into(),
        remote: Gvk::new("a.com", "v1", "Thing").into(),
        local_scope: crate::publish::naming::LocalScope::Namespaced,
        subresources: Vec::new(),
        remote_status,
        remote_status_schema: None,
    };
    let compiled = |condition: &str, remote_status| {
        let mut problems = Vec::new();
        let given = SyncedSpec {
            condition: Some(condition.to_owned()),
            when: None,
        };
        let rules = SyncedRules::compile(&given, &types(remote_status), &mut problems);
        let errors = problems.iter().filter(|one| one.is_error()).count();
        (rules.condition.is_some(), errors, problems.len())
    };
    assert_eq!(compiled("example.com/Synced", true), (true, 0, 0));
    assert_eq!(compiled("Synced", false), (false, 0, 1));
    assert_eq!(compiled("in step", true), (false, 1, 1));
    assert_eq!(compiled("", true), (false, 1, 1));
}
