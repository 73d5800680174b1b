//! The Lease by which a process shows others that it runs. Nobody competes for it.

use std::sync::Arc;

use tokio::time::timeout;

use super::options::LeaseOptions;
use super::server::LeaseServer;
use super::term::{AcquireResult, Term};
use crate::cluster::connection::Connection;

/// The Lease of one process.
pub struct Presence<S = Connection> {
    term: Term<S>,
    options: Arc<LeaseOptions>,
}

impl<S: LeaseServer> Presence<S> {
    pub fn new(server: &S, options: LeaseOptions) -> Self {
        let options = Arc::new(options);
        Self {
            term: Term::new(server.clone(), Arc::clone(&options)),
            options,
        }
    }

    /// Renews it once, with an annotation.
    pub async fn show(&mut self, name: &'static str, note: &str) -> Result<(), String> {
        self.term.annotate(name, note);
        match self.term.ask().await {
            AcquireResult::Held { .. } => Ok(()),
            AcquireResult::Theirs { holder } => Err(format!("{holder} holds it")),
            AcquireResult::Failed { problem } => Err(problem),
        }
    }

    /// Deletes it, within a short time.
    pub async fn leave(self) -> Result<(), String> {
        let limit = self.options.terms.renew_deadline / 5;
        let left = timeout(limit, self.term.delete()).await;
        left.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
    }
}
