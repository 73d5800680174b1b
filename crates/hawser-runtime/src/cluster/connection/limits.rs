//! The limits of a connection, its observer and its guard.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::trust::SkippedTlsChecks;

/// The default `User-Agent`.
const AGENT: &str = concat!("hawser/", env!("CARGO_PKG_VERSION"));
/// The manager of the fields that requests with the default `User-Agent` set: servers take the part before the slash.
pub const FIELD_MANAGER: &str = "hawser";

/// Observes every call.
pub trait Observer: Send + Sync {
    /// `code` is `None` if there was no response.
    fn answered(&self, call: &Method, code: Option<u16>);
    /// The duration of a call until its response, and the number of bytes sent.
    fn measured(&self, _call: &Method, _code: Option<u16>, _took: Duration, _sent: usize) {}
}

/// Decides whether a call may be sent now; otherwise says why not.
pub type Guard<'g> = dyn Fn() -> Result<(), String> + Send + Sync + 'g;

/// Decides whether a write may be sent now on behalf of a tenant, or of nobody; otherwise says why not.
pub type WriteGuard = dyn Fn(Option<&str>) -> Result<(), String> + Send + Sync;

/// The limits of a connection.
#[derive(Clone)]
pub struct Limits {
    /// Concurrent calls to one server; leases and watches are not counted.
    pub in_flight: usize,
    /// Calls a second to one server; watches are counted, leases are not. `None` is unlimited.
    pub per_second: Option<NonZeroU32>,
    pub observer: Option<Arc<dyn Observer>>,
    /// Asked right before each write is sent, except for writes of leases.
    pub guard: Option<Arc<WriteGuard>>,
    /// The `User-Agent` header.
    pub agent: &'static str,
    /// Checks of the server's certificate that are skipped.
    pub unchecked: SkippedTlsChecks,
    /// Whether calls carry the trace context of the work that they belong to.
    pub traces: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 64,
            per_second: None,
            observer: None,
            guard: None,
            agent: AGENT,
            unchecked: SkippedTlsChecks::default(),
            traces: false,
        }
    }
}
