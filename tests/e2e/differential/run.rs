//! Runs one topic against both servers and tells what is different.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::normal;
use super::server::{Answer, Reach, Server};
use super::step::{Ask, Step, Texts, Tolerance, Topic, When, post};

/// What came of a topic.
#[derive(Default)]
pub(super) struct Report {
    pub(super) compared: usize,
    /// Answers of which the texts, too, are the same.
    pub(super) told: usize,
    pub(super) tolerated: usize,
    /// Differences that nobody allowed, for people to read.
    pub(super) differences: String,
}

struct Pair {
    ours: Server,
    real: Server,
    report: Report,
}

pub(super) async fn run(topic: Topic, ours: Reach, real: Reach) -> Report {
    let mut pair = Pair {
        ours: Server::new(ours, topic.name),
        real: Server::new(real, topic.name),
        report: Report::default(),
    };
    let namespace = post("/api/v1/namespaces", json!({"metadata": {"name": "$ns"}}));
    let mut failed = pair.take(&Step::Do(Box::new(namespace))).await.err();
    for (number, step) in topic.script.0.iter().enumerate() {
        // What follows would fail as well, and hide the cause.
        if failed.is_some() {
            break;
        }
        failed = pair
            .take(step)
            .await
            .with_context(|| format!("step {number}"))
            .err();
    }
    if let Some(error) = failed {
        let _ = writeln!(pair.report.differences, "  the script ended: {error:#}");
    }
    pair.report
}

impl Pair {
    async fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Ask(ask) => {
                let (ours, real) = tokio::join!(self.ours.ask(ask), self.real.ask(ask));
                let (ours, real) = (
                    ours.with_context(|| format!("ours: {}", title(ask)))?,
                    real.with_context(|| format!("real: {}", title(ask)))?,
                );
                self.compare_answers(ask, ours, real);
            }
            Step::Do(ask) => {
                let (ours, real) = tokio::join!(self.ours.ask(ask), self.real.ask(ask));
                for (who, answer) in [("ours", ours), ("real", real)] {
                    let answer = answer.with_context(|| format!("{who}: {}", title(ask)))?;
                    ensure!(
                        answer.code < 300,
                        "{who}: {}: {:.2000}",
                        title(ask),
                        answer.whole.to_string()
                    );
                }
            }
            Step::Await(ask, condition) => {
                let (ours, real) = tokio::join!(
                    self.ours.wait(ask, condition),
                    self.real.wait(ask, condition)
                );
                ours.context("ours")?;
                real.context("real")?;
            }
            Step::Watch(name, ask) => {
                let (ours, real) =
                    tokio::join!(self.ours.watch(name, ask), self.real.watch(name, ask));
                self.compare_answers(ask, ours?, real?);
            }
            Step::Events(wanted) => {
                let (ours, real) = tokio::join!(self.ours.events(wanted), self.real.events(wanted));
                let (ours, real) = (ours.context("ours")?, real.context("real")?);
                let title = format!("events of watch {}", wanted.watch);
                self.compare(&title, wanted.tolerance.as_ref(), ours, real);
            }
        }
        Ok(())
    }

    fn compare_answers(&mut self, ask: &Ask, mut ours: Answer, mut real: Answer) {
        if ask.texts == Texts::Free {
            normal::untold(&mut ours.whole["body"]);
            normal::untold(&mut real.whole["body"]);
        } else {
            self.report.told += 1;
        }
        self.compare(&title(ask), ask.tolerance.as_ref(), ours.whole, real.whole);
    }

    fn compare(
        &mut self,
        title: &str,
        tolerance: Option<&Tolerance>,
        mut ours: Value,
        mut real: Value,
    ) {
        self.report.compared += 1;
        let different = ours != real;
        if let Some(tolerance) = tolerance {
            if !different {
                if tolerance.when == When::Always {
                    let _ = writeln!(
                        self.report.differences,
                        "  {title}\n    is the same and needs no tolerance ({})",
                        tolerance.reason
                    );
                }
                return;
            }
            for part in &tolerance.parts {
                normal::remove(&mut ours, part);
                normal::remove(&mut real, part);
            }
            if tolerance.parts.is_empty() || ours == real {
                self.report.tolerated += 1;
                return;
            }
        }
        if different {
            let found = normal::differences(&ours, &real);
            let _ = write!(self.report.differences, "  {title}\n{found}");
        }
    }
}

/// A request, for people.
fn title(ask: &Ask) -> String {
    let body = String::from_utf8_lossy(&ask.body);
    let headers = ask
        .headers
        .iter()
        .filter(|(_, value)| value != super::step::JSON)
        .fold(String::new(), |mut all, (name, value)| {
            let _ = write!(all, " {name}: {value}");
            all
        });
    format!("{} {}{headers} {body:.200}", ask.method, ask.path)
}

/// The reasons of what is tolerated, by topic, with how many answers each is for.
pub(super) fn reasons(topic: &Topic) -> BTreeMap<&'static str, usize> {
    let mut found = BTreeMap::new();
    for step in &topic.script.0 {
        let tolerance = match step {
            Step::Ask(ask) | Step::Watch(_, ask) => ask.tolerance.as_ref(),
            Step::Events(events) => events.tolerance.as_ref(),
            Step::Do(_) | Step::Await(..) => None,
        };
        if let Some(tolerance) = tolerance {
            *found.entry(tolerance.reason).or_default() += 1;
        }
    }
    found
}
