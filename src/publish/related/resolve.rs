//! Resolves an entry, given the published object on both sides, to pairs of names: the original and its copy.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::entry::{Entry, LabelText, NameRule, Selecting, Values};
use crate::publish::names;
use crate::publish::types::Origin;
use hawser_sync::Labels;
use hawser_sync::{Code, Found, Key, Reason, Request, Scope, View};
use kube_lang::object::{Gvk, Object};
use kube_lang::paths;
use kube_lang::template::{self, Prepared, RenderError, Template};

/// The inputs of resolving.
pub(super) struct ResolveInputs<'a> {
    /// The published object in its workspace, and its copy on the service cluster.
    pub(super) remote: &'a Object,
    pub(super) local: &'a Object,
    pub(super) cluster: &'a str,
    pub(super) path: &'a str,
    pub(super) view: &'a dyn View,
    /// The scope of the kind of the originals, on their side.
    pub(super) originals: Scope,
    /// Whether originals and copies are namespaced.
    pub(super) namespaced: (bool, bool),
    pub(super) rendering: Rendering,
}

/// The work that is left for the templates of an entry, and both objects, converted once for all of them.
pub(super) struct Rendering {
    left: Cell<u64>,
    remote: OnceCell<Prepared>,
    local: OnceCell<Prepared>,
}

impl Default for Rendering {
    fn default() -> Self {
        Self {
            left: Cell::new(template::MAX_WORK),
            remote: OnceCell::new(),
            local: OnceCell::new(),
        }
    }
}

/// The reason why an entry leads nowhere for now.
pub(super) enum EntryProblem {
    Needs(Request),
    Refused(Reason),
}

impl From<Reason> for EntryProblem {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

/// The name of an original and that of its copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RelatedNames {
    pub(super) source: (Option<String>, String),
    pub(super) target: (Option<String>, String),
}

/// The targets of an entry.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Sorted by the original, as api-syncagent sorts them.
    pub(super) pairs: Vec<RelatedNames>,
    pub(super) refused: Vec<Reason>,
}

/// The maximum number, and whether there were more: of a long list by a consumer, no more is examined than can be used.
struct Bounded(usize, bool);

impl Bounded {
    fn of<T: Ord>(&mut self, mut values: Vec<T>) -> Vec<T> {
        values.sort_unstable();
        values.dedup();
        self.1 |= values.len() > self.0;
        values.truncate(self.0);
        values
    }
}

/// Go's rendering of a missing field: there is no value yet.
const NO_VALUE: &str = "<no value>";

impl ResolveInputs<'_> {
    fn on(&self, origin: Origin) -> &Object {
        match origin {
            Origin::Kcp => self.remote,
            Origin::Service => self.local,
        }
    }

    pub(super) fn resolve(&self, entry: &Entry) -> Result<Resolved, EntryProblem> {
        let (source, target) = self.namespaced;
        let namespaces = if source || target {
            self.namespaces(entry)?
        } else {
            vec![(String::new(), String::new())]
        };
        let mut resolved = Resolved::default();
        let mut most = Bounded(entry.limit, false);
        // References and templates say the same whatever the namespace.
        let everywhere = match &entry.names {
            Values::Selector(_) => None,
            Values::Reference { .. } | Values::Template { .. } => {
                Some(most.of(self.names(entry, None)?))
            }
        };
        for (from, to) in most.of(namespaces) {
            let from = source.then_some(from);
            let to = target.then_some(to);
            let names = match &everywhere {
                Some(names) => names.clone(),
                None => most.of(self.names(entry, from.as_deref())?),
            };
            for (original, copy) in names {
                let pair = RelatedNames {
                    source: (from.clone(), original),
                    target: (to.clone(), copy),
                };
                match pair.problem() {
                    None => resolved.pairs.push(pair),
                    Some(reason) => resolved.refused.push(reason),
                }
            }
        }
        let joined = |pair: &RelatedNames| {
            let (namespace, name) = &pair.source;
            format!("{}/{name}", namespace.as_deref().unwrap_or_default())
        };
        resolved
            .pairs
            .sort_by_cached_key(|pair| (joined(pair), pair.clone()));
        resolved.pairs.dedup();
        let Bounded(limit, exceeded) = most;
        // However many there are, they are told of in a few lines.
        resolved.refused.truncate(limit);
        if exceeded || resolved.pairs.len() > limit {
            resolved.pairs.truncate(limit);
            let said = format!("more than {limit}");
            resolved
                .refused
                .push(Reason::new(Code::TooManyRelated, said));
        }
        Ok(resolved)
    }

    fn namespaces(&self, entry: &Entry) -> Result<Vec<(String, String)>, EntryProblem> {
        let Some(values) = &entry.namespaces else {
            let other = match entry.origin {
                Origin::Kcp => Origin::Service,
                Origin::Service => Origin::Kcp,
            };
            let (from, to) = (self.on(entry.origin), self.on(other));
            let (source, target) = self.namespaced;
            let found = (from.namespace(), to.namespace());
            if source && found.0.is_none() || target && found.1.is_none() {
                let said = "the published object has no namespace: set object.namespace";
                return Err(Reason::new(Code::ReferenceInvalid, said).into());
            }
            let text = |namespace: Option<&str>| namespace.unwrap_or_default().to_owned();
            return Ok(vec![(text(found.0), text(found.1))]);
        };
        let kind = Arc::new(Gvk::new("", "v1", "Namespace"));
        let scope = Scope {
            kind,
            ..self.originals.clone()
        };
        self.values(values, entry, &scope, None)
    }

    fn names(
        &self,
        entry: &Entry,
        namespace: Option<&str>,
    ) -> Result<Vec<(String, String)>, EntryProblem> {
        self.values(&entry.names, entry, &self.originals, namespace)
    }

    /// Pairs of values, without pairs with an empty half.
    fn values(
        &self,
        values: &Values,
        entry: &Entry,
        scope: &Scope,
        namespace: Option<&str>,
    ) -> Result<Vec<(String, String)>, EntryProblem> {
        let origin = entry.origin;
        let other = match origin {
            Origin::Kcp => Origin::Service,
            Origin::Service => Origin::Kcp,
        };
        let mut pairs = match values {
            Values::Reference { path, rewriting } => {
                let read = |side| {
                    let found = referred(self.on(side), path).map_err(|error| refused(&error))?;
                    let rewrite = |text: String| match rewriting {
                        Some(rewriting) => rewriting.apply(&text).map_err(|e| refused(&e)),
                        None => Ok(text),
                    };
                    found
                        .into_iter()
                        .map(rewrite)
                        .collect::<Result<Vec<_>, _>>()
                };
                let from = read(origin)?;
                if from.is_empty() {
                    return Ok(Vec::new());
                }
                let to = read(other)?;
                if from.len() != to.len() {
                    let said = format!(
                        "{path} has {} values for originals and {} for copies",
                        from.len(),
                        to.len()
                    );
                    return Err(refused(&said).into());
                }
                from.into_iter().zip(to).collect()
            }
            Values::Template { template, .. } => {
                let render = |side: Origin| {
                    let name = match side {
                        Origin::Kcp => "kcp",
                        Origin::Service => "service",
                    };
                    let mut fields = self.place();
                    fields.push(("Side", Prepared::of(&name.into())));
                    if template.reads("Object") {
                        fields.push(("Object", self.prepared(side)?));
                    }
                    self.render(template, fields)
                };
                vec![(render(origin)?, render(other)?)]
            }
            Values::Selector(selecting) => {
                self.selected(selecting, entry.limit, scope, namespace)?
            }
        };
        let is_said = |text: &str| !text.is_empty() && !text.contains(NO_VALUE);
        pairs.retain(|(from, to)| is_said(from) && is_said(to));
        Ok(pairs)
    }

    fn selected(
        &self,
        selecting: &Selecting,
        limit: usize,
        scope: &Scope,
        namespace: Option<&str>,
    ) -> Result<Vec<(String, String)>, EntryProblem> {
        let labels = self.labels(selecting)?;
        let found = match self.view.find(scope, &labels) {
            Found::All(found) => found,
            Found::Unknown => {
                let request = Request::Find {
                    scope: scope.clone(),
                    labels,
                };
                return Err(EntryProblem::Needs(request));
            }
        };
        let mut pairs = Vec::new();
        for (key, object) in found {
            // One more than can be used tells that there are too many.
            if pairs.len() > limit {
                break;
            }
            let all: Vec<_> = object.labels().collect();
            let wanted = labels.fit(&object)
                && selecting.expressions.matches(all.iter().copied())
                && namespace.is_none_or(|only| key.namespace.as_deref() == Some(only));
            if wanted {
                // Whatever becomes of it concerns this object, also when its labels go.
                self.view.get(&key);
                pairs.push((
                    key.name.to_string(),
                    self.renamed(selecting, &key, &object)?,
                ));
            }
        }
        Ok(pairs)
    }

    /// The labels to select by. They are computed for each object and not kept.
    fn labels(&self, selecting: &Selecting) -> Result<Labels, EntryProblem> {
        let word = |word: &LabelText| match word {
            LabelText::Plain(text) => Ok(text.clone()),
            LabelText::Template(template) => self.render(template, self.both(template)?),
        };
        let mut labels = BTreeMap::new();
        for (key, value) in &selecting.labels {
            let (key, value) = (word(key)?, word(value)?);
            if key.is_empty() {
                continue;
            }
            let alone = json!({"matchLabels": {&*key: value}});
            if let Err(error) = kube_lang::selector::Selector::from_value(&alone) {
                return Err(refused(&error.to_string()).into());
            }
            labels.insert(key, value);
        }
        Ok(labels.into_iter().collect())
    }

    /// The variables of every template.
    fn place(&self) -> Vec<(&'static str, Prepared)> {
        let text = |text: &str| Prepared::of(&text.into());
        vec![
            ("ClusterName", text(self.cluster)),
            ("ClusterPath", text(self.path)),
        ]
    }

    /// Both objects, as far as the template reads them.
    fn both(&self, template: &Template) -> Result<Vec<(&'static str, Prepared)>, Reason> {
        let mut fields = self.place();
        for (name, side) in [
            ("LocalObject", Origin::Service),
            ("RemoteObject", Origin::Kcp),
        ] {
            if template.reads(name) {
                fields.push((name, self.prepared(side)?));
            }
        }
        Ok(fields)
    }

    fn prepared(&self, side: Origin) -> Result<Prepared, Reason> {
        let known = match side {
            Origin::Kcp => &self.rendering.remote,
            Origin::Service => &self.rendering.local,
        };
        if let Some(known) = known.get() {
            return Ok(known.clone());
        }
        let prepared = Prepared::of(self.on(side).as_value());
        self.spend(prepared.work)?;
        Ok(known.get_or_init(|| prepared).clone())
    }

    fn spend(&self, work: u64) -> Result<(), Reason> {
        let left = self.rendering.left.get().checked_sub(work);
        self.rendering.left.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => Err(refused(&RenderError::TooMuchWork.to_string())),
        }
    }

    fn render(
        &self,
        template: &Template,
        fields: Vec<(&'static str, Prepared)>,
    ) -> Result<String, Reason> {
        let rendered = template.render_fields(fields, self.rendering.left.get());
        let (text, work) = rendered.map_err(|error| refused(&error.to_string()))?;
        self.spend(work)?;
        Ok(text.trim().to_owned())
    }

    fn renamed(&self, selecting: &Selecting, key: &Key, object: &Object) -> Result<String, Reason> {
        match &selecting.rewrite {
            NameRule::Regex(rewriting) => rewriting.apply(&key.name).map_err(|e| refused(&e)),
            NameRule::Template { .. } if object.is_fragment() => {
                Err(hawser_sync::unread(key, object))
            }
            NameRule::Template { template, .. } => {
                let mut fields = self.both(template)?;
                fields.push(("Value", Prepared::of(&(&*key.name).into())));
                let is_namespace = key.kind.kind == "Namespace" && key.kind.group.is_empty();
                if template.reads("RelatedObject") {
                    let related = if is_namespace {
                        &Value::Null
                    } else {
                        object.as_value()
                    };
                    let related = Prepared::of(related);
                    self.spend(related.work)?;
                    fields.push(("RelatedObject", related));
                }
                // What went wrong may quote what is in the object, and that may be a Secret.
                let failed = |_| {
                    let said = format!("rewrite.template cannot be rendered for {}", key.name);
                    refused(&said)
                };
                self.render(template, fields).map_err(failed)
            }
        }
    }
}

impl RelatedNames {
    /// The problem of the names; only this pair is left out.
    fn problem(&self) -> Option<Reason> {
        for (namespace, name) in [&self.source, &self.target] {
            if !names::is_subdomain(name) {
                return Some(Reason::new(Code::NameInvalid, shortened(name)));
            }
            if let Some(namespace) = namespace
                && !names::is_label(namespace)
            {
                return Some(Reason::new(Code::NameInvalid, shortened(namespace)));
            }
        }
        None
    }
}

/// The value of a field, trimmed: each element of a list, or the one value.
fn referred(object: &Object, path: &str) -> Result<Vec<String>, String> {
    let found = paths::get(object.as_value(), path).map_err(|error| error.to_string())?;
    if !found.exists() {
        return Ok(Vec::new());
    }
    let texts = match found.kind {
        paths::Kind::Null => vec![String::new()],
        _ => found.elements().into_iter().map(|one| one.text).collect(),
    };
    Ok(texts.iter().map(|text| text.trim().to_owned()).collect())
}

fn refused(what: &str) -> Reason {
    Reason::new(Code::ReferenceInvalid, shortened(what))
}

/// A text of a consumer, in a form for messages.
fn shortened(text: &str) -> String {
    const LENGTH: usize = 80;
    let mut short: String = text.chars().take(LENGTH).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
