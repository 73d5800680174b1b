//! Every way to a name with every way to a namespace, from either side: what is there late, changes, goes, comes
//! back, and what of it happens while nobody is at work.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testbed::eventually;

use super::super::SOON;
use super::super::plane::Plane;
use super::super::stage::Stage;
use super::super::world::World;
use super::{FINALIZER, entry, secret, secrets};

on_both_grounds!(
    whatever_way_originals_on_the_service_cluster_are_found_copies_follow_them,
    whatever_way_originals_in_workspaces_are_found_copies_follow_them,
);

on_the_playground!(
    whatever_way_originals_on_the_service_cluster_are_found_copies_follow_them,
    whatever_way_originals_in_workspaces_are_found_copies_follow_them,
);

/// How names are found, or namespaces.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The namespaces of the object and of its copy; names have none of this.
    Mapped,
    Reference,
    /// A list, of two names or of two namespaces.
    List,
    Regex,
    SelectorAndRegex,
    SelectorAndTemplate,
    Template,
}

const NAMES: [Way; 6] = [
    Way::Reference,
    Way::List,
    Way::Regex,
    Way::SelectorAndRegex,
    Way::SelectorAndTemplate,
    Way::Template,
];
const NAMESPACES: [Way; 7] = [
    Way::Mapped,
    Way::Reference,
    Way::List,
    Way::Regex,
    Way::SelectorAndRegex,
    Way::SelectorAndTemplate,
    Way::Template,
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Origin {
    Kcp,
    Service,
}

/// A namespace and a name.
pub(super) type Place = (String, String);

/// One original and its copy.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) kcp: Place,
    pub(super) service: Place,
    pub(super) labels: Value,
    pub(super) cleanup: bool,
}

impl Pair {
    fn original(&self, origin: Origin) -> &Place {
        match origin {
            Origin::Kcp => &self.kcp,
            Origin::Service => &self.service,
        }
    }

    fn copy(&self, origin: Origin) -> &Place {
        match origin {
            Origin::Kcp => &self.service,
            Origin::Service => &self.kcp,
        }
    }
}

/// The namespaces that a way leads to: in the workspace, and on the service cluster. `own` is of this test.
fn namespaces(way: Way, own: &str, home: &str) -> Vec<(String, String)> {
    let both = |kcp: &str, service: &str| (kcp.to_owned(), service.to_owned());
    let same = |part: &str| both(&format!("{own}-{part}"), &format!("{own}-{part}"));
    match way {
        Way::Mapped => vec![both("default", home)],
        Way::Reference => vec![same("place")],
        Way::List => vec![same("first"), same("second")],
        Way::Regex => vec![same("field")],
        Way::SelectorAndRegex => vec![both("the-pool", &format!("{own}-pool"))],
        Way::SelectorAndTemplate => vec![both("the-lake", &format!("{own}-lake"))],
        Way::Template => vec![both("there", &format!("{own}-vault"))],
    }
}

/// What an entry says of its namespaces.
fn namespace(way: Way, origin: Origin, own: &str) -> Option<Value> {
    let rewritten = |part: &str, rewrite: Value| json!({"selector": {"matchLabels": {"part": format!("{own}-{part}")}, "rewrite": rewrite}});
    let regex = |pattern: &str, replacement: &str| json!({"regex": {"pattern": pattern, "replacement": replacement}});
    let template = |text: String| json!({"template": {"template": text}});
    Some(match way {
        Way::Mapped => return None,
        Way::Reference => json!({"reference": {"path": "spec.place"}}),
        Way::List => json!({"reference": {"path": "spec.places.#.is"}}),
        Way::Regex => json!({"reference": {"path": "spec.place",
            "regex": {"pattern": "-place$", "replacement": "-field"}}}),
        Way::SelectorAndRegex => rewritten(
            "pool",
            match origin {
                Origin::Service => regex("^.*-", "the-"),
                Origin::Kcp => regex("^the-", &format!("{own}-")),
            },
        ),
        Way::SelectorAndTemplate => rewritten(
            "lake",
            template(match origin {
                Origin::Service => format!("the-{{{{ .Value | trimPrefix \"{own}-\" }}}}"),
                Origin::Kcp => format!("{own}-{{{{ .Value | trimPrefix \"the-\" }}}}"),
            }),
        ),
        Way::Template => template(format!(
            "{{{{ if eq .Side \"kcp\" }}}}there{{{{ else }}}}{own}-vault{{{{ end }}}}"
        )),
    })
}

/// Whether consumers have a say in the namespace on the service cluster.
fn is_consumers(way: Way, origin: Origin) -> bool {
    match way {
        Way::Mapped | Way::Template => false,
        Way::Reference | Way::List | Way::Regex => true,
        Way::SelectorAndRegex | Way::SelectorAndTemplate => origin == Origin::Kcp,
    }
}

/// The names that a way leads to, of one object.
fn names(way: Way, origin: Origin, of: &str, cell: &str) -> Vec<(String, String)> {
    let same = |name: String| (name.clone(), name);
    let by_origin = |original: String, copy: String| match origin {
        Origin::Kcp => (original, copy),
        Origin::Service => (copy, original),
    };
    match way {
        Way::Mapped => Vec::new(),
        Way::Reference => vec![same(format!("{of}-{cell}"))],
        Way::List => ["a", "b"].map(|n| same(format!("{of}-{cell}-{n}"))).into(),
        Way::Regex => vec![same(format!("{of}-{cell}-key"))],
        Way::SelectorAndRegex => ["a", "b"]
            .map(|n| {
                let name = |end: &str| format!("{of}-{cell}-{n}-{end}");
                by_origin(name("orig"), name("copy"))
            })
            .into(),
        Way::SelectorAndTemplate => ["a", "b"]
            .map(|n| {
                let name = format!("{of}-{cell}-{n}");
                by_origin(name.clone(), format!("{name}-of-{of}"))
            })
            .into(),
        Way::Template => vec![(format!("{of}-{cell}-up"), format!("{of}-{cell}-down"))],
    }
}

/// What an entry says of its names.
fn object(way: Way, cell: &str) -> Value {
    let selected = |rewrite: Value| {
        json!({"selector": {
            "matchLabels": {"of": "{{ .RemoteObject.spec.id }}"},
            "matchExpressions": [{"key": "cell", "operator": "In", "values": [cell]}],
            "rewrite": rewrite,
        }})
    };
    match way {
        Way::Mapped => Value::Null,
        Way::Reference => json!({"reference": {"path": format!("spec.names.{cell}")}}),
        Way::List => json!({"reference": {"path": format!("spec.lists.{cell}")}}),
        Way::Regex => json!({"reference": {"path": format!("spec.names.{cell}"),
            "regex": {"pattern": "^(.*)$", "replacement": "$1-key"}}}),
        Way::SelectorAndRegex => {
            selected(json!({"regex": {"pattern": "-orig$", "replacement": "-copy"}}))
        }
        Way::SelectorAndTemplate => selected(json!({"template": {"template":
            "{{ .Value }}-of-{{ .RelatedObject.metadata.labels.of }}"}})),
        Way::Template => json!({"template": {"template": format!(
            "{{{{ .Object.spec.id }}}}-{cell}-{{{{ if eq .Side \"kcp\" }}}}up{{{{ else }}}}down{{{{ end }}}}")}}),
    }
}

/// All cells of the table from one side.
pub(super) struct Matrix<'w> {
    pub(super) stage: Stage<'w>,
    pub(super) origin: Origin,
    pub(super) own: String,
}

fn cells() -> impl Iterator<Item = (String, Way, Way)> {
    let all = NAMESPACES
        .iter()
        .flat_map(|space| NAMES.iter().map(move |name| (*name, *space)));
    all.enumerate()
        .map(|(number, (name, space))| (format!("c{number}"), name, space))
}

/// Whether the copies of a cell go with the object, where the owner decides that.
fn cleans_up(number: usize) -> bool {
    number.is_multiple_of(2)
}

impl<'w> Matrix<'w> {
    async fn set(world: &'w World, origin: Origin) -> Result<Self> {
        let own = world.agent.clone();
        let side = match origin {
            Origin::Kcp => "kcp",
            Origin::Service => "service",
        };
        let entries = cells().enumerate().map(|(number, (cell, name, space))| {
            let mut found = object(name, &cell);
            let mut allowed = Vec::new();
            if let Some(namespace) = namespace(space, origin, &own) {
                found["namespace"] = namespace;
                if is_consumers(space, origin) {
                    let opened = namespaces(space, &own, "");
                    allowed = opened.into_iter().map(|(_, service)| service).collect();
                }
            }
            let mut entry = entry(&cell, side, found);
            entry["allowedNamespaces"] = allowed.into();
            if cleans_up(number) {
                entry["cleanup"] = true.into();
            }
            entry
        });
        let entries: Vec<Value> = entries.collect();
        let stage = world.related(json!({"related": entries})).await?;
        let matrix = Self { stage, origin, own };
        matrix.make_namespaces().await?;
        Ok(matrix)
    }

    /// The label by which the selected ones are found is on the side of the originals only.
    async fn make_namespaces(&self) -> Result<()> {
        for space in NAMESPACES {
            if space == Way::Mapped {
                continue;
            }
            for (kcp, service) in namespaces(space, &self.own, "") {
                let part = service.rsplit_once('-').map_or("", |(_, part)| part);
                let labels = json!({"part": format!("{}-{part}", self.own)});
                let (here, there) = match self.origin {
                    Origin::Kcp => (labels, json!({})),
                    Origin::Service => (json!({}), labels),
                };
                self.stage.team.plane.namespace(&kcp, here).await?;
                self.stage.world.service.namespace(&service, there).await?;
            }
        }
        Ok(())
    }

    /// What an object says, and where that leads to.
    fn spec(&self, id: &str) -> Value {
        let mut spec = json!({"id": id, "names": {}, "lists": {},
            "place": format!("{}-place", self.own),
            "places": [{"is": format!("{}-first", self.own)}, {"is": format!("{}-second", self.own)}]});
        for (cell, ..) in cells() {
            spec["names"][&cell] = format!("{id}-{cell}").into();
            spec["lists"][&cell] = json!([format!("{id}-{cell}-a"), format!("{id}-{cell}-b")]);
        }
        spec
    }

    fn pairs(&self, id: &str) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (number, (cell, name, space)) in cells().enumerate() {
            for (kcp, service) in namespaces(space, &self.own, self.stage.home()) {
                for (in_kcp, on_service) in names(name, self.origin, id, &cell) {
                    pairs.push(Pair {
                        kcp: (kcp.clone(), in_kcp),
                        service: (service.clone(), on_service),
                        labels: json!({"cell": cell, "of": id}),
                        cleanup: cleans_up(number),
                    });
                }
            }
        }
        pairs
    }

    fn plane(&self, origin: Origin) -> &Plane {
        match origin {
            Origin::Kcp => &self.stage.team.plane,
            Origin::Service => &self.stage.world.service,
        }
    }

    pub(super) async fn put(&self, pairs: &[Pair], value: &str) -> Result<()> {
        for pair in pairs {
            let (namespace, name) = pair.original(self.origin);
            let object = secret(name, value, pair.labels.clone());
            let at = secrets().within(namespace);
            self.plane(self.origin).create(&at, &object).await?;
        }
        Ok(())
    }

    pub(super) async fn change(&self, pairs: &[Pair], value: &str) -> Result<()> {
        for pair in pairs {
            let (namespace, name) = pair.original(self.origin);
            let patch = json!({"stringData": {"k": value}});
            let at = secrets().at(namespace, name);
            self.plane(self.origin).merge(&at, patch).await?;
        }
        Ok(())
    }

    pub(super) async fn delete(&self, pairs: &[Pair]) -> Result<()> {
        for pair in pairs {
            let (namespace, name) = pair.original(self.origin);
            let at = secrets().at(namespace, name);
            self.plane(self.origin).delete(&at).await?;
        }
        Ok(())
    }

    /// All Secrets of one side.
    async fn all(&self, side: Origin) -> Result<BTreeMap<Place, Value>> {
        let found = self.plane(side).list(&secrets().everywhere()).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let place = |object: &Value| {
            let meta = &object["metadata"];
            (text(&meta["namespace"]), text(&meta["name"]))
        };
        Ok(found
            .into_iter()
            .map(|object| (place(&object), object))
            .collect())
    }

    fn other(&self) -> Origin {
        match self.origin {
            Origin::Kcp => Origin::Service,
            Origin::Service => Origin::Kcp,
        }
    }

    /// Waits until the copies of these have this value, or are not there.
    pub(super) async fn await_copies(&self, when: &str, pairs: &[Pair], value: Option<&str>) {
        let wanted = value.map(|value| STANDARD.encode(value));
        eventually(2 * SOON, when, async || {
            let all = self.all(self.other()).await?;
            for pair in pairs {
                let found = all.get(pair.copy(self.origin));
                let found = found.map(|object| object["data"]["k"].as_str().unwrap_or_default());
                ensure!(
                    found == wanted.as_deref(),
                    "{pair:?} has {found:?} and not {wanted:?}"
                );
            }
            Ok(())
        })
        .await;
    }

    /// Waits until both the originals of these and their copies are gone.
    pub(super) async fn await_gone(&self, when: &str, pairs: &[Pair]) {
        self.await_copies(when, pairs, None).await;
        eventually(SOON, when, async || {
            let all = self.all(self.origin).await?;
            let mut originals = pairs.iter().map(|pair| pair.original(self.origin));
            let there = originals.find(|place| all.contains_key(*place));
            ensure!(there.is_none(), "{there:?} is there");
            Ok(())
        })
        .await;
    }

    /// Waits until the originals of these are held, as they are where they are in workspaces, or let go.
    pub(super) async fn await_holds(&self, when: &str, pairs: &[Pair], held: bool) {
        let wanted = match (self.origin, held) {
            (Origin::Kcp, true) => json!([FINALIZER]),
            _ => Value::Null,
        };
        eventually(SOON, when, async || {
            let all = self.all(self.origin).await?;
            for pair in pairs {
                let found = all.get(pair.original(self.origin));
                let found = found.with_context(|| format!("{pair:?} is gone"))?;
                let found = &found["metadata"]["finalizers"];
                ensure!(*found == wanted, "{pair:?} has {found}");
            }
            Ok(())
        })
        .await;
    }

    /// Waits until the object names as many copies as there are.
    pub(super) async fn await_named(&self, name: &str, wanted: usize) {
        let wanted = match self.origin {
            Origin::Kcp => 0,
            Origin::Service => wanted,
        };
        eventually(SOON, "the object names its copies", async || {
            let found = self.stage.told(name).await?.len();
            ensure!(found == wanted, "it names {found} and not {wanted}");
            Ok(())
        })
        .await;
    }

    async fn restart_around(
        &mut self,
        meanwhile: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        self.stage.agent.kill().await?;
        meanwhile(self).await?;
        self.stage.agent = self.stage.world.start_agent()?;
        Ok(())
    }

    /// What remains once the object is gone: originals, and those copies that are the consumer's.
    pub(super) async fn assert_left(&self, pairs: &[Pair], value: &str) {
        let (go, stay): (Vec<_>, Vec<_>) = pairs
            .iter()
            .cloned()
            .partition(|pair| self.origin == Origin::Kcp || pair.cleanup);
        self.await_copies("copies that are to go are gone", &go, None)
            .await;
        self.await_copies("the others are there", &stay, Some(value))
            .await;
        self.await_holds("originals are let go", pairs, false).await;
    }
}

async fn whatever_way_originals_on_the_service_cluster_are_found_copies_follow_them(
    world: &World,
) -> Result<()> {
    lives(Matrix::set(world, Origin::Service).await?).await
}

async fn whatever_way_originals_in_workspaces_are_found_copies_follow_them(
    world: &World,
) -> Result<()> {
    lives(Matrix::set(world, Origin::Kcp).await?).await
}

async fn lives(mut matrix: Matrix<'_>) -> Result<()> {
    let pairs = matrix.pairs("lamp");
    // Long before any of the originals.
    matrix.stage.made("lamp", matrix.spec("lamp")).await;
    matrix.stage.marker("first").await;
    matrix.put(&pairs, "1").await?;
    matrix
        .await_copies("made late, they are copied", &pairs, Some("1"))
        .await;
    matrix.await_holds("originals are held", &pairs, true).await;
    matrix.await_named("lamp", pairs.len()).await;

    matrix.change(&pairs, "2").await?;
    matrix
        .await_copies("changes are carried over", &pairs, Some("2"))
        .await;

    let (gone, rest) = pairs.split_at(pairs.len() / 2);
    matrix.delete(gone).await?;
    matrix
        .await_gone("what was revoked is taken back", gone)
        .await;
    matrix.await_named("lamp", rest.len()).await;

    // The other half goes, what went comes back, while nobody is at work.
    let meanwhile = async |matrix: &Matrix<'_>| {
        matrix.delete(rest).await?;
        matrix.put(gone, "3").await
    };
    matrix.restart_around(meanwhile).await?;
    matrix
        .await_copies("what came meanwhile is copied", gone, Some("3"))
        .await;
    matrix
        .await_gone("what went meanwhile is taken back", rest)
        .await;
    matrix.put(rest, "3").await?;
    matrix.await_copies("it comes back", rest, Some("3")).await;

    // Changed while nobody is at work, and the object deleted before the agent comes to it.
    let meanwhile = async |matrix: &Matrix<'_>| matrix.change(gone, "4").await;
    matrix.restart_around(meanwhile).await?;
    matrix
        .await_copies("it was changed meanwhile", gone, Some("4"))
        .await;
    matrix.change(rest, "4").await?;
    matrix
        .await_copies("all have the same", &pairs, Some("4"))
        .await;
    let meanwhile = async |matrix: &Matrix<'_>| {
        let stage = &matrix.stage;
        stage.team.delete(&stage.kind, "lamp").await
    };
    matrix.restart_around(meanwhile).await?;
    matrix
        .stage
        .team
        .await_gone(&matrix.stage.kind, "lamp")
        .await;
    matrix.assert_left(&pairs, "4").await;

    // One that is deleted while its copies are being made leaves nothing that should go.
    let pairs = matrix.pairs("spark");
    matrix.put(&pairs, "5").await?;
    let stage = &matrix.stage;
    stage
        .team
        .make(&stage.kind, "spark", matrix.spec("spark"))
        .await;
    stage.team.delete(&stage.kind, "spark").await?;
    stage.team.await_gone(&stage.kind, "spark").await;
    stage.marker("last").await;
    let go: Vec<_> = pairs
        .iter()
        .filter(|pair| matrix.origin == Origin::Kcp || pair.cleanup)
        .cloned()
        .collect();
    matrix
        .await_copies("nothing is left of it", &go, None)
        .await;
    matrix
        .await_holds("nothing holds the originals", &pairs, false)
        .await;
    Ok(())
}
