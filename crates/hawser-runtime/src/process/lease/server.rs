//! The server that keeps Leases.

use std::future::Future;

use crate::cluster::connection::{Call, CallError, Connection, Reply};

/// A server that keeps Leases: a control plane behind a connection, or the model of one.
pub trait LeaseServer: Clone + Send + Sync + 'static {
    fn call(&self, call: Call) -> impl Future<Output = Result<Reply, CallError>> + Send;
}

impl LeaseServer for Connection {
    async fn call(&self, call: Call) -> Result<Reply, CallError> {
        Self::call(self, call).await
    }
}
