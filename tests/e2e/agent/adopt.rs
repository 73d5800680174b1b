//! `hawser adopt --dry-run`: what is in the places of copies, and what an agent would make of it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::stage::Stage;
use super::world::World;

on_our_ground!(what_is_in_the_places_of_copies_is_listed_as_an_agent_treats_it);

on_the_playground!(what_is_in_the_places_of_copies_is_listed_as_an_agent_treats_it);

/// The exit code, the answer and what is said on stderr.
async fn adopt(world: &World, args: &[&str]) -> Result<(Option<i32>, Value, String)> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"));
    command
        .args(["adopt", "-o", "json"])
        .args(args)
        .args(world.place()?);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let stderr = String::from_utf8(output.stderr)?;
    Ok((output.status.code(), answer, stderr))
}

/// The collision of an object of this name.
fn of<'a>(answer: &'a Value, name: &str) -> Result<&'a Value> {
    let all = answer["collisions"].as_array();
    let mut all = all.into_iter().flatten();
    let found = all.find(|one| one["object"]["name"] == name);
    found.with_context(|| format!("{name} is not in {answer:#}"))
}

/// Puts an object into the place of a copy.
async fn put(stage: &Stage<'_>, place: &str, name: &str, more: Value) -> Result<Value> {
    let mut object = stage.kind.object(name, json!({"size": 1}));
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object["metadata"]["name"] = name.into();
    let at = stage.kind.within(place);
    Ok(stage.world.service.create(&at, &object).await?)
}

async fn what_is_in_the_places_of_copies_is_listed_as_an_agent_treats_it(
    world: &World,
) -> Result<()> {
    let place = testbed::unique("place");
    let naming = json!({"name": "{{ .Object.metadata.name }}", "namespace": place});
    let up = json!({"identifier": "up", "origin": "kcp", "kind": "Secret",
        "object": {"reference": {"path": "spec.up"}}});
    let more = json!({"naming": naming, "related": [up]});
    let mut stage = world.related(more).await?;
    let kind = stage.kind.clone();
    let (_, synced) = stage.made("synced", json!({"size": 1})).await;
    stage.marker("after").await;
    let (code, answer, stderr) = adopt(world, &["--dry-run"]).await?;
    ensure!(
        code == Some(0) && answer["collisions"] == json!([]),
        "{answer:#}{stderr}"
    );
    stage.agent.kill().await?;

    put(&stage, &place, "equal", json!({})).await?;
    let other = json!({"spec": {"size": 2, "extra": true},
        "metadata": {"labels": {"example.com/colour": "red"}}});
    put(&stage, &place, "other", other).await?;
    let foreign = json!({"metadata": {"labels": {"syncagent.kcp.io/agent-name": "other"}}});
    let foreign = put(&stage, &place, "foreign", foreign).await?;
    let leaving = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    put(&stage, &place, "leaving", leaving).await?;
    world.service.delete(&kind.at(&place, "leaving")).await?;
    for name in ["equal", "other", "foreign", "leaving", "new"] {
        stage.team.make_bare(&kind, name, json!({"size": 1})).await;
    }
    // Two objects lead to one place, and a related object to a Secret of somebody else.
    put(&stage, &place, "both", json!({})).await?;
    stage.team.plane.namespace("attic", json!({})).await?;
    for namespace in ["attic", "default"] {
        let both = kind.object("both", json!({"size": 1}));
        stage.team.make_at(&kind.within(namespace), &both).await;
    }
    for (plane, namespace) in [(&world.service, &*place), (&stage.team.plane, "default")] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
            "stringData": {"of": namespace}});
        let at = format!("/api/v1/namespaces/{namespace}/secrets");
        plane.create(&at, &secret).await?;
    }
    let related = json!({"size": 1, "up": "creds"});
    stage.team.make_bare(&kind, "related", related).await;
    // An own copy in deletion is waited for, too, and in nobody's way.
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    stage.patch_copy(&synced, keep).await?;
    world.service.delete(&stage.place(&synced)).await?;
    let mark = world.requests().mark();
    let (code, answer, stderr) = adopt(world, &["--dry-run"]).await?;
    ensure!(code == Some(2), "{stderr}");
    let all = answer["collisions"].as_array().map(Vec::len);
    ensure!(all == Some(7), "{answer:#}");
    for (name, adoption, code) in [
        ("equal", "adopted", Value::Null),
        ("other", "adopted", Value::Null),
        ("foreign", "refused", "NameConflict".into()),
        ("leaving", "waitedFor", "WaitingForDeletion".into()),
    ] {
        let one = of(&answer, name)?;
        ensure!(one["adoption"] == adoption, "{one:#}");
        ensure!(one["reason"]["code"] == code, "{one:#}");
        let existing = one["existing"].as_str().unwrap_or_default();
        ensure!(existing.ends_with(&format!("{place}/{name}")), "{one:#}");
    }
    ensure!(
        of(&answer, "equal")?["differences"] == json!([]),
        "{answer:#}"
    );
    let both = answer["collisions"].as_array().into_iter().flatten();
    let both = both.filter(|one| one["object"]["name"] == "both");
    let both: Vec<_> = both.filter_map(|one| one["adoption"].as_str()).collect();
    ensure!(both == ["adopted", "refused"], "{answer:#}");
    let related = of(&answer, "related")?;
    ensure!(related["relatedEntry"] == "up", "{related:#}");
    ensure!(
        related["reason"]["code"] == "AdoptionRefused",
        "{related:#}"
    );
    let differences = json!([
        {"path": "metadata.labels", "existing": {"example.com/colour": "red"}, "desired": null},
        {"path": "spec.extra", "existing": true, "desired": null},
        {"path": "spec.size", "existing": 2, "desired": 1},
    ]);
    ensure!(
        of(&answer, "other")?["differences"] == differences,
        "{answer:#}"
    );

    // The files count, and one object alone.
    let mut document = world.published(&stage.published, &kind, json!({"naming": naming}));
    document["spec"]["safety"] = json!({"adoption": "Never"});
    let file = world.directory.path().join("never.yaml");
    std::fs::write(&file, document.to_string())?;
    let file = file.to_str().context("no path")?;
    let workspace = format!("--workspace={}", stage.team.cluster);
    let one = ["--dry-run", "gadget", "other", &workspace, "-f", file];
    let (code, answer, stderr) = adopt(world, &one).await?;
    ensure!(code == Some(2), "{stderr}");
    ensure!(
        answer["collisions"].as_array().map(Vec::len) == Some(1),
        "{answer:#}"
    );
    let refused = of(&answer, "other")?;
    ensure!(refused["adoption"] == "refused", "{answer:#}");
    ensure!(refused["reason"]["code"] == "AdoptionRefused", "{answer:#}");
    ensure!(refused["differences"] == differences, "{answer:#}");
    let (code, _, stderr) = adopt(world, &[]).await?;
    ensure!(
        code == Some(1) && stderr.contains("spec.safety.adoption"),
        "{stderr}"
    );
    for request in world.agents_requests(mark) {
        let reads = ["get", "list", "watch"].contains(&&*request.verb);
        ensure!(reads || request.query.contains("dryRun=All"), "{request:?}");
    }

    // It is what the agent does.
    stage.agent = world.start_agent()?;
    for name in ["equal", "other"] {
        let copy = stage.copy(name).await;
        let adopted = &copy["metadata"]["annotations"]["syncagent.kcp.io/adopted"];
        ensure!(*adopted == "true", "{copy:#}");
    }
    let now = world.service.get(&kind.at(&place, "foreign")).await?;
    ensure!(now["metadata"]["uid"] == foreign["metadata"]["uid"]);
    ensure!(
        now["metadata"]["labels"] == foreign["metadata"]["labels"],
        "{now:#}"
    );
    Ok(())
}
