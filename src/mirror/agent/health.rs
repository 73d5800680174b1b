//! Whether the cloud takes our credentials. That is asked for with the one list that every robot is allowed,
//! when somebody asks: credentials that are not taken are the one trouble that a new start may end.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::planes::Planes;
use hawser_runtime::cluster::connection::Call;

/// A list of a type that the way in lets every robot see.
const ASKED: &str = "/apis/registry.cloudrobotics.com/v1alpha1/robottypes?limit=1";
/// How long whoever asks waits for a cloud that does not answer. Probes wait for a minute at most.
const PATIENCE: Duration = Duration::from_secs(15);

/// See the module.
pub struct CloudHealth {
    planes: Planes,
    /// When the cloud answered last, and whether it took our credentials then. Held while it is asked.
    last: Mutex<Option<(Instant, bool)>>,
}

impl CloudHealth {
    pub fn new(planes: &Planes) -> Self {
        Self {
            planes: planes.clone(),
            last: Mutex::new(None),
        }
    }

    /// Only an answer that says so is against it: what cannot be asked may be well.
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
        let answer = timeout(PATIENCE, self.planes.cloud.call(Call::get(ASKED))).await;
        let is_well = !matches!(answer, Ok(Ok(reply)) if reply.status == 401);
        *last = Some((Instant::now(), is_well));
        is_well
    }
}
