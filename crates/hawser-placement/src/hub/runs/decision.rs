//! The decision about a run.

use super::super::HubWrite;
use super::{
    RunRound, RunView, approval_kind, begin, confirmed, failed, is_initialized, is_over, run_kind,
    stages, validate, written,
};
use crate::names;
use crate::snapshots::SnapshotError;
use crate::types::runs::UpdateRunState;

/// Decides about a run.
pub fn decide(view: &RunView<'_>) -> Result<RunRound, SnapshotError> {
    let mut round = RunRound::default();
    let run = view.run;
    if run.metadata.in_deletion() {
        round.stages.push(confirmed(view));
        let requests = view.approvals.iter();
        let requests = requests.filter(|one| one.spec.run == run.metadata.name);
        let requests = requests.map(|one| &one.metadata);
        let requests = requests.filter(|metadata| !metadata.in_deletion());
        let kind = approval_kind(view.scope);
        round
            .stages
            .push(requests.map(|metadata| HubWrite::delete(kind, metadata)));
        let finalizers = [names::RUN_FINALIZER];
        let kind = run_kind(view.scope);
        round.stages.push(HubWrite::remove_finalizers(
            kind,
            &run.metadata,
            &finalizers,
        ));
    } else if is_over(run) {
        round.stages.push(written(view, run.status.clone()));
    } else {
        round.stages.push(HubWrite::add_finalizers(
            run_kind(view.scope),
            &run.metadata,
            &[names::RUN_FINALIZER],
        ));
        if !round.stages.is_empty() {
            return Ok(round);
        }
        if is_initialized(run) {
            advance(view, &mut round);
        } else if run.spec.state != UpdateRunState::Stop {
            begin::initialize(view, &mut round)?;
        }
    }
    Ok(round)
}

/// Continues a run that is initialized.
fn advance(view: &RunView<'_>, round: &mut RunRound) {
    round.stages.push(confirmed(view));
    let mut run = stages::Run::new(view);
    let advanced = match validate(view) {
        // The scheduler is not done.
        Ok(None) => return,
        Ok(Some(bindings)) => run.advance(&bindings),
        Err(problem) => Err(problem),
    };
    let status = match advanced {
        Ok(()) => {
            round.stages.then(run.writes);
            round.wait = run.wait;
            run.status
        }
        Err(problem) => {
            round.is_failure = true;
            failed(view, run.status, &problem)
        }
    };
    round.stages.push(written(view, status));
}
