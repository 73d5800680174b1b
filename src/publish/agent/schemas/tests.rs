use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;

use super::*;
use crate::publish::agent::ground::{CRDS, Dialect, SCHEMAS, Scene, crontabs, of_crontabs, until};
use hawser_runtime::cluster::ground::fault;
use kcp_playground::server::{Action, Fault, When};

const NAME: &str = "v0595d221.crontabs.example.com";

fn schemas(scene: &Scene) -> Schemas {
    schemas_while(scene, Arc::new(|_: &Manifest| Ok(())))
}

/// Schemas of manifests that are wanted.
fn schemas_while(scene: &Scene, wanted: Wanted<Manifest>) -> Schemas {
    let service = scene.ground.service.clone();
    let discovery = Arc::new(Discovery::new(service.clone()));
    let workspace = scene.workspace.clone();
    Schemas::new(
        service,
        workspace,
        discovery,
        "agent",
        SchemaMode::Writes,
        wanted,
    )
}

async fn scene() -> (Scene, Schemas, Manifest) {
    let mut scene = Scene::set(Dialect::Ours).await;
    let crd = scene.install(&crontabs("example.com")).await;
    let path = format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap());
    until(&scene.ground.service, &path, |crd| {
        let conditions = crd["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True")
        })
    })
    .await;
    let manifest = scene.publish("tabs", of_crontabs("example.com")).await;
    let schemas = schemas(&scene);
    scene.mark();
    (scene, schemas, manifest)
}

fn nothing_watched(_: &str) -> Watched {
    Watched::Unknown
}

async fn settle(schemas: &Schemas, manifest: &Manifest) -> Result<Settled, SchemaError> {
    schemas.settle(manifest, nothing_watched).await
}

fn answer(verb: &str, resource: &str, code: u16) -> Fault {
    fault(
        verb,
        resource,
        Action::Status {
            code,
            when: When::Before,
        },
    )
    .once()
}

#[tokio::test]
async fn a_new_manifest_costs_discovery_and_four_requests_and_one_that_is_settled_none() {
    let (mut scene, schemas, manifest) = scene().await;
    let settled = settle(&schemas, &manifest).await.unwrap();
    assert_eq!(
        scene.requests(),
        [
            "get discovery 200",
            "get discovery 200",
            "get customresourcedefinitions 200",
            "get apiresourceschemas 404",
            "create apiresourceschemas 201",
            "patch publishedresources/status 200",
        ]
    );
    assert_eq!(settled.schema, NAME);
    assert_eq!(
        (settled.local_plural.as_str(), settled.remote_is_namespaced),
        ("crontabs", true)
    );
    let made = scene.in_workspace(SCHEMAS, NAME).await.unwrap();
    assert_eq!(made["metadata"]["labels"][marks::AGENT_NAME], "agent");
    let recorded = scene.manifest("tabs").await;
    assert_eq!(recorded.recorded.as_deref(), Some(NAME));

    scene.mark();
    for manifest in [&recorded, &manifest] {
        // The older one is what a watch that is behind still shows.
        assert_eq!(settle(&schemas, manifest).await.unwrap(), settled);
    }
    let other_mutations = Manifest {
        spec: Arc::new(PublishedResourceSpec {
            enable_workspace_paths: true,
            ..(*recorded.spec).clone()
        }),
        ..recorded
    };
    settle(&schemas, &other_mutations).await.unwrap();
    assert_eq!(scene.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn after_a_restart_a_settled_manifest_is_looked_at_and_nothing_is_written() {
    let (mut scene, first, manifest) = scene().await;
    settle(&first, &manifest).await.unwrap();
    let manifest = scene.manifest("tabs").await;
    scene.mark();
    settle(&schemas(&scene), &manifest).await.unwrap();
    let writes: Vec<String> = scene
        .requests()
        .into_iter()
        .filter(|line| !line.starts_with("get"))
        .collect();
    assert_eq!(writes, Vec::<String>::new());
    assert_eq!(scene.requests().len(), 4);
}

#[tokio::test]
async fn a_change_of_the_crd_makes_a_new_schema_and_a_watch_that_is_behind_makes_nothing() {
    let (mut scene, schemas, manifest) = scene().await;
    let before = settle(&schemas, &manifest).await.unwrap();
    let (name, print) = before.crd.clone().unwrap();
    let manifest = scene.manifest("tabs").await;
    let patch = json!({"spec": {"names": {"shortNames": ["ct", "tab"]}}});
    let path = format!("{CRDS}/{name}");
    scene
        .ground
        .service
        .ask(Call::merge_patch(path, &patch))
        .await
        .unwrap();
    scene.mark();

    let behind = CrdPrint {
        generation: print.generation - 1,
        ..print.clone()
    };
    for seen in [print.clone(), behind] {
        let watched = |_: &str| Watched::Present(seen.clone());
        schemas.settle(&manifest, watched).await.unwrap();
    }
    assert_eq!(scene.requests(), Vec::<String>::new());

    let next = CrdPrint {
        generation: print.generation + 1,
        ..print
    };
    let watched = |_: &str| Watched::Present(next.clone());
    let after = schemas.settle(&manifest, watched).await.unwrap();
    assert_ne!(after.schema, before.schema);
    assert_eq!(
        scene.requests(),
        [
            "get customresourcedefinitions 200",
            "get apiresourceschemas 404",
            "create apiresourceschemas 201",
            "patch publishedresources/status 200",
        ]
    );
    assert!(
        scene.in_workspace(SCHEMAS, &before.schema).await.is_some(),
        "none is ever deleted"
    );
}

#[tokio::test]
async fn a_schema_that_somebody_removed_is_made_again_when_looked_for() {
    let (mut scene, schemas, manifest) = scene().await;
    settle(&schemas, &manifest).await.unwrap();
    Scene::delete(&scene.workspace, SCHEMAS, NAME).await;
    let manifest = scene.manifest("tabs").await;
    scene.mark();
    schemas.forget(&manifest.uid);
    schemas.settle(&manifest, nothing_watched).await.unwrap();
    assert_eq!(
        scene.requests(),
        [
            "get customresourcedefinitions 200",
            "get apiresourceschemas 404",
            "create apiresourceschemas 201",
        ]
    );
}

#[tokio::test]
async fn the_marks_of_an_existing_schema_are_repaired_and_its_content_never() {
    let (mut scene, schemas, manifest) = scene().await;
    settle(&schemas, &manifest).await.unwrap();
    let made = scene.in_workspace(SCHEMAS, NAME).await.unwrap();
    let patch = json!({"metadata": {"labels": {marks::AGENT_NAME: "other", "mine": "1"}}});
    let path = format!("{SCHEMAS}/{NAME}");
    scene
        .workspace
        .ask(Call::merge_patch(path, &patch))
        .await
        .unwrap();
    scene.mark();
    schemas.forget(&manifest.uid);
    schemas.settle(&manifest, nothing_watched).await.unwrap();
    assert!(
        scene
            .requests()
            .contains(&"update apiresourceschemas 200".to_owned())
    );
    let after = scene.in_workspace(SCHEMAS, NAME).await.unwrap();
    assert_eq!(after["spec"], made["spec"]);
    assert_eq!(
        after["metadata"]["labels"],
        json!({marks::AGENT_NAME: "agent", "mine": "1"})
    );
}

#[tokio::test]
async fn a_repair_that_is_forbidden_is_told_and_holds_nothing_up() {
    let (scene, schemas, manifest) = scene().await;
    settle(&schemas, &manifest).await.unwrap();
    let patch = json!({"metadata": {"annotations": {marks::AGENT_NAME: null}}});
    let path = format!("{SCHEMAS}/{NAME}");
    scene
        .workspace
        .ask(Call::merge_patch(path, &patch))
        .await
        .unwrap();
    scene
        .ground
        .playground
        .faults()
        .add(answer("update", "apiresourceschemas", 403));
    schemas.forget(&manifest.uid);
    let settled = schemas.settle(&manifest, nothing_watched).await.unwrap();
    let [warning] = settled.warnings.as_slice() else {
        panic!("{:?}", settled.warnings)
    };
    assert!(
        warning.starts_with("the agent may not update the APIResourceSchema v0595d221"),
        "{warning}"
    );
}

#[tokio::test]
async fn two_manifests_of_one_kind_share_a_schema_however_they_race() {
    let (scene, schemas, first) = scene().await;
    let second = scene
        .publish("tabs-again", of_crontabs("example.com"))
        .await;
    let (a, b) = tokio::join!(settle(&schemas, &first), settle(&schemas, &second));
    assert_eq!(a.unwrap().schema, b.unwrap().schema);
    let recorded: BTreeSet<_> = [
        scene.manifest("tabs").await.recorded,
        scene.manifest("tabs-again").await.recorded,
    ]
    .into();
    assert_eq!(recorded, BTreeSet::from([Some(NAME.to_owned())]));
}

#[tokio::test]
async fn a_failure_of_any_request_is_told_and_the_next_attempt_gets_through() {
    let cases = [
        ("get", "", 500, "looking for the kind"),
        (
            "get",
            "customresourcedefinitions",
            500,
            "get customresourcedefinitions crontabs.example.com",
        ),
        (
            "get",
            "customresourcedefinitions",
            403,
            "the agent may not get customresourcedefinitions",
        ),
        (
            "get",
            "apiresourceschemas",
            500,
            "get the APIResourceSchema v0595d221",
        ),
        (
            "create",
            "apiresourceschemas",
            500,
            "create the APIResourceSchema v0595d221",
        ),
        (
            "create",
            "apiresourceschemas",
            403,
            "the agent may not create the APIResourceSchema",
        ),
        (
            "create",
            "apiresourceschemas",
            409,
            "get the APIResourceSchema v0595d221",
        ),
        (
            "patch",
            "publishedresources",
            500,
            "patch the status of the PublishedResource tabs",
        ),
    ];
    let (scene, _, manifest) = scene().await;
    for (verb, resource, code, said) in cases {
        let schemas = schemas(&scene);
        let faults = scene.ground.playground.faults();
        faults.clear();
        faults.add(answer(verb, resource, code));
        let error = settle(&schemas, &manifest).await.unwrap_err();
        assert!(
            error.to_string().starts_with(said),
            "{error} does not say {said}"
        );
        assert_eq!(matches!(error, SchemaError::Forbidden { .. }), code == 403);
        schemas.discovery.invalidate("example.com");
        if verb != "get" {
            assert_eq!(faults.struck(), [1]);
        }
        let settled = settle(&schemas, &manifest).await.unwrap();
        assert_eq!(settled.schema, NAME);
        if scene.in_workspace(SCHEMAS, NAME).await.is_some() {
            Scene::delete(&scene.workspace, SCHEMAS, NAME).await;
        }
        let path = format!("{PUBLISHED_RESOURCES}/tabs/status");
        let forget = json!({"status": {"resourceSchemaName": null}});
        scene
            .ground
            .service
            .ask(Call::merge_patch(path, &forget))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_create_that_took_effect_without_an_answer_is_found_the_next_time() {
    let (scene, schemas, manifest) = scene().await;
    let lost = fault("create", "apiresourceschemas", Action::Reset(When::After)).once();
    scene.ground.playground.faults().add(lost);
    assert!(matches!(
        settle(&schemas, &manifest).await,
        Err(SchemaError::Call { .. })
    ));
    assert_eq!(settle(&schemas, &manifest).await.unwrap().schema, NAME);
}

#[tokio::test]
async fn a_status_that_conflicts_is_written_again_at_once_and_one_that_is_forbidden_is_told() {
    let (scene, schemas, manifest) = scene().await;
    let faults = scene.ground.playground.faults();
    faults.add(answer("patch", "publishedresources", 409));
    settle(&schemas, &manifest).await.unwrap();
    assert_eq!(scene.manifest("tabs").await.recorded.as_deref(), Some(NAME));

    let again = scene.publish("again", of_crontabs("example.com")).await;
    faults.clear();
    faults.add(answer("patch", "publishedresources", 403));
    let settled = settle(&schemas, &again).await.unwrap();
    assert!(
        settled.warnings[0].contains("may not patch the status"),
        "{:?}",
        settled.warnings
    );
    assert_eq!(
        settle(&schemas, &again).await.unwrap().warnings,
        Vec::<String>::new()
    );
    assert_eq!(
        scene.manifest("again").await.recorded.as_deref(),
        Some(NAME)
    );
}

#[tokio::test]
async fn what_cannot_be_published_says_what_to_do_beside_others_that_can() {
    let (scene, schemas, good) = scene().await;
    let cases = [
        (
            "missing",
            of_crontabs("nowhere.org"),
            "KindNotFound",
            "the service cluster does not serve CronTab in group nowhere.org: install its",
        ),
        (
            "version",
            json!({"resource": {"apiGroup": "example.com", "kind": "CronTab", "versions": ["v7"]}}),
            "ProjectionInvalid",
            "none of the versions in spec.resource exists",
        ),
        (
            "upper",
            json!({"resource": {"apiGroup": "example.com", "kind": "CronTab"}, "projection": {"plural": "Tabs"}}),
            "ProjectionInvalid",
            "the schema name",
        ),
    ];
    for (name, spec, reason, said) in cases {
        let manifest = scene.publish(name, spec).await;
        let error = settle(&schemas, &manifest).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(
            error.to_string().starts_with(said),
            "{error} does not say {said}"
        );
        assert_ne!(error.retry_policy(), RetryPolicy::Retry, "{error}");
    }
    assert_eq!(settle(&schemas, &good).await.unwrap().schema, NAME);
}

#[tokio::test]
async fn a_schema_that_kcp_refuses_is_told_with_its_words() {
    let (scene, schemas, manifest) = scene().await;
    scene
        .ground
        .playground
        .faults()
        .add(answer("create", "apiresourceschemas", 422));
    let error = settle(&schemas, &manifest).await.unwrap_err();
    assert_eq!(error.reason(), "SchemaRefused");
    assert!(
        error
            .to_string()
            .starts_with("the APIResourceSchema v0595d221"),
        "{error}"
    );
}

#[tokio::test]
async fn a_crd_that_goes_leaves_its_schema_and_no_other_one_comes_in_its_place() {
    let (scene, schemas, manifest) = scene().await;
    settle(&schemas, &manifest).await.unwrap();
    Scene::delete(&scene.ground.service, CRDS, "crontabs.example.com").await;
    let gone = |_: &str| Watched::Absent;
    let error = schemas.settle(&manifest, gone).await.unwrap_err();
    assert_eq!(error.reason(), "KindNotFound", "{error}");
    assert!(scene.in_workspace(SCHEMAS, NAME).await.is_some());
}

#[tokio::test]
async fn copies_are_written_in_the_version_that_the_crd_stores_and_it_is_told_if_none_serves_it() {
    let scene = Scene::set(Dialect::Ours).await;
    let mut crd = crontabs("example.com");
    let mut newer = crd["spec"]["versions"][0].clone();
    newer["name"] = "v2".into();
    newer["storage"] = false.into();
    newer["subresources"] = json!({"status": {}});
    crd["spec"]["versions"][0]["served"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(newer);
    scene.install(&crd).await;
    let path = "/apis/example.com/v2";
    until(&scene.ground.service, path, |list| {
        list["resources"][0]["kind"] == "CronTab"
    })
    .await;
    let spec =
        json!({"resource": {"apiGroup": "example.com", "kind": "CronTab", "versions": ["v2"]}});
    let manifest = scene.publish("tabs", spec).await;
    let settled = settle(&schemas(&scene), &manifest).await.unwrap();
    let types = &settled.types;
    assert_eq!(
        (types.local.version.as_str(), types.remote.version.as_str()),
        ("v1", "v2")
    );
    assert_eq!(
        (types.subresources.as_slice(), types.remote_status),
        (&[][..], true)
    );
    assert!(
        settled.warnings[0].contains("does not serve v1"),
        "{:?}",
        settled.warnings
    );
}

#[tokio::test]
async fn an_owner_is_told_of_a_trouble_by_one_event_and_of_another_by_another() {
    let (scene, schemas, _) = scene().await;
    let missing = scene.publish("missing", of_crontabs("nowhere.org")).await;
    let wrong =
        json!({"resource": {"apiGroup": "example.com", "kind": "CronTab", "versions": ["v7"]}});
    let wrong: PublishedResourceSpec = serde_json::from_value(wrong).unwrap();
    let other = Manifest {
        spec: Arc::new(wrong),
        ..missing.clone()
    };
    for manifest in [&missing, &missing, &other] {
        settle(&schemas, manifest).await.unwrap_err();
    }
    let events = scene
        .ground
        .service
        .ask(Call::get("/api/v1/namespaces/default/events"))
        .await
        .unwrap();
    let said: BTreeSet<(&str, &str)> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            assert_eq!(event["involvedObject"]["uid"], *missing.uid);
            assert_eq!(event["source"]["component"], "syncagent-apiresourceschema");
            let words = event["message"].as_str().unwrap();
            (event["reason"].as_str().unwrap(), &words[..20])
        })
        .collect();
    assert_eq!(
        said,
        BTreeSet::from([
            ("ReconcilingError", "none of the versions"),
            ("ReconcilingError", "the service cluster ")
        ])
    );
    assert_eq!(events["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn many_manifests_cost_one_discovery_and_four_requests_each() {
    const MANY: usize = 25;
    let mut scene = Scene::set(Dialect::Ours).await;
    let mut manifests = Vec::new();
    for index in 0..MANY {
        let mut crd = crontabs("example.com");
        let (plural, kind) = (format!("tab{index}s"), format!("Tab{index}"));
        crd["metadata"]["name"] = format!("{plural}.example.com").into();
        crd["spec"]["names"] = json!({"plural": plural, "kind": kind});
        scene.install(&crd).await;
        let spec = json!({"resource": {"apiGroup": "example.com", "kind": kind}});
        manifests.push(scene.publish(&format!("tabs-{index}"), spec).await);
    }
    let listed = |list: &Value| {
        list["resources"]
            .as_array()
            .is_some_and(|all| all.len() == MANY)
    };
    until(&scene.ground.service, "/apis/example.com/v1", listed).await;
    let schemas = schemas(&scene);
    scene.mark();
    let all = futures::future::join_all(manifests.iter().map(|m| settle(&schemas, m))).await;
    let names: BTreeSet<String> = all
        .into_iter()
        .map(|settled| settled.unwrap().schema)
        .collect();
    assert_eq!(names.len(), MANY);
    assert_eq!(scene.requests().len(), 2 + 4 * MANY);
    for manifest in &manifests {
        settle(&schemas, manifest).await.unwrap();
    }
    assert_eq!(
        scene.requests().len(),
        2 + 4 * MANY,
        "the second time costs nothing"
    );
}

#[tokio::test]
async fn a_definition_that_is_gone_is_not_replaced_by_models_after_a_failure_either() {
    let (scene, schemas, manifest) = scene().await;
    settle(&schemas, &manifest).await.unwrap();
    let gone = |_: &str| Watched::Absent;
    let faults = scene.ground.playground.faults();
    faults.add(answer("get", "customresourcedefinitions", 500));
    let error = schemas.settle(&manifest, gone).await.unwrap_err();
    assert_eq!(error.reason(), "NoAnswer", "{error}");
    // The kind is still listed, as it is for a moment after its definition went.
    faults.add(answer("get", "customresourcedefinitions", 404));
    let error = schemas.settle(&manifest, gone).await.unwrap_err();
    assert!(matches!(error, SchemaError::DefinitionGone(_)), "{error}");
    assert_eq!(settle(&schemas, &manifest).await.unwrap().schema, NAME);
}

/// Settles a manifest that is not wanted any more once this request is under way; the requests after it.
async fn settled_until(verb: &str, resource: &str) -> (Result<Settled, SchemaError>, Vec<String>) {
    let (mut scene, _, manifest) = scene().await;
    let (switch, is_on) = watch::channel(true);
    let wanted = move |_: &Manifest| {
        let is_on = *is_on.borrow();
        is_on.then_some(()).ok_or_else(|| "deselected".to_owned())
    };
    let schemas = schemas_while(&scene, Arc::new(wanted));
    let slow = Action::Latency(Duration::from_secs(1));
    scene.mark();
    let faults = scene.ground.playground.faults();
    faults.add(fault(verb, resource, slow).once());
    let off = async {
        while faults.struck() != [1] {
            tokio::task::yield_now().await;
        }
        switch.send_replace(false);
    };
    let (settled, ()) = tokio::join!(settle(&schemas, &manifest), off);
    let mut requests = scene.requests();
    let before = format!("{verb} {resource} ");
    let at = requests.iter().position(|line| line.starts_with(&before));
    (settled, requests.split_off(at.unwrap() + 1))
}

#[tokio::test]
async fn what_is_deselected_while_its_schema_is_looked_for_gets_none() {
    let (settled, after) = settled_until("get", "apiresourceschemas").await;
    assert!(settled.unwrap_err().is_withheld());
    assert_eq!(after, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_deselected_while_its_schema_is_created_gets_no_status() {
    let (settled, after) = settled_until("create", "apiresourceschemas").await;
    assert!(settled.unwrap_err().is_withheld());
    assert_eq!(after, Vec::<String>::new());
}
