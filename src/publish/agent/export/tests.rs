use http::Method;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::publish::agent::ground::{Dialect, EXPORTS, Scene, until};
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::ground::fault;
use kcp_playground::server::{Action, When};

const SOON: Duration = Duration::from_mins(1);
/// Nothing happens because of what waits for so long.
const NEVER: Duration = Duration::from_mins(10);
const EVENTS: &str = "/api/v1/namespaces/default/events";

const PATIENT: Pace = Pace {
    first: NEVER,
    quiet: Duration::from_millis(50),
    rest: Duration::from_millis(50),
    missing: Duration::from_millis(50),
    pause: Duration::from_millis(50),
};

struct Running {
    members: watch::Sender<Members>,
    seen: watch::Sender<WatchedExport>,
    standing: watch::Receiver<ExportStatus>,
    counts: watch::Receiver<usize>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start(scene: &Scene, pace: Pace) -> Self {
        Self::start_while(scene, pace, Arc::new(|_: &Member| Ok(())))
    }

    /// Writes for members that are wanted.
    fn start_while(scene: &Scene, pace: Pace, wanted: Wanted<Member>) -> Self {
        let (members, members_in) = watch::channel(None);
        let (seen, seen_in) = watch::channel(WatchedExport::Unknown);
        let (standing_out, standing) = watch::channel(ExportStatus::default());
        let (count, counts) = watch::channel(0);
        let stop = CancellationToken::new();
        let exporter = Exporter {
            workspace: scene.workspace.clone(),
            export: "things".into(),
            agent: "agent".into(),
            pace,
            wanted,
            count: Box::new(move |selected| {
                count.send_replace(selected);
            }),
        };
        let channels = ExportChannels {
            members: members_in,
            export: seen_in,
            standing: standing_out,
            stop: stop.clone(),
        };
        let task = tokio::spawn(exporter.run(channels));
        Self {
            members,
            seen,
            standing,
            counts,
            stop,
            task,
        }
    }

    fn select(&self, members: &[Member]) {
        self.members.send_replace(Some(members.into()));
    }

    async fn stands(&mut self, as_wanted: impl Fn(&ExportStatus) -> bool) -> ExportStatus {
        let waited = timeout(SOON, self.standing.wait_for(|standing| as_wanted(standing))).await;
        waited.expect("what is waited for comes").unwrap().clone()
    }

    async fn lists(&mut self, schemas: &[&str]) -> ExportStatus {
        self.stands(|s| schemas.iter().all(|name| s.listed.contains(*name)))
            .await
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(SOON, self.task).await.unwrap().unwrap();
    }
}

fn needs(more: Value) -> Arc<Needs> {
    let mut spec = more;
    spec["resource"] = json!({"apiGroup": "a.org", "kind": "Thing"});
    let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
    Arc::new(Needs::of(&spec))
}

fn member(name: &str, schema: Option<&str>, progress: Progress) -> Member {
    Member {
        name: name.to_owned(),
        uid: name.into(),
        schema: schema.map(str::to_owned),
        progress,
        needs: needs(json!({})),
    }
}

fn settled(schema: &str) -> Member {
    member(schema, Some(schema), Progress::Settled)
}

async fn make(scene: &Scene, spec: Value) -> Value {
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
        "metadata": {"name": "things"}, "spec": spec,
    });
    scene
        .workspace
        .ask(Call::post(EXPORTS, &export))
        .await
        .unwrap()
}

async fn patch(scene: &Scene, patch: Value) -> Value {
    let path = format!("{EXPORTS}/things");
    scene
        .workspace
        .ask(Call::merge_patch(path, &patch))
        .await
        .unwrap()
}

async fn export(scene: &Scene) -> Value {
    scene.in_workspace(EXPORTS, "things").await.unwrap()
}

/// The requests that are no events.
fn requests(scene: &Scene) -> Vec<String> {
    scene
        .requests()
        .into_iter()
        .filter(|line| !line.contains(" events "))
        .collect()
}

fn answer(verb: &str, code: u16) -> kcp_playground::server::Fault {
    fault(
        verb,
        "apiexports",
        Action::Status {
            code,
            when: When::Before,
        },
    )
    .once()
}

async fn scene() -> Scene {
    let mut scene = Scene::set(Dialect::Ours).await;
    make(&scene, json!({})).await;
    scene.mark();
    scene
}

#[tokio::test]
async fn all_schemas_and_claims_come_with_one_write_once_every_member_is_settled_or_failed() {
    let scene = scene().await;
    let mut running = Running::start(&scene, PATIENT);
    let pending = member("b", None, Progress::Pending);
    let broken = member("broken", None, Progress::Failed);
    let mut filtered = settled("v1.cs.a.org");
    filtered.needs = needs(json!({"filter": {"namespace": {}}}));
    running.select(&[
        settled("v1.as.a.org"),
        pending,
        broken.clone(),
        filtered.clone(),
    ]);
    running.select(&[
        settled("v1.as.a.org"),
        settled("v1.bs.a.org"),
        broken,
        filtered,
    ]);
    running
        .lists(&["v1.as.a.org", "v1.bs.a.org", "v1.cs.a.org"])
        .await;
    assert_eq!(
        requests(&scene),
        ["get apiexports 200", "update apiexports 200"]
    );
    assert_eq!(*running.counts.borrow(), 4);
    let written = export(&scene).await;
    assert_eq!(
        written["spec"]["latestResourceSchemas"],
        json!(["v1.as.a.org", "v1.bs.a.org", "v1.cs.a.org"])
    );
    assert_eq!(
        written["spec"]["permissionClaims"],
        json!([
            {"group": "", "resource": "events", "all": true},
            {"group": "", "resource": "namespaces", "all": true},
        ])
    );
    let events = until(&scene.workspace, EVENTS, |list| {
        list["items"].as_array().unwrap().len() == 2
    })
    .await;
    let reasons: BTreeSet<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|e| e["reason"].as_str())
        .collect();
    assert_eq!(
        reasons,
        BTreeSet::from(["AddingPermissionClaims", "AddingResourceSchemas"])
    );
    running.end().await;
}

#[tokio::test]
async fn a_member_that_never_settles_holds_the_first_write_up_for_a_moment_only() {
    let scene = scene().await;
    let pace = Pace {
        first: Duration::from_millis(100),
        ..PATIENT
    };
    let mut running = Running::start(&scene, pace);
    let slow = member("slow", None, Progress::Pending);
    let earlier = member("earlier", Some("v0.bs.a.org"), Progress::Pending);
    running.select(&[settled("v1.as.a.org"), slow, earlier.clone()]);
    running.lists(&["v1.as.a.org", "v0.bs.a.org"]).await;
    running.select(&[settled("v1.as.a.org"), settled("v1.late.a.org"), earlier]);
    running.lists(&["v1.late.a.org"]).await;
    let updates = requests(&scene)
        .into_iter()
        .filter(|line| line.starts_with("update"))
        .count();
    assert_eq!(updates, 2);
    running.end().await;
}

#[tokio::test]
async fn what_is_in_step_is_not_written_whatever_the_watch_shows() {
    let mut scene = scene().await;
    let before = Arc::new(export(&scene).await);
    let mut running = Running::start(&scene, PATIENT);
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    scene.mark();
    let after = Arc::new(export(&scene).await);
    // The watch is behind at first, then shows our own write, then a change that is none of ours.
    running.seen.send_replace(WatchedExport::Present(before));
    running.seen.send_replace(WatchedExport::Present(after));
    let foreign = patch(
        &scene,
        json!({"spec": {"latestResourceSchemas": ["v1.as.a.org", "v1.foreign.b.org"]}}),
    )
    .await;
    running
        .seen
        .send_replace(WatchedExport::Present(Arc::new(foreign)));
    running.lists(&["v1.foreign.b.org"]).await;
    assert_eq!(
        requests(&scene),
        ["get apiexports 200", "patch apiexports 200"],
        "both are the test's own"
    );
    running.end().await;
}

#[tokio::test]
async fn foreign_schemas_claims_and_what_the_older_version_cannot_say_survive() {
    let scene = Scene::set(Dialect::Ours).await;
    let full = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "things"},
        "spec": {
            "resources": [{"name": "foreigns", "group": "b.org", "schema": "v1.foreigns.b.org", "storage": {"crd": {}}}],
            "permissionClaims": [
                {"group": "", "resource": "configmaps", "verbs": ["get", "list"]},
                {"group": "", "resource": "secrets", "verbs": ["*"]},
            ],
        },
    });
    let newer = EXPORTS.replace("v1alpha1", "v1alpha2");
    scene
        .workspace
        .ask(Call::post(&*newer, &full))
        .await
        .unwrap();
    let mut running = Running::start(&scene, PATIENT);
    let mut related = settled("v1.as.a.org");
    let of = |kind: &str| {
        json!({
            "identifier": kind, "origin": "service", "kind": kind, "object": {"template": {"template": "x"}},
        })
    };
    related.needs = needs(json!({"related": [of("Secret"), of("ConfigMap")]}));
    running.select(&[related.clone()]);
    let standing = running.lists(&["v1.as.a.org", "v1.foreigns.b.org"]).await;
    let against = standing.against("v1.as.a.org", &related.needs, "things");
    assert_eq!(against.len(), 1, "{against:?}");
    assert!(
        against[0].contains("configmaps with the verbs get, list only"),
        "{against:?}"
    );

    let stored = scene.in_workspace(&newer, "things").await.unwrap();
    let claims = stored["spec"]["permissionClaims"].as_array().unwrap();
    let verbs = |resource: &str| {
        let claim = claims.iter().find(|claim| claim["resource"] == resource);
        claim.map(|claim| claim["verbs"].clone())
    };
    assert_eq!(verbs("configmaps"), Some(json!(["get", "list"])));
    for resource in ["secrets", "events", "namespaces"] {
        assert_eq!(verbs(resource), Some(json!(["*"])), "{resource}");
    }
    running.end().await;
}

#[tokio::test]
async fn a_conflict_is_looked_at_and_written_again_at_once() {
    let scene = scene().await;
    let stale = Arc::new(export(&scene).await);
    patch(&scene, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let mut running = Running::start(&scene, PATIENT);
    running.seen.send_replace(WatchedExport::Present(stale));
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    assert_eq!(
        requests(&scene)[2..],
        [
            "update apiexports 409",
            "get apiexports 200",
            "update apiexports 200"
        ]
    );
    assert_eq!(export(&scene).await["metadata"]["labels"]["a"], "b");
    running.end().await;
}

#[tokio::test]
async fn a_claim_that_kcp_does_not_take_keeps_nothing_else_out_of_the_export() {
    let scene = scene().await;
    let mut running = Running::start(&scene, PATIENT);
    let related = |group: &str, resource: &str| {
        json!({"related": [{
            "identifier": "x", "origin": "kcp", "group": group, "version": "v1", "resource": resource,
            "object": {"reference": {"path": "spec.x"}},
        }]})
    };
    let bad = needs(related("nope.io", "gadgets"));
    let fine = needs(related("rbac.authorization.k8s.io", "roles"));
    let mut one = settled("v1.as.a.org");
    one.needs = Arc::clone(&bad);
    let mut two = settled("v1.bs.a.org");
    two.needs = Arc::clone(&fine);
    running.select(&[one, two]);
    let standing = running.lists(&["v1.as.a.org", "v1.bs.a.org"]).await;
    let export = export(&scene).await;
    let claims = export["spec"]["permissionClaims"].as_array().unwrap();
    let claimed: Vec<_> = claims
        .iter()
        .map(|claim| claim["resource"].clone())
        .collect();
    assert_eq!(claimed, ["events", "namespaces", "roles"]);
    let against = standing.against("v1.as.a.org", &bad, "things");
    assert_eq!(against.len(), 1);
    assert!(
        against[0].starts_with("kcp does not take a claim on nope.io/gadgets; it is omitted: ")
            && against[0].contains("set identityHash"),
        "{against:?}"
    );
    let against = standing.against("v1.bs.a.org", &fine, "things");
    assert_eq!(against, [""; 0], "the other one has nothing to do with it");
    running.end().await;
}

#[tokio::test]
async fn a_failure_is_told_in_words_and_tried_again() {
    let cases = [
        ("get", 500, "get the APIExport things"),
        (
            "get",
            403,
            "the agent may not get the APIExport things in kcp: grant it",
        ),
        ("update", 500, "update the APIExport things"),
        (
            "update",
            403,
            "the agent may not update the APIExport things in kcp: grant it",
        ),
        ("update", 422, "kcp refused to update the APIExport things"),
    ];
    for (verb, code, said) in cases {
        let scene = scene().await;
        scene.ground.playground.faults().add(answer(verb, code));
        let mut running = Running::start(&scene, PATIENT);
        running.select(&[settled("v1.as.a.org")]);
        let failed = running
            .stands(|s| matches!(s.state, ExportState::Failed(_)))
            .await;
        let against = failed.against("v1.as.a.org", &needs(json!({})), "things");
        assert!(
            against[0].starts_with(said),
            "{against:?} does not say {said}"
        );
        scene.ground.playground.faults().clear();
        running.lists(&["v1.as.a.org"]).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_write_that_took_effect_without_an_answer_is_not_repeated() {
    let scene = scene().await;
    let lost = fault("update", "apiexports", Action::Reset(When::After)).once();
    scene.ground.playground.faults().add(lost);
    let mut running = Running::start(&scene, PATIENT);
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    let said: Vec<String> = requests(&scene);
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[2], "get apiexports 200");
    running.end().await;
}

#[tokio::test]
async fn an_export_that_is_missing_is_waited_for_with_and_without_a_watch() {
    for watched in [false, true] {
        let scene = Scene::set(Dialect::Ours).await;
        let mut running = Running::start(&scene, PATIENT);
        if watched {
            running.seen.send_replace(WatchedExport::Absent);
        }
        running.select(&[settled("v1.as.a.org")]);
        let missing = running.stands(|s| s.state == ExportState::Missing).await;
        let against = missing.against("v1.as.a.org", &needs(json!({})), "things");
        assert_eq!(
            against,
            ["the APIExport things does not exist in kcp: create it; the agent waits for it"]
        );
        let made = make(&scene, json!({})).await;
        if watched {
            assert_eq!(
                requests(&scene),
                ["create apiexports 201"],
                "nothing was asked meanwhile"
            );
            running
                .seen
                .send_replace(WatchedExport::Present(Arc::new(made)));
        }
        running.lists(&["v1.as.a.org"]).await;
        running.end().await;
    }
}

#[tokio::test]
async fn what_somebody_removes_is_put_back_at_once_but_not_as_fast_as_they_remove_it() {
    let mut scene = scene().await;
    let mut running = Running::start(
        &scene,
        Pace {
            pause: NEVER,
            ..PATIENT
        },
    );
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    let removal = json!({"spec": {"latestResourceSchemas": null}});
    let removed = patch(&scene, removal.clone()).await;
    running
        .seen
        .send_replace(WatchedExport::Present(Arc::new(removed)));
    let path = format!("{EXPORTS}/things");
    let back = |export: &Value| export["spec"]["latestResourceSchemas"] == json!(["v1.as.a.org"]);
    until(&scene.workspace, &path, back).await;
    running.lists(&["v1.as.a.org"]).await;

    let removed = patch(&scene, removal).await;
    scene.mark();
    running
        .seen
        .send_replace(WatchedExport::Present(Arc::new(removed)));
    let standing = running.stands(|s| s.listed.is_empty()).await;
    let against = standing.against("v1.as.a.org", &needs(json!({})), "things");
    assert_eq!(
        against,
        ["the schema v1.as.a.org is not in the APIExport things yet"]
    );
    assert_eq!(requests(&scene), Vec::<String>::new());
    running.select(&[settled("v1.as.a.org"), settled("v1.bs.a.org")]);
    running.lists(&["v1.as.a.org", "v1.bs.a.org"]).await;
    running.end().await;
}

#[tokio::test]
async fn events_that_are_refused_hold_nothing_up() {
    let scene = scene().await;
    let refused = fault(
        "create",
        "events",
        Action::Status {
            code: 403,
            when: When::Before,
        },
    );
    scene.ground.playground.faults().add(refused);
    let mut running = Running::start(&scene, PATIENT);
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    running.select(&[settled("v2.as.a.org")]);
    running.lists(&["v2.as.a.org"]).await;
    assert_eq!(
        export(&scene).await["spec"]["latestResourceSchemas"],
        json!(["v2.as.a.org"])
    );
    running.end().await;
}

#[tokio::test]
async fn the_task_ends_when_told_to_even_where_kcp_does_not_answer() {
    let scene = scene().await;
    let late = fault("get", "apiexports", Action::Latency(NEVER));
    scene.ground.playground.faults().add(late);
    let running = Running::start(&scene, PATIENT);
    running.select(&[settled("v1.as.a.org")]);
    running.end().await;
    let call = Call {
        method: Method::GET,
        ..Call::get("/version")
    };
    scene.workspace.ask(call).await.unwrap();
}

#[tokio::test]
async fn a_server_that_knows_no_export_for_a_moment_is_asked_again_whatever_the_watch_shows() {
    let scene = scene().await;
    let seen = Arc::new(export(&scene).await);
    scene
        .ground
        .playground
        .faults()
        .add(answer("update", 404).once());
    let mut running = Running::start(&scene, PATIENT);
    running.seen.send_replace(WatchedExport::Present(seen));
    running.select(&[settled("v1.as.a.org")]);
    running.lists(&["v1.as.a.org"]).await;
    running.end().await;
}

#[tokio::test]
async fn what_is_deselected_while_the_export_is_read_does_not_get_into_it() {
    let scene = scene().await;
    let (switch, deselected) = watch::channel("");
    let wanted = move |member: &Member| {
        let is_on = member.name != *deselected.borrow();
        is_on.then_some(()).ok_or_else(|| "deselected".to_owned())
    };
    let slow = Action::Latency(Duration::from_secs(1));
    let faults = scene.ground.playground.faults();
    faults.add(fault("get", "apiexports", slow).once());
    let mut running = Running::start_while(&scene, PATIENT, Arc::new(wanted));
    let [stays, goes] = ["v1.as.a.org", "v1.bs.a.org"];
    running.select(&[settled(stays), settled(goes)]);
    while faults.struck() != [1] {
        tokio::task::yield_now().await;
    }
    switch.send_replace(goes);
    let failed = |status: &ExportStatus| matches!(status.state, ExportState::Failed(_));
    running.stands(failed).await;
    running.select(&[settled(stays)]);
    running.lists(&[stays]).await;
    let written = export(&scene).await;
    assert_eq!(written["spec"]["latestResourceSchemas"], json!([stays]));
    running.end().await;
}
