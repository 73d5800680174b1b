//! `hawser plan`: what changed published resources would do is what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::LoggedRequest;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::plane::Kind;
use super::stage::Stage;
use super::world::{PUBLISHED, SERVICE_USER, Team, World};

on_the_playground!(
    a_change_that_is_refused_counts_as_one,
    a_thousand_objects_do_what_was_planned,
    generated_changes_do_what_was_planned,
    planning_writes_nothing,
    what_cannot_be_planned_counts_too,
    what_may_not_be_made_is_refused_in_the_plan,
);

on_both_grounds!(the_objects_of_a_plan_are_made_and_changed_as_planned);

on_our_ground!(a_new_resource_is_planned_with_its_schema);

const MADE: usize = 24;
const CASES: usize = 8;
const THOUSAND: usize = 1000;

/// The answer, and the exit code.
pub(super) async fn plan(world: &World, files: &[Value]) -> Result<(i32, Value)> {
    let (code, stdout, stderr) = said(world, files, "json").await?;
    let answer = serde_json::from_str(&stdout).with_context(|| stderr.clone())?;
    Ok((code, answer))
}

async fn said(world: &World, files: &[Value], output: &str) -> Result<(i32, String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.args(["plan", "-o", output]);
    for (number, document) in files.iter().enumerate() {
        let file: PathBuf = world.directory.path().join(format!("plan-{number}.yaml"));
        std::fs::write(&file, document.to_string())?;
        command.arg("-f").arg(file);
    }
    command.args(world.place()?);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    Ok((
        output.status.code().context("it was killed")?,
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

/// The document of a stored published resource with other fields.
pub(super) async fn changed(stage: &Stage<'_>, spec: &Value) -> Result<Value> {
    let stored = stage.world.service.get(&at(stage)).await?;
    let mut document = json!({
        "apiVersion": stored["apiVersion"], "kind": stored["kind"],
        "metadata": {"name": stored["metadata"]["name"]},
        "spec": {"resource": stored["spec"]["resource"]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        document["spec"][field] = value.clone();
    }
    Ok(document)
}

pub(super) fn at(stage: &Stage<'_>) -> String {
    format!("{PUBLISHED}/{}", stage.published)
}

/// Stores a document as `kubectl replace` does.
async fn apply(stage: &Stage<'_>, document: &Value) -> Result<()> {
    let mut stored = stage.world.service.get(&at(stage)).await?;
    stored["spec"] = document["spec"].clone();
    stage.world.service.replace(&at(stage), &stored).await?;
    Ok(())
}

/// A write: the verb, whether it goes to kcp, the resource, and where. The request log does not know what the objects
/// are called that are created.
pub(super) type Wrote = (String, bool, String, String);

/// The writes that a plan announces.
pub(super) fn planned(answer: &Value, kind: &Kind) -> BTreeMap<Wrote, usize> {
    let mut writes = BTreeMap::new();
    let objects = answer["objects"].as_array().into_iter().flatten();
    for write in objects.flat_map(|one| one["due"].as_array().into_iter().flatten()) {
        if !write["refusal"].is_null() {
            continue;
        }
        let text = write["object"].as_str().unwrap_or_default();
        let words: Vec<&str> = text.split(' ').collect();
        let resource = match words[1] {
            "Secret" => "secrets",
            "Namespace" => "namespaces",
            _ => &kind.plural,
        };
        let verb = write["verb"].as_str().unwrap_or_default();
        let mut place = words[2].to_owned();
        if verb == "create" {
            place.truncate(place.find('/').map_or(0, |slash| slash + 1));
        }
        let wrote = (
            verb.to_owned(),
            words[0] == "kcp",
            resource.to_owned(),
            place,
        );
        *writes.entry(wrote).or_default() += 1;
    }
    writes
}

/// The same of requests that were made.
pub(super) fn made(requests: &[LoggedRequest], kind: &Kind) -> BTreeMap<Wrote, usize> {
    let mut writes = BTreeMap::new();
    let resources = ["secrets", "namespaces", &*kind.plural];
    for request in requests {
        // Of several passes that create what they share, one succeeds.
        let writes_one = ["create", "update", "patch", "delete"].contains(&&*request.verb)
            && !request.query.contains("dryRun")
            && request.code < 400;
        if !writes_one || !resources.contains(&&*request.resource) {
            continue;
        }
        let mut verb = request.verb.clone();
        if !request.subresource.is_empty() {
            verb = format!("{verb} {}", request.subresource);
        }
        let is_kcp = request.user != SERVICE_USER;
        let mut place = String::new();
        if is_kcp {
            place = format!("{}|", request.cluster);
        }
        if !request.namespace.is_empty() && request.resource != "namespaces" {
            place = format!("{place}{}/", request.namespace);
        }
        place += &request.name;
        let wrote = (verb, is_kcp, request.resource.clone(), place);
        *writes.entry(wrote).or_default() += 1;
    }
    writes
}

/// What happens to an object while no agent runs.
#[derive(Clone, Debug)]
enum Act {
    Nothing,
    Edit(u8),
    Delete,
    Move(u8),
}

/// A change: of the rules, of as many objects, and how many new ones there are.
fn changes(objects: usize) -> impl Strategy<Value = (Value, Vec<Act>, usize)> {
    let act = prop_oneof![
        4 => Just(Act::Nothing),
        2 => any::<u8>().prop_map(Act::Edit),
        1 => Just(Act::Delete),
        1 => (0..3_u8).prop_map(Act::Move),
    ];
    (rules(), proptest::collection::vec(act, objects), 0..4_usize)
}

/// The rules of a published resource.
fn rules() -> impl Strategy<Value = Value> {
    let filter = prop_oneof![
        Just(json!(null)),
        (0..3_u8).prop_map(|tier| json!({"resource": {"matchLabels": {"tier": tier.to_string()}}})),
        Just(json!({"resource": {"matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["0", "1"]}]}})),
    ];
    let mutation = prop_oneof![
        Just(json!(null)),
        (1..4_u8).prop_map(|more| json!({"spec": [{"cel":
            {"path": "spec.size", "expression": format!("int(value) + {more}")}}]})),
        Just(json!({"spec": [{"delete": {"path": "spec.note"}}]})),
        Just(
            json!({"spec": [{"regex": {"path": "spec.note", "pattern": "^n", "replacement": "m"}}]})
        ),
    ];
    // What becomes of shared objects if the entry has another identifier depends on the order of passes.
    let related = prop_oneof![1 => Just(json!(null)), 2 => Just(up())];
    let naming = prop_oneof![
        Just(json!(null)),
        Just(json!({"name": "c-{{ .Object.metadata.name }}"})),
    ];
    let projection = prop_oneof![
        Just(json!(null)),
        Just(json!({"shortNames": ["g"]})),
        Just(json!({"categories": ["all"]})),
    ];
    let drift = prop_oneof![
        Just(json!(null)),
        Just(json!([{"path": "spec.size", "mode": "Revert"}])),
    ];
    (filter, mutation, related, naming, projection, drift).prop_map(
        |(filter, mutation, related, naming, projection, drift)| {
            let mut spec = json!({});
            for (field, value) in [
                ("filter", filter),
                ("mutation", mutation),
                ("related", related),
                ("naming", naming),
                ("projection", projection),
                ("drift", drift),
            ] {
                if !value.is_null() {
                    spec[field] = value;
                }
            }
            spec
        },
    )
}

/// An entry for the Secrets that objects name.
fn up() -> Value {
    json!([{"identifier": "up", "origin": "kcp", "kind": "Secret",
        "object": {"reference": {"path": "spec.up"}}}])
}

/// Objects in several workspaces.
struct Crowd<'w> {
    stage: Stage<'w>,
    teams: Vec<Team>,
    /// By team and name.
    members: BTreeMap<(usize, String), Member>,
    spec: Value,
}

/// What is known of an object.
#[derive(Clone)]
struct Member {
    tier: u8,
    /// The Secret that it names.
    up: Option<String>,
}

impl Member {
    /// An object that may name a Secret of its own, or one that several objects share.
    fn new(name: &str, number: usize) -> Self {
        let (tier, up) = match number % 3 {
            0 => (0, Some(format!("up-{name}"))),
            1 => (1, Some(format!("shared-{}", number % 5))),
            _ => (2, None),
        };
        Self { tier, up }
    }

    /// The Secret that the agent syncs for it under these rules.
    fn wanted(&self, spec: &Value) -> Option<&str> {
        let filter = &spec["filter"]["resource"];
        let tier = self.tier.to_string();
        let expected = filter["matchLabels"]["tier"].as_str();
        let allowed = filter["matchExpressions"][0]["values"].as_array();
        let passes = expected.is_none_or(|expected| expected == tier)
            && allowed.is_none_or(|allowed| allowed.contains(&json!(tier)));
        self.up
            .as_deref()
            .filter(|_| passes && !spec["related"].is_null())
    }
}

/// Rules, what happens to each object, and how many new ones there are.
type Changes = (Value, Vec<Act>, usize);

impl<'w> Crowd<'w> {
    /// As many objects with copies, evenly in as many workspaces.
    async fn new(world: &'w World, workspaces: usize, objects: usize) -> Result<Self> {
        let spec = json!({"related": up()});
        let stage = world.stage(spec.clone()).await?;
        let mut teams = vec![stage.team.clone()];
        for number in 1..workspaces {
            teams.push(world.team(&format!("team{number}")).await?);
        }
        let members: BTreeMap<_, _> = (0..objects)
            .map(|number| {
                let name = format!("g-{number:04}");
                let member = Member::new(&name, number / workspaces);
                ((number % workspaces, name), member)
            })
            .collect();
        for ((team, name), member) in &members {
            make(&teams[*team], &stage.kind, name, member).await;
        }
        eventually(SOON, "all have copies", async || {
            let copies = world.service.list(&stage.kind.everywhere()).await?;
            ensure!(copies.len() == objects, "{} have", copies.len());
            Ok(())
        })
        .await;
        nothing_to_plan(world, "before").await;
        Ok(Self {
            stage,
            teams,
            members,
            spec,
        })
    }

    /// Whether an object begins to share a Secret while the only one with it gives it up. The copy is either kept, or
    /// deleted and made again, which depends on the order of passes.
    fn depends_on_order(&self, (spec, acts, new): &Changes) -> bool {
        let (mut given_up, mut begun) = (BTreeSet::new(), BTreeSet::new());
        // Those that came later have no act.
        let acts = acts.iter().chain(repeat(&Act::Nothing));
        for (((team, _), member), act) in self.members.iter().zip(acts) {
            let mut later = member.clone();
            if let Act::Move(tier) = act {
                later.tier = *tier;
            }
            let before = member.wanted(&self.spec);
            let after = later.wanted(spec).filter(|_| !matches!(act, Act::Delete));
            if before != after {
                let of_team = |up: &str| (*team, up.to_owned());
                given_up.extend(before.map(of_team));
                begun.extend(after.map(of_team));
            }
        }
        for number in 0..*new {
            let member = Member::new("", number);
            begun.extend(member.wanted(spec).map(|up| (0, up.to_owned())));
        }
        !given_up.is_disjoint(&begun)
    }

    /// Changes rules and objects without an agent. What then is planned happens, and nothing else; returns it.
    async fn case(
        &mut self,
        case: usize,
        (spec, acts, new): Changes,
    ) -> Result<BTreeMap<Wrote, usize>> {
        let (world, kind) = (self.stage.world, self.stage.kind.clone());
        self.stage.agent.kill().await?;
        for ((team, name), act) in self.members.clone().keys().zip(&acts) {
            let plane = &self.teams[*team];
            match act {
                Act::Nothing => {}
                Act::Edit(size) => {
                    let edit = json!({"spec": {"size": size, "note": format!("n{case}")}});
                    plane.patch(&kind, name, edit).await?;
                }
                Act::Delete => {
                    plane.delete(&kind, name).await?;
                    self.members.remove(&(*team, name.clone()));
                }
                Act::Move(tier) => {
                    let edit = json!({"metadata": {"labels": {"tier": tier.to_string()}}});
                    plane.patch(&kind, name, edit).await?;
                    let member = self.members.get_mut(&(*team, name.clone()));
                    member.context("no such object")?.tier = *tier;
                }
            }
        }
        for number in 0..new {
            let name = format!("new-{case}-{number}");
            let member = Member::new(&name, number);
            make(&self.teams[0], &kind, &name, &member).await;
            self.members.insert((0, name), member);
        }
        self.spec = spec.clone();
        let document = changed(&self.stage, &spec).await?;
        let (code, answer) = plan(world, std::slice::from_ref(&document)).await?;
        let planned = planned(&answer, &kind);
        ensure!(code == 2 || planned.is_empty(), "{code}: {answer:#}");

        let mark = world.requests().mark();
        apply(&self.stage, &document).await?;
        self.stage.agent = world.start_agent()?;
        let what = format!("case {case} does what was planned: {spec}");
        eventually(SOON, &what, async || {
            let made = made(&world.agents_requests(mark), &kind);
            let missing: Vec<_> = planned
                .keys()
                .filter(|one| !made.contains_key(one))
                .collect();
            ensure!(missing.is_empty(), "missing: {missing:#?}");
            Ok(())
        })
        .await;
        // An agent that has nothing left to do leaves nothing to plan.
        nothing_to_plan(world, &what).await;
        let made = at_least_once(made(&world.agents_requests(mark), &kind));
        let wanted = at_least_once(planned.clone());
        ensure!(
            made == wanted,
            "{what}\nplanned only: {:#?}\nmade only: {:#?}",
            difference(&wanted, &made),
            difference(&made, &wanted)
        );
        Ok(planned)
    }
}

/// The same where the number of writes to a state does not count: it is one more if another pass comes first.
fn at_least_once(mut writes: BTreeMap<Wrote, usize>) -> BTreeMap<Wrote, usize> {
    for ((verb, _, _, place), count) in &mut writes {
        if verb == "update" && place.contains("/obj-state-") {
            *count = 1;
        }
    }
    writes
}

async fn nothing_to_plan(world: &World, what: &str) {
    eventually(SOON, what, async || {
        let (code, answer) = plan(world, &[]).await?;
        ensure!(code == 0, "{code}: {answer:#}");
        Ok(())
    })
    .await;
}

fn generated(runner: &mut TestRunner, objects: usize) -> Result<Changes> {
    let tree = changes(objects).new_tree(runner);
    Ok(tree.map_err(anyhow::Error::msg)?.current())
}

async fn generated_changes_do_what_was_planned(world: &World) -> Result<()> {
    let mut crowd = Crowd::new(world, 2, MADE).await?;
    let mut runner = TestRunner::default();
    let (mut writes, mut kinds) = (0, BTreeSet::new());
    for case in 0..CASES {
        let changes = loop {
            let changes = generated(&mut runner, MADE)?;
            if !crowd.depends_on_order(&changes) {
                break changes;
            }
        };
        let planned = crowd.case(case, changes).await?;
        writes += planned.values().sum::<usize>();
        kinds.extend(planned.into_keys().map(|(verb, ..)| verb));
    }
    ensure!(writes >= CASES * 4, "only {writes} writes were planned");
    ensure!(kinds.len() >= 3, "only {kinds:?} was planned");
    Ok(())
}

async fn a_thousand_objects_do_what_was_planned(world: &World) -> Result<()> {
    let mut crowd = Crowd::new(world, 5, THOUSAND).await?;
    let (_, acts, new) = generated(&mut TestRunner::default(), THOUSAND)?;
    // Every object is concerned by one part of it or another.
    let spec = json!({
        "filter": {"resource": {"matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["0", "1"]}]}},
        "mutation": {"spec": [{"cel": {"path": "spec.size", "expression": "int(value) + 1"}}]},
        "naming": {"name": "c-{{ .Object.metadata.name }}"},
    });
    let planned = crowd.case(0, (spec, acts, new)).await?;
    let writes: usize = planned.values().sum();
    ensure!(writes >= THOUSAND, "only {writes} writes were planned");
    Ok(())
}

fn difference<'a>(
    one: &'a BTreeMap<Wrote, usize>,
    other: &BTreeMap<Wrote, usize>,
) -> Vec<(&'a Wrote, usize)> {
    let differs = |(key, count): &(&Wrote, &usize)| other.get(*key) != Some(count);
    one.iter()
        .filter(differs)
        .map(|(key, count)| (key, *count))
        .collect()
}

/// Makes the object, and the Secret that it names.
async fn make(team: &Team, kind: &Kind, name: &str, member: &Member) {
    let mut spec = json!({"size": name.len(), "note": "n"});
    if let Some(up) = &member.up {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": up},
            "stringData": {"k": "v"}});
        let secrets = "/api/v1/namespaces/default/secrets";
        let found = team.plane.find(&format!("{secrets}/{up}")).await;
        if !matches!(found, Ok(Some(_))) {
            team.make_at(secrets, &secret).await;
        }
        spec["up"] = json!(up);
    }
    let mut object = kind.object(name, spec);
    object["metadata"]["labels"] = json!({"tier": member.tier.to_string()});
    team.make_at(&kind.within("default"), &object).await;
}

async fn the_objects_of_a_plan_are_made_and_changed_as_planned(world: &World) -> Result<()> {
    let only = |tier: &str| json!({"filter": {"resource": {"matchLabels": {"tier": tier}}}});
    let mut stage = world.stage(only("0")).await?;
    for number in 0..12 {
        let name = format!("g-{number}");
        make(&stage.team, &stage.kind, &name, &Member::new(&name, number)).await;
    }
    for number in (0..12).step_by(3) {
        stage.copy(&format!("g-{number}")).await;
    }
    stage.agent.kill().await?;
    let edit = json!({"spec": {"size": 70}});
    stage.team.patch(&stage.kind, "g-0", edit).await?;
    let mut spec = json!({"filter": {"resource": {"matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["0", "1"]}]}}});
    spec["mutation"] = json!({"spec": [{"cel":
        {"path": "spec.size", "expression": "int(value) + 1"}}]});
    let document = changed(&stage, &spec).await?;
    let (code, answer) = plan(world, std::slice::from_ref(&document)).await?;
    ensure!(code == 2 && answer["changes"] == true, "{code}: {answer:#}");
    let row = &answer["workspaces"][0];
    ensure!(row["cluster"] == *stage.team.cluster, "{answer:#}");
    ensure!(row["made"] == 4 && row["refused"] == 0, "{answer:#}");

    apply(&stage, &document).await?;
    stage.agent = world.start_agent()?;
    for one in answer["objects"].as_array().context("no objects")? {
        let name = one["object"]["name"].as_str().context("no name")?;
        for write in one["due"].as_array().into_iter().flatten() {
            let wanted = &write["change"]["spec"]["size"];
            if !wanted.is_null() {
                stage
                    .await_in_copy(name, "/spec/size", wanted.clone())
                    .await;
            }
        }
    }
    stage.await_in_copy("g-0", "/spec/size", json!(71)).await;
    let out = stage.of("g-2");
    ensure!(world.copy(&stage.kind, out).await?.is_none());
    eventually(SOON, "nothing is left to plan", async || {
        let (code, answer) = plan(world, &[]).await?;
        ensure!(code == 0, "{code}: {answer:#}");
        Ok(())
    })
    .await;
    Ok(())
}

async fn planning_writes_nothing(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.agent.kill().await?;
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    let document = changed(&stage, &json!({"enableWorkspacePaths": true})).await?;
    let mark = world.requests().mark();
    let (code, stdout, stderr) = said(world, &[document], "human").await?;
    ensure!(code == 2, "{stdout}{stderr}");
    ensure!(stdout.contains("logicalclusters"), "{stdout}");
    for request in world.agents_requests(mark) {
        let reads = ["get", "list", "watch"].contains(&&*request.verb);
        ensure!(reads || request.query.contains("dryRun=All"), "{request:?}");
    }
    Ok(())
}

async fn a_change_that_is_refused_counts_as_one(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    nothing_to_plan(world, "before").await;
    let fails = json!({"mutation": {"spec": [{"cel":
        {"path": "spec.size", "expression": "int(string(value) + 'x')"}}]}});
    let document = changed(&stage, &fails).await?;
    let (code, answer) = plan(world, std::slice::from_ref(&document)).await?;
    ensure!(
        code == 2 && answer["changes"] == false,
        "{code}: {answer:#}"
    );
    let (_, text, _) = said(world, &[document], "human").await?;
    let verdict = "1 object: nothing would change, 1 refused\n";
    ensure!(text.ends_with(verdict), "{text}");
    Ok(())
}

async fn what_cannot_be_planned_counts_too(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    nothing_to_plan(world, "before").await;
    let ropes = world
        .install(&super::definition(&world.group, "ropes", "Rope"))
        .await?;
    let wrong = json!({"naming": {"name": "{{ .Object.metadata.name | nothing }}"}});
    let name = world.publish(&ropes, wrong).await?;
    world.await_published(&name).await;
    let (code, answer) = plan(world, &[]).await?;
    let shown = &answer["publishedResources"][0];
    ensure!(
        code == 2 && shown["name"] == *name && shown["isOfFiles"] == false,
        "{code}: {answer:#}"
    );
    let problems = shown["problems"].to_string();
    ensure!(problems.contains("spec.naming.name"), "{answer:#}");
    let (_, text, _) = said(world, &[], "human").await?;
    let verdict = ": nothing would change, as far as objects can be listed\n";
    ensure!(text.ends_with(verdict), "{text}");
    Ok(())
}

async fn what_may_not_be_made_is_refused_in_the_plan(world: &World) -> Result<()> {
    let naming = json!({"naming": {"name": "{{ .Object.metadata.name }}"}});
    let stage = world.stage(naming).await?;
    stage.agent.kill().await?;
    for name in ["one", "two"] {
        stage.team.make(&stage.kind, name, json!({"size": 1})).await;
    }
    let same = json!({"naming": {"name": "same"}});
    let document = changed(&stage, &same).await?;
    let (code, answer) = plan(world, &[document]).await?;
    ensure!(code == 2, "{code}: {answer:#}");
    ensure!(answer["total"]["refused"] == 1, "{answer:#}");

    let invalid = json!({"naming": {"name": "{{ .Object.metadata.name | nothing }}"}});
    let document = changed(&stage, &invalid).await?;
    let (code, stdout, stderr) = said(world, &[document], "human").await?;
    ensure!(
        code == 1 && stderr.contains("spec.naming.name"),
        "{stdout}{stderr}"
    );
    let unread = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["plan", "--nonsense"])
        .output()?;
    ensure!(unread.status.code() == Some(1), "{unread:?}");
    Ok(())
}

async fn a_new_resource_is_planned_with_its_schema(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let crd = super::definition(&world.group, "ropes", "Rope");
    let ropes = world.install(&crd).await?;
    let name = testbed::unique("pr");
    let document = world.published(&name, &ropes, json!({}));
    let (code, answer) = plan(world, std::slice::from_ref(&document)).await?;
    ensure!(code == 2, "{code}: {answer:#}");
    let planned = &answer["publishedResources"][0];
    ensure!(planned["isNew"] == true, "{answer:#}");
    ensure!(
        answer["export"]["addedSchemas"] == json!([planned["schema"]]),
        "{answer:#}"
    );
    world.create_published(&name, document).await?;
    let schema = world.await_published(&name).await;
    ensure!(planned["schema"] == *schema, "{schema}: {answer:#}");
    drop(stage);

    let mut foreign = world.published(&name, &ropes, json!({}));
    foreign["metadata"] = json!({"name": "unlabelled"});
    let (code, stdout, stderr) = said(world, &[foreign], "human").await?;
    ensure!(
        code == 1 && stderr.contains("--published-resource-selector"),
        "{stdout}{stderr}"
    );
    Ok(())
}
