//! Whether the cloud accepts the credentials. When a probe asks, the mirror requests the one list that every robot may
//! read: refused credentials are the one problem that a restart may fix.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::planes::MirrorConnections;
use hawser_runtime::cluster::connection::Call;

/// A list of a type that every robot may read.
const ASKED: &str = "/apis/registry.cloudrobotics.com/v1alpha1/robottypes?limit=1";
/// The time limit for the cloud's response. Probes wait for a minute at most.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// Checks the credentials on request.
pub struct CloudHealth {
    planes: MirrorConnections,
    /// The time of the last response, and whether it accepted the credentials. Locked during the request.
    last: Mutex<Option<(Instant, bool)>>,
}

impl CloudHealth {
    pub fn new(planes: &MirrorConnections) -> Self {
        Self {
            planes: planes.clone(),
            last: Mutex::new(None),
        }
    }

    /// Only a response that refuses the credentials counts: without a response, they may be valid.
    pub async fn is_well(&self) -> bool {
        let link = &self.planes.link;
        if !link.is_admitted() || link.pause().is_some() {
            return true;
        }
        let began = Instant::now();
        let mut last = self.last.lock().await;
        // Those who ask at the same time are told the same.
        if let Some((told, is_well)) = *last
            && told >= began
        {
            return is_well;
        }
        let answer = timeout(MAX_WAIT, self.planes.cloud.call(Call::get(ASKED))).await;
        let is_well = !matches!(answer, Ok(Ok(reply)) if reply.status == 401);
        *last = Some((Instant::now(), is_well));
        is_well
    }
}
