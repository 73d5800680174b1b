//! The agent's overview: its kinds, workspaces and problems.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::conditions::untrue;
use super::dispatch::WORKERS;
use super::feeds::logical_cluster_kind;
use super::options::AgentOptions;
use super::publication::Publication;
use super::publishing::Publishing;
use super::share::Share;
use super::subject::SubjectId;
use crate::publish::advice::advice;
use hawser_runtime::controller::Unsettled;
use hawser_runtime::overview::site::{ObjectPath, OverviewSource};
use hawser_runtime::overview::{
    AttemptsOverview, ByReason, CacheOverview, KindOverview, ObjectOverview, Overview,
    QueueOverview, ReasonOverview, Role, ShardsOverview, TenantOverview, reasons,
};
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::{Scope, Seen, Store as _};

/// Makes the overview of an agent, from its start.
pub struct AgentOverview {
    options: Arc<AgentOptions>,
    metrics: Arc<Metrics>,
    started: Instant,
    /// Set when the agent knows its slice and export.
    publishing: OnceLock<Arc<Publishing>>,
}

impl AgentOverview {
    pub fn new(options: &Arc<AgentOptions>, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            options: Arc::clone(options),
            metrics: Arc::clone(metrics),
            started: Instant::now(),
            publishing: OnceLock::new(),
        })
    }

    pub fn begin(&self, publishing: &Arc<Publishing>) {
        // An agent is assembled once.
        let _ = self.publishing.set(Arc::clone(publishing));
    }
}

impl OverviewSource for AgentOverview {
    fn name(&self) -> &str {
        &self.options.agent_name
    }

    fn role(&self) -> Role {
        match self.publishing.get() {
            None => Role::Starting,
            Some(publishing) if publishing.leads() => Role::Leading,
            Some(publishing) => match publishing.dispatch.share {
                Share::All => Role::Standby,
                Share::Shards(_) => Role::Sharing,
            },
        }
    }

    fn is_elsewhere(&self, object: &ObjectPath<'_>) -> bool {
        let publishing = self.publishing.get();
        publishing.is_some_and(|publishing| !publishing.dispatch.share.has(object.tenant))
    }

    fn overview(&self) -> Overview {
        let mut overview = Overview {
            name: self.options.agent_name.clone(),
            role: self.role(),
            tenant_word: "workspace".to_owned(),
            recent: self.metrics.recent.changes(),
            ..Overview::now(self.started)
        };
        if let Some(publishing) = self.publishing.get() {
            publishing.fill(&mut overview);
        }
        overview
    }

    fn attempts(&self, object: &ObjectPath<'_>) -> Option<AttemptsOverview> {
        let publishing = self.publishing.get()?;
        let running = publishing.dispatch.running();
        let publication = running
            .values()
            .find(|publication| publication.plan.name == object.config)?;
        let id = publication.subject_at(object.tenant, object.namespace, object.name);
        publishing.dispatch.subjects.attempts(&id)
    }
}

impl Publishing {
    fn fill(&self, overview: &mut Overview) {
        let mut by_reason = ByReason::<SubjectId>::new();
        let mut by_publication: HashMap<Arc<str>, usize> = HashMap::new();
        let mut by_workspace: HashMap<Arc<str>, usize> = HashMap::new();
        let note = |id: &SubjectId, problem: &Unsettled| {
            let of_reason = by_reason.entry(problem.reason.code).or_default();
            of_reason.push((problem.since, id.clone()));
            *by_publication
                .entry(Arc::clone(&id.publication))
                .or_default() += 1;
            *by_workspace.entry(Arc::clone(&id.cluster)).or_default() += 1;
        };
        self.dispatch.subjects.each_unsettled(note);
        if let Share::Shards(shards) = &self.dispatch.share {
            overview.shards = Some(ShardsOverview {
                count: shards.count(),
                held: shards.held(),
            });
        }
        overview.kinds = self.kinds(&by_publication);
        overview.reasons = self.reasons(by_reason);
        overview.rank_tenants(self.tenants(&by_workspace));
        for tenant in &mut overview.tenants {
            tenant.name = self.workspace(&tenant.name);
        }
        let state = self.dispatch.subjects.queue.state();
        overview.queue = QueueOverview::of(state, WORKERS);
        overview.caches = CacheOverview::of(&self.cache).collect();
    }

    /// Every published resource of this agent, also one that does not run.
    fn kinds(&self, out_of_sync: &HashMap<Arc<str>, usize>) -> Vec<KindOverview> {
        let mut published = self.published.table().all();
        published.retain(|(_, object)| self.options.selects(object));
        published.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let published = published.into_iter();
        published
            .map(|(key, object)| {
                let uid = object.uid().unwrap_or_default();
                let resource = &object.as_value()["spec"]["resource"];
                let kind = resource["kind"].as_str().unwrap_or_default();
                let known = KindOverview {
                    name: key.name.to_string(),
                    kind: kind.to_owned(),
                    problems: untrue(&object)
                        .map(|(condition, message)| format!("{condition}: {message}"))
                        .collect(),
                    ..KindOverview::default()
                };
                let Some(publication) = self.dispatch.publication(uid) else {
                    return known;
                };
                let held = self.brakes.held(&publication.local_kind);
                let published = format!("publishedresource {}", key.name);
                KindOverview {
                    kind: publication.remote_kind.kind.clone(),
                    objects: publication.objects(),
                    out_of_sync: out_of_sync.get(uid).copied().unwrap_or_default(),
                    left_behind: publication.orphans().values().sum(),
                    held: held.map(|held| held.overview(&published)),
                    ..known
                }
            })
            .collect()
    }

    fn reasons(&self, by_reason: ByReason<SubjectId>) -> Vec<ReasonOverview> {
        let running = self.dispatch.running();
        let subjects = &self.dispatch.subjects;
        let object = |id: &SubjectId| {
            let publication = running.get(&id.publication)?;
            Some(ObjectOverview {
                config: publication.plan.name.clone(),
                kind: publication.remote_kind.kind.clone(),
                tenant: self.workspace(&id.cluster),
                namespace: id.namespace.as_deref().map(str::to_owned),
                name: id.name.to_string(),
                attempts: subjects.attempts(id)?,
            })
        };
        reasons(by_reason, |id| &id.cluster, advice, object)
    }

    fn tenants(&self, out_of_sync: &HashMap<Arc<str>, usize>) -> Vec<TenantOverview> {
        let running = self.dispatch.running();
        let engaged = self.workspaces.engaged_clusters().into_iter();
        engaged
            .map(|cluster| {
                let of_workspace = |one: &Arc<Publication>| one.stock(&cluster).of_tenant;
                TenantOverview {
                    name: cluster.to_string(),
                    objects: running.values().map(of_workspace).sum(),
                    out_of_sync: out_of_sync.get(&cluster).copied().unwrap_or_default(),
                }
            })
            .collect()
    }

    /// The path of a workspace if the agent knows it, otherwise its logical cluster.
    fn workspace(&self, cluster: &str) -> String {
        let scope = Scope::new(&self.sides.kcp, &logical_cluster_kind(), cluster);
        let path = match self.cache.get(&scope.key(None, "cluster")) {
            Seen::Present(object) => object.annotation("kcp.io/path").map(str::to_owned),
            Seen::Absent | Seen::Unknown => None,
        };
        path.unwrap_or_else(|| cluster.to_owned())
    }
}
