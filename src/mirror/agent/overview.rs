//! The overview of a mirror: its resources, and the objects that are out of sync.

use std::cmp::Ordering;
use std::sync::Arc;

use super::following::CrdController;
use super::syncer::{Syncer, WORKERS};
use crate::mirror::advice::advice;
use crate::mirror::rules::Id;
use hawser_runtime::cluster::queue::QueueState;
use hawser_runtime::overview::site::{ObjectPath, OverviewSource};
use hawser_runtime::overview::{
    AttemptsOverview, ByReason, CacheOverview, KindOverview, ObjectOverview, Overview,
    QueueOverview, Role, TenantOverview, reasons,
};

/// An object of a syncer.
struct SyncedObject {
    syncer: Arc<Syncer>,
    id: Id,
}

impl SyncedObject {
    fn place(&self) -> (&str, &Id) {
        (&self.syncer.definition.name, &self.id)
    }
}

impl OverviewSource for CrdController {
    fn name(&self) -> &str {
        self.robot()
    }

    fn role(&self) -> Role {
        Role::Leading
    }

    fn overview(&self) -> Overview {
        let mut by_reason = ByReason::<SyncedObject>::new();
        let mut queue = QueueState::default();
        let (mut workers, mut caches) = (0, Vec::new());
        let mut kinds = self.refused();
        for syncer in self.syncers() {
            let mut out_of_sync = 0;
            syncer.subjects.each_unsettled(|id, problem| {
                out_of_sync += 1;
                let object = SyncedObject {
                    syncer: Arc::clone(&syncer),
                    id: id.clone(),
                };
                let of_reason = by_reason.entry(problem.reason.code).or_default();
                of_reason.push((problem.since, object));
            });
            kinds.push(syncer.overview(out_of_sync));
            queue = queue.with(syncer.subjects.queue.state());
            workers += WORKERS;
            caches.extend(CacheOverview::of(&syncer.cache));
        }
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        let object = |object: &SyncedObject| {
            Some(ObjectOverview {
                config: object.syncer.definition.name.to_string(),
                kind: object.syncer.definition.kind.kind.clone(),
                tenant: self.robot().to_owned(),
                namespace: object.id.namespace.as_deref().map(str::to_owned),
                name: object.id.name.to_string(),
                attempts: object.syncer.subjects.attempts(&object.id)?,
            })
        };
        let mut overview = Overview {
            name: self.robot().to_owned(),
            role: Role::Leading,
            tenant_word: "robot".to_owned(),
            // All of them are the robot's.
            reasons: reasons(by_reason, |_| "", advice, object),
            kinds,
            recent: self.recent(),
            queue: QueueOverview::of(queue, workers),
            caches,
            ..Overview::now(self.started())
        };
        overview.rank_tenants(vec![TenantOverview {
            name: self.robot().to_owned(),
            objects: overview.objects(),
            out_of_sync: overview.out_of_sync(),
        }]);
        overview
    }

    fn attempts(&self, object: &ObjectPath<'_>) -> Option<AttemptsOverview> {
        let mut syncers = self.syncers().into_iter();
        let syncer = syncers.find(|syncer| *syncer.definition.name == *object.config)?;
        syncer.subjects.attempts(&Id {
            namespace: object.namespace.map(Into::into),
            name: object.name.into(),
        })
    }
}

impl Syncer {
    fn overview(&self, out_of_sync: usize) -> KindOverview {
        let definition = &self.definition;
        let held = self.brakes.held(&definition.kind);
        let crd = format!("crd {}", definition.name);
        let problems = self.unlisted();
        let state = self.state.lock();
        KindOverview {
            name: definition.name.to_string(),
            kind: definition.kind.kind.clone(),
            objects: state.objects(definition.owner),
            out_of_sync,
            left_behind: 0,
            problems,
            held: held.map(|held| held.overview(&crd)),
        }
    }
}

impl PartialEq for SyncedObject {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for SyncedObject {}

impl PartialOrd for SyncedObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SyncedObject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}
