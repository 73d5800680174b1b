//! The effect of changed published resources on the export and on every object.
//!
//! A plan tries the passes of all objects, with the changed published resources instead of the stored ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::explain::{ExplainError, Explainer, Selection, TOGETHER};
use super::explained::{DueWrite, Explained};
use super::export::WatchedExport;
use super::inactive::Inactive;
use super::process::LOOK_ROUND;
use super::publication::Publication;
use super::publishing::Publishing;
use crate::explain::progress::ObjectProgress;
use crate::publish::export::{ExportedResource, merge};
use crate::publish::ready::{Facts, SchemaFact};
use hawser_sync::reason::Class;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::Object;

pub(super) mod summary;

/// The time limit for listing the objects of a changed published resource. Objects that no workspace serves yet are
/// never listed.
pub(super) const LISTED: Duration = Duration::from_secs(10);

/// The effect of changed published resources.
#[derive(Debug)]
pub struct ChangePlan {
    pub resources: Vec<ResourceChange>,
    pub export: ExportChange,
    /// All objects.
    pub objects: Vec<Explained>,
    /// The warning that another agent was probably meant.
    pub other_agents: Option<String>,
}

/// The effect on one published resource, of the files or with objects that cannot be planned.
#[derive(Debug)]
pub struct ResourceChange {
    pub name: String,
    pub is_new: bool,
    /// Whether the files contain it.
    pub is_of_files: bool,
    /// The recorded schema.
    pub schema_before: Option<String>,
    /// The schema that would be published.
    pub schema: Option<String>,
    /// The reasons why it would not be published or synchronized.
    pub problems: Vec<String>,
    pub warnings: Vec<String>,
    /// The unlisted kinds that prevent some objects from being planned.
    pub unlisted: BTreeSet<String>,
    /// The number of objects that are not planned, as far as they are known.
    pub unplanned: usize,
}

/// The changes to the `APIExport`.
#[derive(Debug, Default)]
pub struct ExportChange {
    pub name: String,
    pub added_schemas: Vec<String>,
    pub replaced_schemas: Vec<String>,
    pub added_claims: Vec<String>,
    pub problems: Vec<String>,
}

/// The numbers of planned writes, without writes to state Secrets and of finalizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    pub made: usize,
    pub changed: usize,
    pub deleted: usize,
    /// Deletions that the agent would hold.
    pub held: usize,
    /// Writes that a server refuses, and links that cannot be synchronized.
    pub refused: usize,
}

impl Publishing {
    /// Replaces the stored published resources of the same names.
    pub(super) fn plan(&self, planned: BTreeMap<Arc<str>, Arc<Object>>) {
        let names: Vec<_> = planned.keys().cloned().collect();
        // Set once: an explainer makes one plan.
        let _ = self.planned.set(planned);
        for name in &names {
            self.wake(name);
        }
    }

    pub(super) fn planned(&self, name: &str) -> Option<Arc<Object>> {
        self.planned.get()?.get(name).cloned()
    }

    /// The published resource of this name.
    pub(super) fn object(&self, name: &str) -> Seen {
        let key = self.published.table().scope("").key(None, name);
        let planned = self.planned(name).map(Seen::Present);
        planned.unwrap_or_else(|| self.cache.get(&key))
    }

    /// All selected published resources.
    pub(super) fn objects(&self) -> Vec<Arc<Object>> {
        let stored = self.published.table().all().into_iter();
        let stored = stored.filter(|(key, _)| self.planned(&key.name).is_none());
        let planned = self.planned.get().into_iter().flat_map(BTreeMap::values);
        let all = stored.map(|(_, object)| object).chain(planned.cloned());
        all.filter(|object| self.selected(object)).collect()
    }

    pub(super) fn stored(&self, name: &str) -> Option<Arc<Object>> {
        let key = self.published.table().scope("").key(None, name);
        match self.cache.get(&key) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// Waits until everything is listed and the workspaces that take part are known.
    pub(super) async fn filled(&self) {
        let mut engaged = usize::MAX;
        // Bindings are handled one by one after their list: waits until a round adds no workspace.
        while !self.is_complete() || !self.has_begun() || engaged != self.workspaces.engaged() {
            engaged = self.workspaces.engaged();
            sleep(LOOK_ROUND).await;
        }
    }

    /// Whether passes over all published resources can run. Kinds that are not served are waited for only shortly.
    fn has_begun(&self) -> bool {
        let running = self.dispatch.running();
        running.values().all(|publication| publication.has_begun())
    }

    fn facts(&self, name: &str) -> Option<Facts> {
        self.known.lock().get(name).map(|known| known.facts.clone())
    }

    /// The effect on one published resource.
    pub(super) fn change_of(
        &self,
        name: &str,
        publication: Option<&Publication>,
        unplanned: usize,
    ) -> ResourceChange {
        let stored = self.stored(name);
        let facts = self.facts(name).unwrap_or_default();
        let recorded = stored.as_ref().and_then(|stored| {
            let recorded = stored.as_value()["status"]["resourceSchemaName"].as_str()?;
            Some(recorded.to_owned())
        });
        let (errors, warnings): (Vec<_>, Vec<_>) =
            facts.rules.iter().partition(|problem| problem.is_error());
        let mut problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let schema = match facts.schema {
            SchemaFact::Published(schema) => Some(schema),
            SchemaFact::Failed { message, .. } => {
                problems.push(message);
                None
            }
            SchemaFact::Pending => {
                problems.push("the service cluster did not report the kind in time".to_owned());
                None
            }
        };
        let warnings = warnings.iter().map(ToString::to_string);
        ResourceChange {
            name: name.to_owned(),
            is_new: stored.is_none(),
            is_of_files: self.planned(name).is_some(),
            schema_before: recorded,
            schema,
            problems,
            warnings: warnings.chain(facts.warnings.iter().cloned()).collect(),
            unlisted: publication.map(Publication::unlisted).unwrap_or_default(),
            unplanned,
        }
    }

    /// The effect of these resources on the export.
    pub(super) fn export_change(
        &self,
        seen: Option<&WatchedExport>,
        published: &[ExportedResource<'_>],
    ) -> ExportChange {
        let name = self.export.clone();
        let Some(WatchedExport::Present(export)) = seen else {
            let problems = vec!["the APIExport cannot be read".to_owned()];
            return ExportChange {
                name,
                problems,
                ..ExportChange::default()
            };
        };
        match merge(export, &self.options.agent_name, published, &[]) {
            Ok(merged) => ExportChange {
                name,
                added_schemas: merged.added_schemas,
                replaced_schemas: merged.replaced_schemas,
                added_claims: merged
                    .added_claims
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                problems: merged.problems.iter().map(ToString::to_string).collect(),
            },
            Err(error) => ExportChange {
                name,
                problems: vec![error.to_string()],
                ..ExportChange::default()
            },
        }
    }
}

impl Explainer {
    /// The effect on the selected objects, on the export, and on the published resources of the files.
    pub async fn plan(
        &self,
        selection: &Selection,
        progress: &ObjectProgress,
    ) -> Result<ChangePlan, ExplainError> {
        let running = self.agent.dispatch.running();
        let names: Vec<Arc<str>> = self.planned_names();
        // Nothing is written for those that only plan.
        let awaited = running.values().filter(|one| !one.plan.plans_only);
        let awaited: Vec<_> = awaited.cloned().collect();
        // Publications that are not listed by then are reported.
        let _ = timeout(LISTED, listed(&awaited)).await;
        let mut selected = self.selected(selection).await?;
        selected.retain(|(publication, _)| !publication.plan.plans_only);
        let mut objects = Vec::new();
        let mut unplanned: BTreeMap<String, usize> = BTreeMap::new();
        let trials = self.trials_of_plan().await;
        progress.begin(selected.len());
        let take = |found: Result<Explained, String>| {
            progress.step();
            match found {
                Ok(explained) => {
                    if explained.is_unknown() {
                        let name = explained.published_resource.clone();
                        *unplanned.entry(name).or_default() += 1;
                    }
                    objects.push(explained);
                }
                Err(name) => *unplanned.entry(name).or_default() += 1,
            }
        };
        trials.each(selected, TOGETHER, None, take).await;
        objects.sort_by(|a, b| {
            (&a.published_resource, &a.object).cmp(&(&b.published_resource, &b.object))
        });
        let publishing = &self.agent.publishing;
        let published = publishing.objects();
        let inactive = published.iter().filter_map(|object| {
            Inactive::of(object, &self.agent, false).filter(|one| one.may_sync)
        });
        let inactive: Vec<_> = inactive.collect();
        let change = |name: &str| {
            let publication = awaited.iter().find(|one| *one.plan.name == *name);
            let count = unplanned.get(name).copied().unwrap_or_default();
            let mut change = publishing.change_of(name, publication.map(Arc::as_ref), count);
            if let Some(inactive) = inactive.iter().find(|one| one.name == name)
                && change.problems.is_empty()
            {
                change.unlisted.insert(inactive.why.clone());
            }
            change
        };
        let mut resources: Vec<_> = names.iter().map(|name| change(name)).collect();
        let others = awaited.iter().map(|one| &*one.plan.name);
        let others = others.chain(inactive.iter().map(|one| &*one.name));
        let others = others.filter(|name| names.iter().all(|of_files| **of_files != **name));
        let incomplete = others.map(change).filter(ResourceChange::is_incomplete);
        resources.extend(incomplete);
        Ok(ChangePlan {
            resources,
            export: self.export(),
            objects,
            other_agents: self.other_agents(),
        })
    }

    fn planned_names(&self) -> Vec<Arc<str>> {
        let planned = self.agent.publishing.planned.get().into_iter();
        planned.flat_map(BTreeMap::keys).cloned().collect()
    }

    fn export(&self) -> ExportChange {
        let publishing = &self.agent.publishing;
        let channels = self.agent.exporter.as_ref().map(|(_, channels)| channels);
        let seen = channels.map(|channels| channels.export.borrow().clone());
        let members = publishing.members.borrow().clone().unwrap_or_default();
        let published = members.iter().filter_map(|member| {
            Some(ExportedResource {
                schema: member.schema.as_deref()?,
                needs: &member.needs,
            })
        });
        publishing.export_change(seen.as_ref(), &published.collect::<Vec<_>>())
    }
}

/// Resolves when all objects of these publications are known.
pub(super) async fn listed(publications: &[Arc<Publication>]) {
    let whole = |publication: &Arc<Publication>| {
        let sources = publication.sources();
        sources.iter().all(|source| publication.has_synced(source))
    };
    while !publications.iter().all(whole) {
        sleep(LOOK_ROUND).await;
    }
}

impl ChangePlan {
    /// Whether anything would be written.
    pub fn changes(&self) -> bool {
        let differs =
            |one: &ResourceChange| one.schema.is_some() && one.schema != one.schema_before;
        self.resources.iter().any(differs)
            || self.export.differs()
            || self.objects.iter().any(|one| one.due.iter().any(is_made))
    }

    /// Whether a published resource of the files would not work.
    pub fn fails(&self) -> bool {
        let fails = |one: &ResourceChange| one.is_of_files && !one.problems.is_empty();
        self.resources.iter().any(fails)
    }

    /// Whether nothing would change, and nothing would be refused or held, as far as the plan knows.
    pub fn is_quiet(&self) -> bool {
        let WriteCounts { refused, held, .. } = self.total();
        !self.changes() && refused + held == 0 && !self.is_incomplete()
    }

    /// Whether some objects may not be planned.
    pub fn is_incomplete(&self) -> bool {
        self.resources.iter().any(ResourceChange::is_incomplete)
    }

    /// The numbers by logical cluster, each with the path of the workspace if that is known.
    pub fn by_workspace(&self) -> BTreeMap<(Arc<str>, Option<String>), WriteCounts> {
        let mut tallies: BTreeMap<_, WriteCounts> = BTreeMap::new();
        for explained in &self.objects {
            let workspace = (
                Arc::clone(&explained.object.cluster),
                explained.path.clone(),
            );
            tallies.entry(workspace).or_default().add(explained);
        }
        tallies.retain(|_, tally| *tally != WriteCounts::default());
        tallies
    }

    pub fn total(&self) -> WriteCounts {
        let mut total = WriteCounts::default();
        self.objects.iter().for_each(|one| total.add(one));
        total
    }
}

impl ResourceChange {
    /// Whether objects of it may not be planned.
    pub fn is_incomplete(&self) -> bool {
        let is_stopped = !self.is_of_files && !self.problems.is_empty();
        self.unplanned > 0 || !self.unlisted.is_empty() || is_stopped
    }
}

impl ExportChange {
    pub fn differs(&self) -> bool {
        let Self {
            added_schemas,
            replaced_schemas,
            added_claims,
            ..
        } = self;
        !(added_schemas.is_empty() && replaced_schemas.is_empty() && added_claims.is_empty())
    }
}

impl WriteCounts {
    fn add(&mut self, explained: &Explained) {
        let mut refused = 0;
        for write in &explained.due {
            if write.held {
                self.held += 1;
            } else if write.refusal.is_some() {
                refused += 1;
            } else if !is_bookkeeping(explained, write) {
                match write.verb {
                    "create" => self.made += 1,
                    "delete" => self.deleted += 1,
                    _ => self.changed += 1,
                }
            }
        }
        let refused_links = explained.links.iter();
        let refused_links = refused_links.filter(|link| link.reason.code.class() == Class::Refused);
        self.refused += refused.max(refused_links.count());
    }
}

fn is_made(write: &DueWrite) -> bool {
    write.refusal.is_none()
}

/// Whether a write keeps the state of the object, or its finalizer.
pub fn is_bookkeeping(explained: &Explained, write: &DueWrite) -> bool {
    let only_finalizers = || {
        let change = write.change.as_ref()?.as_object()?;
        let metadata = change.get("metadata")?.as_object()?;
        Some(change.len() == 1 && metadata.keys().all(|key| key == "finalizers"))
    };
    explained.state.as_ref() == Some(&write.object) || only_finalizers() == Some(true)
}
