//! The plans of published resources with the mode `Plan`, on the leader.
//!
//! One plan is made at a time. A changed published resource is planned at once; changes of objects make a new plan at
//! most once a minute, and plans take at most a part of the time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

use super::explained::Explained;
use super::export::WatchedExport;
use super::passes::Passes;
use super::plan::summary::{PlanHead, Summary};
use super::plan::{ExportChange, LISTED};
use super::publication::Publication;
use super::publishing::{Publishing, ResourceRecord};
use super::router::PublishRouter;
use super::schemas::plans_only;
use super::trial::Trials;
use crate::publish::claims::Needs;
use crate::publish::export::ExportedResource;
use crate::publish::problem::Problem;
use crate::publish::ready::{PlanFact, SchemaFact};
use crate::publish::types::PlanStatus;
use hawser_runtime::controller::caught;
use hawser_sync::Seen;

/// The interval for checking whether there is something to plan.
const LOOK: Duration = Duration::from_millis(500);
/// The shortest time between two plans, if only objects change.
const PAUSE: Duration = Duration::from_mins(1);
/// The longest one, because a change of another published resource or of the export causes no event.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// The pause after a plan, as a multiple of the time that it took.
const REST: u32 = 4;
/// The longest plan. Further objects are not in it.
const LONGEST_PLAN: Duration = Duration::from_mins(10);
/// The number of objects that are planned concurrently: passes come first.
const AT_ONCE: usize = 4;

/// Makes plans, and keeps them up to date.
pub(super) struct Planner {
    pub(super) publishing: Arc<Publishing>,
    pub(super) passes: Arc<Passes>,
    pub(super) router: Arc<PublishRouter>,
    /// `None` if the export is written elsewhere.
    pub(super) export: Option<watch::Receiver<WatchedExport>>,
}

/// What the plan of a published resource follows from, beside objects.
#[derive(Clone)]
struct PlanInputs {
    uid: Arc<str>,
    generation: i64,
    schema: SchemaFact,
    rules: Vec<Problem>,
    needs: Arc<Needs>,
    /// `None` if no objects are synchronized.
    publication: Option<Arc<Publication>>,
}

impl PartialEq for PlanInputs {
    fn eq(&self, other: &Self) -> bool {
        let publication = |inputs: &Self| inputs.publication.as_ref().map(Arc::as_ptr);
        (&self.uid, self.generation, &self.schema, &self.rules)
            == (&other.uid, other.generation, &other.schema, &other.rules)
            && publication(self) == publication(other)
    }
}

/// The last plan of a published resource.
struct LastPlan {
    of: PlanInputs,
    ended: Instant,
    pause: Duration,
}

impl LastPlan {
    /// Whether it has to be made again.
    fn is_due(&self, now: &PlanInputs) -> bool {
        if self.of != *now {
            return true;
        }
        let age = self.ended.elapsed();
        let changed = || {
            let publication = now.publication.as_ref();
            publication.is_some_and(|publication| publication.take_change())
        };
        age >= LONGEST_PAUSE.max(self.pause) || age >= self.pause && changed()
    }
}

impl Planner {
    pub(super) async fn run(self) {
        let planner = &self;
        // By uid.
        let mut made: HashMap<Arc<str>, LastPlan> = HashMap::new();
        loop {
            sleep(LOOK).await;
            let wanted = self.publishing.to_plan();
            made.retain(|uid, _| wanted.iter().any(|(_, inputs)| inputs.uid == *uid));
            for (name, inputs) in wanted {
                if made
                    .get(&inputs.uid)
                    .is_some_and(|last| !last.is_due(&inputs))
                {
                    continue;
                }
                let began = Instant::now();
                // A panic, which is logged, must not end the plans of others.
                match caught(planner.plan(&name, &inputs)).await {
                    Some(None) => continue,
                    Some(Some(plan)) => {
                        info!(publishedresource = %name, objects = plan.objects, "planned its objects");
                        self.publishing.planned_as(&name, &inputs, plan);
                    }
                    None => {}
                }
                // However many published resources there are, plans take at most half of the time.
                sleep(began.elapsed().min(PAUSE)).await;
                let last = LastPlan {
                    pause: PAUSE.max(began.elapsed() * REST),
                    ended: Instant::now(),
                    of: inputs,
                };
                made.insert(Arc::clone(&last.of.uid), last);
            }
        }
    }

    /// `None` if the published resource has changed meanwhile.
    async fn plan(&self, name: &Arc<str>, inputs: &PlanInputs) -> Option<PlanStatus> {
        // Objects that cannot be listed are reported.
        let _ = timeout(LISTED, self.publishing.filled()).await;
        let is_current = || {
            self.publishing
                .to_plan()
                .iter()
                .any(|(_, now)| now == inputs)
        };
        if !is_current() {
            return None;
        }
        let mut summary = Summary::default();
        if let Some(publication) = &inputs.publication {
            publication.take_change();
            self.objects(publication, &mut summary).await;
        }
        if !is_current() {
            return None;
        }
        let publication = inputs.publication.as_deref();
        let resource = self
            .publishing
            .change_of(name, publication, summary.unplanned);
        let published = match &inputs.schema {
            SchemaFact::Published(schema) => Some(ExportedResource {
                schema,
                needs: &inputs.needs,
            }),
            SchemaFact::Pending | SchemaFact::Failed { .. } => None,
        };
        let seen = self.export.as_ref().map(|export| export.borrow().clone());
        let export = match (seen, published) {
            (Some(seen), Some(published)) => {
                self.publishing.export_change(Some(&seen), &[published])
            }
            _ => ExportChange::default(),
        };
        Some(summary.status(PlanHead {
            generation: inputs.generation,
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            resource,
            export,
        }))
    }

    async fn objects(&self, publication: &Arc<Publication>, summary: &mut Summary) {
        let trials = Trials::new(&self.passes, &self.router, &self.publishing).await;
        let trials = trials.with_brakes(&self.publishing).without_comparisons();
        let mut subjects: Vec<_> = publication
            .sources()
            .iter()
            .flat_map(|source| publication.subjects(source, None))
            .collect();
        subjects.sort_unstable();
        let subjects = subjects.into_iter();
        let selected = subjects.map(|id| (Arc::clone(publication), id));
        let take = |found: Result<Explained, String>| match found {
            Ok(explained) => {
                summary.unplanned += usize::from(explained.is_unknown());
                summary.add(&explained);
            }
            Err(_) => summary.unplanned += 1,
        };
        let until = Instant::now() + LONGEST_PLAN;
        let selected = selected.collect();
        trials.each(selected, AT_ONCE, Some(until), take).await;
    }
}

impl ResourceRecord {
    /// `None` if it does not only plan, or if its schema is not known yet.
    fn plan_inputs(&self) -> Option<PlanInputs> {
        let is_known = self.plans_only && self.facts.schema != SchemaFact::Pending;
        is_known.then(|| PlanInputs {
            uid: Arc::clone(&self.uid),
            generation: self.facts.generation,
            schema: self.facts.schema.clone(),
            rules: self.facts.rules.clone(),
            needs: Arc::clone(&self.member.needs),
            publication: self.running.clone(),
        })
    }
}

impl Publishing {
    /// Whether the published resource, as last seen, asks for nothing but a plan.
    pub(super) fn asks_for_plan(&self, name: &Arc<str>) -> bool {
        match self.object(name) {
            Seen::Present(object) => plans_only(&object),
            Seen::Absent | Seen::Unknown => false,
        }
    }

    /// Whether its running publication writes although it asks for nothing but a plan.
    pub(super) fn only_plans_now(&self, name: &Arc<str>) -> bool {
        let is_asked = self.asks_for_plan(name);
        let known = self.known.lock();
        let running = known.get(name).and_then(|known| known.running.as_ref());
        is_asked && running.is_some_and(|running| !running.plan.plans_only)
    }

    /// The published resources that only plan.
    fn to_plan(&self) -> Vec<(Arc<str>, PlanInputs)> {
        let known = self.known.lock();
        let inputs = known
            .iter()
            .filter_map(|(name, known)| Some((Arc::clone(name), known.plan_inputs()?)));
        inputs.collect()
    }

    /// Notes the plan of what is still as it was planned.
    fn planned_as(&self, name: &Arc<str>, inputs: &PlanInputs, plan: PlanStatus) {
        self.note(name, |known| {
            if known.plan_inputs().as_ref() == Some(inputs) {
                known.facts.plan = PlanFact::Made(Arc::new(plan));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_resource_is_planned_at_once_and_an_unchanged_one_after_a_while() {
        let inputs = |generation| PlanInputs {
            uid: "uid".into(),
            generation,
            schema: SchemaFact::Published("v1.things.a.org".to_owned()),
            rules: Vec::new(),
            needs: Arc::default(),
            publication: None,
        };
        let last = LastPlan {
            of: inputs(1),
            ended: Instant::now(),
            pause: PAUSE,
        };
        assert!(!last.is_due(&inputs(1)));
        assert!(last.is_due(&inputs(2)));
        advance(PAUSE).await;
        assert!(!last.is_due(&inputs(1)));
        advance(LONGEST_PAUSE).await;
        assert!(last.is_due(&inputs(1)));
    }
}
