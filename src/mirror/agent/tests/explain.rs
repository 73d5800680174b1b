//! What is told about objects: whether they are in sync, why, and what to do about it.

use super::*;
use crate::mirror::agent::explain::{
    MirrorExplainError, MirrorExplained, MirrorExplainer, MirrorSelection, SideState,
};
use hawser_runtime::cluster::connection::Call;
use hawser_sync::Code;

async fn named(
    explainer: &MirrorExplainer,
    kind: &str,
    name: &str,
) -> Result<MirrorExplained, MirrorExplainError> {
    let selection = MirrorSelection {
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: None,
    };
    let mut explained = explainer.explain(&selection).await?;
    assert_eq!(explained.len(), 1, "{explained:#?}");
    Ok(explained.remove(0))
}

async fn mission(clusters: &Clusters, settings: Settings, name: &str) -> MirrorExplained {
    let explainer = clusters.explainer(settings).await;
    named(&explainer, "mission", name).await.unwrap()
}

/// The writes that are due, such as `update robot Mission default/a`.
fn due(explained: &MirrorExplained) -> Vec<String> {
    let writes = explained.due.iter();
    let told = writes.map(|write| format!("{} {}", write.verb, write.object));
    told.collect()
}

#[tokio::test]
async fn an_object_is_in_sync_or_left_out_by_the_name_of_its_robot() {
    let clusters = Clusters::with(true, &filtered()).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &labelled("r1")).await;
    clusters.create(CLOUD, "b", &labelled("r2")).await;
    clusters.create(CLOUD, "c", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;

    let explainer = clusters.explainer(r1()).await;
    for kind in ["mission", "missions", "Mission.example.com"] {
        let explained = named(&explainer, kind, "a").await.unwrap();
        assert!(
            explained.is_in_step() && explained.due.is_empty(),
            "{explained:#?}"
        );
        assert_eq!(explained.reason.code, Code::InStep);
        assert_eq!(explained.left_out_by, None);
        let sides: Vec<_> = explained.sides.iter().map(|(_, side)| side).collect();
        assert_eq!(sides, [&SideState::Present, &SideState::Present]);
        let annotations = explained.annotations;
        assert_eq!(annotations.len(), 2, "{annotations:?}");
    }
    for (name, robot, why) in [
        ("b", Some("r2"), "robot-name is r2, and this robot is r1"),
        ("c", None, "it has no label"),
    ] {
        let explained = named(&explainer, "mission", name).await.unwrap();
        let left_out = explained.left_out_by.clone().unwrap_or_default();
        assert!(left_out.contains(why), "{left_out}");
        assert!(!explained.is_in_step(), "{explained:#?}");
        assert!(
            explained.is_settled() && explained.due.is_empty(),
            "{explained:#?}"
        );
        let of_other = SideState::OfOther(robot.map(str::to_owned));
        assert_eq!(explained.sides[0].1, of_other);
    }
    for (kind, name, part) in [
        ("mission", "nobody", "mission nobody is neither"),
        ("widget", "a", "kinds: Mission"),
    ] {
        let error = named(&explainer, kind, name).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    // It moves to another robot while no mirror runs.
    mirror.stop().await;
    clusters.patch(CLOUD, "a", &labelled("r2")).await;
    let moved = mission(&clusters, r1(), "a").await;
    assert!(moved.left_out_by.is_some(), "{moved:#?}");
    assert_eq!(due(&moved), ["delete robot Mission default/a"]);
    assert!(clusters.get(ROBOT, "a").await.is_some());
}

#[tokio::test]
async fn what_is_due_while_no_mirror_runs_is_shown_and_nothing_is_written() {
    let clusters = Clusters::with(true, &json!({})).await;
    let mirror = clusters.mirror(r1()).await;
    for name in ["a", "gone"] {
        clusters.create(CLOUD, name, &json!({})).await;
        clusters.until(ROBOT, name, |_| true).await;
    }
    mirror.stop().await;
    clusters
        .patch(CLOUD, "a", &json!({"spec": {"goal": 2}}))
        .await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    clusters.create(CLOUD, "late", &json!({})).await;
    clusters.delete(CLOUD, "gone").await;
    let marks = (clusters.mark(CLOUD), clusters.mark(ROBOT));

    for _ in 0..2 {
        let explainer = clusters.explainer(r1()).await;
        let explained = named(&explainer, "mission", "a").await.unwrap();
        assert_eq!(explained.reason.code, Code::Working, "{explained:#?}");
        assert_eq!(
            due(&explained),
            [
                "update robot Mission default/a",
                "update status cloud Mission default/a"
            ]
        );
        let changes: Vec<_> = explained
            .due
            .into_iter()
            .map(|write| write.change)
            .collect();
        assert_eq!(changes[0], Some(json!({"spec": {"goal": 2}})));
        let status = changes[1].clone().unwrap_or_default();
        assert_eq!(status["status"]["phase"], "done", "{status}");

        let late = named(&explainer, "mission", "late").await.unwrap();
        assert_eq!(due(&late), ["create robot Mission default/late"]);
        assert_eq!(late.sides[1].1, SideState::Absent);
        let gone = named(&explainer, "mission", "gone").await.unwrap();
        assert_eq!(due(&gone), ["delete robot Mission default/gone"]);
        assert_eq!(gone.reason.code, Code::Working, "{gone:#?}");
        assert_eq!(gone.sides[0].1, SideState::Absent);
        let all = explainer
            .explain(&MirrorSelection::default())
            .await
            .unwrap();
        let names: Vec<_> = all.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["a", "gone", "late"]);
    }
    assert!(clusters.get(ROBOT, "gone").await.is_some());
    let mut dry_runs = 0;
    for (plane, mark) in [(CLOUD, marks.0), (ROBOT, marks.1)] {
        for request in clusters.sent(plane, mark) {
            let reads = ["get", "list", "watch"].contains(&&*request.verb);
            let is_dry_run = request.query.contains("dryRun=All");
            assert!(reads || is_dry_run, "{request:?}");
            dry_runs += usize::from(is_dry_run);
        }
    }
    assert!(dry_runs > 0, "no request to either cluster was a dry run");
}

/// The definition of missions with a status that allows few phases.
fn strict() -> Value {
    let mut crd = missions(true, &json!({}));
    let status = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"phase": {"type": "string", "enum": ["running"]}},
    });
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    crd
}

#[tokio::test]
async fn a_refusal_of_the_cloud_comes_with_advice_that_helps_and_is_counted() {
    let clusters = Clusters::start().await;
    let open = missions(true, &json!({}));
    clusters.define(CLOUD, &strict()).await;
    clusters.define(ROBOT, &open).await;
    let mirror = clusters.mirror(r1()).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    clusters.until(ROBOT, "a", |_| true).await;
    clusters
        .patch_status(ROBOT, "a", &json!({"phase": "done"}))
        .await;
    let ill = until_overview(&mirror, |overview| {
        let mut reasons = overview.reasons.iter();
        reasons.any(|reason| reason.code == "Invalid")
    })
    .await;
    let advice = "make the schemas of the CRD the same in both clusters";
    let shown = ill.reasons[0].advice.clone().unwrap_or_default();
    assert!(shown.starts_with(advice), "{shown}");
    let counted =
        r#"hawser_out_of_sync_objects{kind="Mission",class="refused",reason="Invalid"} 1"#;
    mirror.following.count();
    let metrics = mirror.numbers.render();
    assert!(metrics.contains(counted), "{metrics}");

    let explained = mission(&clusters, r1(), "a").await;
    assert_eq!(explained.reason.code, Code::Invalid, "{explained:#?}");
    let refusal = explained.due[0].refusal.clone().unwrap_or_default();
    assert!(refusal.contains("status.phase"), "{refusal}");
    let told = crate::mirror::advice::advice(explained.reason.code);
    assert_eq!(told, Some(&*shown));

    // The advice, followed.
    let path = format!("{CRDS}/missions.example.com");
    let same = json!({"spec": {"versions": open["spec"]["versions"]}});
    let call = Call::merge_patch(path, &same);
    clusters.at(CLOUD).ask(call).await.unwrap();
    clusters
        .until(CLOUD, "a", |owner| owner["status"]["phase"] == "done")
        .await;
    until_overview(&mirror, |overview| overview.out_of_sync() == 0).await;
    mirror.following.count();
    let metrics = mirror.numbers.render();
    assert!(
        !metrics.contains("hawser_out_of_sync_objects{"),
        "{metrics}"
    );
    let explained = mission(&clusters, r1(), "a").await;
    assert!(explained.is_in_step(), "{explained:#?}");
    mirror.stop().await;
}

#[tokio::test]
async fn a_crd_that_is_not_synced_or_not_served_is_the_reason_of_its_objects() {
    let clusters = Clusters::start().await;
    let wrong = missions(true, &json!({SPEC_SOURCE: "nobody"}));
    clusters.define(ROBOT, &wrong).await;
    clusters.define(CLOUD, &wrong).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    let explained = mission(&clusters, r1(), "a").await;
    assert_eq!(explained.reason.code, Code::RulesInvalid);
    assert!(explained.reason.detail.contains("nobody"), "{explained:#?}");
    let explainer = clusters.explainer(r1()).await;
    let problems = explainer.problems();
    assert_eq!(problems[0].0, "missions.example.com", "{problems:?}");
    assert!(
        explainer
            .explain(&MirrorSelection::default())
            .await
            .unwrap()
            .is_empty()
    );

    let clusters = Clusters::start().await;
    let explainer = clusters.explainer(r1()).await;
    let error = named(&explainer, "mission", "a").await.unwrap_err();
    assert!(error.to_string().ends_with("kinds: none"), "{error}");
    clusters.define(ROBOT, &missions(true, &json!({}))).await;
    let explained = mission(&clusters, r1(), "a").await;
    assert_eq!(explained.reason.code, Code::NotSeen);
    let detail = &explained.reason.detail;
    assert!(
        detail.starts_with("the cloud is not listed completely: "),
        "{detail}"
    );

    // A namespace that is not among those that are synced.
    clusters.define(CLOUD, &missions(true, &json!({}))).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "depot"}});
    let call = Call::post("/api/v1/namespaces", &namespace);
    clusters.at(CLOUD).ask(call).await.unwrap();
    let depot = MISSIONS.replace("default", "depot");
    clusters.create_in(CLOUD, &depot, "a", &json!({})).await;
    let explainer = clusters.explainer(r1()).await;
    let selection = MirrorSelection {
        kind: Some("missions".to_owned()),
        name: Some("a".to_owned()),
        namespace: Some("depot".to_owned()),
    };
    let explained = explainer.explain(&selection).await.unwrap().remove(0);
    let left_out = explained.left_out_by.clone().unwrap_or_default();
    assert_eq!(left_out, "--namespaces does not contain depot");
    assert!(explained.is_settled(), "{explained:#?}");
}
