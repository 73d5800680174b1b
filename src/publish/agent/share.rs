//! The workspaces that this replica works on: all of them, or those of the shards that it holds.

use std::sync::Arc;

use hawser_runtime::cluster::cache::{KeptByAll, Partition, TenantMark};
use hawser_runtime::cluster::connection::{Guard, WriteGuard};
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::shards::{ShardWork, Shards, shard_of};

/// The workspaces of this replica.
#[derive(Clone, Debug)]
pub enum Share {
    All,
    Shards(Arc<Shards>),
}

/// Work on the objects of one workspace. It may write as long as the replica holds the shard that it began with.
#[derive(Debug)]
pub struct ShareWork(Option<ShardWork>);

/// Why a write about a workspace is not sent.
const NOT_OURS: &str = "another replica may hold the shard of the workspace";

impl Share {
    /// The shard of a workspace; `None` without shards.
    pub fn shard(&self, cluster: &str) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Shards(shards) => Some(shard_of(cluster, shards.count())),
        }
    }

    /// Whether passes over objects of a workspace may begin.
    pub fn has(&self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::Shards(shards) => shards.is_held(shard_of(cluster, shards.count())),
        }
    }

    /// The shards that this replica holds.
    pub fn held(&self) -> Vec<usize> {
        match self {
            Self::All => Vec::new(),
            Self::Shards(shards) => shards.held(),
        }
    }

    /// The part of a kind's objects that this replica keeps, if it shares the workspaces; this mark of an object names
    /// its workspace.
    pub fn partition(&self, mark: TenantMark, everywhere: Option<KeptByAll>) -> Option<Partition> {
        let Self::Shards(shards) = self else {
            return None;
        };
        let count = shards.count();
        Some(Partition {
            mark,
            part_of: Arc::new(move |workspace| shard_of(workspace, count)),
            wanted: shards.wanted(),
            everywhere,
        })
    }

    /// Begins work on objects of a workspace; `None` if they are for another replica.
    pub fn begin(&self, cluster: &str) -> Option<ShareWork> {
        match self {
            Self::All => Some(ShareWork::anywhere()),
            Self::Shards(shards) => {
                let work = shards.begin(shard_of(cluster, shards.count()))?;
                Some(ShareWork(Some(work)))
            }
        }
    }

    /// The guard of all writes: those on behalf of a workspace ask the fence of its shard, all others that of the leader.
    pub fn guard(&self, leader: &Fence) -> Arc<WriteGuard> {
        let Self::Shards(shards) = self else {
            return leader.guard();
        };
        let (shards, leader) = (Arc::clone(shards), leader.clone());
        Arc::new(move |tenant| match tenant {
            None => leader.check().map_err(|fenced| fenced.to_string()),
            Some(tenant) => {
                let shard = shard_of(workspace_of(tenant), shards.count());
                shards.check(shard).map_err(|_| NOT_OURS.to_owned())
            }
        })
    }
}

/// The workspace of a tenant. Events about copies have a tenant of their own for each workspace: `service/<cluster>`.
fn workspace_of(tenant: &str) -> &str {
    tenant
        .rsplit_once('/')
        .map_or(tenant, |(_, cluster)| cluster)
}

impl ShareWork {
    /// Of a replica that works on all workspaces, or of a trial.
    pub fn anywhere() -> Self {
        Self(None)
    }

    /// Whether a write of this work may begin now; otherwise the reason.
    pub fn check(&self) -> Result<(), String> {
        let checked = self.0.as_ref().map_or(Ok(()), ShardWork::check);
        checked.map_err(|_| NOT_OURS.to_owned())
    }

    /// The same for what is sent after the work has ended.
    pub fn guard(&self) -> Arc<Guard<'static>> {
        match &self.0 {
            None => Arc::new(|| Ok(())),
            Some(work) => {
                let fence = work.fence().clone();
                Arc::new(move || fence.check().map_err(|_| NOT_OURS.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_asks_the_fence_of_its_workspace_and_all_others_that_of_the_leader() {
        let (shards, _changes) = Shards::new(4);
        let share = Share::Shards(shards);
        let guard = share.guard(&Fence::always_open());
        assert_eq!(guard(None), Ok(()));
        for tenant in ["team", "service/team"] {
            assert_eq!(guard(Some(tenant)), Err(NOT_OURS.to_owned()), "{tenant}");
        }
        assert!(share.begin("team").is_none());
        assert!(!share.has("team"));

        let guard = Share::All.guard(&Fence::closed());
        assert!(guard(None).is_err() && guard(Some("team")).is_err());
        assert!(
            Share::All
                .begin("team")
                .is_some_and(|work| work.check().is_ok())
        );
    }

    #[test]
    fn events_about_copies_belong_to_the_shard_of_their_workspace() {
        for cluster in ["root", "2x5z0s5tk1vrxhq6"] {
            let of_copy = format!("service/{cluster}");
            assert_eq!(workspace_of(&of_copy), workspace_of(cluster));
        }
    }
}
