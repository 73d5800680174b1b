//! Phase four: content and status of a copy that exists.
//!
//! What changed in the source since the last known state is merged into the copy, so that local
//! changes to other fields stay. Labels and annotations are compared key by key.

use std::sync::Arc;

use serde_json::{Map, Value};

use kube_lang::object::{Object, numbers};

use super::create::claim;
use super::drift::{Differences, DriftMode};
use super::link::{Content, Identity, Link, Source, StatusFlow};
use super::locate::LocatedCopy;
use super::memory::{CopyRecord, Entry, Snapshot};
use super::merge::{NOT_CONTENT, add_settings, merge, overwrite, string_map};
use super::pass::{
    EntryUpdate, LinkDecision, Lookup, Pass, drop_foreign_finalizer, patch_uid, patch_version,
    reason_of, stored_otherwise, unread, waiting_for_deletion, without_foreign_finalizers,
};
use super::pending::{PendingChange, effective, set};
use super::reason::{Code, Reason};
use super::request::{Effect, Failure, Request};
use super::rules::{CopyOrigin, Marks, Metadata};

/// A link and its copy, while it is decided what to do about them.
struct Copying<'a> {
    pass: &'a Pass<'a>,
    link: &'a Link,
    source: &'a Object,
    copy: &'a LocatedCopy,
}

pub(super) fn content(
    pass: &Pass<'_>,
    link: &Link,
    source: &Object,
    copy: &LocatedCopy,
) -> Result<LinkDecision, Reason> {
    let LocatedCopy { key, object, .. } = copy;
    let takes_part =
        || link.policy.syncs_while_deleting() && link.rules.was_made_for(source, object);
    if object.in_deletion() && !takes_part() {
        return Ok(status_while_deleting(pass, link, Some(source), copy));
    }
    if object.is_fragment() {
        return Err(unread(key, object));
    }
    if !copy.marked {
        let claimed = claim(link, source, key, object, copy.made);
        if !claimed.steps.iter().any(|(request, _)| pass.done(request)) {
            return Ok(claimed);
        }
    }
    let desired = pass.facts().desired(link, source, Some(object))?;
    let copying = Copying {
        pass,
        link,
        source,
        copy,
    };
    if link.policy.content == Content::Exact {
        return copying.exactly(&desired);
    }
    let change = match copying.change(&desired) {
        Ok(change) => change,
        Err(read) => return Ok(LinkDecision::read(read).of(key)),
    };
    if let Some(delete) = copying.replacement(&change) {
        return Ok(LinkDecision::step(delete, Effect::Cleanup).of(key));
    }
    let before = copying.before(&desired, &change);
    let patch = copying.patch(change);
    let stored = match patch {
        None => Stored::AsWritten,
        Some(request) if pass.done(&request) => Stored::Otherwise,
        // The status of the existing copy is synchronized all the same.
        Some(request) if matches!(pass.failure(&request), Some(Failure::Paused(_))) => {
            let mut turn = LinkDecision::step(request.clone(), Effect::Synced).of(key);
            copying.status(&mut turn)?;
            copying.drift(&desired, Some(&request), &mut turn);
            return Ok(turn);
        }
        Some(request) => {
            return Ok(match before {
                Some(entry) => LinkDecision {
                    behind: Some((request, Effect::Synced)),
                    ..LinkDecision::remember(Some(entry)).of(key)
                },
                None => LinkDecision::step(request, Effect::Synced).of(key),
            });
        }
    };
    let remembered = pass.remembers() && link.policy.content.is_remembered();
    let entry = || copying.remember(Arc::clone(&desired));
    let memory = remembered.then(entry).flatten();
    let mut turn = copying.settle_copy(memory, stored)?;
    copying.drift(&desired, None, &mut turn);
    copying.revert(&desired, &mut turn);
    Ok(turn)
}

/// The content that the server stored.
#[derive(Clone, Copy)]
enum Stored {
    AsWritten,
    /// The answer to a write differs from it, by an admission webhook or by the schema.
    Otherwise,
}

impl Copying<'_> {
    /// The copy's content, if it is exactly that of the source.
    fn exactly(&self, desired: &Object) -> Result<LinkDecision, Reason> {
        let LocatedCopy { key, object, .. } = self.copy;
        let marks = self.link.rules.marks(self.source, self.copy.made);
        let whole = exact(self.link, object, desired, &marks);
        let request = whole.map(|object| Request::Replace {
            key: key.clone(),
            object,
        });
        match request {
            None => self.settle_copy(None, Stored::AsWritten),
            Some(request) if self.pass.done(&request) => self.settle_copy(None, Stored::Otherwise),
            Some(request) => Ok(LinkDecision::step(request, Effect::Synced).of(key)),
        }
    }

    fn entry(&self) -> Option<&Entry> {
        self.pass.entry(self.link)
    }

    /// Whether this copy was hidden when another one was about to be created in its place.
    fn was_out_of_sight(&self) -> bool {
        let record = self.entry().map(|entry| &entry.copy);
        record.is_some_and(|record| record.found_again(self.copy.object.uid()).is_some())
    }

    fn change(&self, desired: &Object) -> Result<Change, Request> {
        let LocatedCopy { key, object, .. } = self.copy;
        let Some(memory) = &self.pass.subject.memory else {
            return Ok(Change::Overwrite(overwrite(object, desired)));
        };
        let Some(snapshot) = self.entry().and_then(|entry| entry.snapshot.as_ref()) else {
            // The state is lost. The caches of state and copy do not prove that, so both are read live. Content that
            // agrees is recorded without a write, which could be refused.
            for key in [&memory.key, key] {
                if let Lookup::Read(request) = self.pass.lookup_live(key) {
                    return Err(request);
                }
            }
            return Ok(Change::Overwrite(overwrite(object, desired)));
        };
        let mut body = if snapshot.remembers(desired) {
            Map::new()
        } else {
            merge(&snapshot.base_for(desired), desired)
        };
        if let Some(pending) = self.outstanding()? {
            pending.add_desired(&mut body, desired);
        }
        if self.link.policy.content == Content::Restore {
            add_settings(&mut body, overwrite(object, desired));
        }
        // A patch without effect is not sent, if a live read confirms that. A patch with an effect is sent whole.
        if !body.is_empty() && effective(&body, Some(object.as_value())).is_empty() {
            if let Lookup::Read(request) = self.pass.lookup_live(key) {
                return Err(request);
            }
            body.clear();
        }
        Ok(Change::Merge(body))
    }

    /// The announced changes that were not made. A cache does not prove that another process did not make them.
    fn outstanding(&self) -> Result<Option<&PendingChange>, Request> {
        let LocatedCopy { key, object, .. } = self.copy;
        let pending = self.entry().and_then(|entry| entry.pending.as_ref());
        // No write of ours can have reached a hidden copy.
        if self.was_out_of_sight() {
            return Ok(pending);
        }
        let Some(pending) = pending.filter(|pending| pending.is_outstanding(object)) else {
            return Ok(None);
        };
        if self.pass.rested() {
            return Ok(None);
        }
        match self.pass.lookup_live(key) {
            Lookup::Read(request) if !self.pass.wrote_memory() => Err(request),
            _ => Ok(Some(pending)),
        }
    }

    /// Deletes a copy that the server cannot change as needed; it is created again afterwards. Only copies that are
    /// known to have been created by Hawser are deleted.
    fn replacement(&self, change: &Change) -> Option<Request> {
        let (Change::Merge(body) | Change::Overwrite(body)) = change;
        let LocatedCopy { key, object, .. } = self.copy;
        let (record, uid) = (&self.entry()?.copy, object.uid()?);
        let is_recorded = match record {
            CopyRecord::Created { uid: recorded, .. } => **recorded == *uid,
            record => record.found_again(Some(uid)) == Some(CopyOrigin::Created),
        };
        if self.link.policy.identity != Identity::Memory || !is_recorded {
            return None;
        }
        let changed = effective(body, Some(object.as_value()));
        let is_final = |field: &String| self.link.rules.is_final(object, field);
        changed
            .keys()
            .any(is_final)
            .then(|| Request::delete(key.clone(), uid))
    }

    /// The entry to remember before a change is sent.
    fn before(&self, desired: &Arc<Object>, change: &Change) -> Option<Entry> {
        let Change::Merge(body) = change else {
            return None;
        };
        if body.is_empty() || !self.pass.remembers() {
            return None;
        }
        if self.entry()?.snapshot.as_ref()?.remembers(desired) {
            return None;
        }
        Some(Entry {
            snapshot: Some(Snapshot::whole(Arc::clone(desired))),
            copy: CopyRecord::of(&self.copy.key, &self.copy.object, self.copy.made),
            pending: Some(PendingChange::of(body, &self.copy.object)?),
        })
    }

    /// The request for a change; the same patch corrects missing or wrong marks.
    fn patch(&self, change: Change) -> Option<Request> {
        let LocatedCopy { key, object, .. } = self.copy;
        let versioned = matches!(&change, Change::Overwrite(body) if !body.is_empty());
        let (Change::Merge(mut body) | Change::Overwrite(mut body)) = change;
        let marks = self.link.rules.marks(self.source, self.copy.made).identity;
        for (name, value) in &marks.labels {
            if object.label(name) != Some(value) {
                set_metadata(&mut body, "labels", name, value);
            }
        }
        for (name, value) in &marks.annotations {
            if object.annotation(name) != Some(value) {
                set_metadata(&mut body, "annotations", name, value);
            }
        }
        if body.is_empty() {
            return None;
        }
        let request = if versioned { patch_version } else { patch_uid };
        Some(request(key, object, Value::Object(body)))
    }

    /// The entry to remember now that the copy is in sync; `None` if it is already stored.
    ///
    /// The copy shows that an announced change was made, unless another writer restores the earlier value. So the entry
    /// is written if the change does not show, and if it had to be made twice: another writer has to revert a change
    /// only once.
    fn remember(&self, desired: Arc<Object>) -> Option<EntryUpdate> {
        let LocatedCopy {
            key, object, made, ..
        } = self.copy;
        let is_known = |entry: &Entry| {
            let snapshot = entry.snapshot.as_ref();
            // Without labels, only the record in the memory leads to the copy, so it has to be exact.
            let loose = entry.copy != CopyRecord::of(key, object, *made);
            let doubted =
                |one: &PendingChange| self.again(one, &desired) || one.is_outstanding(object);
            snapshot.is_some_and(|snapshot| snapshot.remembers(&desired))
                && !(loose && self.link.policy.identity == Identity::Memory)
                && !entry.pending.as_ref().is_some_and(doubted)
        };
        if self.entry().is_some_and(is_known) {
            return None;
        }
        Some(EntryUpdate(Some(Entry {
            snapshot: Some(Snapshot::whole(desired)),
            copy: CopyRecord::of(key, object, *made),
            pending: None,
        })))
    }

    /// Whether this pass made a change that another pass announced.
    fn again(&self, pending: &PendingChange, desired: &Object) -> bool {
        if self.pass.wrote_memory() {
            return false;
        }
        let mut body = Map::new();
        pending.add_desired(&mut body, desired);
        let request = self.patch(Change::Merge(body));
        request.is_some_and(|request| self.pass.done(&request))
    }

    /// The content is in sync: what remains is to remember that, and the status.
    fn settle_copy(
        &self,
        memory: Option<EntryUpdate>,
        stored: Stored,
    ) -> Result<LinkDecision, Reason> {
        let key = &self.copy.key;
        let rest = match stored {
            _ if self.copy.object.in_deletion() => waiting_for_deletion(&self.copy.object),
            Stored::AsWritten => Code::InStep.into(),
            Stored::Otherwise => stored_otherwise(key),
        };
        let mut turn = LinkDecision::end(rest).of(key);
        turn.memory = memory;
        turn.current = matches!(stored, Stored::AsWritten) && !self.copy.object.in_deletion();
        self.status(&mut turn)?;
        if !turn.ended() && turn.reason.code == Code::InStep {
            turn.reason = Code::Working.into();
        }
        Ok(turn)
    }

    /// Adds the drift of the copy, or the read that it takes: caches keep no managed fields. Fields that a patch is about
    /// to write do not count.
    fn drift(&self, desired: &Object, due: Option<&Request>, turn: &mut LinkDecision) {
        let LocatedCopy { key, object, .. } = self.copy;
        let Some(policy) = &self.link.policy.drift else {
            return;
        };
        let due = match due {
            Some(Request::Patch { patch, .. }) => patch.as_object(),
            _ => None,
        };
        let (rules, with_kept) = (&policy.rules, policy.finds_kept);
        let differences = Differences::of(rules, with_kept, desired, object, due);
        if differences.is_empty() || object.in_deletion() {
            return;
        }
        let known = policy.known.as_ref();
        if let Some(known) = known.filter(|known| differences.led_to(known)) {
            turn.drift = Some(Arc::clone(known));
            return;
        }
        if let Lookup::Read(request) = self.pass.lookup_live(key) {
            turn.steps.push((request, Effect::Looked));
            if turn.reason.code == Code::InStep {
                turn.reason = Code::NeedsToSee.into();
            }
            return;
        }
        let is_created = self.pass.view.created(key, object);
        turn.drift = Some(differences.drift(object, policy.manager, is_created).into());
    }

    /// Adds the patch that reverts drift. It is a write of its own, after all that is due: a patch with a new value never
    /// counts as a repetition, and places that another writer keeps changing would make an announced change look made.
    fn revert(&self, desired: &Object, turn: &mut LinkDecision) {
        let Some(drift) = turn.drift.clone() else {
            return;
        };
        let mut body = Map::new();
        for field in drift.fields_to(DriftMode::Revert) {
            let mut keys = field.keys.iter();
            if let Some(value) = keys.try_fold(desired.as_value(), |value, key| value.get(key)) {
                set(&mut body, &field.keys, value);
            }
        }
        if body.is_empty() {
            return;
        }
        let LocatedCopy { key, object, .. } = self.copy;
        let request = patch_uid(key, object, Value::Object(body));
        if self.pass.done(&request) {
            // The server stores another value than the one that is written. That is its answer, so it is in sync.
            turn.drift = Some(drift.without(DriftMode::Revert).into());
            return;
        }
        turn.steps.push((request, Effect::Reverted));
        if turn.reason.code == Code::InStep {
            turn.reason = Code::Working.into();
        }
    }

    /// Adds the steps for the status.
    fn status(&self, turn: &mut LinkDecision) -> Result<(), Reason> {
        let Self {
            pass, link, source, ..
        } = *self;
        let (copy, flow) = (&*self.copy.object, link.policy.status);
        let (from, to, key) = match (flow, &link.source) {
            (StatusFlow::Back | StatusFlow::BackWhole, Source::Live(key)) => (copy, source, key),
            (StatusFlow::Forward, _) => (source, copy, &self.copy.key),
            (StatusFlow::None | StatusFlow::Back | StatusFlow::BackWhole, _) => return Ok(()),
        };
        if from.is_fragment() || to.is_fragment() {
            return Ok(());
        }
        let marks = link.rules.status_marks(from, to);
        let present = |value: &&Value| !value.is_null();
        let wanted = pass.facts().status(link, source, copy)?;
        let wanted = link.rules.reported(wanted, from, to, turn.current);
        let agree = match (&wanted, to.root().get("status").filter(present)) {
            (Some(wanted), Some(found)) => numbers::same(wanted, found),
            (wanted, found) => wanted.as_deref() == found,
        };
        if agree && (flow != StatusFlow::BackWhole || has_marks(to, &marks)) {
            return Ok(());
        }
        let mut object = to.clone();
        for (name, value) in &marks.labels {
            object.set_label(name, value);
        }
        for (name, value) in &marks.annotations {
            object.set_annotation(name, value);
        }
        match wanted {
            Some(status) => {
                let status = Arc::unwrap_or_clone(status);
                object.root_mut().insert("status".into(), status)
            }
            None => object.root_mut().remove("status"),
        };
        let key = key.clone();
        let request = match flow {
            StatusFlow::BackWhole => Request::Replace { key, object },
            _ => Request::ReplaceStatus { key, object },
        };
        match pass.failure(&request) {
            // The server answers 404 if the kind has no status subresource. The request is sent once a pass.
            Some(failure @ Failure::NotFound) => turn.reason = reason_of(&request, &failure),
            _ if pass.done(&request) => {
                turn.reason = stored_otherwise(request.key().unwrap_or(&self.copy.key));
            }
            _ => turn.steps.push((request, Effect::StatusSynced)),
        }
        Ok(())
    }
}

/// The steps for a copy in deletion.
pub(super) fn status_while_deleting(
    pass: &Pass<'_>,
    link: &Link,
    source: Option<&Object>,
    copy: &LocatedCopy,
) -> LinkDecision {
    let LocatedCopy { key, object, .. } = copy;
    if let Some(turn) = drop_foreign_finalizer(pass, link, key, object) {
        return turn.of(key);
    }
    let mut turn = LinkDecision::end(waiting_for_deletion(object)).of(key);
    let Some(source) = source.filter(|_| link.policy.syncs_while_deleting()) else {
        return turn;
    };
    let copying = Copying {
        pass,
        link,
        source,
        copy,
    };
    match copying.status(&mut turn) {
        Ok(()) => turn,
        Err(reason) => LinkDecision::end(reason).of(key),
    }
}

/// The copy with exactly the desired content, and all its other fields unchanged; `None` if it has that content.
fn exact(link: &Link, live: &Object, desired: &Object, marks: &Marks) -> Option<Object> {
    let mut whole = without_foreign_finalizers(link, live).unwrap_or_else(|| live.clone());
    for (field, value) in desired.root() {
        if NOT_CONTENT.contains(&field.as_str()) {
            continue;
        }
        match (live.root().get(field), value) {
            (None | Some(Value::Null), Value::Null) => {}
            (Some(_), Value::Null) => {
                whole.root_mut().remove(field);
            }
            (Some(live), value) if numbers::same(live, value) => {}
            _ => {
                whole.root_mut().insert(field.clone(), value.clone());
            }
        }
    }
    for field in ["labels", "annotations"] {
        let found = string_map(live, field);
        let mut wanted = string_map(desired, field);
        let (extra, identity) = match field {
            "labels" => (&marks.extra.labels, &marks.identity.labels),
            _ => (&marks.extra.annotations, &marks.identity.annotations),
        };
        let kept = extra.keys().filter_map(|k| Some((k, found.get(k)?)));
        wanted.extend(kept.map(|(k, v)| (k.clone(), v.clone())));
        wanted.extend(identity.iter().map(|(k, v)| (k.clone(), v.clone().into())));
        if wanted == found {
            continue;
        }
        if wanted.is_empty() {
            whole.metadata_mut().remove(field);
        } else {
            whole.metadata_mut().insert(field.into(), wanted.into());
        }
    }
    (whole != *live).then_some(whole)
}

/// A change of content, and whether it holds for one version of the copy only.
enum Change {
    Merge(Map<String, Value>),
    Overwrite(Map<String, Value>),
}

fn set_metadata(body: &mut Map<String, Value>, field: &str, name: &str, value: &str) {
    let metadata = body.entry("metadata").or_insert_with(|| Map::new().into());
    metadata[field][name] = value.into();
}

/// Whether an object has all of these labels and annotations, whatever their values are.
fn has_marks(object: &Object, marks: &Metadata) -> bool {
    let labels = marks.labels.keys().all(|name| object.label(name).is_some());
    let annotations = marks.annotations.keys();
    labels
        && annotations
            .into_iter()
            .all(|name| object.annotation(name).is_some())
}
