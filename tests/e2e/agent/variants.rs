//! Every way in which an entry of `related` finds its objects, in both directions, all at once: one
//! published object leads to one pair by each of them, and all pairs go through the same life.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use serde_json::{Value, json};
use testbed::eventually;

use super::plane::{Kind, Plane};
use super::service::{self, Ground};
use super::stage::Stage;
use super::world::World;
use super::{SOON, definition};

on_both_grounds!(every_variant_lives_and_ends_with_its_originals_and_its_object);

on_the_playground!(every_variant_lives_and_ends_with_its_originals_and_its_object);

/// The side of the originals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Service,
    Kcp,
}

/// One pair of an original and its copy.
struct Pair {
    from: From,
    source: (Kind, String, String),
    target: (Kind, String, String),
    labels: Value,
}

/// What pairs are made of.
struct Names {
    /// On the service cluster, and in workspaces.
    parts: (Kind, Kind),
    /// Opened on the service cluster for what consumers say.
    open: String,
}

fn legacy(kind: &str) -> Kind {
    Kind::new("", "v1", &format!("{}s", kind.to_lowercase()), kind)
}

impl From {
    fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Kcp => "kcp",
        }
    }

    /// The entries of this direction. Each has the side's word in what it is called.
    fn entries(self, names: &Names) -> Vec<Value> {
        let word = self.word();
        let at = |path: &str| json!({"reference": {"path": format!("spec.{word}.{path}")}});
        let template = |text: &str| json!({"template": {"template": text}});
        let both = |original: &str, copy: &str| {
            template(&format!(
                "{{{{ if eq .Side \"{word}\" }}}}{original}{{{{ else }}}}{copy}{{{{ end }}}}"
            ))
        };
        // Only for the object that says so: the same for all would be everybody's.
        let said =
            |name: &str| format!("{{{{ with .Object.spec.{word} }}}}{word}-{name}{{{{ end }}}}");
        let selector = |rewrite: Value, which: &str| {
            let label = format!("{word}-{which}-{{{{ .RemoteObject.metadata.name }}}}");
            json!({"selector": {"matchLabels": {"for": label}, "rewrite": rewrite}})
        };
        let prefix = json!({"regex": {"pattern": "^", "replacement": "got-"}});
        let suffix =
            json!({"template": {"template": "{{ .Value }}-of-{{ .RemoteObject.metadata.name }}"}});
        let mut regex = at("regex");
        regex["reference"]["regex"] = json!({"pattern": "^pre-", "replacement": ""});
        let within = |mut object: Value, namespace: Value| {
            object["namespace"] = namespace;
            object
        };
        // Where the namespace of the other side is the owner's own words.
        let rewrite = match self {
            Self::Service => json!({"regex": {"pattern": "", "replacement": "default"}}),
            Self::Kcp => json!({"template": {"template": "{{ .ClusterName }}"}}),
        };
        let labelled = json!({"selector": {"matchLabels": {"room": format!("{word}-{{{{ .ClusterName }}}}")}, "rewrite": rewrite}});
        let (ours, theirs) = match self {
            Self::Service => ("{{ .ClusterName }}-x", "elsewhere"),
            Self::Kcp => ("elsewhere", "{{ .ClusterName }}-x"),
        };
        let entry = |name: &str, kind: &str, object: Value| {
            json!({"identifier": format!("{word}-{name}"), "origin": word, "kind": kind,
                "cleanup": true, "object": object})
        };
        let mut mutated = entry("reference", "Secret", at("reference"));
        mutated["mutation"] = json!({"spec": [{"regex": {"path": "metadata.annotations.note", "replacement": "changed"}}]});
        let mut opened = entry("said", "Secret", within(at("said"), at("namespace")));
        opened["allowedNamespaces"] = json!([names.open]);
        let (local, remote) = &names.parts;
        let (source, target) = match self {
            Self::Service => (local, remote),
            Self::Kcp => (remote, local),
        };
        let custom = json!({"identifier": format!("{word}-part"), "origin": word, "cleanup": true,
            "group": source.group, "version": source.version, "resource": source.plural,
            "projection": {"group": target.group}, "syncStatus": true, "watch": {"byOwner": {}},
            "object": at("part")});
        vec![
            mutated,
            entry("regex", "Secret", regex),
            entry("list", "ConfigMap", at("list")),
            entry(
                "template",
                "ConfigMap",
                both(&said("original"), &said("copy")),
            ),
            entry("prefix", "Secret", selector(prefix, "prefix")),
            entry("suffix", "ConfigMap", selector(suffix, "suffix")),
            entry("placed", "Secret", within(at("placed"), both(ours, theirs))),
            opened,
            entry("room", "Secret", within(at("room"), labelled)),
            custom,
        ]
    }

    /// What the published object says for these.
    fn spec(self, names: &Names) -> Value {
        let word = self.word();
        let named = |name: &str| format!("{word}-{name}");
        json!({"reference": named("reference"), "regex": format!("pre-{}", named("regex")),
            "list": [named("list1"), named("list2")], "placed": named("placed"), "said": named("said"),
            "namespace": names.open, "room": named("room"), "part": named("part")})
    }

    /// The pairs that they lead to, for an object `lamp` in `default`.
    fn pairs(self, names: &Names, cluster: &str) -> Vec<Pair> {
        let word = self.word();
        let named = |name: &str| format!("{word}-{name}");
        let (own, other) = match self {
            Self::Service => (cluster.to_owned(), "default".to_owned()),
            Self::Kcp => ("default".to_owned(), cluster.to_owned()),
        };
        let (own_x, other_x) = match self {
            Self::Service => (format!("{cluster}-x"), "elsewhere".to_owned()),
            Self::Kcp => ("elsewhere".to_owned(), format!("{cluster}-x")),
        };
        let pair = |kind: &str, source: (&str, String), target: (&str, String)| Pair {
            from: self,
            source: (legacy(kind), source.0.to_owned(), source.1),
            target: (legacy(kind), target.0.to_owned(), target.1),
            labels: json!({}),
        };
        let same = |kind: &str, name: &str| pair(kind, (&own, named(name)), (&other, named(name)));
        let found = |kind: &str, name: &str, copy: String| Pair {
            labels: json!({"for": format!("{word}-{name}-lamp")}),
            ..pair(kind, (&own, named(name)), (&other, copy))
        };
        let (local, remote) = names.parts.clone();
        let (source, target) = match self {
            Self::Service => (local, remote),
            Self::Kcp => (remote, local),
        };
        vec![
            same("Secret", "reference"),
            same("Secret", "regex"),
            same("ConfigMap", "list1"),
            same("ConfigMap", "list2"),
            pair(
                "ConfigMap",
                (&own, named("original")),
                (&other, named("copy")),
            ),
            found("Secret", "prefix", format!("got-{}", named("prefix"))),
            found(
                "ConfigMap",
                "suffix",
                format!("{}-of-lamp", named("suffix")),
            ),
            pair(
                "Secret",
                (&own_x, named("placed")),
                (&other_x, named("placed")),
            ),
            pair(
                "Secret",
                (&names.open, named("said")),
                (&names.open, named("said")),
            ),
            pair(
                "Secret",
                (&format!("room-{cluster}"), named("room")),
                (&other, named("room")),
            ),
            Pair {
                source: (source, own.clone(), named("part")),
                target: (target, other.clone(), named("part")),
                ..same("Secret", "part")
            },
        ]
    }
}

/// What an object has, however its kind holds it.
fn value(object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    if object["kind"] == "Secret" {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text("/data/k")?);
        return String::from_utf8(bytes.ok()?).ok();
    }
    text("/data/k").or(text("/spec/k")).map(str::to_owned)
}

fn with(kind: &Kind, value: &str) -> Value {
    match kind.name.as_str() {
        "Secret" => json!({"stringData": {"k": value}}),
        "ConfigMap" => json!({"data": {"k": value}}),
        _ => json!({"spec": {"k": value}}),
    }
}

impl Pair {
    fn planes<'s>(&self, stage: &'s Stage<'_>) -> (&'s Plane, &'s Plane) {
        match self.from {
            From::Service => (&stage.world.service, &stage.team.plane),
            From::Kcp => (&stage.team.plane, &stage.world.service),
        }
    }

    fn is_part(&self) -> bool {
        !self.source.0.group.is_empty()
    }

    async fn make(&self, stage: &Stage<'_>, value: &str) -> Result<()> {
        let (kind, namespace, name) = &self.source;
        let mut object = with(kind, value);
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.name.as_str().into();
        object["metadata"] = json!({"name": name, "labels": self.labels});
        let plane = self.planes(stage).0;
        let made = plane.create(&kind.within(namespace), &object).await?;
        if self.is_part() {
            // Its author writes the status at once, by the version that it made.
            let mut told = made;
            told["status"] = json!({"said": value});
            let at = format!("{}/status", kind.at(namespace, name));
            plane.replace(&at, &told).await?;
        }
        Ok(())
    }

    async fn change(&self, stage: &Stage<'_>, value: &str) -> Result<()> {
        let (kind, namespace, name) = &self.source;
        let (plane, at) = (self.planes(stage).0, kind.at(namespace, name));
        plane.merge(&at, with(kind, value)).await?;
        if self.is_part() {
            let status = json!({"status": {"said": value}});
            plane.merge(&format!("{at}/status"), status).await?;
        }
        Ok(())
    }

    async fn remove(&self, stage: &Stage<'_>) -> Result<()> {
        let (kind, namespace, name) = &self.source;
        let plane = self.planes(stage).0;
        plane.delete(&kind.at(namespace, name)).await?;
        Ok(())
    }

    async fn found(&self, stage: &Stage<'_>) -> Result<Option<Value>> {
        let (kind, namespace, name) = &self.target;
        let plane = self.planes(stage).1;
        Ok(plane.find(&kind.at(namespace, name)).await?)
    }

    async fn check(&self, stage: &Stage<'_>, wanted: Option<&str>) -> Result<()> {
        let (kind, namespace, name) = &self.target;
        let copy = self.found(stage).await?;
        let has = copy.as_ref().and_then(value);
        ensure!(
            has.as_deref() == wanted,
            "{} {namespace}/{name} has {has:?} and not {wanted:?}",
            kind.name
        );
        let Some(copy) = copy else {
            return Ok(());
        };
        if self.is_part() {
            ensure!(copy["status"]["said"].as_str() == wanted, "{copy}");
        }
        ensure!(
            !copy["metadata"].to_string().contains("syncagent.kcp.io"),
            "{copy}"
        );
        let note = &copy["metadata"]["annotations"]["note"];
        ensure!((note == "changed") == name.ends_with("reference"), "{copy}");
        Ok(())
    }

    /// Whether the original is held: those in workspaces are while there is a copy.
    async fn check_held(&self, stage: &Stage<'_>, held: bool) -> Result<()> {
        let (kind, namespace, name) = &self.source;
        let original = self.planes(stage).0.find(&kind.at(namespace, name)).await?;
        let original = original.context("the original is gone")?;
        let finalizers = &original["metadata"]["finalizers"];
        let wanted = held && self.from == From::Kcp;
        ensure!(finalizers.is_array() == wanted, "{name} has {finalizers}");
        Ok(())
    }
}

async fn await_all(
    stage: &Stage<'_>,
    pairs: &[Pair],
    wanted: impl Fn(usize) -> Option<&'static str>,
) {
    for (number, pair) in pairs.iter().enumerate() {
        let what = format!("the copy {} is as it should be", pair.target.2);
        eventually(SOON, &what, async || {
            pair.check(stage, wanted(number)).await
        })
        .await;
    }
}

async fn every_variant_lives_and_ends_with_its_originals_and_its_object(
    world: &World,
) -> Result<()> {
    let verbs = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    if world.ground != Ground::Playground {
        let rule =
            json!({"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": verbs});
        service::bind(&world.service, &world.user(), None, &[rule]).await?;
    }
    let mut crd = definition(&world.group, "parts", "Part");
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let part = world.install(&crd).await?;
    let remote = Kind {
        group: format!("kcp.{}", part.group),
        ..part.clone()
    };
    let schema_only =
        json!({"synchronization": {"enabled": false}, "projection": {"group": remote.group}});
    let published = world.publish(&part, schema_only).await?;
    let names = Names {
        parts: (part, remote),
        open: format!("{}-open", world.namespace),
    };
    let entries = [From::Service, From::Kcp].map(|from| from.entries(&names));
    let mut stage = world.stage(json!({"related": entries.concat()})).await?;
    world.await_published(&published).await;

    let cluster = stage.team.cluster.clone();
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let room = format!("room-{cluster}");
    let places = [
        (service, names.open.clone(), json!({})),
        (service, format!("{cluster}-x"), json!({})),
        (
            service,
            room.clone(),
            json!({"room": format!("service-{cluster}")}),
        ),
        (&team, names.open.clone(), json!({})),
        (&team, "elsewhere".to_owned(), json!({})),
        (&team, room, json!({"room": format!("kcp-{cluster}")})),
    ];
    for (plane, name, labels) in places {
        plane.namespace(&name, labels).await?;
    }
    let spec = json!({"service": From::Service.spec(&names), "kcp": From::Kcp.spec(&names)});
    stage.made("lamp", spec).await;
    stage.marker("first").await;
    let mut pairs = From::Service.pairs(&names, &cluster);
    pairs.extend(From::Kcp.pairs(&names, &cluster));

    // Long after the object.
    for pair in &pairs {
        pair.make(&stage, "1").await?;
    }
    await_all(&stage, &pairs, |_| Some("1")).await;
    for pair in &pairs {
        pair.check_held(&stage, true).await?;
        pair.change(&stage, "2").await?;
    }
    await_all(&stage, &pairs, |_| Some("2")).await;
    for pair in &pairs {
        pair.remove(&stage).await?;
    }
    await_all(&stage, &pairs, |_| None).await;
    for pair in &pairs {
        let what = format!("the original {} may be made again", pair.source.2);
        eventually(SOON, &what, async || pair.make(&stage, "3").await).await;
    }
    await_all(&stage, &pairs, |_| Some("3")).await;

    // While nobody is at work.
    stage.agent.kill().await?;
    for (number, pair) in pairs.iter().enumerate() {
        if number.is_multiple_of(2) {
            pair.change(&stage, "4").await?;
        } else {
            pair.remove(&stage).await?;
        }
    }
    stage.agent = world.start_agent()?;
    let half = |number: usize| number.is_multiple_of(2).then_some("4");
    await_all(&stage, &pairs, half).await;
    for pair in pairs.iter().skip(1).step_by(2) {
        let what = format!("the original {} may be made again", pair.source.2);
        eventually(SOON, &what, async || pair.make(&stage, "4").await).await;
    }
    await_all(&stage, &pairs, |_| Some("4")).await;

    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    for pair in &pairs {
        ensure!(
            pair.found(&stage).await?.is_none(),
            "{} is left",
            pair.target.2
        );
        pair.check_held(&stage, false).await?;
    }
    Ok(())
}
