//! Held deletions: what this replica tells of them, and what it does when a shard comes or goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;

use super::Publishing;
use crate::publish::agent::approvals;
use crate::publish::agent::holds::{HeldNote, HeldNotes};
use kube_lang::object::Gvk;

impl Publishing {
    /// Tells others of the deletions that this replica holds, and hears of theirs.
    pub async fn exchange_holds(
        self: Arc<Self>,
        told: watch::Sender<String>,
        mut heard: watch::Receiver<BTreeMap<String, String>>,
    ) {
        let mut owners = self.owners.subscribe();
        let mut before = HeldNotes::new();
        loop {
            let changed = tokio::select! {
                changed = owners.changed() => changed,
                changed = heard.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            let notes = heard.borrow_and_update().clone();
            if self.others.hear(&notes) {
                self.report_all();
            }
            let held = self.own_holds();
            for (uid, note) in held.iter().filter(|(uid, _)| !before.contains_key(*uid)) {
                let publication = self.dispatch.publication(uid);
                let name = publication.as_ref().map_or("", |one| &one.plan.name);
                let (count, ids) = (note.count, &note.ids);
                warn!(
                    publishedresource = name,
                    count, ids, "deletions of copies are held: {}", note.why
                );
            }
            let text = serde_json::to_string(&held).unwrap_or_default();
            told.send_if_modified(|told| {
                let differs = *told != text;
                *told = text;
                differs
            });
            before = held;
        }
    }

    fn own_holds(&self) -> HeldNotes {
        let running = self.dispatch.running();
        let held = running.iter().filter_map(|(uid, publication)| {
            let kind = &publication.local_kind;
            let held = self.brakes.held(kind)?;
            let tenants = self.brakes.held_tenants(kind);
            let shards = tenants
                .iter()
                .filter_map(|cluster| self.dispatch.share.shard(cluster));
            let note = HeldNote {
                count: held.count,
                why: held.why,
                ids: held.ids,
                shards: shards.collect(),
            };
            (note.count > 0).then(|| (uid.to_string(), note))
        });
        held.collect()
    }

    /// Goes on holding the deletions that were held in a shard.
    pub fn resume_holds(&self, shard: usize) {
        for (uid, publication) in &*self.dispatch.running() {
            let kind = &publication.local_kind;
            for id in self.others.of_shard(uid, shard) {
                let share = self.dispatch.share.clone();
                let is_meant = move |cluster: &str| share.shard(cluster) == Some(shard);
                self.brakes.resume_for(kind, &id, is_meant);
            }
            // Of those that are remembered, some may have been approved.
            if let Some(published) = self.switch.selected(&publication.plan.name) {
                approvals::apply(&self.brakes, kind, &published);
            }
        }
    }

    /// Another replica may work on a shard: its deletions are held there.
    pub fn leave_holds(&self, shard: usize) {
        let mut own = self.own_holds();
        for note in own.values_mut() {
            note.shards.retain(|held| *held == shard);
        }
        self.others.leave(&own);
        let share = &self.dispatch.share;
        let is_meant = |cluster: &str| share.shard(cluster) == Some(shard);
        let running = self.dispatch.running();
        let kinds: BTreeSet<&Arc<Gvk>> = running.values().map(|one| &one.local_kind).collect();
        for kind in kinds {
            self.brakes.leave(kind, is_meant);
        }
    }
}
