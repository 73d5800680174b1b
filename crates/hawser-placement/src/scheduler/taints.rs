//! Taints and tolerations.

use super::refusal::Refusal;
use crate::types::cluster::Taint;
use crate::types::policy::{Toleration, TolerationOperator};

/// Refuses at the first taint that nothing tolerates.
pub(super) fn check<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
) -> Result<(), Refusal<'a>> {
    let is_tolerated = |taint: &&Taint| tolerations.iter().any(|one| tolerates(one, taint));
    match taints.iter().find(|taint| !is_tolerated(taint)) {
        Some(taint) => Err(Refusal::Taint(taint)),
        None => Ok(()),
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    // NoSchedule is the only effect there is.
    match toleration.operator.unwrap_or_default() {
        TolerationOperator::Exists => toleration.key.is_empty() || toleration.key == taint.key,
        TolerationOperator::Equal => toleration.key == taint.key && toleration.value == taint.value,
    }
}
