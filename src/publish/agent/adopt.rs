//! Objects in the places of copies: whether an agent would adopt them, and how they differ from what it would copy.
//!
//! A view of a plan: the passes decide, as in the agent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::explain::Explainer;
use super::explained::{DueWrite, Explained};
use super::plan::ChangePlan;
use super::publication::Publication;
use crate::explain::differences::{Differences, differences};
use crate::explain::secrets::SecretLinks;
use crate::publish::marks;
use crate::publish::memory;
use crate::publish::rules::{ObjectRules, PRIMARY};
use hawser_runtime::cluster::wire::dry_run;
use hawser_sync::reason::Class;
use hawser_sync::{Answer, Code, Key, LinkId, Owner, Reason, Request, Rules as _};
use kube_lang::object::{Object, numbers};

/// An object in the place of a copy.
#[derive(Debug)]
pub struct Collision<'p> {
    pub explained: &'p Explained,
    /// The related entry; `None` for the object itself.
    pub entry: Option<&'p str>,
    pub fate: CollisionFate,
    pub reason: Reason,
    /// The object in the place of the copy, if the pass found it.
    pub taken: Option<Key>,
    /// The differences between this object and what the agent would copy; `None` if they are not known.
    pub differences: Option<Differences>,
}

/// What becomes of an object in the place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollisionFate {
    /// It becomes the copy.
    Adopted,
    /// It is in deletion, or something else has to happen first.
    WaitedFor,
    /// It stays as it is, and the consumer's object is not synced.
    Refused,
}

impl CollisionFate {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adopted => "adopted",
            Self::WaitedFor => "waitedFor",
            Self::Refused => "refused",
        }
    }
}

impl Explainer {
    /// The objects in the places of copies of a plan.
    pub async fn collisions<'p>(&self, plan: &'p ChangePlan) -> Vec<Collision<'p>> {
        let mut collisions = Vec::new();
        let mut adopted: BTreeMap<Key, &Key> = BTreeMap::new();
        for explained in &plan.objects {
            if let Some(mut collision) = self.primary_collision(explained).await {
                // Each pass is on its own, and the agent adopts an object once.
                if collision.fate == CollisionFate::Adopted
                    && let Some(taken) = &collision.taken
                {
                    let first = *adopted.entry(taken.clone()).or_insert(&explained.object);
                    if *first != explained.object {
                        collision.fate = CollisionFate::Refused;
                        let why = format!("{first} would adopt it first");
                        collision.reason = Reason::new(Code::NameConflict, why);
                    }
                }
                collisions.push(collision);
            }
            let links = explained.links.iter();
            let refused = links.filter(|link| {
                let code = link.reason.code;
                link.entry.is_some() && matches!(code, Code::NameConflict | Code::AdoptionRefused)
            });
            collisions.extend(refused.map(|link| Collision {
                explained,
                entry: link.entry.as_deref(),
                fate: CollisionFate::Refused,
                reason: link.reason.clone(),
                taken: link.copy.clone(),
                differences: None,
            }));
        }
        collisions
    }

    /// The object in the place of the copy of the object itself.
    async fn primary_collision<'p>(&self, explained: &'p Explained) -> Option<Collision<'p>> {
        let link = explained.links.iter().find(|link| link.entry.is_none())?;
        let class = link.reason.code.class();
        if class == Class::Settled && !explained.adopts || explained.not_synced.is_some() {
            return None;
        }
        let source = self.trials.present(&explained.object)?;
        let running = self.agent.dispatch.running();
        let mut publications = running.values();
        let publication = publications.find(|one| one.plan.name == explained.published_resource)?;
        let remote = publication.subject(&explained.object).remote();
        let path = explained.path.as_deref();
        let rules = ObjectRules::new(publication.compiled(), &self.agent.sides, remote, path);
        let place = || {
            let mutated = rules.mutated(&source, None).ok()?;
            rules.place(mutated.as_ref().unwrap_or(&source)).ok()
        };
        let key = link.copy.clone().or_else(place)?;
        // The server accepts the creation of the copy.
        let is_free = |write: &DueWrite| {
            write.verb == "create" && write.object == key && write.refusal.is_none()
        };
        if explained.due.iter().any(is_free) {
            return None;
        }
        let read = Request::Read { key: key.clone() };
        let Answer::Object(existing) = dry_run(&*self.agent.router, None, &read).await else {
            return None;
        };
        let is_copy = match rules.owner(&existing) {
            Owner::Ours(_) => true,
            Owner::Nobody => self.is_recorded(explained, &existing),
            Owner::Other(_) => false,
        };
        if is_copy {
            return None;
        }
        let fate = match class {
            _ if explained.adopts => CollisionFate::Adopted,
            Class::Refused => CollisionFate::Refused,
            Class::Settled | Class::Working | Class::Waiting | Class::Retry => {
                CollisionFate::WaitedFor
            }
        };
        let differences = from_desired(publication, &rules, &source, &existing);
        Some(Collision {
            explained,
            entry: None,
            fate,
            reason: link.reason.clone(),
            taken: Some(key),
            differences,
        })
    }

    /// Whether the state records this object as the copy: it is, even if somebody removed its labels.
    fn is_recorded(&self, explained: &Explained, existing: &Object) -> bool {
        let state = explained
            .state
            .as_ref()
            .and_then(|key| self.trials.present(key));
        let records = state.map(|state| memory::codec::copies(&state));
        let primary = LinkId::new(PRIMARY);
        let mut records = records.into_iter().flatten();
        let record = records.find(|(link, _)| *link == primary);
        record.is_some_and(|(_, copy)| copy.uid().is_some_and(|uid| existing.uid() == Some(uid)))
    }
}

/// The differences between an object and what would be copied to its place; `None` if that is not known.
fn from_desired(
    publication: &Publication,
    rules: &ObjectRules,
    source: &Object,
    existing: &Object,
) -> Option<Differences> {
    if source.is_fragment() || existing.is_fragment() {
        return None;
    }
    let mutated = rules.mutated(source, Some(existing)).ok()?;
    let mutated = mutated.as_ref().unwrap_or(source);
    let desired = rules.desired(source, mutated, Some(existing)).ok()?;
    let subresources = &publication.compiled().types().subresources;
    let [existing, desired] = [existing, &desired].map(|one| content(one, subresources));
    let secrets = SecretLinks::between([&publication.remote_kind, &publication.local_kind]);
    let kind = &publication.local_kind;
    Some(differences(kind, &secrets, &existing, &desired))
}

/// The part of an object that is copied.
fn content(object: &Object, subresources: &[&str]) -> Map<String, Value> {
    let mut object = object.clone();
    marks::strip(&mut object);
    let mut content = object.root().clone();
    content.retain(|field, _| {
        !["apiVersion", "kind"].contains(&&**field) && !subresources.contains(&&**field)
    });
    if let Some(Value::Object(metadata)) = content.get_mut("metadata") {
        metadata.retain(|field, _| ["labels", "annotations"].contains(&&**field));
    }
    content.values_mut().for_each(numbers::unify);
    content
}
