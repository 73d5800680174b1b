//! The caches of a process, and the feeds that fill them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::{Beside, FeedState, Replica, shown};
use crate::cluster::cache::{Change, Listed};
use crate::cluster::queue::Urgency;
use crate::simulation::dialect::{CLUSTER, Id};
use crate::simulation::world::{COPIES, Event, STATES, World};
use hawser_sync::Key;
use kube_lang::object::Object;

impl Replica {
    /// The objects in the caches, and their bytes.
    pub(in crate::simulation) fn cached(&self) -> (usize, usize) {
        let _entered = self.runtime().enter();
        let sizes = self.cache.sizes().into_iter();
        sizes.fold((0, 0), |(objects, bytes), (_, _, size)| {
            (objects + size.entries, bytes + size.bytes)
        })
    }

    /// The shards that the process works on.
    pub(in crate::simulation) fn held(&self) -> usize {
        let shards = self.shards.as_ref();
        shards.map_or(0, |(shards, _)| shards.held().len())
    }

    pub(in crate::simulation) fn is_filled(&self) -> bool {
        self.feeds.iter().all(|feed| feed.table.is_complete())
    }

    /// Whether a list is to be requested.
    pub(in crate::simulation) fn wants_list(&mut self, feed: usize) -> bool {
        let wanted = self.feeds[feed].wanted.as_ref();
        if wanted.is_some_and(|wanted| wanted.has_changed().unwrap_or_default()) {
            self.entered(|own| own.heed_wanted(feed));
        }
        let of = &self.feeds[feed];
        of.state == FeedState::Cold || of.beside == Beside::Due
    }

    /// Asks for a list; the answer has the state after so many events.
    pub(in crate::simulation) fn request_list(&mut self, feed: usize, events: usize, version: u64) {
        let of = &mut self.feeds[feed];
        if of.beside == Beside::Due {
            of.beside = Beside::Listing { events, version };
            return;
        }
        if let Some(wanted) = &mut of.wanted {
            let Some(parts) = wanted.borrow_and_update().clone() else {
                return;
            };
            of.table.accept(&parts);
            if parts.is_empty() {
                return self.entered(|own| own.complete(feed, &HashSet::new(), 0));
            }
            of.listing = Some(parts);
        }
        self.feeds[feed].state = FeedState::Listing { events, version };
    }

    /// The watch is too old for the server.
    pub(in crate::simulation) fn cut(&mut self, feed: usize) {
        self.feeds[feed].state = FeedState::Cold;
        self.feeds[feed].beside = Beside::Nothing;
    }

    /// Other shards may be wanted than a feed follows.
    fn heed_wanted(&mut self, feed: usize) {
        let of = &mut self.feeds[feed];
        let (FeedState::Following(_), Some(wanted)) = (of.state, &mut of.wanted) else {
            return;
        };
        let parts = wanted.borrow_and_update().clone().unwrap_or_default();
        if of.beside != Beside::Nothing {
            return of.table.accept_fewer(&parts);
        }
        of.table.accept(&parts);
        if !of.table.has_loaded_all(&parts) {
            of.listing = Some(parts);
            of.beside = Beside::Due;
        }
    }

    /// A list arrives, or the next event; returns whether there was anything.
    pub(in crate::simulation) fn hear(&mut self, feed: usize, world: &World) -> bool {
        self.entered(|own| match own.feeds[feed].state {
            FeedState::Cold => false,
            FeedState::Listing { events, version } => {
                own.hear_list(feed, world, events, version);
                own.feeds[feed].state = FeedState::Following(events);
                true
            }
            FeedState::Following(next) => match world.logs[feed].get(next) {
                Some(event) => {
                    own.feeds[feed].state = FeedState::Following(next + 1);
                    own.hear_event(feed, event);
                    true
                }
                None => false,
            },
        })
    }

    /// The list beside the watch arrives; returns whether there is one.
    pub(in crate::simulation) fn hear_beside(&mut self, feed: usize, world: &World) -> bool {
        let Beside::Listing { events, version } = self.feeds[feed].beside else {
            return false;
        };
        self.entered(|own| {
            own.hear_list(feed, world, events, version);
            own.feeds[feed].beside = Beside::Nothing;
            own.heed_wanted(feed);
        });
        true
    }

    /// Does something on the clock of the process.
    pub(in crate::simulation) fn entered<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let runtime = self.runtime.take();
        let runtime = runtime.expect("it is taken when the process ends");
        let entered = runtime.enter();
        let done = work(self);
        drop(entered);
        self.runtime = Some(runtime);
        done
    }

    pub(in crate::simulation) fn hear_list(
        &mut self,
        feed: usize,
        world: &World,
        events: usize,
        version: u64,
    ) {
        let table = Arc::clone(&self.feeds[feed].table);
        self.feeds[feed].highest = version.max(self.feeds[feed].highest);
        let mut listed = HashSet::new();
        for (key, object) in world.logs[feed].listed(events) {
            let is_unlabelled = feed == COPIES && object.label(CLUSTER).is_none();
            if is_unlabelled || !table.takes_in(key, object) {
                continue;
            }
            let shown = shown(key, object);
            table.show_anew(key);
            if let Some(change) = table.upsert(&shown).filter(|_| table.is_complete()) {
                self.changed(&change);
            }
            listed.insert(key.clone());
        }
        self.complete(feed, &listed, version);
    }

    pub(in crate::simulation) fn complete(
        &mut self,
        feed: usize,
        listed: &HashSet<Key>,
        version: u64,
    ) {
        let table = Arc::clone(&self.feeds[feed].table);
        let mut finished = table.finish(listed, version);
        finished.gone.sort_by(|a, b| a.key.cmp(&b.key));
        for change in &finished.gone {
            self.changed(change);
        }
        let loaded = self.feeds[feed].listing.take();
        let is_more = loaded.is_some_and(|parts| table.note_loaded(&parts));
        if finished.first && self.is_filled() {
            self.filled();
        } else if is_more {
            for id in self.subjects() {
                self.add(id, Urgency::Initial);
            }
        }
    }

    pub(in crate::simulation) fn hear_event(&mut self, feed: usize, event: &Event) {
        let is_shown = |object: &&Arc<Object>| feed != COPIES || object.label(CLUSTER).is_some();
        let before = event.before.as_ref().filter(is_shown);
        let now = event.now.as_ref().filter(is_shown);
        let of = &mut self.feeds[feed];
        of.highest = of.highest.max(event.version);
        let table = Arc::clone(&of.table);
        let mut states = before.into_iter().chain(now);
        if !states.any(|object| table.takes_in(&event.key, object)) {
            return;
        }
        let change = match (before, now) {
            (None, None) => None,
            (before, Some(now)) => {
                if before.is_none() {
                    table.show_anew(&event.key);
                }
                table.observe(&shown(&event.key, now))
            }
            (Some(before), None) => {
                let mut last = Object::clone(before);
                let version = event.version.to_string();
                let metadata = last.metadata_mut();
                metadata.insert("resourceVersion".into(), version.into());
                table.delete(&Listed {
                    key: event.key.clone(),
                    version: event.version,
                    object: last.into(),
                })
            }
        };
        if let Some(change) = change.filter(|_| table.is_complete()) {
            self.changed(&change);
        }
    }

    pub(in crate::simulation) fn changed(&mut self, change: &Change) {
        if let Some(id) = Id::of(&change.key) {
            self.add(id, Urgency::Live);
        }
    }

    /// The subjects of everything that is known.
    pub(in crate::simulation) fn subjects(&self) -> BTreeSet<Id> {
        let subjects = [0, COPIES, STATES].map(|feed: usize| self.feeds[feed].table.keys());
        let subjects = subjects.iter().flatten();
        subjects.filter_map(Id::of).collect()
    }
}
