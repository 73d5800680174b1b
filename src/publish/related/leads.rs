//! The targets of the entries for one object, as far as the given objects show them. For explanations only: nothing is
//! written.

use std::sync::Arc;

use serde_json::{Value, json};

use super::entry::{Authors, Entry, NameAuthors};
use super::identity::Identity;
use super::links::refused_entry;
use crate::publish::marks::Remote;
use crate::publish::rules::{PRIMARY, Sides};
use crate::publish::types::Origin;
use hawser_sync::{Source, Subject};

/// The explanation of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryExplanation {
    pub entry: String,
    pub origin: Origin,
    pub authors: NameAuthors,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// From this original to that copy.
    Copy { original: String, copy: String },
    /// The reason why no copy is created, with its code.
    Refused { code: &'static str, why: String },
    /// The condition under which there would be a copy.
    Nowhere(String),
}

/// The targets of a subject's links, by the entries in their order.
pub fn leads(
    entries: &[Arc<Entry>],
    subject: &Subject,
    sides: &Sides,
    remote: &Remote,
) -> Vec<EntryExplanation> {
    let mut all = Vec::new();
    for entry in entries {
        let lead = |end| EntryExplanation {
            entry: entry.identifier.clone(),
            origin: entry.origin,
            authors: entry.name_authors(),
            end,
        };
        let before = all.len();
        for link in subject.links.iter().filter(|link| *link.id.0 != *PRIMARY) {
            let identity = Identity::read(&link.id);
            let of = identity.as_ref().map(Identity::identifier);
            if of.or_else(|| refused_entry(&link.id)) != Some(&*entry.identifier) {
                continue;
            }
            match (identity, &link.source) {
                (_, Source::Refused(reason)) => all.push(lead(End::Refused {
                    code: reason.code.as_str(),
                    why: reason.to_string(),
                })),
                (Some(identity), _) if identity.origin == entry.origin => {
                    all.push(lead(End::Copy {
                        original: identity.source(sides, remote).to_string(),
                        copy: identity.target(sides, remote).to_string(),
                    }));
                }
                _ => {}
            }
        }
        if all.len() == before {
            all.push(lead(End::Nowhere(entry.names.in_words())));
        }
    }
    all
}

impl EntryExplanation {
    pub fn as_json(&self) -> Value {
        let origin = match self.origin {
            Origin::Kcp => "kcp",
            Origin::Service => "service",
        };
        let mut value = json!({"entry": self.entry, "origin": origin, "authors": {
            "names": self.authors.names.as_json(),
            "namespaces": self.authors.namespaces.map(Authors::as_json),
        }});
        match &self.end {
            End::Copy { original, copy } => {
                value["original"] = original.as_str().into();
                value["copy"] = copy.as_str().into();
            }
            End::Refused { code, why } => {
                value["code"] = (*code).into();
                value["explanation"] = why.as_str().into();
            }
            End::Nowhere(why) => value["explanation"] = why.as_str().into(),
        }
        value
    }
}
