//! Drift: fields of a copy that have another value than the source, although nothing is due to be written there. Pure.
//!
//! Only desired fields drift, and a list is one value. The managed fields of the copy tell who changed a field. If that is
//! only the own manager, the server stored another value than the one that was written, which is no drift.

use serde_json::{Map, Value, json};

use kube_lang::object::{Object, numbers};

use super::author::{Author, authors};
use super::fingerprint::{ValueHash, value_hash};
use super::merge::NOT_CONTENT;

/// The treatment of drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DriftMode {
    /// The value of the copy stays until the source changes the field.
    #[default]
    Keep,
    /// The value of the source is written again.
    Revert,
    /// Like `Keep`; the drift is reported.
    Report,
}

/// The treatment of drift by field: the longest rule that contains a field counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DriftRules(Vec<(Vec<String>, DriftMode)>);

/// A field of a copy that drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedField {
    pub keys: Vec<String>,
    pub mode: DriftMode,
    /// The manager that changed it last; `None` if that is unknown, as for a field that was removed.
    pub by: Option<Author>,
    /// The hash of the value in the copy.
    found: ValueHash,
}

/// The drift of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The hash of all values that differ, those that the server stored in place of written ones included.
    mark: ValueHash,
    pub fields: Vec<DriftedField>,
}

/// A desired field that has another value in the copy.
struct Difference<'a> {
    keys: Vec<String>,
    mode: DriftMode,
    want: &'a Value,
    found: Option<&'a Value>,
}

/// The fields of a copy that differ from the desired ones.
pub(super) struct Differences<'a>(Vec<Difference<'a>>);

impl Difference<'_> {
    /// Whether the value is what the server stored for the one that was written, if its managers are no others. Of a
    /// value that was removed, the managers say nothing: they keep what contained it, and the other items of a list.
    fn is_stored(&self, managers: &[(Author, bool)]) -> bool {
        let is_whole = managers.iter().any(|(_, is_whole)| *is_whole);
        match self.found {
            None => false,
            Some(found) if found.is_array() && !is_whole => {
                !managers.is_empty() && covers(found, self.want)
            }
            Some(_) => !managers.is_empty(),
        }
    }
}

/// Whether a value has everything that another one has: a server adds defaults to items, and orders them.
fn covers(found: &Value, want: &Value) -> bool {
    match (found, want) {
        (Value::Object(found), Value::Object(want)) => want
            .iter()
            .all(|(key, want)| found.get(key).is_some_and(|found| covers(found, want))),
        (Value::Array(found), Value::Array(want)) => want
            .iter()
            .all(|want| found.iter().any(|found| covers(found, want))),
        (found, want) => numbers::same(found, want),
    }
}

impl DriftedField {
    /// A field that has this value in the copy, or none.
    pub fn new(
        keys: Vec<String>,
        mode: DriftMode,
        by: Option<Author>,
        found: Option<&Value>,
    ) -> Self {
        let mut found = found.cloned();
        found.iter_mut().for_each(numbers::unify);
        let found = value_hash(&json!([found.is_some(), found]));
        Self {
            keys,
            mode,
            by,
            found,
        }
    }

    /// Whether this is the same change, which somebody was told of. Other writes of its author have other times.
    pub fn is_same_change(&self, other: &Self) -> bool {
        let author = |field: &Self| {
            let by = field.by.clone();
            by.map(|by| (by.manager, by.operation, by.subresource))
        };
        (&self.keys, self.mode, &self.found) == (&other.keys, other.mode, &other.found)
            && author(self) == author(other)
    }
}

impl DriftRules {
    /// The rules with these keys of fields.
    pub fn new(rules: Vec<(Vec<String>, DriftMode)>) -> Self {
        Self(rules)
    }

    /// Whether all drift is kept.
    pub fn keeps_all(&self) -> bool {
        self.0.iter().all(|(_, mode)| *mode == DriftMode::Keep)
    }

    fn mode(&self, keys: &[String]) -> DriftMode {
        let covering = self.0.iter().filter(|(rule, _)| keys.starts_with(rule));
        let longest = covering.max_by_key(|(rule, _)| rule.len());
        longest.map_or_else(DriftMode::default, |(_, mode)| *mode)
    }
}

impl<'a> Differences<'a> {
    /// The desired fields that differ in the copy, except for those that a patch is about to write. Differences that are
    /// kept count only if they are wanted.
    pub(super) fn of(
        rules: &DriftRules,
        with_kept: bool,
        desired: &'a Object,
        live: &'a Object,
        due: Option<&Map<String, Value>>,
    ) -> Self {
        let mut search = Search {
            rules,
            with_kept,
            at: Vec::new(),
            found: Vec::new(),
        };
        let due = |field: &str| due.and_then(|due| due.get(field));
        for (field, want) in desired.root() {
            let found = live.root().get(field);
            if !NOT_CONTENT.contains(&field.as_str()) {
                search.enter(field, |search| search.compare(want, found, due(field)));
            }
        }
        let metadata = |object: &'a Object| object.root().get("metadata");
        search.enter("metadata", |search| {
            for field in ["labels", "annotations"] {
                let want = desired.root().get("metadata").and_then(|m| m.get(field));
                let found = metadata(live).and_then(|m| m.get(field));
                let due = due("metadata").and_then(|m| m.get(field));
                // Without labels there is no map of them, so an empty one is not missing.
                let fields = want.and_then(Value::as_object).into_iter().flatten();
                search.enter(field, |search| {
                    for (name, want) in fields {
                        let inner = |value: Option<&'a Value>| value.and_then(|v| v.get(name));
                        let due = due.and_then(|due| due.get(name));
                        search.enter(name, |search| search.compare(want, inner(found), due));
                    }
                });
            }
        });
        Self(search.found)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of the fields with their values in the copy.
    fn mark(&self) -> ValueHash {
        let one = |difference: &Difference<'_>| {
            let mut found = difference.found.cloned();
            found.iter_mut().for_each(numbers::unify);
            json!([difference.keys, found.is_some(), found])
        };
        value_hash(&self.0.iter().map(one).collect())
    }

    /// Whether these are the differences that led to this drift.
    pub(super) fn led_to(&self, drift: &Drift) -> bool {
        self.mark() == drift.mark
    }

    /// The drift, by the managed fields of the copy. Nobody else can have changed a copy that was just created.
    pub(super) fn drift(self, live: &Object, manager: &str, is_created: bool) -> Drift {
        let mark = self.mark();
        let drifted = |difference: Difference<'_>| {
            let all: Vec<_> = authors(live, &difference.keys).collect();
            let is_stored = is_created || difference.is_stored(&all);
            let authors = all.into_iter().map(|(author, _)| author);
            let others = authors.filter(|author| author.manager != manager);
            let by = others.max_by(|a, b| a.time.cmp(&b.time));
            let Difference {
                keys, mode, found, ..
            } = difference;
            (by.is_some() || !is_stored).then(|| DriftedField::new(keys, mode, by, found))
        };
        Drift {
            mark,
            fields: self.0.into_iter().filter_map(drifted).collect(),
        }
    }
}

impl Drift {
    /// The fields with this treatment.
    pub fn fields_to(&self, mode: DriftMode) -> impl Iterator<Item = &DriftedField> {
        self.fields.iter().filter(move |field| field.mode == mode)
    }

    /// Whether the same values differ, with nothing new to tell.
    pub fn is_of_same_values(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    /// The drift with at most this number of fields, for the next pass.
    #[must_use]
    pub fn cut(&self, most: usize) -> Self {
        Self {
            mark: self.mark,
            fields: self.fields.iter().take(most).cloned().collect(),
        }
    }

    /// The drift if the server stores these values in place of those that were written.
    pub(super) fn without(&self, mode: DriftMode) -> Self {
        let left = self.fields.iter().filter(|field| field.mode != mode);
        Self {
            mark: self.mark,
            fields: left.cloned().collect(),
        }
    }
}

/// The search for differences, at one place of the desired object.
struct Search<'r, 'a> {
    rules: &'r DriftRules,
    with_kept: bool,
    at: Vec<String>,
    found: Vec<Difference<'a>>,
}

impl<'a> Search<'_, 'a> {
    fn enter(&mut self, key: &str, search: impl FnOnce(&mut Self)) {
        self.at.push(key.to_owned());
        search(self);
        self.at.pop();
    }

    fn compare(&mut self, want: &'a Value, found: Option<&'a Value>, due: Option<&Value>) {
        let due = match due {
            None => None,
            Some(Value::Object(due)) => Some(due),
            Some(_) => return,
        };
        match (want, found) {
            (Value::Object(want), found) if !want.is_empty() => {
                for (key, want) in want {
                    let found = found.and_then(|found| found.get(key));
                    let due = due.and_then(|due| due.get(key));
                    self.enter(key, |search| search.compare(want, found, due));
                }
            }
            // An API server stores no null.
            (Value::Null, _) | (Value::Object(_), Some(Value::Object(_))) => {}
            (want, Some(found)) if numbers::same(found, want) => {}
            (_, found) => {
                let mode = self.rules.mode(&self.at);
                if mode != DriftMode::Keep || self.with_kept {
                    self.found.push(Difference {
                        keys: self.at.clone(),
                        mode,
                        want,
                        found,
                    });
                }
            }
        }
    }
}
