//! Home workspaces: one for each user, addressed as `~` in root, and created on the first request.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::clusters::{self, NewCluster};
use super::types::TypeRef;
use super::workspaces::{self, BaseUrl};
use super::{ids, objects, tree};
use crate::api::{Api, ApiBody, ApiRequest, ApiResponse};
use crate::catalog::{Scope, User};
use crate::rest::Rest;
use crate::status::Status;
use crate::store::{Key, Store, Stored};

/// The resource under which root serves the user's workspace.
const ADDRESS: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces/~";

/// The API of kcp with requests for `~`.
pub(super) struct HomeApi {
    pub(super) rest: Rest,
    pub(super) store: Arc<Store>,
    pub(super) base_url: BaseUrl,
}

impl Api for HomeApi {
    fn handle(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        let asks = request.scope == Scope::Cluster(tree::ROOT.into())
            && request.path.trim_end_matches('/') == ADDRESS
            && matches!(request.method, Method::GET | Method::HEAD);
        if !asks {
            return self.rest.handle(request);
        }
        let answer = match self.home(&request.user) {
            Ok(workspace) => ApiResponse {
                status: 200,
                headers: HeaderMap::new(),
                body: ApiBody::Full(Bytes::from(workspace.to_string())),
            },
            Err(status) => status.into(),
        };
        futures::future::ready(answer).boxed()
    }

    fn revision(&self) -> u64 {
        self.rest.revision()
    }
}

impl HomeApi {
    /// The home workspace of a user, created if it does not exist. It has no Workspace object in root.
    fn home(&self, user: &User) -> Result<Value, Status> {
        let key = tree::cluster_key(&ids::home_cluster(&user.name));
        let there = self.store.read(|read| read.get(&key));
        let there = match there {
            Some(there) => Some(there),
            None => self.make(user, &key)?,
        };
        let there =
            there.ok_or_else(|| Status::internal("the home workspace went as it was made"))?;
        let cluster = there.object();
        let value = cluster.as_value();
        Ok(json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
            "metadata": {
                "name": &**there.key.cluster(),
                "creationTimestamp": value["metadata"]["creationTimestamp"],
                "annotations": {"kcp.io/cluster": tree::ROOT},
            },
            "spec": {
                "type": {"name": "home", "path": tree::ROOT},
                "cluster": &**there.key.cluster(),
                "URL": objects::text(value, "/status/URL"),
            },
            "status": {
                "phase": objects::text(value, "/status/phase"),
                "conditions": value["status"]["conditions"],
            },
        }))
    }
}

impl HomeApi {
    /// Creates the cluster of a home workspace, unless it exists by now.
    fn make(&self, user: &User, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        let base_url = self.base_url.get().map_or("", String::as_str);
        let made = self.store.write(|tx| {
            tx.report(key);
            if tx.get(key).is_some() {
                return Ok(());
            }
            let of_type = TypeRef::new(tree::ROOT, "home");
            let demands = workspaces::demands(tx, &of_type).map_err(Status::internal)?;
            let plan = NewCluster {
                cluster: key.cluster(),
                path: &format!("{}:{}", tree::USERS, user.name),
                of_type: &of_type,
                creator: workspaces::user_info(user),
                owner: None,
                demands: &demands,
                base_url,
            };
            clusters::make(tx, &plan)
        })?;
        Ok(made.reported)
    }
}
