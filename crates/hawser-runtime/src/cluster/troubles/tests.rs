use serde_json::json;

use super::*;
use hawser_sync::{Scope, Side};
use kube_lang::object::Gvk;

fn key(kind: &str, name: &str) -> Key {
    let kind = Gvk::new("example.com", "v1", kind).into();
    Scope::new(&Side::new("service"), &kind, "").key(Some("ns"), name)
}

fn said(code: Code, detail: &str, object: Value) -> String {
    let key = key("CronTab", "my-cron");
    let object = Object::new(object).unwrap();
    cleaned(code, detail, &[key], Some(object))
}

fn cleaned(code: Code, detail: &str, names: &[Key], object: Option<Object>) -> String {
    let mut reason = Reason::new(code, detail);
    let objects = std::iter::once(object.map(Arc::new));
    clean(&mut [&mut reason], names.iter(), objects);
    reason.detail
}

#[track_caller]
fn check(code: Code, detail: &str, object: Value, expected: &str) {
    assert_eq!(said(code, detail, object), expected);
}

fn thing(spec: Value) -> Value {
    let mut thing = json!({"apiVersion": "v1", "kind": "CronTab", "metadata": {"name": "my-cron"}});
    thing["spec"] = spec;
    thing
}

#[test]
fn of_an_invalid_object_fields_and_what_is_wrong_with_them_are_logged() {
    check(
        Code::Invalid,
        "create service CronTab ns/my-cron: refused as invalid: CronTab.example.com \"my-cron\" is \
         invalid: [spec.password: Invalid value: \"hunter2\": spec.password in body should match \
         '^a$', spec.pin: Invalid value: 123456: hunter2 is not 123456]",
        thing(json!({"password": "hunter2", "pin": 123_456})),
        "create service CronTab ns/my-cron: refused as invalid: CronTab.example.com \"my-cron\" is \
         invalid: [spec.password: Invalid value: \"…\": should match '^a$', spec.pin: Invalid value: \
         \"…\": … is not …]",
    );
}

#[test]
fn words_of_others_are_logged_without_those_that_the_object_has() {
    check(
        Code::Forbidden,
        "create service CronTab ns/my-cron: forbidden: admission webhook \"a.b\" denied the request: \
         my-cron has the password \"hunter2-and-more\\nsecond\" (Hunter2)",
        thing(json!({"password": "hunter2-and-more\nsecond", "note": "denied"})),
        "create service CronTab ns/my-cron: forbidden: admission webhook \"a.b\" denied the request: \
         my-cron has the password \"…-and-more\\n…\" (…)",
    );
    // As much of it as the message has.
    check(
        Code::NoAnswer,
        "no answer: \"verylongsec",
        thing(json!(["verylongsecret"])),
        "no answer: \"…",
    );
}

#[test]
fn every_start_of_a_word_that_an_object_has_is_hidden() {
    check(
        Code::NoAnswer,
        "hunt hunter hunter11 hunters huntsman",
        thing(json!(["hunter2hunters"])),
        "… … hunter11 hunters huntsman",
    );
}

#[test]
fn what_secrets_contain_is_found_packed_and_unpacked() {
    let secret = |data: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": data}});
    let packed = STANDARD.encode("hunter2");
    check(
        Code::Forbidden,
        &format!("no hunter2, no {packed}"),
        secret(&packed),
        "no …, no …==",
    );
    let document = STANDARD.encode(r#"{"password": "hunter2"}"#);
    check(
        Code::Forbidden,
        "the password hunter2",
        secret(&document),
        "the password …",
    );
}

#[test]
fn what_templates_and_expressions_quote_is_not_logged_at_all() {
    check(
        Code::MutationFailed,
        "spec.a: cannot take \"HUNTER2!\" for 'x', it isn't one",
        thing(json!({})),
        "spec.a: cannot take \"…\" for '…', it isn't one",
    );
}

#[test]
fn deep_objects_are_looked_through() {
    let mut deep = json!("hunter2");
    for _ in 0..1_000 {
        deep = Value::Array(vec![deep]);
    }
    let object = Object::new(thing(deep)).unwrap();
    let detail = cleaned(Code::Forbidden, "no hunter2", &[], Some(object));
    assert_eq!(detail, "no …");
}

#[test]
fn where_not_every_object_is_looked_through_only_names_and_usual_words_are_logged() {
    let names = [key("CronTab", "my-cron")];
    let detail = "create my-cron of CronTab: forbidden: it has the password hunter2";
    let told = cleaned(Code::Forbidden, detail, &names, None);
    assert_eq!(told, "create my-cron of CronTab: forbidden: it has the … …");
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_trouble_is_logged_once_until_it_is_another_one() {
    let (mut known, tenant) = (ProblemLogState::default(), Arc::from("a"));
    let mut note = |code: Code, detail: &str, now| {
        let reason = Reason::new(code, detail);
        known.note(1, &tenant, &reason, at(now)).is_some()
    };
    assert!(note(Code::Invalid, "spec.a at 1", 0));
    assert!(!note(Code::Invalid, "spec.a at 2", 60));
    assert!(note(Code::Invalid, "spec.b at 2", 120));
    assert!(note(Code::NoAnswer, "after 30 s", 180));
    assert!(!note(Code::NoAnswer, "reset", 240));
    assert!(!note(Code::InStep, "", 300));
    assert!(note(Code::NoAnswer, "reset", 360));
}

/// As a status whose field is pruned: it is written, found otherwise, and then put off.
#[test]
fn two_troubles_that_take_turns_are_logged_once_each() {
    let (mut known, tenant) = (ProblemLogState::default(), Arc::from("a"));
    let mut logged = 0;
    for now in 0..20 {
        let reason = if now % 2 == 0 {
            Reason::new(Code::StoredOtherwise, "lamp")
        } else {
            Reason::new(Code::Contested, "status.extra of lamp")
        };
        logged += usize::from(known.note(1, &tenant, &reason, at(now * 300)).is_some());
    }
    assert_eq!(logged, 2);
}

#[test]
fn a_tenant_with_many_troubles_has_a_bounded_log_and_others_have_theirs() {
    let mut known = ProblemLogState::default();
    let (many, other) = (Arc::from("many"), Arc::from("other"));
    let invalid = Reason::new(Code::Invalid, "no");
    let (mut logged, mut left_out) = (0, 0);
    // Each is tried again every minute.
    for now in 0..180 {
        for about in 0..10_000_u64 {
            if about % 60 == now % 60
                && let Some(news) = known.note(about, &many, &invalid, at(now))
            {
                logged += 1;
                left_out += news.left_out;
            }
        }
    }
    assert!((180..=230).contains(&logged), "{logged}");
    let news = known.note(u64::MAX, &other, &invalid, at(180));
    assert_eq!(news, Some(DueTrouble { left_out: 0 }));
    assert!(left_out > 20_000, "{left_out}");
}

/// As many as the log has room for, at a rate that logs each.
#[test]
fn a_tenant_with_many_troubles_leaves_room_to_remember_those_of_others() {
    let mut known = ProblemLogState::default();
    let (many, other) = (Arc::from("many"), Arc::from("other"));
    let invalid = Reason::new(Code::Invalid, "no");
    // As often as troubles are met again, before they are forgotten.
    for round in 0..2 {
        for about in 0..MOST as u64 / 2 {
            let now = Duration::from_millis(round * 3_000_000 + about * 50);
            known.note(about, &many, &invalid, now);
        }
    }
    assert!(known.troubles.len() <= SHARE, "{}", known.troubles.len());
    let now = Duration::from_mins(100);
    assert!(known.note(u64::MAX, &other, &invalid, now).is_some());
    assert_eq!(known.note(u64::MAX, &other, &invalid, now), None);
    // What is over makes room.
    let before = known.troubles.len();
    let settled = Reason::from(Code::InStep);
    known.note(u64::MAX, &other, &settled, now);
    assert_eq!(known.troubles.len(), before - 1);
    assert_eq!(known.tenants[&other].known, 0);
}

/// Tenants that have filled the memory together.
#[test]
fn a_tenant_has_a_few_troubles_remembered_however_many_there_are() {
    let mut known = ProblemLogState::default();
    let invalid = Reason::new(Code::Invalid, "no");
    let burst = u64::from(BURST);
    for about in 0..MOST as u64 {
        let tenant = Arc::from((about / burst).to_string());
        assert!(known.note(about, &tenant, &invalid, at(0)).is_some());
    }
    assert_eq!(known.troubles.len(), MOST);
    let other = Arc::from("other");
    assert!(known.note(u64::MAX, &other, &invalid, at(1)).is_some());
    assert_eq!(known.note(u64::MAX, &other, &invalid, at(2)), None);
}

#[test]
fn a_tenant_without_further_troubles_is_forgotten() {
    let (mut memory, tenant) = (ProblemLogState::default(), Arc::from("a"));
    let trouble = Reason::new(Code::Invalid, "no");
    let burst = u64::from(BURST);
    for about in 0..=burst {
        memory.note(about, &tenant, &trouble, at(0));
    }
    assert_eq!(memory.tenants[&tenant].left_out, 1);
    let other = Arc::from("other");
    let kept = KEPT.as_secs();
    memory.note(u64::MAX, &other, &trouble, at(kept - 1));
    assert!(memory.tenants.contains_key(&tenant));
    memory.note(u64::MAX - 1, &other, &trouble, at(2 * kept));
    assert_eq!(memory.tenants.keys().collect::<Vec<_>>(), [&other]);
    assert_eq!(memory.troubles.len(), 1);
}

#[test]
fn tenants_with_all_the_troubles_that_are_remembered_silence_nobody() {
    let mut memory = ProblemLogState::default();
    let trouble = Reason::new(Code::Invalid, "no");
    let mut about = 0;
    while memory.troubles.len() < MOST {
        let crowd: Arc<str> = format!("crowd{}", about / 10).into();
        memory.note(about, &crowd, &trouble, at(0));
        about += 1;
    }
    let noted = memory.note(about, &"other".into(), &trouble, at(1));
    assert_eq!(noted, Some(DueTrouble { left_out: 0 }));
    assert_eq!(memory.troubles.len(), MOST + 1, "a few of each tenant");
}

#[test]
fn failures_of_requests_are_told_without_what_was_sent() {
    let sent = || {
        let thing = thing(json!({"password": "hunter2", "pin": 123_456}));
        std::iter::once(Arc::new(Object::new(thing).unwrap()))
    };
    let about = key("CronTab", "my-cron");
    let check = |failure: Failure, expected: Failure| {
        assert_eq!(clean_failure(failure, Some(&about), sent()), expected);
    };
    check(
        Failure::Invalid(
            "CronTab.example.com \"my-cron\" is invalid: spec.pin: Invalid value: 123456: hunter2"
                .into(),
        ),
        Failure::Invalid(
            "CronTab.example.com \"my-cron\" is invalid: spec.pin: Invalid value: \"…\": …".into(),
        ),
    );
    let denied = |word: &str| format!("my-cron is denied: {word} is no password");
    check(
        Failure::Forbidden(denied("hunter2")),
        Failure::Forbidden(denied("…")),
    );
    check(
        Failure::Unavailable(denied("Hunter2")),
        Failure::Unavailable(denied("…")),
    );
    let too_long = "ConfigMap \"my-cron\" is invalid: []: Too long: may not be more than 9 bytes";
    check(
        Failure::Invalid(too_long.into()),
        Failure::Invalid(too_long.into()),
    );
    check(Failure::Conflict, Failure::Conflict);
    let held = Failure::Held("hunter2".into());
    check(held.clone(), held);
}

#[test]
fn of_a_write_with_secret_contents_only_fields_rights_and_quotas_are_told() {
    let invalid = |said: &str| Failure::Invalid(said.to_owned());
    let forbidden = |said: &str| Failure::Forbidden(said.to_owned());
    let unavailable = |said: &str| Failure::Unavailable(said.to_owned());
    let fields = "Secret \"s\" is invalid: data.k: Invalid value: \"hunter2\": not hunter2";
    assert_eq!(
        withhold(invalid(fields)),
        invalid("Secret \"s\" is invalid: data.k: Invalid value: \"…\"")
    );
    let denied = "admission webhook \"w\" denied the request: is forbidden: User \"hunter2\"";
    for failure in [
        invalid("hunter2 is no number"),
        invalid(denied),
        forbidden(denied),
        forbidden("secrets \"s\" is forbidden: policy denies hunter2"),
        unavailable(&format!("status 500: Internal error occurred: {denied}")),
    ] {
        let told = withhold(failure).to_string();
        assert!(told.ends_with("and are not shown"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    for failure in [
        forbidden("secrets \"s\" is forbidden: User \"a\" cannot patch resource \"secrets\""),
        forbidden("secrets is forbidden: User \"a\" cannot create resource \"secrets\""),
        forbidden("secrets \"s\" is forbidden: exceeded quota: q, requested: count/secrets=1"),
        unavailable("connection refused"),
        Failure::Conflict,
    ] {
        assert_eq!(withhold(failure.clone()), failure);
    }
}
