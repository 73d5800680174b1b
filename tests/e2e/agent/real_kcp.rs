//! What a running kcp does and an agent has to live with: APIs that are established late, watches that fail
//! or fall silent, claims that narrow what may be written.
//!
//! The first of fourteen points, objects that are nested deeply, is in `deep.rs`.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::LoggedRequest;
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::plane::{Kind, Plane};
use super::shapes::at_large;
use super::stage::Stage;
use super::world::{Counted as _, EXPORT, EXPORTS, PUBLISHED, Team, World, has};

on_the_playground!(
    a_new_field_reaches_objects_though_every_watch_of_the_kind_fails,
    claims_that_leave_the_export_for_a_moment_cost_no_related_object,
    cluster_scoped_objects_are_followed_without_field_selectors,
    an_export_that_its_owner_makes_anew_is_followed_by_an_agent_that_does_not_write_it,
    credentials_get_the_labels_that_a_consumer_limits_its_claim_to,
    a_label_that_a_consumer_does_not_accept_is_named_to_the_owner,
    credentials_that_leave_the_claim_and_come_back_get_what_changed,
    credentials_that_end_out_of_sight_go_when_they_show_again,
    what_a_consumer_puts_in_the_place_of_its_credentials_is_its_own,
    an_object_goes_though_its_credentials_have_left_the_claim,
    an_export_that_is_made_anew_finds_all_its_objects_and_copies,
    the_certificate_in_every_namespace_is_nobodys_related_object,
    an_expired_revision_is_listed_anew_and_the_first_is_never_asked_for,
    a_workspace_that_leaves_while_objects_are_held_keeps_its_copies,
    a_claim_that_is_narrowed_and_widened_again_costs_no_credentials,
    what_is_applied_through_the_view_is_copied_and_nothing_is_applied_by_the_agent,
    the_agent_needs_no_discovery_of_the_view,
    the_annotation_of_partial_metadata_reaches_nobody,
);

on_a_slow_kcp!(
    a_workspace_is_served_as_soon_as_its_binding_is_bound,
    claims_reach_what_a_consumer_made_before,
    a_new_field_reaches_objects_though_every_watch_of_the_kind_fails,
    claims_that_leave_the_export_for_a_moment_cost_no_related_object,
    cluster_scoped_objects_are_followed_without_field_selectors,
    credentials_get_the_labels_that_a_consumer_limits_its_claim_to,
    a_label_that_a_consumer_does_not_accept_is_named_to_the_owner,
    credentials_that_leave_the_claim_and_come_back_get_what_changed,
    credentials_that_end_out_of_sight_go_when_they_show_again,
    what_a_consumer_puts_in_the_place_of_its_credentials_is_its_own,
    an_object_goes_though_its_credentials_have_left_the_claim,
    an_export_that_is_made_anew_finds_all_its_objects_and_copies,
    the_certificate_in_every_namespace_is_nobodys_related_object,
    an_expired_revision_is_listed_anew_and_the_first_is_never_asked_for,
    a_workspace_that_leaves_while_objects_are_held_keeps_its_copies,
    a_claim_that_is_narrowed_and_widened_again_costs_no_credentials,
    what_is_applied_through_the_view_is_copied_and_nothing_is_applied_by_the_agent,
    the_agent_needs_no_discovery_of_the_view,
    the_annotation_of_partial_metadata_reaches_nobody,
);

const EXPORTS2: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
pub(super) const BINDINGS2: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";

fn secrets() -> Kind {
    Kind::new("", "v1", "secrets", "Secret")
}

fn entry(identifier: &str, origin: &str) -> Value {
    json!({"identifier": identifier, "origin": origin, "kind": "Secret",
        "object": {"reference": {"path": format!("spec.{identifier}")}}})
}

fn credentials() -> Value {
    json!({"related": [entry("down", "service"), entry("up", "kcp")]})
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": value}})
}

async fn await_value(plane: &Plane, at: &str, wanted: &str) -> Value {
    let what = format!("{at} has {wanted}");
    eventually(SOON, &what, async || {
        let found = plane.get(at).await?;
        has(&found, "/data/k", &json!(wanted))?;
        anyhow::Ok(found)
    })
    .await
}

async fn await_condition(world: &World, published: &str, wanted: &str) {
    let what = format!("{published} is told of {wanted}");
    eventually(SOON, &what, async || {
        let found = world
            .service
            .get(&format!("{PUBLISHED}/{published}"))
            .await?;
        let told = found["status"]["conditions"].to_string();
        ensure!(told.contains(wanted), "{told}");
        Ok(())
    })
    .await;
}

/// Binds the export with claims on secrets that cover what a selector says, and on all of the rest.
async fn bind_selecting(world: &World, team: &Team, selector: Value) -> Result<()> {
    let sent = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": EXPORT},
        "spec": {
            "reference": {"export": {"name": EXPORT, "path": "root:org"}},
            "permissionClaims": selecting(world, selector).await?,
        },
    });
    team.plane.create(BINDINGS2, &sent).await?;
    eventually(SOON, "the binding is bound", async || {
        let found = team.plane.get(&format!("{BINDINGS2}/{EXPORT}")).await?;
        has(&found, "/status/phase", &json!("Bound"))
    })
    .await;
    Ok(())
}

/// The claims of the export, accepted.
pub(super) async fn selecting(world: &World, selector: Value) -> Result<Value> {
    let export = world.org.get(&format!("{EXPORTS2}/{EXPORT}")).await?;
    let claims = export["spec"]["permissionClaims"].as_array();
    let claims = claims.context("the export claims nothing")?.iter();
    let accepted = claims.map(|claim| {
        let mut accepted = claim.clone();
        accepted["state"] = "Accepted".into();
        accepted["selector"] = match claim["resource"].as_str() {
            Some("secrets") => selector.clone(),
            _ => json!({"matchAll": true}),
        };
        accepted
    });
    Ok(accepted.collect())
}

/// A stage whose workspace limits its claim on Secrets to a label.
async fn limited(world: &World) -> Result<Stage<'_>> {
    let more = credentials();
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, more.clone()).await?;
    let agent = world.start_agent()?;
    world.await_published(&published).await;
    world.await_claimed(&more).await;
    let team = world.workspace("team").await?;
    bind_selecting(world, &team, json!({"matchLabels": {"for": "agents"}})).await?;
    Ok(Stage {
        world,
        kind,
        published,
        team,
        agent,
    })
}

/// The virtual workspace of the export, in one logical cluster or in all (`*`).
async fn view(world: &World, cluster: &str) -> Result<Plane> {
    const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
    let slice = world.org.get(&format!("{SLICES}/{EXPORT}")).await?;
    let url = &slice["status"]["endpoints"][0]["url"];
    let path = url.as_str().context("the export has no address")?;
    let path = path.strip_prefix(world.playground.kcp_url());
    let path = path.context("the view is of another server")?;
    Ok(world.kcp.below(&format!("{path}/clusters/{cluster}")))
}

/// Waits until the agent was told that the name of a Secret, which it cannot see, is taken.
async fn await_taken(world: &World, mark: u64) {
    eventually(SOON, "the name is taken", async || {
        let asked = world.agents_requests(mark);
        let mut asked = asked.iter();
        let taken =
            asked.any(|one| one.verb == "create" && one.resource == "secrets" && one.code == 409);
        ensure!(taken, "no Secret is made in vain");
        Ok(())
    })
    .await;
}

/// Waits until an object of a workspace is out of the agent's sight.
async fn await_hidden(world: &World, team: &Team, at: &str) -> Result<()> {
    let view = view(world, &team.cluster).await?;
    await_missing(&view, at).await;
    Ok(())
}

async fn await_missing(plane: &Plane, at: &str) {
    eventually(SOON, &format!("{at} is missing"), async || {
        let found = plane.find(at).await?;
        ensure!(found.is_none(), "{found:?}");
        anyhow::Ok(())
    })
    .await;
}

/// Makes an object with a Secret that its provider hands out.
async fn handed_out(stage: &Stage<'_>, name: &str, value: &str) -> Result<(String, String)> {
    stage.made(name, json!({"down": name})).await;
    let within = secrets().within(&stage.team.cluster);
    stage
        .world
        .service
        .create(&within, &secret(name, value))
        .await?;
    let from = secrets().at(&stage.team.cluster, name);
    Ok((from, secrets().at("default", name)))
}

async fn a_workspace_is_served_as_soon_as_its_binding_is_bound(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let missing = world.agents_requests(0).into_iter().filter(|request| {
        request.code == 404 && request.verb == "watch" && request.resource == stage.kind.plural
    });
    ensure!(missing.count() > 0, "the kind was there at once");
    stage.made("lamp", json!({"size": 1})).await;
    let other = world.team("other").await?;
    other.make(&stage.kind, "lamp", json!({"size": 2})).await;
    world.await_copy(&stage.kind, other.of("lamp")).await;
    await_condition(world, &stage.published, "Synchronizing").await;
    Ok(())
}

async fn claims_reach_what_a_consumer_made_before(world: &World) -> Result<()> {
    let more = credentials();
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, more.clone()).await?;
    let _agent = world.start_agent()?;
    world.await_published(&published).await;
    world.await_claimed(&more).await;
    let team = world.workspace("team").await?;
    let within = secrets().within("default");
    team.plane.create(&within, &secret("early", "MQ==")).await?;
    world.bind(&team).await?;
    team.make(&kind, "lamp", json!({"up": "early"})).await;
    let copy = secrets().at(&team.cluster, "early");
    await_value(&world.service, &copy, "MQ==").await;
    Ok(())
}

async fn a_new_field_reaches_objects_though_every_watch_of_the_kind_fails(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let before = world.await_published(&stage.published).await;
    let name = format!("{}.{}", stage.kind.plural, stage.kind.group);
    let crd = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let mut versions = world.service.get(&crd).await?["spec"]["versions"].clone();
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["color"] = json!({"type": "string"});
    world
        .service
        .merge(&crd, json!({"spec": {"versions": versions}}))
        .await?;
    eventually(SOON, "another schema is published", async || {
        let now = world.await_published(&stage.published).await;
        ensure!(now != before, "it is still {now}");
        Ok(())
    })
    .await;
    eventually(SOON, "the field is kept", async || {
        let painted = json!({"color": "red"});
        let now = stage.team.patch(&stage.kind, "lamp", painted).await?;
        has(&now, "/color", &json!("red"))
    })
    .await;
    let now = stage.await_in_copy("lamp", "/color", json!("red")).await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    stage.agent.await_log(SOON, "context canceled").await?;
    stage.marker("after").await;
    Ok(())
}

async fn claims_that_leave_the_export_for_a_moment_cost_no_related_object(
    world: &World,
) -> Result<()> {
    let stage = world.stage(credentials()).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    let copy = await_value(&stage.team.plane, &to, "MQ==").await;
    let provided = secrets().within("default");
    stage
        .team
        .plane
        .create(&provided, &secret("mine", "MQ=="))
        .await?;
    let taken = json!({"spec": {"up": "mine"}});
    stage.team.patch(&stage.kind, "lamp", taken).await?;
    let mine = secrets().at(&stage.team.cluster, "mine");
    let kept = await_value(&world.service, &mine, "MQ==").await;
    for _ in 0..3 {
        let none = json!({"spec": {"permissionClaims": []}});
        world
            .org
            .merge(&format!("{EXPORTS}/{EXPORT}"), none)
            .await?;
        world.await_claimed(&credentials()).await;
    }
    let more = json!({"data": {"k": "Mg=="}});
    world.service.merge(&from, more.clone()).await?;
    let now = await_value(&stage.team.plane, &to, "Mg==").await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    let own = secrets().at("default", "mine");
    stage.team.plane.merge(&own, more).await?;
    let now = await_value(&world.service, &mine, "Mg==").await;
    ensure!(now["metadata"]["uid"] == kept["metadata"]["uid"], "{now}");
    Ok(())
}

async fn an_export_that_is_made_anew_finds_all_its_objects_and_copies(world: &World) -> Result<()> {
    let stage = world.stage(credentials()).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    let secret = await_value(&stage.team.plane, &to, "MQ==").await;
    let copy = stage.copy("lamp").await;
    let at = format!("{EXPORTS}/{EXPORT}");
    world.org.delete(&at).await?;
    await_condition(world, &stage.published, "NotExported").await;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    world
        .service
        .merge(&from, json!({"data": {"k": "Mg=="}}))
        .await?;
    let export = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": EXPORT}, "spec": {}});
    world.org.create(EXPORTS, &export).await?;
    world.await_published(&stage.published).await;
    let now = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    let now = await_value(&stage.team.plane, &to, "Mg==").await;
    ensure!(now["metadata"]["uid"] == secret["metadata"]["uid"], "{now}");
    // Deleted and made anew before anybody can look, it has another uid and the same address.
    world.org.delete(&at).await?;
    world.org.create(EXPORTS, &export).await?;
    world.await_published(&stage.published).await;
    stage.marker("after").await;
    let now = stage.copy("lamp").await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    await_condition(world, &stage.published, "Synchronizing").await;
    Ok(())
}

async fn an_export_that_its_owner_makes_anew_is_followed_by_an_agent_that_does_not_write_it(
    world: &World,
) -> Result<()> {
    let mut stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let copy = stage.copy("lamp").await;
    stage.agent.kill().await?;
    let reader = world.launch()?.arg("--disabled-controllers=apiexport");
    stage.agent = reader.spawn()?;
    stage.marker("before").await;
    let export = world.export().await?;
    let anew = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": EXPORT},
        "spec": {
            "latestResourceSchemas": export["spec"]["latestResourceSchemas"],
            "permissionClaims": export["spec"]["permissionClaims"],
        },
    });
    world.org.delete(&format!("{EXPORTS}/{EXPORT}")).await?;
    world.org.create(EXPORTS, &anew).await?;
    stage.marker("after").await;
    let now = stage.copy("lamp").await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    Ok(())
}

async fn credentials_get_the_labels_that_a_consumer_limits_its_claim_to(
    world: &World,
) -> Result<()> {
    let stage = limited(world).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    let made = await_value(&stage.team.plane, &to, "MQ==").await;
    has(&made, "/metadata/labels/for", &json!("agents"))?;
    stage.marker("settled").await;
    let mark = world.requests().mark();
    stage.marker("later").await;
    let written = world.agents_requests(mark).into_iter();
    let mut written = written.filter(|one| one.is_write() && one.name == "lamp");
    ensure!(written.next().is_none(), "it is written again and again");
    world
        .service
        .merge(&from, json!({"data": {"k": "Mg=="}}))
        .await?;
    let now = await_value(&stage.team.plane, &to, "Mg==").await;
    ensure!(now["metadata"]["uid"] == made["metadata"]["uid"], "{now}");
    Ok(())
}

async fn a_label_that_a_consumer_does_not_accept_is_named_to_the_owner(
    world: &World,
) -> Result<()> {
    let stage = limited(world).await?;
    stage.made("lamp", json!({"down": "lamp"})).await;
    let mut labelled = secret("lamp", "MQ==");
    labelled["metadata"]["labels"] = json!({"for": "others"});
    let within = secrets().within(&stage.team.cluster);
    world.service.create(&within, &labelled).await?;
    await_condition(world, &stage.published, "permission claim").await;
    stage.agent.await_log(SOON, "Forbidden").await?;
    stage.marker("others").await;
    let fitting = json!({"metadata": {"labels": {"for": "agents"}}});
    let from = secrets().at(&stage.team.cluster, "lamp");
    world.service.merge(&from, fitting).await?;
    await_value(&stage.team.plane, &secrets().at("default", "lamp"), "MQ==").await;
    Ok(())
}

async fn an_object_goes_though_its_credentials_have_left_the_claim(world: &World) -> Result<()> {
    let stage = limited(world).await?;
    let (_, to) = handed_out(&stage, "lamp", "MQ==").await?;
    await_value(&stage.team.plane, &to, "MQ==").await;
    let bare = json!({"metadata": {"labels": {"for": null}}});
    stage.team.plane.merge(&to, bare).await?;
    stage.marker("seen").await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    world.await_no_copy(&stage.kind, stage.of("lamp")).await;
    // What a consumer has taken out of the agent's sight is the consumer's.
    stage.team.plane.get(&to).await?;
    Ok(())
}

async fn the_certificate_in_every_namespace_is_nobodys_related_object(world: &World) -> Result<()> {
    const CERTIFICATE: &str = "kube-root-ca.crt";
    let maps = Kind::new("", "v1", "configmaps", "ConfigMap");
    let more = json!({"related": [
        {"identifier": "up", "origin": "kcp", "kind": "ConfigMap",
            "object": {"selector": {"matchLabels": {"use": "yes"},
                "rewrite": {"template": {"template": "{{ .Value }}"}}}}},
    ]});
    let stage = world.stage(more).await?;
    stage.made("lamp", json!({})).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mine", "labels": {"use": "yes"}}, "data": {"k": "1"}});
    stage
        .team
        .plane
        .create(&maps.within("default"), &map)
        .await?;
    let copy = maps.at(&stage.team.cluster, "mine");
    await_value(&world.service, &copy, "1").await;
    let own = maps.at("default", CERTIFICATE);
    let certificate = stage.team.plane.get(&own).await?;
    has(&certificate, "/metadata/finalizers", &Value::Null)?;
    let taken = world.service.list(&maps.everywhere()).await?;
    ensure!(
        taken
            .iter()
            .all(|map| map["metadata"]["name"] != CERTIFICATE),
        "it was copied"
    );
    Ok(())
}

async fn a_workspace_that_leaves_while_objects_are_held_keeps_its_copies(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let held =
        json!({"metadata": {"finalizers": ["example.com/held", "syncagent.kcp.io/cleanup"]}});
    stage.team.patch(&stage.kind, "lamp", held).await?;
    world.unbind(&stage.team).await?;
    let late = stage.kind.object("late", json!({}));
    let within = stage.kind.within("default");
    let refused = stage.team.plane.create(&within, &late).await;
    let refused = refused.err().context("it was made")?;
    ensure!(refused.code == 403, "{refused}");
    let other = world.team("other").await?;
    world.await_marker(&stage.kind, &other).await;
    let now = stage.copy("lamp").await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    let free = json!({"metadata": {"finalizers": null}});
    stage.team.patch(&stage.kind, "lamp", free).await?;
    world.await_marker(&stage.kind, &other).await;
    let now = stage.copy("lamp").await;
    ensure!(now["metadata"]["uid"] == copy["metadata"]["uid"], "{now}");
    Ok(())
}

async fn cluster_scoped_objects_are_followed_without_field_selectors(world: &World) -> Result<()> {
    let naming = json!({"name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"});
    let stage = world
        .stage_with(&at_large(&world.group), json!({"naming": naming}))
        .await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.make_at(&kind.everywhere(), &kind.object("lamp", json!({"size": 1})))
        .await;
    let of = team.within("", "lamp");
    world.await_copy(kind, of).await;
    let view = view(world, "*").await?;
    let selected = format!("{}?fieldSelector=metadata.name%3Dlamp", kind.everywhere());
    ensure!(view.list(&selected).await?.is_empty(), "it is selected");
    team.plane
        .merge(&kind.named("lamp"), json!({"spec": {"size": 2}}))
        .await?;
    world.await_in_copy(kind, of, "/spec/size", json!(2)).await;
    let asked = world.agents_requests(0).into_iter();
    let mut selecting =
        asked.filter(|one| one.cluster == "*" && one.query.contains("fieldSelector"));
    ensure!(selecting.next().is_none(), "the agent selects by name");
    team.plane.delete(&kind.named("lamp")).await?;
    world.await_no_copy(kind, of).await;
    Ok(())
}

async fn credentials_that_leave_the_claim_and_come_back_get_what_changed(
    world: &World,
) -> Result<()> {
    let mut stage = limited(world).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    let made = await_value(&stage.team.plane, &to, "MQ==").await;
    for (value, killed) in [("Mg==", false), ("Mw==", true)] {
        let mark = world.requests().mark();
        let label = |value: Value| json!({"metadata": {"labels": {"for": value}}});
        stage.team.plane.merge(&to, label(Value::Null)).await?;
        await_hidden(world, &stage.team, &to).await?;
        world
            .service
            .merge(&from, json!({"data": {"k": value, "once": "eA=="}}))
            .await?;
        await_taken(world, mark).await;
        world
            .service
            .merge(&from, json!({"data": {"once": null}}))
            .await?;
        if killed {
            stage.agent.kill().await?;
            stage.agent = world.start_agent()?;
        }
        stage.marker(&format!("after-{killed}")).await;
        let kept = stage.team.plane.get(&to).await?;
        ensure!(kept["data"] != json!({"k": value}), "it was not hidden");
        stage.team.plane.merge(&to, label(json!("agents"))).await?;
        let now = await_value(&stage.team.plane, &to, value).await;
        ensure!(now["metadata"]["uid"] == made["metadata"]["uid"], "{now}");
        has(&now, "/data", &json!({"k": value}))?;
    }
    await_condition(world, &stage.published, "Synchronizing").await;
    // It is still the agent's: it goes with its original.
    world.service.delete(&from).await?;
    await_missing(&stage.team.plane, &to).await;
    Ok(())
}

async fn credentials_that_end_out_of_sight_go_when_they_show_again(world: &World) -> Result<()> {
    let mut stage = limited(world).await?;
    for (name, killed) in [("lamp", false), ("lantern", true)] {
        let (from, to) = handed_out(&stage, name, "MQ==").await?;
        await_value(&stage.team.plane, &to, "MQ==").await;
        let label = |value: Value| json!({"metadata": {"labels": {"for": value}}});
        stage.team.plane.merge(&to, label(Value::Null)).await?;
        await_hidden(world, &stage.team, &to).await?;
        world.service.delete(&from).await?;
        stage.marker(&format!("after-{name}")).await;
        if killed {
            stage.agent.kill().await?;
            stage.agent = world.start_agent()?;
            stage.marker("again").await;
        }
        stage.team.plane.get(&to).await?;
        stage.team.plane.merge(&to, label(json!("agents"))).await?;
        await_missing(&stage.team.plane, &to).await;
    }
    await_condition(world, &stage.published, "Synchronizing").await;
    Ok(())
}

async fn what_a_consumer_puts_in_the_place_of_its_credentials_is_its_own(
    world: &World,
) -> Result<()> {
    let stage = limited(world).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    await_value(&stage.team.plane, &to, "MQ==").await;
    let mark = world.requests().mark();
    let bare = json!({"metadata": {"labels": {"for": null}}});
    stage.team.plane.merge(&to, bare).await?;
    await_taken(world, mark).await;
    stage.agent.stop(SOON).await?;
    stage.team.plane.delete(&to).await?;
    let mut own = secret("lamp", "b3du");
    own["metadata"]["labels"] = json!({"for": "agents"});
    let within = secrets().within("default");
    stage.team.plane.create(&within, &own).await?;
    let agent = world.start_agent()?;
    agent.await_log(SOON, "AdoptionRefused").await?;
    world
        .service
        .merge(&from, json!({"data": {"k": "Mg=="}}))
        .await?;
    stage.marker("meanwhile").await;
    let kept = stage.team.plane.get(&to).await?;
    has(&kept, "/data/k", &json!("b3du"))?;
    stage.team.plane.delete(&to).await?;
    await_value(&stage.team.plane, &to, "Mg==").await;
    Ok(())
}

async fn an_expired_revision_is_listed_anew_and_the_first_is_never_asked_for(
    world: &World,
) -> Result<()> {
    let kind = world.gadgets().await?;
    let faults = world.playground.faults();
    let expired = format!("verb=watch resource={} times=3 status=410", kind.plural);
    faults.add(expired.parse()?);
    let published = world.publish(&kind, json!({})).await?;
    let _agent = world.start_agent()?;
    world.await_published(&published).await;
    let team = world.team("team").await?;
    team.make(&kind, "lamp", json!({"size": 1})).await;
    world.await_copy(&kind, team.of("lamp")).await;
    team.patch(&kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    world
        .await_in_copy(&kind, team.of("lamp"), "/spec/size", json!(2))
        .await;
    let asked = world.agents_requests(0);
    let expired = asked.iter().filter(|one| one.code == 410).count();
    ensure!(expired == 3, "{expired} requests were refused");
    for one in &asked {
        let first = one.query.split('&').any(|part| part == "resourceVersion=1");
        ensure!(!first, "the first revision was asked for: {}", one.query);
    }
    let exact = "resourceVersion=1&resourceVersionMatch=Exact";
    let first = view(world, "*").await?;
    let first = first.list(&format!("{}?{exact}", kind.everywhere())).await;
    let refused = first.err().context("the first revision is served")?;
    ensure!(refused.to_string().contains("410"), "{refused}");
    Ok(())
}

async fn a_claim_that_is_narrowed_and_widened_again_costs_no_credentials(
    world: &World,
) -> Result<()> {
    let stage = world.stage(credentials()).await?;
    let (from, to) = handed_out(&stage, "lamp", "MQ==").await?;
    let made = await_value(&stage.team.plane, &to, "MQ==").await;
    let mark = world.requests().mark();
    let binding = format!("{BINDINGS2}/{EXPORT}");
    let claims = async |selector: Value| -> Result<()> {
        let claims = selecting(world, selector).await?;
        let claims = json!({"spec": {"permissionClaims": claims}});
        stage.team.plane.merge(&binding, claims).await?;
        Ok(())
    };
    claims(json!({"matchLabels": {"for": "others"}})).await?;
    await_hidden(world, &stage.team, &to).await?;
    world
        .service
        .merge(&from, json!({"data": {"k": "Mg=="}}))
        .await?;
    await_taken(world, mark).await;
    stage.marker("meanwhile").await;
    has(&stage.team.plane.get(&to).await?, "/data/k", &json!("MQ=="))?;
    claims(json!({"matchAll": true})).await?;
    let now = await_value(&stage.team.plane, &to, "Mg==").await;
    ensure!(now["metadata"]["uid"] == made["metadata"]["uid"], "{now}");
    await_condition(world, &stage.published, "Synchronizing").await;
    Ok(())
}

async fn what_is_applied_through_the_view_is_copied_and_nothing_is_applied_by_the_agent(
    world: &World,
) -> Result<()> {
    let stage = world.stage(credentials()).await?;
    let (_, to) = handed_out(&stage, "lamp", "MQ==").await?;
    await_value(&stage.team.plane, &to, "MQ==").await;
    let mark = world.requests().mark();
    let applied = stage.kind.at("default", "applied");
    let object = stage.kind.object("applied", json!({"size": 1}));
    let within = view(world, &stage.team.cluster).await?;
    within.apply(&applied, &object).await?;
    let answered = world.requests().since(mark).into_iter();
    let mut answered = answered.filter(|one| one.verb == "patch" && one.name == "applied");
    let code = answered.next().context("nothing was applied")?.code;
    ensure!(code == 200, "making it by an apply is {code}");
    let copy = stage.copy("applied").await;
    stage.marker("after").await;
    let written = [
        stage.team.plane.get(&applied).await?,
        stage.team.plane.get(&to).await?,
        copy,
    ];
    let accounts = written
        .iter()
        .filter_map(|object| object["metadata"]["managedFields"].as_array());
    let by_apply: Vec<_> = accounts
        .flatten()
        .filter(|account| account["operation"] == "Apply")
        .map(|account| account["manager"].clone())
        .collect();
    ensure!(by_apply == ["somebody"], "{by_apply:?} apply");
    Ok(())
}

async fn the_agent_needs_no_discovery_of_the_view(world: &World) -> Result<()> {
    let all = world.stage(credentials()).await?;
    let view = view(world, "*").await?;
    let core = view.get("/api/v1").await?;
    has(&core, "/apiVersion", &Value::Null)?;
    let apis = view.get("/apis/apis.kcp.io/v1alpha1").await?;
    let resources = apis["resources"].as_array().into_iter().flatten();
    let statuses: Vec<_> = resources
        .filter(|resource| resource["name"] == "apibindings/status")
        .collect();
    ensure!(statuses.len() == 2, "{statuses:?}");
    ensure!(statuses.iter().all(|one| one["verbs"].is_null()));
    let own = format!("/apis/{}/{}", all.kind.group, all.kind.version);
    let own = view.get(&own).await?;
    let resources = own["resources"].as_array().into_iter().flatten();
    for resource in resources {
        let short = (&resource["shortNames"], &resource["categories"]);
        ensure!(short == (&Value::Null, &Value::Null), "{resource}");
    }
    let (_, to) = handed_out(&all, "lamp", "MQ==").await?;
    await_value(&all.team.plane, &to, "MQ==").await;
    let discovers = |one: &LoggedRequest| !one.export.is_empty() && one.resource.is_empty();
    let asked = world.requests().since(0);
    ensure!(asked.iter().any(&discovers), "nobody discovered the view");
    let asked = world.agents_requests(0);
    ensure!(
        !asked.iter().any(&discovers),
        "the agent discovers the view"
    );
    Ok(())
}

async fn the_annotation_of_partial_metadata_reaches_nobody(world: &World) -> Result<()> {
    const ANNOTATION: &str = "/metadata/annotations/kcp.io~1original-api-version";
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let copy = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    let view = view(world, "*").await?;
    let partial = view.list_metadata(&stage.kind.everywhere()).await?;
    let partial = partial.first().context("there is no metadata")?;
    has(partial, ANNOTATION, &json!(stage.kind.api_version()))?;
    has(&copy, ANNOTATION, &Value::Null)?;
    let own = stage.team.get(&stage.kind, "lamp").await?;
    has(&own, ANNOTATION, &Value::Null)?;
    Ok(())
}
