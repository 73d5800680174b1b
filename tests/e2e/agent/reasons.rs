//! Every reason that an object can have: `hawser explain` finds it from each end that exists, until its cause is removed.
//!
//! [`Shown::of`] says where each code is shown. A new code without a scenario does not compile.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use hawser_sync::Code;
use hawser_sync::reason::Class;
use kcp_playground::server::{Action, Fault, Matcher};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::{Process, eventually};

use super::explain::only_explained;
use super::plane::Kind;
use super::world::{PUBLISHED, Team, World};
use super::{SOON, definition};

mod faults;
mod held;
mod life;
mod naming;
mod related;
mod sizes;

/// The test that shows a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Faults,
    Held,
    Life,
    Naming,
    Related,
    Sizes,
    /// `the_advice_for_a_missing_namespace_creates_it` of the mirror: the agent creates namespaces itself.
    Mirror,
    /// Never the reason of an explained object. The documentation of the code says why, in these words.
    Never(&'static str),
}

impl Shown {
    fn of(code: Code) -> Self {
        match code {
            Code::InStep
            | Code::Gone
            | Code::Kept
            | Code::NoSource
            | Code::Working
            | Code::WaitingForDeletion
            | Code::WaitingForNamespace
            | Code::Paused => Self::Life,
            Code::Held => Self::Held,
            Code::AdoptionRefused
            | Code::NameConflict
            | Code::NameInvalid
            | Code::NamingFailed
            | Code::NamespaceClosed
            | Code::MutationFailed
            | Code::Invalid => Self::Naming,
            Code::Forbidden
            | Code::StatusNotServed
            | Code::SourceNotQuiet
            | Code::NotLinked
            | Code::ReferenceInvalid
            | Code::TooManyRelated
            | Code::KindNotServed
            | Code::WaitingForOthers => Self::Related,
            Code::NotSeen
            | Code::NoAnswer
            | Code::TooManyChanges
            | Code::StoredOtherwise
            | Code::TooLarge
            | Code::Contested => Self::Faults,
            Code::TooDeep | Code::CacheLimitExceeded | Code::StateTooLarge | Code::StateNotKept => {
                Self::Sizes
            }
            Code::NamespaceMissing => Self::Mirror,
            Code::NeedsToSee => Self::Never("no pass ends with it"),
            Code::RulesInvalid => Self::Never("it is a reason of the condition `Ready`"),
        }
    }
}

#[test]
fn a_code_that_no_scenario_shows_is_documented_as_such() {
    let docs = std::fs::read_to_string(repository().join("docs/reasons.md")).unwrap();
    for code in Code::ALL {
        if let Shown::Never(words) = Shown::of(*code) {
            let told = docs
                .lines()
                .any(|line| line.starts_with(&format!("`{code}`: ")) && line.contains(words));
            assert!(told, "docs/reasons.md does not say of {code}: {words}");
        }
    }
}

/// An agent whose objects are explained.
struct Scene<'w> {
    world: &'w World,
    team: Team,
    shown: RefCell<BTreeSet<Code>>,
}

/// The arguments by which an object is explained from one end.
type End = Vec<String>;

/// A kind that is published, and by what.
struct Ware {
    kind: Kind,
    published: String,
}

impl World {
    /// A kind of its own, published with more in the spec.
    async fn ware(&self, name: &str, more: Value) -> Result<Ware> {
        let mut crd = definition(&self.group, &format!("{}s", name.to_lowercase()), name);
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        self.ware_of(&crd, more).await
    }

    async fn ware_of(&self, crd: &Value, more: Value) -> Result<Ware> {
        let kind = self.install(crd).await?;
        let published = self.publish(&kind, more).await?;
        Ok(Ware { kind, published })
    }

    /// A workspace that has bound all of these.
    async fn scene(&self, wares: &[&Ware], related: &Value) -> Result<Scene<'_>> {
        for ware in wares {
            self.await_published(&ware.published).await;
        }
        self.await_claimed(related).await;
        Ok(Scene {
            world: self,
            team: self.team("team").await?,
            shown: RefCell::default(),
        })
    }
}

impl Ware {
    /// Other rules from now on.
    async fn republish(&self, world: &World, spec: Value) -> Result<()> {
        let at = format!("{PUBLISHED}/{}", self.published);
        world.service.merge(&at, json!({"spec": spec})).await?;
        Ok(())
    }

    /// The end of the consumer.
    fn of(&self, team: &Team, name: &str) -> End {
        let workspace = format!("--workspace={}", team.cluster);
        vec![self.kind.name.to_lowercase(), name.to_owned(), workspace]
    }

    /// The end of the provider, who knows the copy.
    fn copy(&self, copy: &Value) -> End {
        let text = |field: &str| {
            copy["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        vec![
            self.kind.plural.clone(),
            text("name"),
            "-n".to_owned(),
            text("namespace"),
        ]
    }
}

impl Scene<'_> {
    async fn explained(&self, end: &End) -> Result<Value> {
        let page = format!("--page=127.0.0.1:{}", self.world.page()?.number());
        let args: Vec<&str> = end.iter().map(String::as_str).chain([&*page]).collect();
        only_explained(self.world, &args).await
    }

    /// Awaits that an object is explained from an end like this.
    async fn until(&self, what: &str, end: &End, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, &format!("{end:?}: {what}"), async || {
            let object = self.explained(end).await?;
            ensure!(fits(&object), "{object:#}");
            Ok(object)
        })
        .await
    }

    /// Awaits that a code blocks an object, from each of these ends, with a part of the advice.
    async fn blocks(&self, code: Code, advice: &str, ends: &[End]) {
        assert_ne!(code.class(), Class::Settled);
        for end in ends {
            let object = self
                .until(code.as_str(), end, |object| {
                    object["reason"]["code"] == code.as_str()
                })
                .await;
            assert_eq!(object["inStep"], false, "{object:#}");
            let given = object["reason"]["advice"].as_str().unwrap_or_default();
            assert!(given.contains(advice), "{advice}: {object:#}");
        }
        self.shown.borrow_mut().insert(code);
    }

    /// Awaits that an object is in sync for this reason, and needs no advice.
    async fn settles(&self, code: Code, ends: &[End]) {
        assert_eq!(code.class(), Class::Settled);
        for end in ends {
            let object = self
                .until(code.as_str(), end, |object| {
                    object["inStep"] == true && object["reason"]["code"] == code.as_str()
                })
                .await;
            assert_eq!(object["reason"]["advice"], Value::Null, "{object:#}");
        }
        self.shown.borrow_mut().insert(code);
    }

    /// Awaits that an object is in sync.
    async fn mended(&self, ends: &[End]) {
        for end in ends {
            self.until("in sync", end, |object| object["inStep"] == true)
                .await;
        }
    }

    /// Awaits that there is nothing left to explain.
    async fn is_gone(&self, end: &End) {
        eventually(SOON, "nothing is left to explain", async || {
            let args: Vec<&str> = end.iter().map(String::as_str).collect();
            let args = [&["explain"], &*args].concat();
            let (succeeds, stdout, stderr) = self.world.command(&args).await?;
            ensure!(
                !succeeds && stderr.contains("is neither in"),
                "{stdout}{stderr}"
            );
            Ok(())
        })
        .await;
    }

    /// The copy of an object.
    async fn copy(&self, ware: &Ware, name: &str) -> Value {
        self.world.await_copy(&ware.kind, self.team.of(name)).await
    }

    /// Makes an object; its copy, and both of its ends.
    async fn made(&self, ware: &Ware, name: &str, spec: Value) -> (Value, [End; 2]) {
        self.team.make(&ware.kind, name, spec).await;
        let copy = self.copy(ware, name).await;
        let ends = [ware.of(&self.team, name), ware.copy(&copy)];
        (copy, ends)
    }

    /// Strikes requests about objects of this kind and name on the service cluster.
    fn strike(&self, verb: &str, resource: &str, name: &str, action: Action) {
        let matcher = Matcher {
            name: Some(name.to_owned()),
            ..service(verb, resource)
        };
        let faults = self.world.playground.faults();
        faults.add(Fault::new(matcher, action));
    }

    /// Strikes requests about all objects of this kind there: creates have no name in their path.
    fn strike_all(&self, verb: &str, resource: &str, action: Action) {
        let faults = self.world.playground.faults();
        faults.add(Fault::new(service(verb, resource), action));
    }

    /// Every code that the test is to show was shown.
    fn has_shown(&self, test: Shown) -> Result<()> {
        let all = Code::ALL.iter().copied();
        let wanted: BTreeSet<_> = all.filter(|code| Shown::of(*code) == test).collect();
        let shown = self.shown.borrow();
        ensure!(*shown == wanted, "{shown:?} instead of {wanted:?}");
        Ok(())
    }
}

/// Requests to the service cluster.
fn service(verb: &str, resource: &str) -> Matcher {
    Matcher {
        cluster: Some(String::new()),
        verb: Some(verb.to_owned()),
        resource: Some(resource.to_owned()),
        ..Matcher::default()
    }
}

/// The name in the metadata.
fn name_of(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().context("no name")
}

/// The agents of these tests have a page, and lead.
fn start(world: &World, more: &[&str]) -> Result<Process> {
    let launch = world.launch()?.arg("--enable-leader-election");
    let launch = more.iter().fold(launch, testbed::Launch::arg);
    launch.spawn()
}
