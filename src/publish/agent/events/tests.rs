//! The event of a pass, by what the pass reports.

use std::sync::Arc;

use super::*;
use hawser_sync::reason::Class;
use hawser_sync::{Scope, Side};
use kube_lang::object::Gvk;

fn own() -> Key {
    let kind = Arc::new(Gvk::new("example.com", "v1", "CronTab"));
    Scope::new(&Side::new("kcp"), &kind, "1x2y").key(Some("default"), "mine")
}

fn copy() -> Key {
    let kind = Arc::new(Gvk::new("internal.corp", "v1", "CronTab"));
    Scope::new(&Side::new("service"), &kind, "").key(Some("tenant-ns"), "tenant-mine")
}

fn report(happened: &[(Option<&str>, Effect)], outcomes: &[(&str, Code, &str)]) -> Report {
    let outcomes = outcomes.iter().map(|(link, code, detail)| Outcome {
        link: LinkId::new(link),
        reason: hawser_sync::Reason::new(*code, *detail),
        copy: Some(copy()),
        current: false,
        drift: None,
    });
    let happened = happened.iter();
    Report {
        outcomes: outcomes.collect(),
        happened: happened
            .map(|(link, effect)| (link.map(LinkId::new), *effect))
            .collect(),
        reverted: Vec::new(),
        requests: 0,
        recheck: None,
        asked: vec![],
        fingerprints: Vec::new(),
    }
}

#[track_caller]
fn check(happened: &[(Option<&str>, Effect)], expected: Option<Reason>) {
    let report = report(happened, &[(PRIMARY, Code::InStep, "")]);
    let told = consumer_event(&report, &own());
    assert_eq!(told.map(|event| event.reason), expected);
}

#[track_caller]
fn check_refused(link: &str, code: Code, detail: &str, expected: &str) {
    let happened = [(None, Effect::Accepted)];
    let report = report(&happened, &[(link, code, detail)]);
    let expected = ConsumerEvent {
        reason: Reason::Refused,
        message: expected.to_owned(),
    };
    assert_eq!(consumer_event(&report, &own()), Some(expected));
}

#[test]
fn a_pass_that_changed_nothing_makes_no_event() {
    check(&[], None);
    check(&[(None, Effect::Looked), (None, Effect::Remembered)], None);
    check(&[(None, Effect::Reported), (None, Effect::Forgotten)], None);
}

#[test]
fn the_most_telling_of_what_happened_is_told() {
    use Effect::{
        Accepted, Adopted, Cleanup, Forgotten, LetGo, NamespaceMade, Placed, Released, Remembered,
        StatusSynced, Synced,
    };
    let primary = Some(PRIMARY);
    check(&[(None, Accepted)], Some(Reason::Accepted));
    check(&[(primary, StatusSynced)], Some(Reason::StatusSynced));
    check(
        &[(primary, Synced), (primary, StatusSynced)],
        Some(Reason::Synced),
    );
    check(
        &[
            (None, Accepted),
            (primary, NamespaceMade),
            (None, Remembered),
            (primary, Placed),
            (primary, StatusSynced),
        ],
        Some(Reason::Placed),
    );
    check(&[(primary, Adopted)], Some(Reason::Placed));
    check(&[(primary, Cleanup)], Some(Reason::Cleanup));
    check(&[(primary, LetGo)], Some(Reason::Cleanup));
    check(
        &[(primary, Cleanup), (None, Forgotten), (None, Released)],
        Some(Reason::Deleted),
    );
}

#[test]
fn what_happens_to_related_objects_is_not_told_of_this_one() {
    check(&[(Some("secret"), Effect::Cleanup)], None);
    check(
        &[
            (Some("secret"), Effect::Placed),
            (Some(PRIMARY), Effect::Synced),
        ],
        Some(Reason::Synced),
    );
}

#[test]
fn a_refusal_is_told_before_anything_that_happened() {
    check_refused(
        PRIMARY,
        Code::NameConflict,
        "service CronTab tenant-ns/tenant-mine belongs to another tenant",
        "The object cannot be processed: the service already uses its name for another object.",
    );
    check_refused(
        "secret",
        Code::TooLarge,
        "",
        "An object that belongs to this one is too large.",
    );
}

#[test]
fn every_entry_whose_objects_are_refused_is_told() {
    let closed = Code::NamespaceClosed;
    let report = report(
        &[],
        &[
            (PRIMARY, Code::InStep, ""),
            (
                "credentials: pair 0",
                closed,
                "kube-system: it is never allowed",
            ),
            (
                "credentials: pair 1",
                closed,
                "kube-public: it is never allowed",
            ),
            ("my: ca: entry", Code::ReferenceInvalid, "spec.ca"),
        ],
    );
    let told = consumer_event(&report, &own()).unwrap();
    assert_eq!(
        told.message,
        "An object that belongs to this one (credentials) cannot be processed: the service does not allow that namespace. An object that belongs to this one (my: ca) cannot be processed: \
         its reference could not be resolved."
    );
}

#[test]
fn whoever_has_not_accepted_a_claim_is_told_so() {
    let mut report = report(
        &[],
        &[(
            "ca: pair 0",
            Code::Forbidden,
            "create kcp Secret: forbidden",
        )],
    );
    report.outcomes[0].copy = Some(own());
    let told = consumer_event(&report, &own()).unwrap();
    assert_eq!(
        told.message,
        "An object that belongs to this one (ca) cannot be processed: this workspace does not let the \
         service write it; its APIBinding has to accept the permission claim."
    );
}

#[test]
fn a_status_that_has_nowhere_to_go_is_told() {
    let happened = [(Some(PRIMARY), Effect::Placed)];
    let outcomes = [
        (PRIMARY, Code::InStep, ""),
        ("gadget: pair 0", Code::StatusNotServed, ""),
    ];
    let told = consumer_event(&report(&happened, &outcomes), &own()).unwrap();
    assert_eq!(
        (told.reason.as_str(), told.reason.kind(), &*told.message),
        (
            "StatusSubresourceMissing",
            "Warning",
            "The status of an object that belongs to this one (gadget) cannot be copied: the \
         target kind has no status subresource."
        )
    );
}

#[test]
fn an_invalid_object_is_told_what_is_wrong_with_it_and_not_where() {
    check_refused(
        PRIMARY,
        Code::Invalid,
        "create service CronTab tenant-ns/tenant-mine: refused as invalid: CronTab.internal.corp \
         \"tenant-mine\" is invalid: spec.cron: Invalid value: \"x\": spec.cron in body should \
         match '^a$'",
        "The object was refused as invalid: spec.cron: invalid value: should match '^a$'",
    );
}

#[test]
fn what_is_wrong_with_anything_but_the_copy_is_not_told() {
    let generic = "The object was refused as invalid.";
    check_refused(
        PRIMARY,
        Code::Invalid,
        "create service Secret agent/state: refused as invalid: Secret \"state\" is invalid: \
         data: Too long: may not be more than 1048576 bytes",
        generic,
    );
    check_refused(
        PRIMARY,
        Code::Invalid,
        "create service CronTab tenant-ns/tenant-mine: refused as invalid: admission webhook \
         \"hook.internal.corp\" denied the request: quota of team-7",
        generic,
    );
}

#[test]
fn no_detail_of_any_other_refusal_is_ever_told() {
    for code in Code::ALL
        .iter()
        .filter(|code| code.class() == Class::Refused)
    {
        let detail = "create service CronTab tenant-ns/tenant-mine: forbidden: user agent-7";
        let report = report(&[], &[(PRIMARY, *code, detail)]);
        let told = consumer_event(&report, &own()).unwrap();
        assert_eq!(
            (told.reason.as_str(), told.reason.kind()),
            ("ReconcilingError", "Warning")
        );
        for word in [
            "tenant",
            "CronTab",
            "agent",
            "service CronTab",
            "cluster",
            "sync",
        ] {
            assert!(!told.message.contains(word), "{code}: {}", told.message);
        }
        assert!(!told.message.contains("at the moment.") || *code == Code::RulesInvalid);
    }
}

#[test]
fn what_waits_or_is_tried_again_is_no_refusal() {
    for code in Code::ALL
        .iter()
        .filter(|code| code.class() != Class::Refused && **code != Code::Paused)
    {
        let report = report(&[], &[(PRIMARY, *code, "detail")]);
        assert_eq!(consumer_event(&report, &own()), None, "{code}");
    }
}

#[test]
fn changes_that_a_pause_holds_are_told_without_who_paused() {
    let report = report(&[], &[(PRIMARY, Code::Paused, "until tomorrow by anna")]);
    let event = consumer_event(&report, &own()).unwrap();
    assert_eq!(event.reason, Reason::Paused);
    assert!(!event.message.contains("anna"), "{}", event.message);
}

#[test]
fn refusals_are_read_back_from_what_consumers_are_told() {
    for code in Code::ALL
        .iter()
        .filter(|code| code.class() == Class::Refused)
    {
        for link in [PRIMARY, "my (ca): entry", "secret"] {
            let report = report(&[], &[(link, *code, "detail")]);
            let told = consumer_event(&report, &own()).unwrap().message;
            let read = refusals_in(&told);
            let [refusal] = &*read else {
                panic!("{told}: {read:?}");
            };
            assert_eq!(refusal_text(refusal.code), refusal_text(*code), "{told}");
            assert!(!refusal.needs_claim && refusal.sentence == told);
        }
    }
    let outcomes = [
        (PRIMARY, Code::TooLarge, ""),
        ("one: entry", Code::NotLinked, ""),
        ("two: entry", Code::Forbidden, ""),
    ];
    let mut report = report(&[], &outcomes);
    report.outcomes[2].copy = Some(own());
    let told = consumer_event(&report, &own()).unwrap().message;
    let read = refusals_in(&told);
    let read: Vec<_> = read.iter().map(|one| (one.code, one.needs_claim)).collect();
    // Two codes have the words of the second refusal.
    assert_eq!(
        read,
        [
            (Code::TooLarge, false),
            (Code::NotLinked, false),
            (Code::Forbidden, true),
        ]
    );
    assert_eq!(refusals_in("failed to sync: no such object"), []);
}

#[test]
fn every_reason_of_an_event_is_listed() {
    for (number, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, number);
    }
    assert_eq!(Reason::Refused as usize + 1, Reason::ALL.len());
}
