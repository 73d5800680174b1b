//! Fields of copies that others change: kept, reverted or reported by path, with the name of who changed them.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::explain::only_explained;
use super::stage::Stage;
use super::world::{PUBLISHED, World};

on_our_ground!(
    each_path_has_its_mode_and_events_name_the_writer,
    explain_and_plan_show_who_changed_what,
    what_the_server_itself_stores_is_no_drift,
    who_insists_on_a_reverted_field_is_written_over_ever_less_often,
);

on_the_playground!(
    each_path_has_its_mode_and_events_name_the_writer,
    explain_and_plan_show_who_changed_what,
    what_the_server_itself_stores_is_no_drift,
    drift_costs_a_read_and_a_revert_a_patch_more,
    an_agent_killed_while_it_reverts_is_finished_by_the_next_one,
    who_insists_on_a_reverted_field_is_written_over_ever_less_often,
    bad_rules_are_refused_by_the_crd_and_by_the_agent,
);

/// The mode of all fields, of one below, and of one below that.
fn rules() -> Value {
    json!({"drift": [
        {"path": "spec", "mode": "Report"},
        {"path": "spec.fixed", "mode": "Revert"},
        {"path": "spec.fixed.but", "mode": "Keep"},
        {"path": r"metadata.labels.example\.com/team", "mode": "Revert"},
    ]})
}

impl Stage<'_> {
    /// Changes a copy as this manager.
    async fn edit_as(&self, copy: &Value, manager: &str, patch: Value) -> Result<()> {
        let path = format!("{}?fieldManager={manager}", self.place(copy));
        self.world.service.merge(&path, patch).await?;
        Ok(())
    }

    /// The message of an event on a copy.
    async fn await_drift_told(&self, copy: &Value, reason: &str, part: &str) -> String {
        let namespace = copy["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        eventually(SOON, &format!("{reason}: {part}"), async || {
            let events = self.world.service.list(&path).await?;
            let mut found = events.iter().filter(|event| {
                event["reason"] == reason
                    && event["involvedObject"]["uid"] == copy["metadata"]["uid"]
            });
            let message = |event: &Value| event["message"].as_str().map(str::to_owned);
            let message = found.find_map(|event| message(event).filter(|text| text.contains(part)));
            message.with_context(|| format!("{events:#?}"))
        })
        .await
    }
}

async fn each_path_has_its_mode_and_events_name_the_writer(world: &World) -> Result<()> {
    let stage = world.stage(rules()).await?;
    let fixed = json!({"size": 1, "but": 1, "list": [1, 2]});
    let (_, copy) = stage
        .made("lamp", json!({"color": "red", "fixed": fixed}))
        .await;
    let theirs = json!({"spec": {
        "color": "blue", "own": true, "fixed": {"size": 9, "but": 9, "list": [1], "own": true},
    }});
    stage.edit_as(&copy, "anna", theirs).await?;
    let told = stage
        .await_drift_told(&copy, "DriftReported", "spec.color")
        .await;
    ensure!(
        told.contains("spec.color, changed by anna (Update) at 20"),
        "{told}"
    );
    ensure!(!told.contains("fixed") && !told.contains("blue"), "{told}");
    let told = stage
        .await_drift_told(&copy, "DriftReverted", "spec.fixed")
        .await;
    ensure!(told.contains("spec.fixed.list, changed by anna"), "{told}");
    ensure!(told.contains("spec.fixed.size, changed by anna"), "{told}");
    ensure!(!told.contains("but") && !told.contains("own"), "{told}");
    let found = world.service.get(&stage.place(&copy)).await?;
    let fixed = json!({"size": 1, "but": 9, "list": [1, 2], "own": true});
    ensure!(found["spec"]["fixed"] == fixed, "{}", found["spec"]);
    ensure!(found["spec"]["color"] == "blue", "{}", found["spec"]);
    ensure!(found["spec"]["own"] == true, "{}", found["spec"]);
    // What the consumer changes is written over what was kept.
    let change = json!({"spec": {"color": "green"}});
    stage.team.patch(&stage.kind, "lamp", change).await?;
    let found = stage
        .await_in_copy("lamp", "/spec/color", json!("green"))
        .await;
    ensure!(found["spec"]["fixed"]["but"] == 9, "{}", found["spec"]);
    // Whoever takes a field away is not recorded.
    stage
        .edit_as(&copy, "bert", json!({"spec": {"fixed": {"size": null}}}))
        .await?;
    stage
        .await_drift_told(
            &copy,
            "DriftReverted",
            "spec.fixed.size, changed by an unknown writer",
        )
        .await;
    stage
        .await_in_copy("lamp", "/spec/fixed/size", json!(1))
        .await;
    Ok(())
}

async fn explain_and_plan_show_who_changed_what(world: &World) -> Result<()> {
    let stage = world.stage(rules()).await?;
    let (_, copy) = stage
        .made(
            "lamp",
            json!({"color": "red", "fixed": {"size": 1, "but": 1}}),
        )
        .await;
    stage.marker("after").await;
    stage.agent.kill().await?;
    let theirs = json!({"spec": {"color": "blue", "fixed": {"size": 9, "but": 9}}});
    stage.edit_as(&copy, "anna", theirs).await?;
    let object = only_explained(world, &["gadget", "lamp"]).await?;
    let drift = object["drift"].as_array().context("no drift")?;
    let shown: Vec<_> = drift
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                one["path"], one["mode"], one["changedBy"]["manager"]
            )
        })
        .collect();
    let wanted = [
        r#""spec.color" "Report" "anna""#,
        r#""spec.fixed.but" "Keep" "anna""#,
        r#""spec.fixed.size" "Revert" "anna""#,
    ];
    ensure!(shown == wanted, "{object:#}");
    ensure!(drift[0]["changedBy"]["operation"] == "Update", "{object:#}");
    ensure!(drift[0]["changedBy"]["time"].is_string(), "{object:#}");
    let due = object["due"].as_array().context("nothing is due")?;
    ensure!(due.len() == 1, "{object:#}");
    let change = json!({"spec": {"fixed": {"size": 1}}});
    ensure!(due[0]["change"] == change, "{object:#}");
    ensure!(object["inStep"] == false, "{object:#}");

    let (succeeds, text, stderr) = world.command(&["explain", "gadget", "lamp"]).await?;
    ensure!(succeeds, "{stderr}");
    let line = "  drift         spec.fixed.but (Keep): changed by anna (Update) at 20";
    ensure!(text.contains(line), "{text}");
    let (succeeds, text, stderr) = world.command(&["plan"]).await?;
    ensure!(!succeeds, "nothing would change: {text} {stderr}");
    ensure!(text.contains("spec.fixed.size: 9 -> 1"), "{text}");
    let found = world.service.get(&stage.place(&copy)).await?;
    ensure!(found["spec"]["fixed"]["size"] == 9, "{}", found["spec"]);
    Ok(())
}

/// A mutation takes a field from the items of a list, and the service cluster gives it a default: the lists differ.
async fn what_the_server_itself_stores_is_no_drift(world: &World) -> Result<()> {
    let mut crd = super::gadgets(&world.group);
    let properties = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"] = json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "ports": {"type": "array", "items": {"type": "object", "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
        }}},
    }});
    let more = json!({
        "mutation": {"spec": [{"delete": {"path": "spec.ports[*].protocol"}}]},
        "drift": [{"path": "spec", "mode": "Revert"}],
    });
    let stage = world.stage_with(&crd, more).await?;
    let spec = json!({"size": 1, "ports": [{"port": 80}]});
    let (_, copy) = stage.made("lamp", spec).await;
    ensure!(
        copy["spec"]["ports"][0]["protocol"] == "TCP",
        "{}",
        copy["spec"]
    );
    let object = only_explained(world, &["gadget", "lamp"]).await?;
    ensure!(object["drift"] == json!([]), "{object:#}");
    ensure!(object["due"] == json!([]), "{object:#}");
    stage
        .edit_as(&copy, "anna", json!({"spec": {"size": 9}}))
        .await?;
    let told = stage
        .await_drift_told(&copy, "DriftReverted", "spec.size")
        .await;
    ensure!(!told.contains("ports"), "{told}");
    Ok(())
}

async fn drift_costs_a_read_and_a_revert_a_patch_more(world: &World) -> Result<()> {
    let stage = world.stage(rules()).await?;
    stage.marker("first").await;
    world.await_conditions(&stage.published).await;
    let mark = world.requests().mark();
    let spec = json!({"color": "red", "fixed": {"size": 1}});
    let (_, copy) = stage.made("lamp", spec).await;
    stage.costs(mark, 3).await?;

    let mark = world.requests().mark();
    stage
        .edit_as(&copy, "anna", json!({"spec": {"fixed": {"size": 9}}}))
        .await?;
    stage.costs(mark, 2).await?;
    let mark = world.requests().mark();
    stage
        .edit_as(&copy, "anna", json!({"spec": {"color": "blue"}}))
        .await?;
    stage.costs(mark, 1).await?;
    // It is known by now: other changes cost no more than they do without rules.
    let mark = world.requests().mark();
    let status = format!("{}/status", stage.place(&copy));
    let lit = json!({"status": {"lit": true}});
    world.service.merge(&status, lit).await?;
    stage.costs(mark, 1).await?;
    // A field that only the copy has is none.
    let mark = world.requests().mark();
    stage
        .edit_as(&copy, "anna", json!({"spec": {"own": true}}))
        .await?;
    stage.costs(mark, 0).await
}

async fn an_agent_killed_while_it_reverts_is_finished_by_the_next_one(world: &World) -> Result<()> {
    let mut stage = world.stage(rules()).await?;
    let (_, copy) = stage.made("lamp", json!({"fixed": {"size": 1}})).await;
    stage.marker("after").await;
    // No revert is answered; the second one takes effect all the same.
    for (when, size) in [(When::Before, 9), (When::After, 8)] {
        let matcher = Matcher {
            verb: Some("patch".to_owned()),
            resource: Some(stage.kind.plural.clone()),
            name: copy["metadata"]["name"].as_str().map(str::to_owned),
            ..Matcher::default()
        };
        let mark = world.requests().mark();
        let fault = Fault::new(matcher, Action::Reset(when));
        let edit = json!({"spec": {"fixed": {"size": size}}});
        stage.edit_as(&copy, "anna", edit).await?;
        world.playground.faults().add(fault);
        eventually(SOON, "the agent tries", async || {
            let all = world.agents_requests(mark);
            let mut patches = all.iter().filter(|one| one.verb == "patch");
            ensure!(
                patches.any(|one| one.name == copy["metadata"]["name"]),
                "it does not"
            );
            Ok(())
        })
        .await;
        stage.agent.kill().await?;
        world.playground.faults().clear();
        stage.agent = world.start_agent()?;
        stage
            .await_in_copy("lamp", "/spec/fixed/size", json!(1))
            .await;
    }
    Ok(())
}

async fn who_insists_on_a_reverted_field_is_written_over_ever_less_often(
    world: &World,
) -> Result<()> {
    let stage = world.stage(rules()).await?;
    let (_, copy) = stage.made("lamp", json!({"fixed": {"size": 1}})).await;
    let mut edits = 0;
    eventually(SOON, "it is noticed", async || -> Result<()> {
        let found = world.service.get(&stage.place(&copy)).await?;
        if found["spec"]["fixed"]["size"] == 1 {
            stage
                .edit_as(&copy, "robot", json!({"spec": {"fixed": {"size": 9}}}))
                .await?;
            edits += 1;
        }
        ensure!(world.logged()?.contains("Contested"), "{edits} times");
        Ok(())
    })
    .await;
    ensure!((4..=6).contains(&edits), "{edits}");
    // Changes of the consumer do not wait, nor do reverts of other fields.
    let change = json!({"spec": {"color": "red"}});
    stage.team.patch(&stage.kind, "lamp", change).await?;
    stage
        .await_in_copy("lamp", "/spec/color", json!("red"))
        .await;
    Ok(())
}

async fn bad_rules_are_refused_by_the_crd_and_by_the_agent(world: &World) -> Result<()> {
    let kind = world.gadgets().await?;
    let rule = |path: &str, mode: &str| json!({"path": path, "mode": mode});
    let create = async |name: &str, rules: Value| {
        let object = world.published(name, &kind, json!({"drift": rules}));
        world.create_published(name, object).await
    };
    let twice = json!([rule("spec", "Keep"), rule("spec", "Revert")]);
    let refused = create("twice", twice)
        .await
        .map_err(|error| format!("{error:#}"));
    let refused = refused.expect_err("two rules for one path are accepted");
    ensure!(refused.contains("spec.drift[1]"), "{refused}");
    let refused = create("mode", json!([rule("spec", "Undo")])).await;
    ensure!(refused.is_err(), "an unknown mode is accepted");

    let published = create(
        "paths",
        json!([rule("spec.*", "Keep"), rule("status", "Revert")]),
    )
    .await?;
    let name = published["metadata"]["name"].as_str().context("no name")?;
    let _agent = world.start_agent()?;
    eventually(SOON, "the condition names both", async || -> Result<()> {
        let found = world.service.get(&format!("{PUBLISHED}/{name}")).await?;
        let conditions = found["status"]["conditions"].to_string();
        ensure!(conditions.contains("spec.drift[0].path"), "{conditions}");
        ensure!(
            conditions.contains("status is a subresource"),
            "{conditions}"
        );
        Ok(())
    })
    .await;
    Ok(())
}
