//! `hawser explain`: why objects are in step or not.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::plane::Kind;
use super::world::{KCP_USER, SERVICE_USER, World};

on_both_grounds!(
    an_object_in_step_is_found_from_both_ends,
    an_object_that_a_filter_leaves_out_names_the_filter,
    what_is_due_while_no_agent_runs_is_shown,
    explaining_a_deletion_deletes_nothing,
    objects_out_of_step_are_listed_by_reason,
    flags_that_lead_nowhere_are_named,
);

on_our_ground!(a_name_that_is_taken_comes_with_advice);

on_the_playground!(
    nothing_is_written_and_no_data_of_secrets_is_shown,
    objects_of_another_kind_are_found_by_both,
    objects_that_are_not_synced_say_why,
    published_resources_that_do_not_run_are_named,
);

async fn explain(world: &World, args: &[&str]) -> Result<Value> {
    let args = [&["explain", "--output=json"], args].concat();
    let (succeeds, stdout, stderr) = world.command(&args).await?;
    ensure!(succeeds, "{stderr}");
    Ok(serde_json::from_str(&stdout)?)
}

/// The only object of an answer.
fn only(mut answer: Value) -> Result<Value> {
    let objects = answer["objects"].as_array_mut().context("no objects")?;
    ensure!(objects.len() == 1, "{objects:#?}");
    Ok(objects.remove(0))
}

pub(super) async fn only_explained(world: &World, args: &[&str]) -> Result<Value> {
    only(explain(world, args).await?)
}

async fn an_object_in_step_is_found_from_both_ends(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    let copy_name = copy["metadata"]["name"].as_str().context("no name")?;
    let by_path = format!("--workspace=root:org:{}", stage.team.name);
    let by_cluster = format!("--workspace={}", stage.team.cluster);
    for args in [
        ["gadget", "lamp", by_path.as_str()].as_slice(),
        &["gadgets", "lamp", &by_cluster],
        &["Gadget", "lamp", "-n", "default"],
        &["Gadget", copy_name],
    ] {
        let object = only(explain(world, args).await?)?;
        ensure!(object["inStep"] == true, "{args:?}: {object:#}");
        ensure!(object["reason"]["code"] == "InStep", "{object:#}");
        ensure!(object["object"]["name"] == "lamp", "{object:#}");
        ensure!(
            object["object"]["cluster"] == *stage.team.cluster,
            "{object:#}"
        );
        ensure!(object["due"] == json!([]), "{object:#}");
        let shown = object["links"][0]["copy"].as_str().unwrap_or_default();
        ensure!(shown.ends_with(copy_name), "{object:#}");
        let found_by = &object["links"][0]["foundBy"];
        ensure!(*found_by == "its labels", "{object:#}");
    }
    for (args, part) in [
        (["explain", "widget", "lamp"], "kinds: Gadget"),
        (["explain", "gadget", "nobody"], "Gadget nobody"),
    ] {
        let (succeeds, _, stderr) = world.command(&args).await?;
        let part = part.to_lowercase();
        ensure!(
            !succeeds && stderr.to_lowercase().contains(&part),
            "{stderr}"
        );
    }
    Ok(())
}

async fn an_object_that_a_filter_leaves_out_names_the_filter(world: &World) -> Result<()> {
    let filter = json!({"filter": {"resource": {"matchLabels": {"sync": "yes"}}}});
    let stage = world.stage(filter).await?;
    stage
        .team
        .make(&stage.kind, "out", json!({"size": 1}))
        .await;
    let object = only(explain(world, &["gadget", "out"]).await?)?;
    let filters = json!([
        {"field": "spec.filter.resource", "selector": "sync=yes", "matches": false},
    ]);
    ensure!(object["filters"] == filters, "{object:#}");
    ensure!(
        object["inStep"] == false && object["notSynced"]["why"].is_string(),
        "{object:#}"
    );
    ensure!(object["due"] == json!([]), "{object:#}");
    let (_, text, _) = world.command(&["explain", "gadget", "out"]).await?;
    let verdict = "  in sync       no: a filter leaves the object out\n  what to do    change the \
                   labels or spec.filter.resource";
    ensure!(text.contains(verdict), "{text}");
    let (_, text, _) = world.command(&["explain"]).await?;
    let counts = "0 of 0 objects are out of sync\nnot synced: a filter leaves the object out (1)\n  \
                  Gadget default/out in workspace ";
    ensure!(text.starts_with(counts), "{text}");
    Ok(())
}

async fn objects_of_another_kind_are_found_by_both(world: &World) -> Result<()> {
    let projection = json!({"projection": {"kind": "Contraption", "plural": "contraptions"}});
    let stage = world.stage(projection).await?;
    let published = Kind {
        plural: "contraptions".to_owned(),
        name: "Contraption".to_owned(),
        ..stage.kind.clone()
    };
    stage
        .team
        .make(&published, "lamp", json!({"size": 1}))
        .await;
    let copy = world.await_copy(&stage.kind, stage.of("lamp")).await;
    let copy_name = copy["metadata"]["name"].as_str().context("no name")?;
    let workspace = format!("--workspace={}", stage.team.cluster);
    for args in [
        ["contraption"].as_slice(),
        &["gadget"],
        &["gadget", copy_name, &workspace],
        &["contraptions", "lamp", &workspace],
    ] {
        let object = only(explain(world, args).await?)?;
        ensure!(object["object"]["name"] == "lamp", "{args:?}: {object:#}");
    }
    let elsewhere = ["explain", "gadget", copy_name, "--workspace=elsewhere"];
    let (succeeds, _, stderr) = world.command(&elsewhere).await?;
    ensure!(
        !succeeds && stderr.contains("no workspace \"elsewhere\" binds the API"),
        "{stderr}"
    );
    ensure!(stderr.contains(&*stage.team.cluster), "{stderr}");
    let both = format!("gadget/{copy_name}");
    let object = only(explain(world, &[&both]).await?)?;
    ensure!(object["object"]["name"] == "lamp", "{object:#}");
    Ok(())
}

async fn objects_that_are_not_synced_say_why(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let copy_name = copy["metadata"]["name"].as_str().context("no name")?;
    let mode = |mode: Value| json!({"spec": {"mode": mode}});
    world
        .change_published(&stage.published, mode(json!("Plan")))
        .await?;
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    let is_not_synced = async |name: &str, part: &str| {
        eventually(SOON, part, async || {
            let object = only(explain(world, &["gadget", name]).await?)?;
            let why = object["notSynced"]["why"].as_str().unwrap_or_default();
            ensure!(
                object["inStep"] == false && why.contains(part),
                "{object:#}"
            );
            Ok(())
        })
        .await;
    };
    is_not_synced("lamp", "is Plan").await;
    let (_, text, _) = world.command(&["explain"]).await?;
    let counts = "0 of 0 objects are out of sync\nnot synced: the mode of the PublishedResource ";
    ensure!(text.starts_with(counts), "{text}");
    world
        .change_published(&stage.published, mode(Value::Null))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    world.unbind(&stage.team).await?;
    is_not_synced(copy_name, "no workspace that binds the API").await;
    Ok(())
}

async fn published_resources_that_do_not_run_are_named(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let name = &stage.published;
    let wrong = json!({"naming": {"name": "{{ .Object.metadata.name | nothing }}"}});
    let disabled = json!({"naming": null, "synchronization": {"enabled": false}});
    for (patch, why, is_listed) in [
        (json!({"spec": wrong}), "spec.naming.name", true),
        (
            json!({"spec": disabled}),
            "synchronization is disabled",
            true,
        ),
        (
            json!({"metadata": {"labels": {"agent": "another"}}}),
            "its labels do not match --published-resource-selector",
            false,
        ),
    ] {
        world.change_published(name, patch).await?;
        eventually(SOON, why, async || {
            let (succeeds, _, stderr) = world.command(&["explain", "gadget", "lamp"]).await?;
            let told = format!(". The PublishedResource {name} is not active: ");
            ensure!(
                !succeeds && stderr.contains(&told) && stderr.contains(why),
                "{stderr}"
            );
            let (succeeds, text, _) = world.command(&["explain"]).await?;
            let told = format!("PublishedResource {name}: not active: ");
            ensure!(succeeds && text.contains(&told) == is_listed, "{text}");
            Ok(())
        })
        .await;
    }
    Ok(())
}

async fn flags_that_lead_nowhere_are_named(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    let with = async |command: &[&str], flag: &str, value: &str| {
        let place = world.place()?.into_iter();
        let place = place.filter(|one| !one.starts_with(&format!("{flag}=")));
        let args = command.iter().map(|arg| (*arg).to_owned());
        let args: Vec<String> = args
            .chain(place)
            .chain([format!("{flag}={value}")])
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        World::run_alone(&args).await
    };
    let one = ["explain", "gadget", "lamp"];
    let commands: [&[&str]; 7] = [
        &one,
        &["plan"],
        &["adopt", "--dry-run"],
        &["release", "gadget", "lamp"],
        &["orphans", "list"],
        &["orphans", "remove"],
        &["rbac", "--check"],
    ];
    for (flag, told) in [
        (
            "--namespace",
            "the namespace nowhere of --namespace does not exist",
        ),
        (
            "--apiexportendpointslice-ref",
            "there is no APIExportEndpointSlice nowhere in the workspace",
        ),
    ] {
        for command in commands {
            let (succeeds, _, stderr) = with(command, flag, "nowhere").await?;
            ensure!(!succeeds && stderr.contains(told), "{command:?}: {stderr}");
        }
    }
    // Orphans are those of every published kind, which the agents of other tests have on this server, too.
    for command in &commands[..4] {
        let (_, text, stderr) = with(command, "--agent-name", "another").await?;
        // Other agents may have copies on the same server.
        let is_told = text
            .lines()
            .any(|line| line.starts_with("warning: no copy") && line.contains(&world.agent));
        ensure!(is_told, "{command:?}: {text}{stderr}");
    }
    let home = copy["metadata"]["namespace"]
        .as_str()
        .context("no namespace")?;
    let foreign = stage.kind.object("foreign", json!({"size": 9}));
    world
        .service
        .create(&stage.kind.within(home), &foreign)
        .await?;
    let (succeeds, _, stderr) = world.command(&["explain", "gadget", "foreign"]).await?;
    let told = format!("Gadget {home}/foreign on the service cluster is no copy");
    ensure!(!succeeds && stderr.contains(&told), "{stderr}");

    stage
        .patch_copy(
            &copy,
            json!({"metadata": {"finalizers": ["example.com/x"]}}),
        )
        .await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    eventually(SOON, "the finalizer is named", async || {
        let object = only(explain(world, &["gadget", "lamp"]).await?)?;
        let reason = &object["reason"];
        ensure!(reason["code"] == "WaitingForDeletion", "{object:#}");
        let explained = reason["explanation"].as_str().unwrap_or_default();
        ensure!(
            explained.ends_with("(finalizer example.com/x)"),
            "{object:#}"
        );
        Ok(())
    })
    .await;
    stage
        .patch_copy(&copy, json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

async fn what_is_due_while_no_agent_runs_is_shown(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    stage.agent.kill().await?;
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    stage
        .team
        .make(&stage.kind, "late", json!({"size": 3}))
        .await;

    let object = only(explain(world, &["gadget", "lamp"]).await?)?;
    ensure!(
        object["inStep"] == false && object["reason"]["code"] == "Working",
        "{object:#}"
    );
    let due = object["due"].as_array().context("nothing is due")?;
    ensure!(
        due.len() == 2 && due.iter().all(|one| one["refusal"].is_null()),
        "{object:#}"
    );
    ensure!(
        due[0]["object"]
            .as_str()
            .is_some_and(|at| at.contains("Secret")),
        "{object:#}"
    );
    ensure!(due[1]["verb"] == "patch", "{object:#}");
    ensure!(
        due[1]["change"] == json!({"spec": {"size": 2}}),
        "{object:#}"
    );
    let differences = json!([{"path": "spec.size", "before": 1, "after": 2}]);
    ensure!(due[1]["differences"] == differences, "{object:#}");

    // All of it is found out, though nothing of it was made.
    let object = only(explain(world, &["gadget", "late"]).await?)?;
    let due = object["due"].as_array().context("nothing is due")?;
    let verbs: Vec<_> = due.iter().filter_map(|one| one["verb"].as_str()).collect();
    ensure!(verbs == ["patch", "create", "create"], "{object:#}");
    ensure!(due[2]["change"]["spec"]["size"] == 3, "{object:#}");
    ensure!(world.copy(&stage.kind, stage.of("late")).await?.is_none());
    Ok(())
}

async fn explaining_a_deletion_deletes_nothing(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.marker("after").await;
    stage.agent.kill().await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    let object = only(explain(world, &["gadget", "lamp"]).await?)?;
    let due = object["due"].as_array().context("nothing is due")?;
    let verbs: Vec<_> = due.iter().filter_map(|one| one["verb"].as_str()).collect();
    ensure!(verbs == ["delete", "delete", "patch"], "{object:#}");
    ensure!(world.copy(&stage.kind, stage.of("lamp")).await?.is_some());
    let again = only(explain(world, &["gadget", "lamp"]).await?)?;
    ensure!(again["due"] == object["due"], "{again:#}");
    Ok(())
}

async fn a_name_that_is_taken_comes_with_advice(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({
            "naming": {"name": "{{ .Object.metadata.name }}", "namespace": "default"},
            "safety": {"adoption": "Never"},
        }))
        .await?;
    let taken = testbed::unique("lamp");
    let foreign = stage.kind.object(&taken, json!({"size": 9}));
    world
        .service
        .create(&stage.kind.within("default"), &foreign)
        .await?;
    stage
        .team
        .make(&stage.kind, &taken, json!({"size": 1}))
        .await;
    let workspace = format!("--workspace={}", stage.team.cluster);
    let object = only(explain(world, &["gadget", &taken, &workspace]).await?)?;
    ensure!(object["inStep"] == false, "{object:#}");
    ensure!(object["reason"]["code"] == "AdoptionRefused", "{object:#}");
    let advice = object["reason"]["advice"].as_str().unwrap_or_default();
    ensure!(advice.contains("spec.safety"), "{object:#}");
    Ok(())
}

async fn objects_out_of_step_are_listed_by_reason(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({"mutation": {"spec": [{"cel": {"path": "spec.size", "expression": "int(value) + 1"}}]}}))
        .await?;
    stage.made("fine", json!({"size": 1})).await;
    stage
        .team
        .make(&stage.kind, "wrong", json!({"size": "x"}))
        .await;
    let (succeeds, stdout, stderr) = world.command(&["explain"]).await?;
    ensure!(succeeds, "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    ensure!(lines[0].starts_with("MutationFailed: "), "{stdout}");
    ensure!(
        lines[1].contains("what to do: correct spec.mutation"),
        "{stdout}"
    );
    ensure!(lines[2].contains("Gadget default/wrong"), "{stdout}");
    ensure!(
        stdout.contains("1 of 2 objects are out of sync"),
        "{stdout}"
    );
    Ok(())
}

async fn nothing_is_written_and_no_data_of_secrets_is_shown(world: &World) -> Result<()> {
    // A Secret that becomes an object of another kind.
    let down = json!({"identifier": "down", "origin": "service", "resource": "secrets",
        "version": "v1", "projection": {"resource": "configmaps"},
        "object": {"reference": {"path": "spec.down"}}});
    let stage = world.related(json!({"related": [down]})).await?;
    let (_, copy) = stage
        .made("lamp", json!({"size": 1, "down": "creds"}))
        .await;
    stage.marker("after").await;
    stage.agent.kill().await?;
    let home = copy["metadata"]["namespace"].as_str().context("no home")?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
        "data": {"k": "aHVudGVyMg=="}});
    let at = format!("/api/v1/namespaces/{home}/secrets");
    world.service.create(&at, &secret).await?;
    let object = only(explain(world, &["gadget", "lamp"]).await?)?;
    let due = object["due"].as_array().context("nothing is due")?;
    let shown = due.iter().find(|one| one["change"]["kind"] == "ConfigMap");
    let shown = shown.context("no ConfigMap is due")?;
    ensure!(shown["change"]["data"]["k"] == "(hidden)", "{object:#}");
    ensure!(!object.to_string().contains("aHVudGVyMg"), "{object:#}");
    // What the server says of it may quote the Secret.
    let matcher = Matcher {
        verb: Some("create".to_owned()),
        resource: Some("configmaps".to_owned()),
        ..Matcher::default()
    };
    let when = When::Before;
    let refused = Fault::new(matcher, Action::Status { code: 500, when });
    world.playground.faults().add(refused);
    let object = only(explain(world, &["gadget", "lamp"]).await?)?;
    world.playground.faults().clear();
    let told = object["due"].to_string();
    ensure!(
        told.contains("status 500") && told.contains("are not shown"),
        "{object:#}"
    );
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    let mark = world.requests().mark();
    let (succeeds, stdout, stderr) = world.command(&["explain", "gadget", "lamp"]).await?;
    ensure!(succeeds, "{stderr}");
    ensure!(
        stdout.contains("due writes") && stdout.contains("(hidden)"),
        "{stdout}"
    );
    let of_agent = |user: &str| [KCP_USER, SERVICE_USER].contains(&user);
    let reads = ["get", "list", "watch"];
    for request in world.requests().since(mark) {
        let is_harmless = reads.contains(&&*request.verb) || request.query.contains("dryRun=All");
        ensure!(!of_agent(&request.user) || is_harmless, "{request:?}");
    }
    Ok(())
}
