//! Whether a process lives, and whether it is ready: what probes ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the main loop may be silent before the process counts as stuck.
const STUCK: Duration = Duration::from_mins(1);

/// What others say about the process: ready is who misses nothing, alive whose main loop turns.
#[derive(Debug)]
pub struct Health {
    /// What is missing, and why.
    missing: Mutex<BTreeMap<String, String>>,
    beaten: Mutex<Instant>,
}

// === impl Health ===

impl Health {
    /// Alive, and not ready for want of these.
    pub fn missing<'a>(gates: impl IntoIterator<Item = &'a str>) -> Self {
        let missing = gates
            .into_iter()
            .map(|gate| (gate.to_owned(), "not yet".to_owned()));
        Self {
            missing: Mutex::new(missing.collect()),
            beaten: Mutex::new(Instant::now()),
        }
    }

    /// Not ready any more, for want of this.
    pub fn lost(&self, gate: &str, why: &str) {
        self.missing.lock().insert(gate.to_owned(), why.to_owned());
    }

    /// This is not missing any more.
    pub fn found(&self, gate: &str) {
        self.missing.lock().remove(gate);
    }

    /// The main loop has come round.
    pub fn beat(&self) {
        *self.beaten.lock() = Instant::now();
    }

    /// A line for everything that is missing.
    pub fn not_ready(&self) -> Vec<String> {
        let missing = self.missing.lock();
        missing
            .iter()
            .map(|(gate, why)| format!("{gate}: {why}"))
            .collect()
    }

    /// Why the process does not count as alive.
    pub fn not_alive(&self) -> Option<String> {
        let silent = self.beaten.lock().elapsed();
        (silent > STUCK)
            .then(|| format!("the main loop has been silent for {} s", silent.as_secs()))
    }
}
