//! Runs one topic against the playground and the real server, or what that answered before, and tells what is
//! different.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::normal;
use super::recorded::{Known, Recorded, Recording};
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
    real: Real,
    recording: Recording,
    report: Report,
}

/// Who is compared with.
#[expect(clippy::large_enum_variant, reason = "there is one for each topic")]
enum Real {
    Live(Server),
    Recorded(Recorded),
}

/// Runs a topic. Without a real server its recorded answers are compared with; those of one are written down
/// if `records`.
pub(super) async fn run(topic: Topic, ours: Reach, real: Option<Reach>, records: bool) -> Report {
    let mut report = Report::default();
    let real = match real {
        Some(real) => Ok(Real::Live(Server::new(real, topic.name))),
        None => Recorded::read(topic.name).map(Real::Recorded),
    };
    let real = match real {
        Ok(real) => real,
        Err(error) => {
            let _ = writeln!(report.differences, "  {error:#}");
            return report;
        }
    };
    let mut pair = Pair {
        ours: Server::new(ours, topic.name),
        real,
        recording: Recording::default(),
        report,
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
    } else if records && let Err(error) = pair.recording.write(topic.name) {
        let _ = writeln!(pair.report.differences, "  {error:#}");
    }
    pair.report
}

impl Pair {
    async fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Ask(ask) => {
                let (ours, real) = match &mut self.real {
                    Real::Live(real) => {
                        let (ours, real) = tokio::join!(self.ours.ask(ask), real.ask(ask));
                        (ours, Some(real))
                    }
                    Real::Recorded(_) => (self.ours.ask(ask).await, None),
                };
                let ours = ours.with_context(|| format!("ours: {}", title(ask)))?;
                let real = real.transpose();
                let real = real.with_context(|| format!("real: {}", title(ask)))?;
                self.compare_answers(ask, ours, real)?;
            }
            Step::Do(ask) => {
                let answers = match &mut self.real {
                    Real::Live(real) => {
                        let (ours, real) = tokio::join!(self.ours.ask(ask), real.ask(ask));
                        vec![("ours", ours), ("real", real)]
                    }
                    Real::Recorded(_) => vec![("ours", self.ours.ask(ask).await)],
                };
                for (who, answer) in answers {
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
                let ours = self.ours.wait(ask, condition);
                if let Real::Live(real) = &mut self.real {
                    let (ours, real) = tokio::join!(ours, real.wait(ask, condition));
                    ours.context("ours")?;
                    real.context("real")?;
                } else {
                    ours.await.context("ours")?;
                }
            }
            Step::Watch(name, ask) => {
                let ours = self.ours.watch(name, ask);
                let (ours, real) = match &mut self.real {
                    Real::Live(real) => {
                        let (ours, real) = tokio::join!(ours, real.watch(name, ask));
                        (ours, Some(real?))
                    }
                    Real::Recorded(_) => (ours.await, None),
                };
                self.compare_answers(ask, ours?, real)?;
            }
            Step::Events(wanted) => {
                let ours = self.ours.events(wanted);
                let (ours, real) = match &mut self.real {
                    Real::Live(real) => {
                        let (ours, real) = tokio::join!(ours, real.events(wanted));
                        (ours, Some(real.context("real")?))
                    }
                    Real::Recorded(_) => (ours.await, None),
                };
                let title = format!("events of watch {}", wanted.watch);
                self.compare(
                    &title,
                    wanted.tolerance.as_ref(),
                    ours.context("ours")?,
                    real,
                )?;
            }
        }
        Ok(())
    }

    fn compare_answers(
        &mut self,
        ask: &Ask,
        mut ours: Answer,
        mut real: Option<Answer>,
    ) -> Result<()> {
        if ask.texts == Texts::Free {
            for answer in [Some(&mut ours), real.as_mut()].into_iter().flatten() {
                normal::untold(&mut answer.whole["body"]);
            }
        } else {
            self.report.told += 1;
        }
        let real = real.map(|real| real.whole);
        self.compare(&title(ask), ask.tolerance.as_ref(), ours.whole, real)
    }

    /// Compares an answer with that of the real server, which may have been recorded.
    fn compare(
        &mut self,
        title: &str,
        tolerance: Option<&Tolerance>,
        mut ours: Value,
        real: Option<Value>,
    ) -> Result<()> {
        self.report.compared += 1;
        let known = match (real, &mut self.real) {
            (Some(real), _) => {
                self.recording.push(title, &real, tolerance.is_some());
                Known::Whole(real)
            }
            (None, Real::Recorded(recorded)) => recorded.next(title)?,
            (None, Real::Live(_)) => bail!("{title}: no answer"),
        };
        let different = !known.is(&ours);
        let Known::Whole(mut real) = known else {
            if different {
                let _ = writeln!(
                    self.report.differences,
                    "  {title}\n    is another answer than the large one that was recorded; \
                     HAWSER_REAL_SERVER=compare shows where"
                );
            }
            return Ok(());
        };
        if let Some(tolerance) = tolerance {
            if !different {
                if tolerance.when == When::Always {
                    let _ = writeln!(
                        self.report.differences,
                        "  {title}\n    is the same and needs no tolerance ({})",
                        tolerance.reason
                    );
                }
                return Ok(());
            }
            for part in &tolerance.parts {
                normal::remove(&mut ours, part);
                normal::remove(&mut real, part);
            }
            if tolerance.parts.is_empty() || ours == real {
                self.report.tolerated += 1;
                return Ok(());
            }
        }
        if different {
            let found = normal::differences(&ours, &real);
            let _ = write!(self.report.differences, "  {title}\n{found}");
        }
        Ok(())
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

/// The reasons for the tolerated differences of a topic.
pub(super) fn reasons(topic: &Topic) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for step in &topic.script.0 {
        let tolerance = match step {
            Step::Ask(ask) | Step::Watch(_, ask) => ask.tolerance.as_ref(),
            Step::Events(events) => events.tolerance.as_ref(),
            Step::Do(_) | Step::Await(..) => None,
        };
        if let Some(tolerance) = tolerance {
            found.insert(tolerance.reason);
        }
    }
    found
}
