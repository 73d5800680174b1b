use super::*;

fn published() -> Facts {
    Facts {
        generation: 3,
        schema: SchemaFact::Published("v1.things.a.org".into()),
        synchronization: SynchronizationFact::Enabled(2),
        ..Facts::default()
    }
}

fn problem(field: &str, hint: Option<&str>) -> Problem {
    let problem = Problem::new(field, "is wrong");
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

#[track_caller]
fn check(facts: &Facts, status: &str, reason: &str, message: &str) {
    let verdict = judge(facts);
    assert_eq!(
        (verdict.status, verdict.reason),
        (status, reason),
        "{verdict:?}"
    );
    assert_eq!(verdict.message, message);
    assert_eq!(verdict.generation, facts.generation);
}

#[test]
fn what_is_published_and_in_step_is_ready() {
    let facts = published();
    check(
        &facts,
        "True",
        "Synchronizing",
        "published as v1.things.a.org; synchronized with 2 workspaces",
    );
    for (synchronization, reason, how) in [
        (
            SynchronizationFact::Enabled(1),
            "Synchronizing",
            "synchronized with 1 workspace",
        ),
        (
            SynchronizationFact::Enabled(0),
            "NoWorkspaces",
            "no workspace has bound it yet",
        ),
        (
            SynchronizationFact::Disabled,
            "SynchronizationDisabled",
            "objects are not synchronized, as configured",
        ),
    ] {
        let facts = Facts {
            synchronization,
            ..published()
        };
        check(
            &facts,
            "True",
            reason,
            &format!("published as v1.things.a.org; {how}"),
        );
    }
}

#[test]
fn rules_that_may_not_do_what_was_meant_are_used_all_the_same() {
    let warning = problem("spec.related[0]", Some("look again")).warning();
    let facts = Facts {
        rules: vec![warning.clone()],
        ..published()
    };
    check(
        &facts,
        "True",
        "Synchronizing",
        "published as v1.things.a.org; synchronized with 2 workspaces; \
         warning: spec.related[0]: is wrong (look again)",
    );
    let facts = Facts {
        rules: vec![warning, problem("spec.naming.name", None)],
        ..published()
    };
    check(
        &facts,
        "False",
        "RulesInvalid",
        "the API is published, but no object can be synchronized: spec.naming.name: is wrong; \
         warning: spec.related[0]: is wrong (look again)",
    );
}

#[test]
fn a_warning_is_told_and_changes_nothing() {
    let facts = Facts {
        warnings: vec!["mind the gap".into()],
        ..published()
    };
    check(
        &facts,
        "True",
        "Synchronizing",
        "published as v1.things.a.org; synchronized with 2 workspaces; mind the gap",
    );
}

#[test]
fn before_anything_is_known_nothing_is_claimed() {
    check(
        &Facts::default(),
        "Unknown",
        "Pending",
        "the agent is looking for the kind",
    );
}

#[test]
fn a_schema_that_failed_says_why_and_the_export_is_not_blamed() {
    let facts = Facts {
        schema: SchemaFact::Failed {
            reason: "KindNotFound",
            message: "no such kind".into(),
        },
        export: vec!["not in the export".into()],
        ..published()
    };
    check(&facts, "False", "KindNotFound", "no such kind");
}

#[test]
fn rules_with_mistakes_are_told_with_their_fields_and_hints() {
    let facts = Facts {
        rules: vec![
            problem("spec.naming.name", None),
            problem("spec.filter", Some("try this")),
        ],
        ..published()
    };
    check(
        &facts,
        "False",
        "RulesInvalid",
        "the API is published, but no object can be synchronized: spec.naming.name: is wrong, \
         spec.filter: is wrong (try this)",
    );
    let facts = Facts {
        schema: SchemaFact::Pending,
        ..facts
    };
    assert!(
        judge(&facts).message.starts_with("no object can be"),
        "{facts:?}"
    );
}

#[test]
fn an_export_that_lacks_it_held_deletions_and_missing_rights_are_told_with_what_to_do() {
    let facts = Facts {
        export: vec!["there is no export".into()],
        ..published()
    };
    check(&facts, "False", "NotExported", "there is no export");
    let held = HeldDeletions {
        count: 30,
        why: "the CRD is gone".into(),
        ids: "x1,x2".into(),
    };
    let facts = Facts {
        held: Some(held),
        ..published()
    };
    check(
        &facts,
        "False",
        "DeletionsHeld",
        "30 deletions are held: the CRD is gone; to approve them, set the annotation \
         hawser.dev/approve-deletions: x1,x2",
    );
    let missing_rights = BTreeSet::from(["delete secrets".to_owned(), "create things".to_owned()]);
    let facts = Facts {
        missing_rights,
        ..published()
    };
    check(
        &facts,
        "False",
        "MissingRights",
        "the agent may not create things, delete secrets: grant it these rights",
    );
    let facts = Facts {
        unseen: vec!["Thing: things is forbidden".into()],
        ..published()
    };
    check(
        &facts,
        "False",
        "NotWatched",
        "no object can be synchronized until these can be listed on the service cluster: \
         Thing: things is forbidden",
    );
    let facts = Facts {
        unwatched_kinds: BTreeSet::from(["Thing in kcp: 500".to_owned()]),
        ..published()
    };
    check(
        &facts,
        "False",
        "NotWatched",
        "objects are not synchronized while these cannot be watched: Thing in kcp: 500; check that the server \
         answers and, in kcp, that the APIExport has the schema or the permission claim",
    );
}

#[test]
fn a_workspace_that_accepts_no_claim_is_no_fault_of_what_is_published() {
    let facts = Facts {
        unaccepted: BTreeMap::from([("ConfigMap".to_owned(), 2), ("Secret".to_owned(), 1)]),
        unserved: vec!["gadgets.b.org in version v1 on the service cluster".into()],
        ..published()
    };
    check(
        &facts,
        "True",
        "Synchronizing",
        "published as v1.things.a.org; synchronized with 2 workspaces; \
         related kinds are not served: gadgets.b.org in version v1 on the service cluster; \
         2 workspaces do not let the agent write ConfigMap: their APIBinding has to accept the \
         permission claim; 1 workspace does not let the agent write Secret: its APIBinding has to \
         accept the permission claim",
    );
}

#[test]
fn copies_of_workspaces_that_left_are_counted_and_their_workspaces_named() {
    let facts = Facts {
        orphans: BTreeMap::from([("c1".to_owned(), 2), ("c2".to_owned(), 1)]),
        ..published()
    };
    check(
        &facts,
        "True",
        "Synchronizing",
        "published as v1.things.a.org; synchronized with 2 workspaces; 3 copies are left from workspaces that no longer \
         bind the API: c1, c2; see `hawser orphans list`",
    );
}

#[test]
fn of_several_troubles_the_first_gives_the_reason_and_all_are_told_up_to_a_limit() {
    let facts = Facts {
        rules: (0..8).map(|n| problem(&format!("f{n}"), None)).collect(),
        export: vec!["e".repeat(10_000)],
        ..published()
    };
    let verdict = judge(&facts);
    assert_eq!(verdict.reason, "RulesInvalid");
    assert!(
        verdict.message.contains("f4: is wrong, and 3 more; eeee"),
        "{}",
        verdict.message
    );
    assert!(verdict.message.len() <= LONGEST + '…'.len_utf8());
}

const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-02-02T00:00:00Z";

fn condition(status: &str, since: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": "Synchronizing",
        "message": "published as v1.things.a.org; synchronized with 2 workspaces",
        "observedGeneration": 3, "lastTransitionTime": since,
    })
}

#[track_caller]
fn check_patch(status: &Value, wanted: Option<&Value>) {
    let found = patch(status, &verdicts(&published()), &PlanFact::Unwanted, NOW);
    let wanted = wanted
        .map(|conditions| json!({"status": {"observedGeneration": 3, "conditions": conditions}}));
    assert_eq!(found, wanted);
}

#[test]
fn the_first_condition_is_patched_in_and_what_says_it_already_is_left_alone() {
    check_patch(&Value::Null, Some(&json!([condition("True", NOW)])));
    check_patch(
        &json!({"resourceSchemaName": "x"}),
        Some(&json!([condition("True", NOW)])),
    );
    let there = json!({"observedGeneration": 3, "conditions": [condition("True", THEN)]});
    check_patch(&there, None);
}

#[test]
fn the_time_of_the_last_transition_moves_only_with_the_status() {
    let conditions = json!([condition("False", THEN)]);
    check_patch(
        &json!({"conditions": conditions}),
        Some(&json!([condition("True", NOW)])),
    );
    let mut other = condition("True", THEN);
    other["message"] = "other".into();
    check_patch(
        &json!({"conditions": [other]}),
        Some(&json!([condition("True", THEN)])),
    );
}

#[test]
fn a_newer_generation_is_told_and_conditions_of_others_stay() {
    let foreign = json!({"type": "Theirs", "status": "True"});
    let mut old = condition("True", THEN);
    old["observedGeneration"] = 2.into();
    check_patch(
        &json!({"observedGeneration": 2, "conditions": [old, foreign]}),
        Some(&json!([condition("True", THEN), foreign])),
    );
}

#[test]
fn missing_rights_are_a_condition_of_their_own_and_leave_ready_alone() {
    let of = |lacking: Option<Vec<String>>| {
        let facts = Facts {
            lacking,
            ..published()
        };
        let verdicts = verdicts(&facts);
        let told = |one: &Verdict| (one.condition, one.status, one.message.clone());
        verdicts.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(of(None).len(), 1);
    let (ready, all) = (of(None).remove(0), of(Some(Vec::new())));
    assert_eq!((&all[0], all[1].0, all[1].1), (&ready, AUTHORIZED, "True"));
    let missing = of(Some(vec!["patch things on the service cluster".to_owned()]));
    assert_eq!((&missing[0], missing[1].1), (&ready, "False"));
    assert!(
        missing[1]
            .2
            .contains("may not patch things on the service cluster")
    );
    // What was found out before stays until the servers are asked again.
    let before = json!({"type": AUTHORIZED, "status": "True"});
    let status = json!({"conditions": [before]});
    let patched = patch(&status, &verdicts(&published()), &PlanFact::Unwanted, NOW).unwrap();
    assert_eq!(patched["status"]["conditions"][0], before);
}

fn plan() -> PlanStatus {
    PlanStatus {
        observed_generation: 3,
        time: NOW.to_owned(),
        objects: 9,
        total: PlannedWrites {
            made: 1,
            changed: 2,
            deleted: 3,
            held: 4,
            refused: 5,
        },
        ..PlanStatus::default()
    }
}

#[test]
fn what_only_plans_is_not_ready_and_says_what_it_would_do() {
    let facts = Facts {
        synchronization: SynchronizationFact::Planning,
        rules: vec![problem("spec.naming", None)],
        plan: PlanFact::Made(Arc::new(plan())),
        ..published()
    };
    check(
        &facts,
        "False",
        "Planning",
        "the agent only plans, as configured: the condition Planned and status.plan say what it would write; no object \
         can be synchronized: spec.naming: is wrong",
    );
    let all = verdicts(&facts);
    let planned = all.iter().find(|one| one.condition == PLANNED).unwrap();
    assert_eq!((planned.status, planned.reason), ("True", "Complete"));
    assert_eq!(
        planned.message,
        "the agent would create 1, change 2 and delete 3 objects, hold 4 deletions, and have 5 refused"
    );
    let incomplete = PlanStatus {
        unplanned: 2,
        problems: vec!["x".to_owned()],
        ..plan()
    };
    let facts = Facts {
        plan: PlanFact::Made(Arc::new(incomplete)),
        ..facts
    };
    let all = verdicts(&facts);
    let planned = all.iter().find(|one| one.condition == PLANNED).unwrap();
    assert_eq!((planned.status, planned.reason), ("False", "Incomplete"));
    assert!(
        planned
            .message
            .ends_with("; 2 objects are not in the plan; x")
    );
}

#[test]
fn a_plan_replaces_the_one_before_and_goes_when_the_agent_writes() {
    let facts = |plan| Facts {
        synchronization: SynchronizationFact::Planning,
        plan,
        ..published()
    };
    let patched = |status: &Value, facts: &Facts| {
        let patch = patch(status, &verdicts(facts), &facts.plan, NOW)?;
        let mut root = json!({"status": status});
        merge_patch::apply(&mut root, &patch);
        Some(root["status"].clone())
    };
    let first = facts(PlanFact::Made(Arc::new(plan())));
    let stored = patched(&json!({}), &first).unwrap();
    assert_eq!(stored["plan"], json!(plan()));
    assert_eq!(patched(&stored, &first), None);
    // Another process has no plan yet.
    assert_eq!(patched(&stored, &facts(PlanFact::Pending)), None);
    let second = PlanStatus {
        objects: 10,
        ..plan()
    };
    let second = facts(PlanFact::Made(Arc::new(second)));
    let stored = patched(&stored, &second).unwrap();
    assert_eq!(stored["plan"]["objects"], 10);
    let writes = Facts {
        plan: PlanFact::Unwanted,
        ..published()
    };
    let stored = patched(&stored, &writes).unwrap();
    assert_eq!(stored["plan"], Value::Null);
    let conditions = stored["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|one| one["type"] != PLANNED));
    assert_eq!(patched(&stored, &writes), None);
}
