//! The liveness and the readiness of a process, as probes ask for them.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// If the main loop is silent for this long, the process is not alive.
const STUCK: Duration = Duration::from_mins(1);

/// A process is ready if nothing is missing, and alive if its main loop runs.
#[derive(Debug)]
pub struct Health {
    /// The missing parts, with the reason.
    missing: Mutex<BTreeMap<String, String>>,
    beaten: Mutex<Instant>,
}

// === impl Health ===

impl Health {
    /// Alive, and not ready until these parts are found.
    pub fn missing<'a>(gates: impl IntoIterator<Item = &'a str>) -> Self {
        let missing = gates
            .into_iter()
            .map(|gate| (gate.to_owned(), "not ready yet".to_owned()));
        Self {
            missing: Mutex::new(missing.collect()),
            beaten: Mutex::new(Instant::now()),
        }
    }

    /// Marks a part as missing: the process is not ready.
    pub fn lost(&self, gate: &str, why: &str) {
        self.missing.lock().insert(gate.to_owned(), why.to_owned());
    }

    /// Marks a part as found.
    pub fn found(&self, gate: &str) {
        self.missing.lock().remove(gate);
    }

    /// Marks the main loop as running.
    pub fn beat(&self) {
        *self.beaten.lock() = Instant::now();
    }

    /// One line for each missing part.
    pub fn not_ready(&self) -> Vec<String> {
        let missing = self.missing.lock();
        missing
            .iter()
            .map(|(gate, why)| format!("{gate}: {why}"))
            .collect()
    }

    /// The reason why the process is not alive.
    pub fn not_alive(&self) -> Option<String> {
        let silent = self.beaten.lock().elapsed();
        (silent > STUCK)
            .then(|| format!("the main loop has been silent for {} s", silent.as_secs()))
    }
}
