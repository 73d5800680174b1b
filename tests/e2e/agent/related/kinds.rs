//! Which kinds travel: those of other exports, those without namespaces, those that may not be watched, and
//! those whose definitions change.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::super::plane::{Kind, Plane};
use super::super::service::{self, Ground};
use super::super::stage::Stage;
use super::super::world::{EXPORTS, PUBLISHED, SCHEMAS, Team, World, bare, has};
use super::super::{SOON, definition, gadgets};
use super::{await_held, entry, held, put, secrets};

on_both_grounds!(
    a_kind_of_another_export_travels_by_its_identity,
    what_may_not_be_watched_is_looked_at_and_the_owner_is_told,
    a_kind_without_namespaces_has_related_objects_and_is_one,
    a_kind_is_what_its_definition_says_now,
);

on_the_playground!(
    a_kind_of_another_export_travels_by_its_identity,
    a_kind_without_namespaces_has_related_objects_and_is_one,
    a_kind_is_what_its_definition_says_now,
    what_another_export_changes_in_its_kind_is_learned,
);

const FOREIGN: &str = "parts";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";

/// A kind that somebody else exports to workspaces, and that the service cluster has too.
pub(in crate::agent) struct Parts {
    pub(in crate::agent) kind: Kind,
    identity: String,
    /// As the service cluster defines it.
    crd: Value,
}

impl Parts {
    pub(in crate::agent) fn served_with_status(crd: &Value) -> Value {
        let mut crd = crd.clone();
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        crd
    }

    pub(in crate::agent) async fn install(
        world: &World,
        crd: Value,
        in_workspaces: &Value,
    ) -> Result<Self> {
        let kind = world.install(&crd).await?;
        schema(world, "v1", in_workspaces).await?;
        let export = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
            "metadata": {"name": FOREIGN},
            "spec": {"latestResourceSchemas": [format!("v1.{kind}")]}});
        world.org.create(EXPORTS, &export).await?;
        let identity = eventually(SOON, "the other export has an identity", async || {
            let export = world.org.get(&format!("{EXPORTS}/{FOREIGN}")).await?;
            let identity = export["status"]["identityHash"].as_str();
            anyhow::Ok(identity.context("it has none")?.to_owned())
        })
        .await;
        let parts = Self {
            kind,
            identity,
            crd,
        };
        parts
            .grant(
                world,
                &[
                    "get", "list", "watch", "create", "update", "patch", "delete",
                ],
            )
            .await?;
        Ok(parts)
    }

    async fn grant(&self, world: &World, verbs: &[&str]) -> Result<()> {
        if world.ground == Ground::Playground {
            return Ok(());
        }
        let rule = json!({"apiGroups": [self.kind.group], "resources": ["*"], "verbs": verbs});
        service::bind(&world.service, &world.user(), None, &[rule]).await
    }

    pub(in crate::agent) fn entry(&self, identifier: &str, origin: &str, object: Value) -> Value {
        json!({"identifier": identifier, "origin": origin, "group": self.kind.group, "version": "v1",
            "resource": self.kind.plural, "identityHash": self.identity, "object": object})
    }

    /// A workspace that has the kind, beside what the agent publishes.
    pub(in crate::agent) async fn bind(&self, team: &Team) -> Result<()> {
        let binding = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding",
            "metadata": {"name": FOREIGN},
            "spec": {"reference": {"export": {"name": FOREIGN, "path": "root:org"}}}});
        team.plane.create(BINDINGS, &binding).await?;
        Ok(())
    }
}

fn group(world: &World) -> String {
    format!("parts.{}", world.agent)
}

fn parts(world: &World) -> Value {
    definition(&group(world), "parts", "Part")
}

/// The schema of a definition, in the workspace of exports.
async fn schema(world: &World, prefix: &str, crd: &Value) -> Result<()> {
    let mut spec = crd["spec"].clone();
    for version in spec["versions"].as_array_mut().context("no versions")? {
        version["schema"] = version["schema"]["openAPIV3Schema"].take();
    }
    let name = crd["metadata"]["name"].as_str().context("no name")?;
    let schema = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("{prefix}.{name}")}, "spec": spec});
    world.org.create(SCHEMAS, &schema).await?;
    Ok(())
}

async fn await_spec(plane: &Plane, at: &str, wanted: Option<Value>) {
    let what = format!("{at} has {wanted:?}");
    eventually(SOON, &what, async || {
        let found = plane.find(at).await?.map(|found| bare(&found["spec"]));
        ensure!(found == wanted, "it has {found:?}");
        Ok(())
    })
    .await;
}

async fn await_at(plane: &Plane, at: &str, pointer: &str, wanted: Value) {
    eventually(
        2 * SOON,
        &format!("{at} has {wanted} at {pointer}"),
        async || has(&plane.get(at).await?, pointer, &wanted),
    )
    .await;
}

fn by_path(path: &str) -> Value {
    json!({"reference": {"path": path}})
}

async fn a_kind_of_another_export_travels_by_its_identity(world: &World) -> Result<()> {
    let crd = parts(world);
    let parts = Parts::install(world, crd.clone(), &crd).await?;
    let entries = [
        parts.entry("up", "kcp", by_path("spec.up")),
        parts.entry("down", "service", by_path("spec.down")),
    ];
    let mut stage = world.related(json!({"related": entries})).await?;
    let export = world.export().await?;
    let claims = export["spec"]["permissionClaims"].as_array();
    let claim = claims.into_iter().flatten();
    let claim: Vec<_> = claim
        .filter(|claim| claim["group"] == parts.kind.group.as_str())
        .collect();
    ensure!(claim.len() == 1, "{claim:?}");
    has(claim[0], "/identityHash", &json!(parts.identity))?;
    parts.bind(&stage.team).await?;
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let kind = &parts.kind;
    stage
        .made("lamp", json!({"up": "bulb", "down": "shade"}))
        .await;
    let (bulb, shade) = (kind.at("default", "bulb"), kind.at("default", "shade"));
    let (bulb_copy, home) = (kind.at(stage.home(), "bulb"), stage.home().to_owned());
    let shade_at = kind.at(&home, "shade");
    stage.team.make(kind, "bulb", json!({"watts": 5})).await;
    await_spec(service, &bulb_copy, Some(json!({"watts": 5}))).await;
    service
        .create(
            &kind.within(&home),
            &kind.object("shade", json!({"wide": 1})),
        )
        .await?;
    await_spec(&team, &shade, Some(json!({"wide": 1}))).await;
    team.merge(&bulb, json!({"spec": {"watts": 6}})).await?;
    service
        .merge(&shade_at, json!({"spec": {"wide": 2}}))
        .await?;
    await_spec(service, &bulb_copy, Some(json!({"watts": 6}))).await;
    await_spec(&team, &shade, Some(json!({"wide": 2}))).await;
    stage.agent.kill().await?;
    team.merge(&bulb, json!({"spec": {"watts": 7}})).await?;
    service.delete(&shade_at).await?;
    stage.agent = world.start_agent()?;
    await_spec(service, &bulb_copy, Some(json!({"watts": 7}))).await;
    await_spec(&team, &shade, None).await;
    team.delete(&bulb).await?;
    await_spec(service, &bulb_copy, None).await;
    await_spec(&team, &bulb, None).await;
    stage.team.make(kind, "bulb", json!({"watts": 8})).await;
    await_spec(service, &bulb_copy, Some(json!({"watts": 8}))).await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(service.find(&bulb_copy).await?.is_none());
    await_at(&team, &bulb, "/metadata/finalizers", Value::Null).await;
    Ok(())
}

/// Waits until the owner is told this by the condition, or nothing is wrong any more.
async fn await_ready(stage: &Stage<'_>, wanted: Option<&str>) {
    let world = stage.world;
    eventually(2 * SOON, "the owner is told", async || {
        let found = world
            .service
            .get(&format!("{PUBLISHED}/{}", stage.published))
            .await?;
        let ready = &found["status"]["conditions"][0];
        let message = ready["message"].as_str().unwrap_or_default();
        match wanted {
            Some(wanted) => ensure!(message.contains(wanted), "{ready}"),
            None => ensure!(ready["status"] == "True", "{ready}"),
        }
        Ok(())
    })
    .await;
}

async fn what_may_not_be_watched_is_looked_at_and_the_owner_is_told(world: &World) -> Result<()> {
    let crd = definition(&format!("closed.{}", world.agent), "parts", "Part");
    let kind = world.install(&crd).await?;
    let grant = async |verbs: &[&str]| {
        let rule = json!({"apiGroups": [kind.group], "resources": ["*"], "verbs": verbs});
        service::bind(&world.service, &world.user(), None, &[rule]).await
    };
    world.withhold(&kind.group);
    grant(&["get", "create", "update", "patch", "delete"]).await?;
    // Served in workspaces by the same export.
    let schema_only = json!({"synchronization": {"enabled": false}});
    let parts = world.publish(&kind, schema_only).await?;
    let entry = |identifier: &str, origin: &str| {
        json!({"identifier": identifier, "origin": origin, "group": kind.group, "version": "v1",
            "resource": kind.plural, "object": by_path(&format!("spec.{identifier}"))})
    };
    let entries = [entry("up", "kcp"), entry("down", "service")];
    let stage = world.related(json!({"related": entries})).await?;
    world.await_published(&parts).await;
    let (team, service) = (&stage.team.plane, &world.service);
    stage
        .made("lamp", json!({"up": "bulb", "down": "shade"}))
        .await;
    stage.marker("first").await;
    let keeps_conditions = world.ground == Ground::Ours;
    if keeps_conditions {
        let told = "list and watch Part on the service cluster";
        await_ready(&stage, Some(told)).await;
    }
    let (bulb, shade) = (kind.at("default", "bulb"), kind.at("default", "shade"));
    let (bulb_copy, shade_at) = (
        kind.at(stage.home(), "bulb"),
        kind.at(stage.home(), "shade"),
    );
    let place = kind.within(stage.home());
    stage.team.make(&kind, "bulb", json!({"watts": 5})).await;
    await_spec(service, &bulb_copy, Some(json!({"watts": 5}))).await;
    // Nobody tells of it: it is found all the same, and so is what becomes of it.
    service
        .create(&place, &kind.object("shade", json!({"wide": 1})))
        .await?;
    await_spec(team, &shade, Some(json!({"wide": 1}))).await;
    service
        .merge(&shade_at, json!({"spec": {"wide": 2}}))
        .await?;
    await_spec(team, &shade, Some(json!({"wide": 2}))).await;
    service.delete(&shade_at).await?;
    await_spec(team, &shade, None).await;
    service
        .create(&place, &kind.object("shade", json!({"wide": 3})))
        .await?;
    await_spec(team, &shade, Some(json!({"wide": 3}))).await;
    team.merge(&bulb, json!({"spec": {"watts": 6}})).await?;
    await_spec(service, &bulb_copy, Some(json!({"watts": 6}))).await;

    grant(&["list", "watch"]).await?;
    if keeps_conditions {
        await_ready(&stage, None).await;
    }
    service
        .merge(&shade_at, json!({"spec": {"wide": 4}}))
        .await?;
    await_spec(team, &shade, Some(json!({"wide": 4}))).await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(service.find(&bulb_copy).await?.is_none());
    await_at(team, &bulb, "/metadata/finalizers", Value::Null).await;
    Ok(())
}

async fn a_kind_without_namespaces_has_related_objects_and_is_one(world: &World) -> Result<()> {
    let mut crd = definition(&group(world), "parts", "Part");
    crd["spec"]["scope"] = "Cluster".into();
    let parts = Parts::install(world, crd.clone(), &crd).await?;
    let vault = format!("{}-vault", world.agent);
    let between = |mut object: Value| {
        let text =
            format!("{{{{ if eq .Side \"kcp\" }}}}default{{{{ else }}}}{vault}{{{{ end }}}}");
        object["namespace"] = json!({"template": {"template": text}});
        object
    };
    let own = |suffix: &str| json!({"template": {"template": format!("{{{{ .ClusterName }}}}-{suffix}")}});
    let entries = [
        entry("down", "service", between(by_path("spec.down"))),
        entry("up", "kcp", between(by_path("spec.up"))),
        parts.entry("part-down", "service", own("down")),
        parts.entry("part-up", "kcp", own("up")),
        // Says not where: the object is in no namespace.
        entry("lost", "service", by_path("spec.lost")),
        // Names of things outside of namespaces are not the consumer's to choose.
        parts.entry("named", "service", by_path("spec.named")),
    ];
    let mut gadget = gadgets(&world.group);
    gadget["spec"]["scope"] = "Cluster".into();
    let naming = json!({"name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"});
    if world.ground != Ground::Playground {
        let rule = json!({"apiGroups": [""], "resources": ["secrets"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
        service::bind(&world.service, &world.user(), None, &[rule]).await?;
    }
    world.service.namespace(&vault, json!({})).await?;
    let more = json!({"related": entries, "naming": naming});
    let mut stage = world.stage_with(&gadget, more).await?;
    parts.bind(&stage.team).await?;
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let kind = &parts.kind;
    let make = async |name: &str, spec: Value| {
        let object = stage.kind.object(name, spec);
        stage.team.make_at(&stage.kind.everywhere(), &object).await;
        world
            .await_copy(&stage.kind, stage.team.within("", name))
            .await
    };
    make("lamp", json!({"down": "creds", "up": "ca"})).await;
    put(service, &vault, "creds", "1").await?;
    put(&team, "default", "ca", "1").await?;
    await_held(&team, "default", "creds", Some("1")).await;
    await_held(service, &vault, "ca", Some("1")).await;
    let name = |suffix: &str| kind.named(&format!("{}-{suffix}", stage.team.cluster));
    let object =
        |suffix: &str, spec: Value| kind.object(&format!("{}-{suffix}", stage.team.cluster), spec);
    let (down, up) = (name("down"), name("up"));
    service
        .create(&kind.everywhere(), &object("down", json!({"n": 1})))
        .await?;
    stage
        .team
        .make_at(&kind.everywhere(), &object("up", json!({"n": 1})))
        .await;
    await_spec(&team, &down, Some(json!({"n": 1}))).await;
    await_spec(service, &up, Some(json!({"n": 1}))).await;

    stage.agent.kill().await?;
    team.merge(&up, json!({"spec": {"n": 2}})).await?;
    service.delete(&down).await?;
    service.delete(&secrets().at(&vault, "creds")).await?;
    stage.agent = world.start_agent()?;
    await_spec(service, &up, Some(json!({"n": 2}))).await;
    await_spec(&team, &down, None).await;
    await_held(&team, "default", "creds", None).await;
    put(service, &vault, "creds", "2").await?;
    await_held(&team, "default", "creds", Some("2")).await;

    let treasure = kind.object(&format!("{}-treasure", world.agent), json!({"gold": 1}));
    service.create(&kind.everywhere(), &treasure).await?;
    let treasure = treasure["metadata"]["name"].as_str().context("no name")?;
    for (thief, spec, reason) in [
        ("thief", json!({"named": treasure}), "NamespaceClosed"),
        ("stray", json!({"lost": "creds"}), "ReferenceInvalid"),
    ] {
        let object = stage.kind.object(thief, spec);
        stage.team.make_at(&stage.kind.everywhere(), &object).await;
        stage
            .await_refused(thief, "An object that belongs to this one", reason)
            .await;
        team.delete(&stage.kind.named(thief)).await?;
    }
    ensure!(team.find(&kind.named(treasure)).await?.is_none());

    team.delete(&stage.kind.named("lamp")).await?;
    eventually(SOON, "the object is gone", async || {
        let found = team.find(&stage.kind.named("lamp")).await?;
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await;
    ensure!(service.find(&up).await?.is_none());
    ensure!(held(service, &vault, "ca").await?.is_none());
    await_at(&team, &up, "/metadata/finalizers", Value::Null).await;
    await_at(
        &team,
        &secrets().at("default", "ca"),
        "/metadata/finalizers",
        Value::Null,
    )
    .await;
    Ok(())
}

async fn a_kind_is_what_its_definition_says_now(world: &World) -> Result<()> {
    let crd = parts(world);
    let with_status = Parts::served_with_status(&crd);
    let parts = Parts::install(world, crd.clone(), &with_status).await?;
    let mut up = parts.entry("up", "kcp", by_path("spec.up"));
    up["syncStatus"] = true.into();
    let own = json!({"template": {"template": "{{ .ClusterName }}-down"}});
    let entries = [up, parts.entry("down", "service", own)];
    let stage = world.related(json!({"related": entries})).await?;
    parts.bind(&stage.team).await?;
    let (team, service, kind) = (&stage.team.plane, &world.service, &parts.kind);
    stage.made("lamp", json!({"up": "bulb"})).await;
    stage.team.make(kind, "bulb", json!({"watts": 5})).await;
    let status = format!("{}/status", kind.at("default", "bulb"));
    team.merge(&status, json!({"status": {"lit": true}}))
        .await?;
    let copy = kind.at(stage.home(), "bulb");
    await_spec(service, &copy, Some(json!({"watts": 5}))).await;
    ensure!(service.get(&copy).await?["status"].is_null());

    // From now on there is a status to be written, and then there is none any more.
    let at = service::crd_at(&format!("{kind}"));
    let serve = async |crd: &Value| -> Result<()> {
        let versions = crd["spec"]["versions"].clone();
        service
            .merge(&at, json!({"spec": {"versions": versions}}))
            .await?;
        Ok(())
    };
    serve(&with_status).await?;
    await_at(service, &copy, "/status", json!({"lit": true})).await;
    serve(&parts.crd).await?;
    team.merge(&kind.at("default", "bulb"), json!({"spec": {"watts": 6}}))
        .await?;
    await_spec(service, &copy, Some(json!({"watts": 6}))).await;

    // The kind is made anew without namespaces. All of its objects go with the old one.
    let name = format!("{}-down", stage.team.cluster);
    let down = kind.object(&name, json!({"n": 1}));
    service.create(&kind.within(stage.home()), &down).await?;
    let given = kind.at("default", &name);
    await_spec(team, &given, Some(json!({"n": 1}))).await;
    team.delete(&kind.at("default", "bulb")).await?;
    await_spec(team, &kind.at("default", "bulb"), None).await;
    service.delete(&at).await?;
    await_spec(team, &given, None).await;
    eventually(SOON, "the definition is gone", async || {
        ensure!(service.find(&at).await?.is_none(), "it is there");
        Ok(())
    })
    .await;
    let mut wide = crd.clone();
    wide["spec"]["scope"] = "Cluster".into();
    service::install(service, &wide).await?;
    let down = kind.object(&name, json!({"n": 2}));
    service.create(&kind.everywhere(), &down).await?;
    eventually(2 * SOON, "it is found where it is now", async || {
        let found = team.find(&given).await?.map(|found| found["spec"].clone());
        ensure!(found == Some(json!({"n": 2})), "{found:?}");
        Ok(())
    })
    .await;
    Ok(())
}

async fn what_another_export_changes_in_its_kind_is_learned(world: &World) -> Result<()> {
    let crd = parts(world);
    let with_status = Parts::served_with_status(&crd);
    let parts = Parts::install(world, with_status.clone(), &crd).await?;
    let mut down = parts.entry("down", "service", by_path("spec.down"));
    (down["syncStatus"], down["watch"]) = (true.into(), json!({"byOwner": {}}));
    let stage = world.related(json!({"related": [down]})).await?;
    parts.bind(&stage.team).await?;
    let (team, service, kind) = (&stage.team.plane, &world.service, &parts.kind);
    stage.made("lamp", json!({"down": "shade"})).await;
    let at = kind.at(stage.home(), "shade");
    service
        .create(
            &kind.within(stage.home()),
            &kind.object("shade", json!({"wide": 1})),
        )
        .await?;
    service
        .merge(&format!("{at}/status"), json!({"status": {"torn": false}}))
        .await?;
    let copy = kind.at("default", "shade");
    await_spec(team, &copy, Some(json!({"wide": 1}))).await;
    ensure!(team.get(&copy).await?["status"].is_null());
    schema(world, "v2", &with_status).await?;
    let now = json!({"spec": {"latestResourceSchemas": [format!("v2.{kind}")]}});
    world
        .org
        .merge(&format!("{EXPORTS}/{FOREIGN}"), now)
        .await?;
    eventually(3 * SOON, "the copy has a status", async || {
        has(&team.get(&copy).await?, "/status", &json!({"torn": false}))
    })
    .await;
    Ok(())
}
