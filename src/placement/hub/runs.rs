//! The pass over one staged update run.

use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use tracing::warn;

use hawser_placement::hub::runs::{
    RunView, approval_kind, decide, is_initialized, is_over, run_kind, strategy_kind,
};
use hawser_placement::members::Members;
use hawser_placement::names;
use hawser_placement::snapshots::Scope as PlacementScope;
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::placement::Placement;
use hawser_placement::types::runs::{ApprovalRequest, UpdateRun, UpdateStrategy};
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::queue::Outcome;
use hawser_runtime::cluster::wire::collection;
use hawser_runtime::errors::chain;
use hawser_sync::{Found, Labels, Store as _};

use super::error::HubPassError;
use super::forms::{PlacementForms, unreadable_member};
use super::key::{HubKey, PlacementId};
use super::objects::{self, read};
use super::passes::{HubController, ROUNDS, time};

pub(crate) mod index;
pub(crate) mod numbers;

/// The objects of users on which the begin and the failure of a run depend, read live: a run may be created right after
/// them, before their events arrive.
struct RunInputs {
    placement: Option<Placement>,
    strategy: Option<UpdateStrategy>,
    clusters: Members,
}

impl HubController {
    pub(super) async fn run(&self, id: &PlacementId) -> Result<Outcome, HubPassError> {
        let mut known = self.recent_runs.lock().take(id);
        let worked = self.reconcile_run(id, &mut known).await;
        if matches!(worked, Ok((_, true))) {
            self.recent_runs.lock().put(id, known);
        }
        worked.map(|(outcome, _)| outcome)
    }

    /// Also returns whether the run continues.
    async fn reconcile_run(
        &self,
        id: &PlacementId,
        known: &mut PlacementForms,
    ) -> Result<(Outcome, bool), HubPassError> {
        let by = HubKey::Run(id.clone());
        let near = id.namespace.as_deref();
        let scope = match near {
            None => PlacementScope::Cluster,
            Some(_) => PlacementScope::Namespaced,
        };
        let mut live: Option<RunInputs> = None;
        for _ in 0..ROUNDS {
            let Some(run) = self.get::<UpdateRun>(run_kind(scope), near, &id.name)? else {
                self.numbers.runs.forget(id);
                return Ok((Outcome::Settled, false));
            };
            let begins = !is_initialized(&run) && !is_over(&run) && !run.metadata.in_deletion();
            let of = PlacementId {
                namespace: id.namespace.clone(),
                name: run.spec.placement_name.as_str().into(),
            };
            let mut approvals = Vec::new();
            if !is_over(&run) || run.metadata.in_deletion() {
                self.parse_for_run(scope, &of, known, begins)?;
                approvals = self.approvals(scope, id, &run)?;
            }
            if begins && live.is_none() {
                live = Some(self.live(scope, near, &run).await?);
            }
            let cached = match &live {
                Some(_) => None,
                None => self.get::<Placement>(scope.placement(), near, &of.name)?,
            };
            let placement = match &live {
                Some(live) => live.placement.as_ref(),
                None => cached.as_ref(),
            };
            let selects = begins && run.spec.resource_snapshot_index.is_empty();
            let selected = placement
                .filter(|_| selects)
                .map(|placement| self.select(&of, placement, known));
            let clusters = live.as_ref().map(|live| live.clusters.clone());
            let now = Timestamp::now();
            let decided = decide(&RunView {
                scope,
                run: &run,
                placement,
                strategy: live.as_ref().and_then(|live| live.strategy.as_ref()),
                policies: known.policies.all(),
                snapshots: known.snapshots.all(),
                bindings: known.bindings.all(),
                approvals: &approvals,
                clusters: &clusters.unwrap_or_else(|| self.forms.clusters.all()),
                cluster_overrides: &self.forms.cluster_overrides.all(),
                overrides: &self.forms.overrides.all(),
                selected: selected.as_ref().map(|selected| selected.as_deref()),
                now,
                time: &time(now),
            });
            let round = decided.map_err(|problem| HubPassError::Failed(problem.to_string()))?;
            if round.is_failure && live.is_none() {
                live = Some(self.live(scope, near, &run).await?);
                continue;
            }
            if round.stages.is_empty() {
                self.numbers.runs.count(id, &run);
                let outcome = round.wait.map_or(Outcome::Settled, |wait| {
                    Outcome::Again(wait.max(SignedDuration::ZERO).unsigned_abs())
                });
                return Ok((outcome, !is_over(&run)));
            }
            for stage in round.stages.into_stages() {
                let sent = stage.into_iter().map(|write| self.send(&by, write));
                for sent in join_all(sent).await {
                    if let Some(written) = sent?
                        && written.kind() == run_kind(scope)
                        && let Ok(now) = read::<UpdateRun>(&written)
                    {
                        self.numbers.runs.written(&run, &now);
                    }
                }
            }
        }
        warn!(run = %id.name, "more writes than a pass takes; the next one goes on");
        Ok((Outcome::Again(Duration::ZERO), true))
    }

    /// Parses the changed objects that a run depends on: the snapshots only before it begins, because they are large.
    fn parse_for_run(
        &self,
        scope: PlacementScope,
        id: &PlacementId,
        known: &mut PlacementForms,
        begins: bool,
    ) -> Result<(), HubPassError> {
        let near = &id.namespace;
        let kind = scope.policy_snapshot();
        self.refresh(&mut known.policies, kind, id, |key, _| {
            key.namespace == *near
        })?;
        if begins {
            let kind = scope.resource_snapshot();
            self.refresh(&mut known.snapshots, kind, id, |key, _| {
                key.namespace == *near
            })?;
        } else {
            known.forget_resources();
        }
        let kind = scope.binding();
        self.refresh(&mut known.bindings, kind, id, |key, _| {
            key.namespace == *near
        })
    }

    /// The approval requests of a run, and those that have their names.
    fn approvals(
        &self,
        scope: PlacementScope,
        id: &PlacementId,
        run: &UpdateRun,
    ) -> Result<Vec<ApprovalRequest>, HubPassError> {
        let kind = approval_kind(scope);
        let labels = Labels::from([(names::TARGET_RUN, id.name.to_string())]);
        let Found::All(all) = self.cache.find(&objects::scope(kind), &labels) else {
            return Err(HubPassError::Unknown);
        };
        let its = all.iter().filter(|(key, _)| key.namespace == id.namespace);
        // An unreadable request is not approved.
        let its = its.filter_map(|(_, object)| read::<ApprovalRequest>(object).ok());
        let mut approvals: Vec<ApprovalRequest> = its.collect();
        let stages = run.status.stages_status.iter();
        let tasks = stages.flat_map(|stage| {
            let before = stage.before_stage_task_status.iter();
            before.chain(&stage.after_stage_task_status)
        });
        for name in tasks.map(|task| &task.approval_request_name) {
            let is_known = approvals.iter().any(|one| one.metadata.name == *name);
            if !is_known && !name.is_empty() {
                approvals.extend(self.get(kind, id.namespace.as_deref(), name)?);
            }
        }
        Ok(approvals)
    }

    async fn live(
        &self,
        scope: PlacementScope,
        near: Option<&str>,
        run: &UpdateRun,
    ) -> Result<RunInputs, HubPassError> {
        let (placement, strategy, clusters) = tokio::try_join!(
            self.ask(scope.placement(), near, &run.spec.placement_name),
            self.ask(strategy_kind(scope), near, &run.spec.strategy_name),
            self.read_members(),
        )?;
        Ok(RunInputs {
            placement,
            strategy,
            clusters,
        })
    }

    async fn read_members(&self) -> Result<Members, HubPassError> {
        let kind = "MemberCluster";
        let all = collection(&objects::gvk(kind), None, &objects::resource(kind));
        let found = self.hub.ask(Call::get(all)).await;
        let found = found.map_err(|error| HubPassError::Failed(chain(&error)))?;
        let Some(items) = found["items"].as_array() else {
            return Err(HubPassError::Failed(format!(
                "{kind}: the answer is not a list"
            )));
        };
        let members = items.iter().filter_map(|item| {
            let member = MemberCluster::deserialize(item).ok();
            member.or_else(|| unreadable_member(item.to_string().as_bytes()))
        });
        Ok(members.collect())
    }
}
