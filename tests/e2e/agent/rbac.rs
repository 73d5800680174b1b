//! `hawser rbac`: its roles are enough, and nothing in them is superfluous.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::plane::Kind;
use super::service::{self, Ground};
use super::world::{PUBLISHED, World};
use super::{SOON, gadgets};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_lives_with_exactly_the_printed_roles() {
    super::world::run(Ground::Bare, lives).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_missing_verb_is_named_with_what_does_not_work() {
    super::world::run(Ground::Bare, misses).await;
}

/// Runs the command; its exit code, and its answer.
async fn rbac(world: &World, args: &[&str]) -> Result<(i32, Value)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.args(["rbac", "-o", "json"]).args(args);
    command.args(world.place()?);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let stderr = String::from_utf8(output.stderr)?;
    let answer = serde_json::from_slice(&output.stdout).context(stderr)?;
    Ok((output.status.code().context("it was killed")?, answer))
}

/// Publishes gadgets with Secrets either way, and gives the agent the roles for them; the file.
async fn published(world: &World, flags: &[&str]) -> Result<(Kind, String, Value)> {
    let crd = gadgets(&world.group);
    let kind = world.install(&crd).await?;
    let entry = |identifier: &str, origin: &str| {
        let path = format!("spec.{identifier}");
        json!({"identifier": identifier, "origin": origin, "kind": "Secret",
            "cleanup": true, "object": {"reference": {"path": path}}})
    };
    let drift = [json!({"path": "spec.size", "mode": "Report"})];
    let more = json!({"related": [entry("down", "service"), entry("up", "kcp")], "drift": drift});
    let name = testbed::unique("pr");
    let document = world.published(&name, &kind, more);
    let file = |name: &str| world.directory.path().join(name).display().to_string();
    let (published, definition) = (file("published.yaml"), file("crd.yaml"));
    fs::write(&published, document.to_string())?;
    fs::write(&definition, crd.to_string())?;
    // Nothing is asked of the servers: the agent has no right at all yet.
    let files = ["-f", &published, "-f", &definition];
    let args = [&files[..], &["--side", "service"], flags].concat();
    let (code, list) = rbac(world, &args).await?;
    ensure!(code == 0 && list["kind"] == "List", "{list:#}");
    for role in list["items"].as_array().context("no roles")? {
        let namespace = role["metadata"]["namespace"].as_str();
        let rules = role["rules"].as_array().context("no rules")?;
        service::bind(&world.service, &world.user(), namespace, rules).await?;
    }
    world.create_published(&name, document).await?;
    Ok((kind, name, list))
}

async fn lives(world: &World) -> Result<()> {
    let (kind, published, _) = published(world, &[]).await?;
    let _agent = world.start_agent_that_elects()?;
    world.await_published(&published).await;
    world.await_claimed(&json!({"related": [{}]})).await;
    let team = world.team("team").await?;
    let secret = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"k": "v"}})
    };
    let secrets = |namespace: &str| format!("/api/v1/namespaces/{namespace}/secrets");
    team.plane
        .create(&secrets("default"), &secret("mine"))
        .await?;
    let spec = json!({"size": 1, "up": "mine", "down": "theirs"});
    team.make(&kind, "lamp", spec).await;
    let copy = world.await_copy(&kind, team.of("lamp")).await;
    let home = copy["metadata"]["namespace"].as_str().context("no home")?;
    world
        .service
        .create(&secrets(home), &secret("theirs"))
        .await?;
    eventually(SOON, "both Secrets are copied", async || {
        world
            .service
            .get(&format!("{}/mine", secrets(home)))
            .await?;
        team.plane
            .get(&format!("{}/theirs", secrets("default")))
            .await?;
        anyhow::Ok(())
    })
    .await;
    let edit = json!({"spec": {"size": 2}});
    team.patch(&kind, "lamp", edit).await?;
    world
        .await_in_copy(&kind, team.of("lamp"), "/spec/size", json!(2))
        .await;
    let name = copy["metadata"]["name"].as_str().context("no name")?;
    let at = format!("{}/status", kind.at(home, name));
    let status = json!({"status": {"phase": "Lit"}});
    world.service.merge(&at, status).await?;
    team.await_in(&kind, "lamp", "/status/phase", json!("Lit"))
        .await;
    let (code, answer) = rbac(world, &["--check"]).await?;
    ensure!(code == 0 && answer["missing"] == json!([]), "{answer:#}");
    what_is_not_served_hides_nothing_else(world, &kind).await?;
    team.delete(&kind, "lamp").await?;
    world.await_no_copy(&kind, team.of("lamp")).await;
    team.await_gone(&kind, "lamp").await;
    eventually(SOON, "no state is left", async || -> Result<()> {
        let states = world.service.list(&secrets(&world.namespace)).await?;
        ensure!(states.is_empty(), "{} states", states.len());
        Ok(())
    })
    .await;
    let found = world
        .service
        .get(&format!("{PUBLISHED}/{published}"))
        .await?;
    let conditions = found["status"]["conditions"].to_string();
    ensure!(!conditions.contains("MissingRights"), "{conditions}");
    Ok(())
}

/// A kind that is not served is named, the rights for the others are checked, and a disabled one needs none.
async fn what_is_not_served_hides_nothing_else(world: &World, kind: &Kind) -> Result<()> {
    let name = testbed::unique("pr");
    let off = json!({"synchronization": {"enabled": false}});
    let mut document = world.published(&name, kind, off);
    document["spec"]["resource"]["kind"] = "Nothing".into();
    world.create_published(&name, document).await?;
    let (code, answer) = rbac(world, &["--check"]).await?;
    ensure!(code == 0 && answer["problems"] == json!([]), "{answer:#}");
    let on = json!({"spec": {"synchronization": {"enabled": true}}});
    let at = format!("{PUBLISHED}/{name}");
    world.service.merge(&at, on).await?;
    let (code, answer) = rbac(world, &["--check"]).await?;
    let problem = answer["problems"][0].as_str().unwrap_or_default();
    ensure!(
        code == 1 && problem.contains("Nothing") && answer["missing"] == json!([]),
        "{answer:#}"
    );
    // Roles are applied: incomplete ones would take rights away.
    let printed = rbac(world, &[]).await;
    let why = printed.err().context("roles are printed")?.to_string();
    ensure!(why.contains("no roles are printed"), "{why}");
    world.service.delete(&at).await?;
    Ok(())
}

async fn misses(world: &World) -> Result<()> {
    published(world, &["--with-shards"]).await?;
    let user = world.user();
    let mut tried = 0;
    for (prefix, path) in roles(world, &user).await? {
        let whole = world.service.get(&path).await?;
        let rules = whole["rules"].as_array().context("no rules")?;
        for (number, rule) in rules.iter().enumerate() {
            for verb in rule["verbs"].as_array().into_iter().flatten() {
                let verb = verb.as_str().context("no verb")?;
                let resource = rule["resources"][0].as_str().context("no resource")?;
                if (resource, verb) == ("publishedresources", "list") {
                    // Nothing is known without it; that is told as an error.
                    continue;
                }
                let mut less = rules.clone();
                let verbs = less[number]["verbs"].as_array_mut().context("no verbs")?;
                verbs.retain(|one| one != verb);
                if verbs.is_empty() {
                    less.remove(number);
                }
                world.service.merge(&path, json!({"rules": less})).await?;
                let what = format!("{verb} {resource} of a {prefix}Role is missed");
                eventually(SOON, &what, async || {
                    let (code, answer) = rbac(world, &["--check", "--with-shards"]).await?;
                    let missing = answer["missing"].as_array().context("no answer")?;
                    ensure!(code == 2 && missing.len() == 1, "{code}: {answer:#}");
                    let right = missing[0]["right"].as_str().unwrap_or_default();
                    let begin = format!("{verb} {resource}");
                    ensure!(right.starts_with(&begin), "{answer:#}");
                    ensure!(missing[0]["purpose"] != "", "{answer:#}");
                    anyhow::Ok(())
                })
                .await;
                tried += 1;
                world.service.merge(&path, json!({"rules": rules})).await?;
            }
        }
    }
    ensure!(tried > 25, "only {tried} verbs were tried");
    Ok(())
}

/// The roles that are bound to a user: what their kind begins with, and where they are.
async fn roles(world: &World, user: &str) -> Result<Vec<(&'static str, String)>> {
    let mut roles = Vec::new();
    for (prefix, lower) in [("Cluster", "cluster"), ("", "")] {
        let bindings = world
            .service
            .list(&format!("{RBAC}/{lower}rolebindings"))
            .await?;
        for binding in bindings {
            if binding["subjects"][0]["name"] != user {
                continue;
            }
            let name = binding["roleRef"]["name"].as_str().context("no role")?;
            let place = match binding["metadata"]["namespace"].as_str() {
                Some(namespace) => format!("{RBAC}/namespaces/{namespace}"),
                None => RBAC.to_owned(),
            };
            roles.push((prefix, format!("{place}/{lower}roles/{name}")));
        }
    }
    Ok(roles)
}
