//! From a PublishedResource to a schema in kcp and a line in the export.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{eventually, unique};
use tokio::time::Instant;

use super::plane::Kind;
use super::service::{self, Ground};
use super::world::{Counted as _, EXPORT, EXPORTS, PUBLISHED, SCHEMAS, World, has};
use super::{SOON, crontabs, definition, gadgets};

on_both_grounds!(
    a_schema_is_made_from_the_crd_and_listed_by_the_export,
    several_versions_are_published_without_conversion,
    what_others_put_into_the_export_stays,
    claims_follow_from_what_is_published,
    a_broken_one_holds_nothing_back_and_comes_when_its_crd_does,
    a_resource_enters_and_leaves_the_selection_by_its_labels,
    a_changed_crd_is_published_anew_and_objects_go_on,
    a_core_kind_is_published_under_another_group,
    what_is_no_longer_published_stays_in_the_export,
    rules_that_fit_no_object_hold_back_neither_schema_nor_export,
    ready_says_what_is_wrong_where_the_crd_has_room_for_it,
);

on_the_playground!(
    schemas_are_named_as_the_original_names_them,
    resources_that_come_together_are_one_write_of_the_export,
    of_two_names_for_one_kind_the_one_that_the_oldest_gives_counts,
);

fn strings(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

async fn a_schema_is_made_from_the_crd_and_listed_by_the_export(world: &World) -> Result<()> {
    let mut crd = gadgets(&world.group);
    crd["spec"]["names"]["shortNames"] = json!(["gd"]);
    crd["spec"]["names"]["categories"] = json!(["all"]);
    crd["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    let kind = world.install(&crd).await?;
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    let name = world.await_published(&published).await;

    let hash = name.strip_suffix(&format!(".gadgets.{}", world.group));
    let hash = hash.and_then(|prefix| prefix.strip_prefix('v'));
    let hash = hash.with_context(|| format!("the name {name}"))?;
    ensure!(
        hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{name}"
    );
    let schema = world.org.get(&format!("{SCHEMAS}/{name}")).await?;
    let stored = world
        .service
        .get(&service::crd_at(&format!("gadgets.{}", world.group)))
        .await?;
    let agent = "syncagent.kcp.io~1agent-name";
    has(
        &schema,
        &format!("/metadata/labels/{agent}"),
        &json!(world.agent),
    )?;
    has(
        &schema,
        &format!("/metadata/annotations/{agent}"),
        &json!(world.agent),
    )?;
    let generation = stored["metadata"]["generation"].to_string();
    has(
        &schema,
        "/metadata/annotations/syncagent.kcp.io~1source-generation",
        &json!(generation),
    )?;
    let names = json!({
        "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList",
        "shortNames": ["gd"], "categories": ["all"],
    });
    has(&schema, "/spec/names", &names)?;
    has(&schema, "/spec/group", &json!(world.group))?;
    has(&schema, "/spec/scope", &json!("Namespaced"))?;
    has(&schema, "/spec/conversion", &Value::Null)?;
    let version = &schema["spec"]["versions"][0];
    let wanted = &stored["spec"]["versions"][0];
    has(version, "/schema", &wanted["schema"]["openAPIV3Schema"])?;
    for field in [
        "name",
        "served",
        "storage",
        "subresources",
        "additionalPrinterColumns",
    ] {
        has(version, &format!("/{field}"), &wanted[field])?;
    }
    let export = world.export().await?;
    has(&export, "/spec/latestResourceSchemas", &json!([name]))?;
    has(
        &export,
        &format!("/metadata/annotations/{agent}"),
        &json!(world.agent),
    )
}

async fn several_versions_are_published_without_conversion(world: &World) -> Result<()> {
    let mut crd = gadgets(&world.group);
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    crd["spec"]["versions"]
        .as_array_mut()
        .context("versions")?
        .push(second);
    let kind = world.install(&crd).await?;
    let both = world.publish(&kind, json!({})).await?;
    let projection = json!({"resource": {"versions": ["v2"]}, "projection": {"kind": "Widget"}});
    let one = world.publish(&kind, projection).await?;
    let _agent = world.start_agent()?;
    let (both, one) = (
        world.await_published(&both).await,
        world.await_published(&one).await,
    );
    let schema = world.org.get(&format!("{SCHEMAS}/{both}")).await?;
    has(&schema, "/spec/conversion", &json!({"strategy": "None"}))?;
    has(&schema, "/spec/versions/0/storage", &json!(true))?;
    has(&schema, "/spec/versions/1/storage", &json!(false))?;
    let schema = world.org.get(&format!("{SCHEMAS}/{one}")).await?;
    has(&schema, "/spec/versions/0/name", &json!("v2"))?;
    has(&schema, "/spec/versions/0/storage", &json!(true))?;
    has(&schema, "/spec/versions/1", &Value::Null)?;
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    has(&schema, "/spec/names", &names)
}

async fn what_others_put_into_the_export_stays(world: &World) -> Result<()> {
    let foreign = "v1.things.foreign.example.org";
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": foreign},
        "spec": {
            "group": "foreign.example.org", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"type": "object"}}],
        },
    });
    world.org.create(SCHEMAS, &schema).await?;
    let path = format!("{EXPORTS}/{EXPORT}");
    let patch = json!({
        "metadata": {"annotations": {"note": "mine"}, "labels": {"note": "mine"}},
        "spec": {
            "latestResourceSchemas": [foreign],
            "permissionClaims": [{"group": "", "resource": "secrets", "all": true}, {"group": "", "resource": "configmaps", "all": true}],
        },
    });
    world.org.merge(&path, patch).await?;
    let before = world.export().await?;
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    let name = world.await_published(&published).await;
    let export = world.export().await?;
    let mut schemas = [
        (format!("gadgets.{}", world.group), name.as_str()),
        ("things.foreign.example.org".to_owned(), foreign),
    ];
    schemas.sort();
    let schemas: Vec<&str> = schemas.iter().map(|(_, name)| *name).collect();
    ensure!(
        strings(&export["spec"]["latestResourceSchemas"]) == schemas,
        "{}",
        export["spec"]
    );
    let claims = export["spec"]["permissionClaims"]
        .as_array()
        .context("claims")?;
    let resources: Vec<&str> = claims
        .iter()
        .filter_map(|claim| claim["resource"].as_str())
        .collect();
    ensure!(
        resources == ["configmaps", "events", "secrets"],
        "{claims:?}"
    );
    has(&export, "/metadata/annotations/note", &json!("mine"))?;
    has(&export, "/metadata/labels/note", &json!("mine"))?;
    has(&export, "/spec/identity", &before["spec"]["identity"])
}

async fn claims_follow_from_what_is_published(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    world.await_published(&published).await;
    let claims = async || -> Result<Vec<String>> {
        let export = world.export().await?;
        let claims = export["spec"]["permissionClaims"].as_array().cloned();
        for claim in claims.iter().flatten() {
            ensure!(claim["all"] == true, "{claim}");
        }
        Ok(claims
            .iter()
            .flatten()
            .map(|claim| {
                let text = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
                format!("{}/{}", text("group"), text("resource"))
            })
            .collect())
    };
    ensure!(claims().await? == ["/events"], "{:?}", claims().await?);
    let more = json!({
        "filter": {"namespace": {}}, "enableWorkspacePaths": true, "projection": {"kind": "Widget"},
    });
    world.publish(&kind, more).await?;
    eventually(SOON, "more is claimed", async || {
        let claims = claims().await?;
        let wanted = ["/events", "/namespaces", "core.kcp.io/logicalclusters"];
        ensure!(claims == wanted, "{claims:?}");
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_broken_one_holds_nothing_back_and_comes_when_its_crd_does(world: &World) -> Result<()> {
    let late = definition(&world.group, "widgets", "Widget");
    let broken = world
        .publish(
            &Kind::new(&world.group, "v1", "widgets", "Widget"),
            json!({}),
        )
        .await?;
    let kind = world.gadgets().await?;
    let good = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    world.await_published(&good).await;
    let found = world.service.get(&format!("{PUBLISHED}/{broken}")).await?;
    has(&found, "/status/resourceSchemaName", &Value::Null)?;
    service::install(&world.service, &late).await?;
    world.await_published(&broken).await;
    Ok(())
}

async fn a_resource_enters_and_leaves_the_selection_by_its_labels(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let widgets = world
        .install(&definition(&world.group, "widgets", "Widget"))
        .await?;
    let name = unique("pr");
    let mut outside = world.published(&name, &kind, json!({}));
    outside["metadata"]["labels"]["agent"] = "somebody-else".into();
    world.create_published(&name, outside).await?;
    let inside = world.publish(&widgets, json!({})).await?;
    let _agent = world.start_agent()?;
    world.await_published(&inside).await;
    let found = world.service.get(&format!("{PUBLISHED}/{name}")).await?;
    has(&found, "/status", &Value::Null)?;

    let at = format!("{PUBLISHED}/{name}");
    let label = |agent: &str| json!({"metadata": {"labels": {"agent": agent}}});
    world.service.merge(&at, label(&world.agent)).await?;
    let schema = world.await_published(&name).await;
    let team = world.team("team").await?;
    team.make(&kind, "lamp", json!({"size": 1})).await;
    world.await_copy(&kind, team.of("lamp")).await;

    world.service.merge(&at, label("somebody-else")).await?;
    world.await_noticed(&widgets, &team).await?;
    team.patch(&kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    team.make(&kind, "other", json!({})).await;
    world.await_marker(&widgets, &team).await;
    let copy = world.await_copy(&kind, team.of("lamp")).await;
    has(&copy, "/spec/size", &json!(1))?;
    ensure!(world.copy(&kind, team.of("other")).await?.is_none());
    let export = world.export().await?;
    ensure!(strings(&export["spec"]["latestResourceSchemas"]).contains(&schema.as_str()));

    world.service.merge(&at, label(&world.agent)).await?;
    world.await_copy(&kind, team.of("other")).await;
    world
        .await_in_copy(&kind, team.of("lamp"), "/spec/size", json!(2))
        .await;
    Ok(())
}

async fn a_changed_crd_is_published_anew_and_objects_go_on(world: &World) -> Result<()> {
    let mut crd = gadgets(&world.group);
    let strict = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = strict;
    let stage = world.stage_with(&crd, json!({})).await?;
    let before = world.await_published(&stage.published).await;
    stage.made("lamp", json!({"size": 1})).await;

    let field = json!({"type": "string"});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        field;
    let at = service::crd_at(&format!("gadgets.{}", world.group));
    let versions = crd["spec"]["versions"].clone();
    world
        .service
        .merge(&at, json!({"spec": {"versions": versions}}))
        .await?;
    let after = eventually(SOON, "another schema is published", async || {
        let export = world.export().await?;
        let schemas = strings(&export["spec"]["latestResourceSchemas"]).join(" ");
        ensure!(!schemas.is_empty() && schemas != before, "it is {schemas}");
        Ok(schemas)
    })
    .await;
    let found = world
        .service
        .get(&format!("{PUBLISHED}/{}", stage.published))
        .await?;
    has(&found, "/status/resourceSchemaName", &json!(after))?;
    // Workspaces that are bound to it keep the old one alive.
    world.org.get(&format!("{SCHEMAS}/{before}")).await?;
    let patch = json!({"spec": {"colour": "red"}});
    eventually(SOON, "the new field is taken and travels", async || {
        stage.team.patch(&stage.kind, "lamp", patch.clone()).await?;
        let copy = world
            .copy(&stage.kind, stage.of("lamp"))
            .await?
            .context("no copy")?;
        has(&copy, "/spec", &json!({"size": 1, "colour": "red"}))
    })
    .await;
    Ok(())
}

async fn a_core_kind_is_published_under_another_group(world: &World) -> Result<()> {
    let local = Kind::new("", "v1", "configmaps", "ConfigMap");
    let rule = json!({
        "apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    });
    service::bind(&world.service, &world.user(), None, &[rule]).await?;
    let projection = json!({"projection": {"group": world.group}});
    let published = world.publish(&local, projection).await?;
    let _agent = world.start_agent()?;
    let name = world.await_published(&published).await;
    let schema = world.org.get(&format!("{SCHEMAS}/{name}")).await?;
    has(
        &schema,
        "/metadata/annotations/syncagent.kcp.io~1source-generation",
        &json!("0"),
    )?;
    has(&schema, "/spec/group", &json!(world.group))?;
    has(&schema, "/spec/scope", &json!("Namespaced"))?;
    let properties = schema.pointer("/spec/versions/0/schema/properties");
    let properties = properties
        .and_then(Value::as_object)
        .context("properties")?;
    let mut fields: Vec<&str> = properties.keys().map(String::as_str).collect();
    fields.sort_unstable();
    ensure!(
        fields
            == [
                "apiVersion",
                "binaryData",
                "data",
                "immutable",
                "kind",
                "metadata"
            ],
        "{fields:?}"
    );
    let remote = Kind::new(&world.group, "v1", "configmaps", "ConfigMap");
    let team = world.team("team").await?;
    let mut object = remote.object("map", Value::Null);
    object.as_object_mut().context("object")?.remove("spec");
    object["data"] = json!({"a": "b"});
    team.make_at(&remote.within("default"), &object).await;
    let copy = world.await_copy(&local, team.of("map")).await;
    has(&copy, "/data", &json!({"a": "b"}))?;
    team.patch(&remote, "map", json!({"data": {"a": "c"}}))
        .await?;
    world
        .await_in_copy(&local, team.of("map"), "/data/a", json!("c"))
        .await;
    team.delete(&remote, "map").await?;
    team.await_gone(&remote, "map").await;
    world.await_no_copy(&local, team.of("map")).await;
    Ok(())
}

async fn what_is_no_longer_published_stays_in_the_export(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let schema = world.await_published(&stage.published).await;
    let widgets = world
        .install(&definition(&world.group, "widgets", "Widget"))
        .await?;
    world
        .service
        .delete(&format!("{PUBLISHED}/{}", stage.published))
        .await?;
    let other = world.publish(&widgets, json!({})).await?;
    world.await_published(&other).await;
    let export = world.export().await?;
    ensure!(strings(&export["spec"]["latestResourceSchemas"]).contains(&schema.as_str()));
    world.org.get(&format!("{SCHEMAS}/{schema}")).await?;
    Ok(())
}

async fn rules_that_fit_no_object_hold_back_neither_schema_nor_export(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({"naming": {"name": "{{ .Object.metadata.name"}}))
        .await?;
    stage.team.make(&stage.kind, "lamp", json!({})).await;
    if world.ground == Ground::Ours {
        eventually(SOON, "the condition says so", async || {
            let found = world
                .service
                .get(&format!("{PUBLISHED}/{}", stage.published))
                .await?;
            let condition = &found["status"]["conditions"][0];
            ensure!(condition["status"] == "False", "{}", found["status"]);
            ensure!(
                condition["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("name"))
            );
            Ok(())
        })
        .await;
    }
    let naming = json!({"spec": {"naming": {"name": "good-{{ .Object.metadata.name }}"}}});
    world.change_published(&stage.published, naming).await?;
    let copy = stage.copy("lamp").await;
    has(&copy, "/metadata/name", &json!("good-lamp"))
}

async fn ready_says_what_is_wrong_where_the_crd_has_room_for_it(world: &World) -> Result<()> {
    let missing = Kind::new(&world.group, "v1", "widgets", "Widget");
    let broken = world.publish(&missing, json!({})).await?;
    let kind = world.gadgets().await?;
    let good = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    world.await_published(&good).await;
    let ready = async |name: &str| -> Result<Value> {
        let found = world.service.get(&format!("{PUBLISHED}/{name}")).await?;
        let conditions = found["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut ready = conditions
            .filter(|condition| condition["type"] == "Ready")
            .cloned();
        ready
            .next()
            .with_context(|| format!("the status is {}", found["status"]))
    };
    if world.ground == Ground::Original {
        // It prunes them; nobody waits for them.
        let team = world.team("team").await?;
        world.await_marker(&kind, &team).await;
        ensure!(ready(&good).await.is_err());
        return Ok(());
    }
    let condition = eventually(SOON, "it is ready", async || {
        let condition = ready(&good).await?;
        ensure!(condition["status"] == "True", "{condition}");
        Ok(condition)
    })
    .await;
    ensure!(condition["lastTransitionTime"].is_string(), "{condition}");
    let condition = eventually(SOON, "the other is not ready", async || {
        let condition = ready(&broken).await?;
        ensure!(condition["status"] == "False", "{condition}");
        Ok(condition)
    })
    .await;
    let message = condition["message"].as_str().unwrap_or_default();
    ensure!(message.contains("Widget"), "{condition}");
    Ok(())
}

async fn schemas_are_named_as_the_original_names_them(world: &World) -> Result<()> {
    let kind = world.install(&crontabs()).await?;
    let _agent = world.start_agent()?;
    let renamed = json!({
        "version": "v6", "scope": "Cluster", "kind": "CronusTabulatus", "plural": "cronustabulati",
        "shortNames": ["cront"],
    });
    for (projection, wanted) in [
        (json!({}), "v0595d221.crontabs.example.com"),
        (
            json!({"group": "kcp.example.com"}),
            "v35f52fc4.crontabs.kcp.example.com",
        ),
        (
            json!({"scope": "Cluster"}),
            "v1c29ecbc.crontabs.example.com",
        ),
        (renamed, "va01fa070.cronustabulati.example.com"),
    ] {
        let more = if projection == json!({}) {
            json!({})
        } else {
            json!({"projection": projection})
        };
        let name = world.publish(&kind, more).await?;
        let found = eventually(SOON, "the schema has a name", async || {
            let found = world.service.get(&format!("{PUBLISHED}/{name}")).await?;
            let schema = found["status"]["resourceSchemaName"].as_str();
            schema.map(str::to_owned).context("it has none")
        })
        .await;
        ensure!(
            found == wanted,
            "{found} for {projection}, which is {wanted}"
        );
    }
    Ok(())
}

async fn resources_that_come_together_are_one_write_of_the_export(world: &World) -> Result<()> {
    let mut published = Vec::new();
    for number in 0..5 {
        let plural = format!("gadget{number}s");
        let kind = world
            .install(&definition(
                &world.group,
                &plural,
                &format!("Gadget{number}"),
            ))
            .await?;
        published.push(world.publish(&kind, json!({})).await?);
    }
    let missing = Kind::new(&world.group, "v1", "widgets", "Widget");
    world.publish(&missing, json!({})).await?;
    let mark = world.requests().mark();
    let begin = Instant::now();
    let _agent = world.start_agent()?;
    for name in &published {
        world.await_published(name).await;
    }
    let waits = super::budgets::waits(begin.elapsed());
    let writes: Vec<_> = world
        .agents_requests(mark)
        .into_iter()
        .filter(|request| request.resource == "apiexports" && request.is_write())
        .collect();
    ensure!((1..=1 + waits).contains(&writes.len()), "{writes:#?}");
    Ok(())
}

/// The condition `Ready` of a PublishedResource, once it has this reason.
async fn await_reason(world: &World, name: &str, reason: &str) -> String {
    let what = format!("{name} says {reason}");
    eventually(SOON, &what, async || -> Result<String> {
        let found = world.service.get(&format!("{PUBLISHED}/{name}")).await?;
        let conditions = found["status"]["conditions"].as_array();
        let mut ready = conditions.into_iter().flatten();
        let ready = ready.find(|condition| condition["type"] == "Ready");
        let ready = ready.with_context(|| format!("the status is {}", found["status"]))?;
        ensure!(ready["reason"] == reason, "{ready}");
        Ok(ready["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

async fn of_two_names_for_one_kind_the_one_that_the_oldest_gives_counts(
    world: &World,
) -> Result<()> {
    let kind = world.gadgets().await?;
    let widgets = Kind {
        plural: "widgets".to_owned(),
        name: "Widget".to_owned(),
        ..kind.clone()
    };
    let older = world.publish(&kind, json!({})).await?;
    let made = world.service.get(&format!("{PUBLISHED}/{older}")).await?;
    let made = made["metadata"]["creationTimestamp"].clone();
    // Creation timestamps have whole seconds.
    let younger = eventually(SOON, "time goes on", async || -> Result<String> {
        let name = world
            .publish(&kind, json!({"projection": {"kind": "Widget"}}))
            .await?;
        let at = format!("{PUBLISHED}/{name}");
        if world.service.get(&at).await?["metadata"]["creationTimestamp"] == made {
            world.service.delete(&at).await?;
            anyhow::bail!("it is of the same second");
        }
        Ok(name)
    })
    .await;
    for _ in 0..2 {
        let agent = world.start_agent()?;
        world.await_published(&older).await;
        world.await_published(&younger).await;
        let told = await_reason(world, &younger, "RulesInvalid").await;
        ensure!(told.contains(&older), "{told}");
        agent.await_log(SOON, "is published as Gadget").await?;
        agent.stop(SOON).await?;
    }
    let agent = world.start_agent()?;
    let team = world.team("team").await?;
    team.make(&widgets, "a", json!({"size": 2})).await;
    team.make(&kind, "a", json!({"size": 1})).await;
    world
        .await_in_copy(&kind, team.of("a"), "/spec/size", json!(1))
        .await;
    let widget = team.get(&widgets, "a").await?;
    ensure!(widget["metadata"]["finalizers"].is_null(), "{widget}");
    // Whoever is the oldest now gives the name.
    team.delete(&kind, "a").await?;
    team.await_gone(&kind, "a").await;
    world
        .service
        .delete(&format!("{PUBLISHED}/{older}"))
        .await?;
    world
        .await_in_copy(&kind, team.of("a"), "/spec/size", json!(2))
        .await;
    await_reason(world, &younger, "Synchronizing").await;
    agent.stop(SOON).await?;
    Ok(())
}
