//! Where copies go and what they look like: naming, projection, mutation, scopes and subresources.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::plane::Kind;
use super::world::{World, has};
use super::{SOON, definition, gadgets, sha1_hex, sha3_short};

on_both_grounds!(
    names_follow_the_templates,
    legacy_placeholders_are_still_replaced,
    the_workspace_path_is_known_to_templates_and_noted_on_the_copy,
    a_template_that_fails_holds_up_its_object_alone,
    the_place_of_a_copy_stays_when_the_naming_changes,
    a_kind_is_seen_under_other_names_and_versions,
    a_namespaced_kind_is_published_for_the_whole_cluster,
    a_cluster_scoped_kind_has_copies_without_a_namespace,
    a_cluster_scoped_kind_is_published_into_namespaces,
    mutations_change_what_travels_in_each_direction,
    a_mutation_that_fails_holds_up_its_object_alone,
    without_a_status_subresource_the_status_is_content,
    replicas_of_the_scale_subresource_are_content,
);

fn place(copy: &Value) -> (&str, &str) {
    let text = |field: &str| copy["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

async fn names_follow_the_templates(world: &World) -> Result<()> {
    let naming = json!({
        "namespace": "{{ .ClusterName }}-{{ .ClusterName | len }}-{{ .Object.spec.tier | default \"free\" }}",
        "name": " {{ .Object.metadata.name }}-{{ sha3short .Object.metadata.namespace 7 }} ",
    });
    let stage = world.stage(json!({"naming": naming})).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    let cluster = &stage.team.cluster;
    let name = format!("lamp-{}", &sha3_short("default")[..7]);
    let namespace = format!("{cluster}-{}-free", cluster.len());
    ensure!(
        place(&copy) == (namespace.as_str(), name.as_str()),
        "{:?}",
        place(&copy)
    );
    let (_, copy) = stage.made("sofa", json!({"tier": "gold"})).await;
    ensure!(place(&copy).0 == format!("{cluster}-{}-gold", cluster.len()));
    Ok(())
}

async fn legacy_placeholders_are_still_replaced(world: &World) -> Result<()> {
    let naming = json!({
        "namespace": "in-$remoteClusterName",
        "name": "$remoteNamespace-$remoteName-$remoteNamespaceHash-$remoteNameHash",
    });
    let stage = world.stage(json!({"naming": naming})).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    let (namespace, name) = place(&copy);
    ensure!(
        namespace == format!("in-{}", stage.team.cluster),
        "{namespace}"
    );
    let wanted = format!(
        "default-lamp-{}-{}",
        &sha1_hex("default")[..20],
        &sha1_hex("lamp")[..20]
    );
    ensure!(name == wanted, "{name}");
    Ok(())
}

async fn the_workspace_path_is_known_to_templates_and_noted_on_the_copy(
    world: &World,
) -> Result<()> {
    let more = json!({
        "enableWorkspacePaths": true,
        "naming": {"namespace": "{{ .ClusterPath | replace \":\" \"-\" }}", "name": "{{ .Object.metadata.name }}"},
    });
    let stage = world.stage(more).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    ensure!(
        place(&copy) == ("root-org-team", "lamp"),
        "{:?}",
        place(&copy)
    );
    let path = "/metadata/annotations/syncagent.kcp.io~1remote-object-workspace-path";
    has(&copy, path, &json!("root:org:team"))
}

async fn a_template_that_fails_holds_up_its_object_alone(world: &World) -> Result<()> {
    let naming = json!({"name": "{{ .Object.spec.label | lower }}"});
    let stage = world.stage(json!({"naming": naming})).await?;
    stage.team.make(&stage.kind, "bad", json!({})).await;
    let (_, copy) = stage.made("good", json!({"label": "LAMP"})).await;
    ensure!(place(&copy).1 == "lamp");
    ensure!(world.copy(&stage.kind, stage.of("bad")).await?.is_none());
    stage
        .team
        .patch(&stage.kind, "bad", json!({"spec": {"label": "SOFA"}}))
        .await?;
    ensure!(place(&stage.copy("bad").await).1 == "sofa");
    // A name that is none is refused too, and does not stand in the way of the end.
    stage
        .team
        .make(&stage.kind, "ugly", json!({"label": "no name"}))
        .await;
    stage.made("fine", json!({"label": "fine"})).await;
    ensure!(world.copy(&stage.kind, stage.of("ugly")).await?.is_none());
    stage.team.delete(&stage.kind, "ugly").await?;
    stage.team.await_gone(&stage.kind, "ugly").await;
    Ok(())
}

async fn the_place_of_a_copy_stays_when_the_naming_changes(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, before) = stage.made("lamp", json!({})).await;
    let at = format!("{}/{}", super::world::PUBLISHED, stage.published);
    let naming = json!({"spec": {"naming": {"name": "new-{{ .Object.metadata.name }}"}}});
    world.service.merge(&at, naming).await?;
    // Only what is made from now on has the new name.
    let mut number = 0;
    eventually(SOON, "a new object has a new name", async || {
        number += 1;
        let name = format!("sofa{number}");
        let (_, copy) = stage.made(&name, json!({})).await;
        ensure!(
            place(&copy).1 == format!("new-{name}"),
            "{:?}",
            place(&copy)
        );
        Ok(())
    })
    .await;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let after = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    ensure!(place(&after) == place(&before));
    Ok(())
}

async fn a_kind_is_seen_under_other_names_and_versions(world: &World) -> Result<()> {
    let group = format!("shop.{}", world.group);
    let projection = json!({
        "group": group, "versions": {"v1": "v9"}, "kind": "Ware", "plural": "waren", "shortNames": ["wr"],
    });
    let stage = world.stage(json!({"projection": projection})).await?;
    let remote = Kind::new(&group, "v9", "waren", "Ware");
    let (team, local) = (&stage.team, &stage.kind);
    team.make(&remote, "lamp", json!({"size": 1})).await;
    let copy = world.await_copy(local, team.of("lamp")).await;
    has(&copy, "/kind", &json!("Gadget"))?;
    has(&copy, "/apiVersion", &json!(local.api_version()))?;
    has(&copy, "/spec", &json!({"size": 1}))?;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    team.await_in(&remote, "lamp", "/status", json!({"lit": true}))
        .await;
    team.patch(&remote, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    world
        .await_in_copy(local, team.of("lamp"), "/spec/size", json!(2))
        .await;
    team.delete(&remote, "lamp").await?;
    team.await_gone(&remote, "lamp").await;
    world.await_no_copy(local, team.of("lamp")).await;
    Ok(())
}

async fn a_namespaced_kind_is_published_for_the_whole_cluster(world: &World) -> Result<()> {
    let more = json!({
        "projection": {"scope": "Cluster"},
        "naming": {"namespace": "{{ .ClusterName }}", "name": "{{ .Object.metadata.name }}"},
    });
    let stage = world.stage(more).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.make_at(&kind.everywhere(), &kind.object("lamp", json!({"size": 1})))
        .await;
    let of = team.within("", "lamp");
    let copy = world.await_copy(kind, of).await;
    ensure!(
        place(&copy) == (team.cluster.as_str(), "lamp"),
        "{:?}",
        place(&copy)
    );
    let labels = copy["metadata"]["labels"].as_object().context("labels")?;
    ensure!(
        !labels.contains_key("syncagent.kcp.io/remote-object-namespace-hash"),
        "{labels:?}"
    );
    let annotations = json!({"syncagent.kcp.io/remote-object-name": "lamp"});
    has(&copy, "/metadata/annotations", &annotations)?;
    team.plane
        .merge(&kind.named("lamp"), json!({"spec": {"size": 2}}))
        .await?;
    world.await_in_copy(kind, of, "/spec/size", json!(2)).await;
    team.plane.delete(&kind.named("lamp")).await?;
    world.await_no_copy(kind, of).await;
    Ok(())
}

pub(super) fn at_large(group: &str) -> Value {
    let mut crd = gadgets(group);
    crd["spec"]["scope"] = "Cluster".into();
    crd
}

async fn a_cluster_scoped_kind_has_copies_without_a_namespace(world: &World) -> Result<()> {
    let naming = json!({"name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"});
    let stage = world
        .stage_with(&at_large(&world.group), json!({"naming": naming}))
        .await?;
    let (team, kind) = (&stage.team, &stage.kind);
    team.make_at(&kind.everywhere(), &kind.object("lamp", json!({"size": 1})))
        .await;
    let of = team.within("", "lamp");
    let copy = world.await_copy(kind, of).await;
    let wanted = format!("{}-lamp", team.cluster);
    ensure!(place(&copy) == ("", wanted.as_str()), "{:?}", place(&copy));
    let status = format!("{}/status", kind.named(&wanted));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    eventually(SOON, "the status is back", async || {
        has(
            &team.plane.get(&kind.named("lamp")).await?,
            "/status",
            &json!({"lit": true}),
        )
    })
    .await;
    team.plane.delete(&kind.named("lamp")).await?;
    world.await_no_copy(kind, of).await;
    Ok(())
}

async fn a_cluster_scoped_kind_is_published_into_namespaces(world: &World) -> Result<()> {
    let more = json!({"projection": {"scope": "Namespaced"}});
    let stage = world.stage_with(&at_large(&world.group), more).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let wanted = format!("{}-{}", sha3_short("default"), sha3_short("lamp"));
    ensure!(place(&copy) == ("", wanted.as_str()), "{:?}", place(&copy));
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

async fn mutations_change_what_travels_in_each_direction(world: &World) -> Result<()> {
    let mutation = json!({
        "spec": [
            {"delete": {"path": "spec.secret"}},
            {"regex": {"path": "spec.url", "pattern": "^http:(.*)$", "replacement": "https:$1"}},
            {"regex": {"path": "spec.class", "replacement": "gold"}},
            {"template": {"path": "spec.owner", "template": "{{ .LocalObject.metadata.name }} of {{ .Value.String }}"}},
            {"cel": {"path": "spec.size", "expression": "value + 1.0"}},
        ],
        "status": [
            {"regex": {"path": "status.host", "pattern": "internal", "replacement": "example"}},
            {"delete": {"path": "status.node"}},
        ],
    });
    let stage = world.stage(json!({"mutation": mutation})).await?;
    let spec = json!({"secret": "s", "url": "http://x", "owner": "ann", "size": 3, "kept": true});
    let (_, copy) = stage.made("lamp", spec).await;
    let wanted = json!({"url": "https://x", "class": "gold", "owner": "lamp of ann", "size": 4, "kept": true});
    has(&copy, "/spec", &wanted)?;
    let status = format!("{}/status", stage.place(&copy));
    let said = json!({"status": {"host": "a.internal.org", "node": "n1", "lit": true}});
    world.service.merge(&status, said.clone()).await?;
    let wanted = json!({"host": "a.example.org", "lit": true});
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status", wanted)
        .await;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 4}}))
        .await?;
    let copy = stage.await_in_copy("lamp", "/spec/size", json!(5)).await;
    has(&copy, "/spec/class", &json!("gold"))?;
    has(&copy, "/status", &said["status"])
}

async fn a_mutation_that_fails_holds_up_its_object_alone(world: &World) -> Result<()> {
    let mutation =
        json!({"spec": [{"cel": {"path": "spec.size", "expression": "self.spec.base + 1"}}]});
    let stage = world.stage(json!({"mutation": mutation})).await?;
    stage.team.make(&stage.kind, "bad", json!({})).await;
    let (_, copy) = stage.made("good", json!({"base": 1})).await;
    has(&copy, "/spec/size", &json!(2))?;
    ensure!(world.copy(&stage.kind, stage.of("bad")).await?.is_none());
    stage
        .team
        .patch(&stage.kind, "bad", json!({"spec": {"base": 2}}))
        .await?;
    has(&stage.copy("bad").await, "/spec/size", &json!(3))
}

async fn without_a_status_subresource_the_status_is_content(world: &World) -> Result<()> {
    let crd = definition(&world.group, "gadgets", "Gadget");
    let stage = world.stage_with(&crd, json!({})).await?;
    let mut lamp = stage.kind.object("lamp", json!({"size": 1}));
    lamp["status"] = json!({"wanted": "lit"});
    stage
        .team
        .make_at(&stage.kind.within("default"), &lamp)
        .await;
    let copy = stage.copy("lamp").await;
    has(&copy, "/status", &json!({"wanted": "lit"}))?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"status": {"wanted": "off"}}))
        .await?;
    stage
        .await_in_copy("lamp", "/status", json!({"wanted": "off"}))
        .await;
    Ok(())
}

async fn replicas_of_the_scale_subresource_are_content(world: &World) -> Result<()> {
    let mut crd = gadgets(&world.group);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    crd["spec"]["versions"][0]["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    let stage = world.stage_with(&crd, json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"replicas": 2})).await;
    has(&copy, "/spec/replicas", &json!(2))?;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"replicas": 1}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/replicas", json!(1))
        .await;
    // A provider's autoscaler is not undone.
    let scale = format!("{}/scale", stage.place(&copy));
    world
        .service
        .merge(&scale, json!({"spec": {"replicas": 5}}))
        .await?;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    stage.team.patch(&stage.kind, "lamp", label).await?;
    let copy = stage
        .await_in_copy("lamp", "/metadata/labels/a", json!("b"))
        .await;
    has(&copy, "/spec/replicas", &json!(5))
}
