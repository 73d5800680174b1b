//! The log of objects that cannot be synchronized: each problem once, at a bounded rate, and without contents of the
//! objects.
//!
//! Servers, templates and expressions quote values in their messages, and a log has other readers than an object. So a
//! message is logged without the words that occur in the objects that it may be about. Names of objects and of fields
//! stay.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::complaint;
use hawser_sync::reason::Class;
use hawser_sync::{Code, Failure, Key, Reason};
use kube_lang::object::Object;

/// The burst of log lines of a tenant,
const BURST: u32 = 50;
/// and the interval of further ones.
const REFILL: Duration = Duration::from_secs(1);
/// A problem that did not recur for this time is over: failed objects are retried far sooner.
const KEPT: Duration = Duration::from_hours(1);
/// The number of problems that are remembered. Others are logged each time, at the rate of their tenant.
const MOST: usize = 100_000;
/// Those of one tenant,
const SHARE: usize = MOST / 10;
/// and those that each tenant may have when there are too many.
const FEW: usize = 100;
/// The interval of the clean-up.
const SWEEP: Duration = Duration::from_mins(10);

/// The problems that were logged.
#[derive(Debug)]
pub struct ProblemLog {
    started: Instant,
    known: Mutex<ProblemLogState>,
}

#[derive(Debug, Default)]
struct ProblemLogState {
    /// By subject.
    troubles: HashMap<u64, KnownTrouble>,
    tenants: HashMap<Arc<str>, TenantBudget>,
    swept: Duration,
}

#[derive(Clone, Debug)]
struct KnownTrouble {
    tenant: Arc<str>,
    /// Hashes of the last two messages: a write that is found otherwise and then put off has both in turns.
    prints: [u64; 2],
    /// The time of the last occurrence.
    met: Duration,
}

#[derive(Debug, Default)]
struct TenantBudget {
    /// The time at which the whole burst is available again.
    full_at: Duration,
    left_out: u64,
    /// The time of its last problem that was not logged.
    left_out_at: Duration,
    /// The number of its problems that are remembered.
    known: usize,
}

/// A problem that has to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTrouble {
    /// The number of problems of the tenant that were not logged before, because there were too many.
    pub left_out: u64,
}

impl Default for ProblemLog {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            known: Mutex::default(),
        }
    }
}

impl ProblemLog {
    /// Notes the state of a subject; returns a problem that was not logged yet.
    pub fn note(
        &self,
        about: &impl Hash,
        tenant: &Arc<str>,
        reason: &Reason,
    ) -> Option<DueTrouble> {
        self.known
            .lock()
            .note(hash(about), tenant, reason, self.started.elapsed())
    }
}

impl ProblemLogState {
    fn note(
        &mut self,
        about: u64,
        tenant: &Arc<str>,
        reason: &Reason,
        now: Duration,
    ) -> Option<DueTrouble> {
        let print = match reason.code.class() {
            // Numbers may differ each time: versions, times.
            Class::Refused => hash(&(reason.code, without_numbers(&reason.detail))),
            Class::Retry => hash(&reason.code),
            Class::Settled | Class::Working | Class::Waiting => {
                if let Some(known) = self.troubles.remove(&about)
                    && let Some(tenant) = self.tenants.get_mut(&known.tenant)
                {
                    tenant.known -= 1;
                }
                return None;
            }
        };
        self.sweep(now);
        let known = self.troubles.get_mut(&about);
        let before = known.as_ref().map_or(print, |known| known.prints[0]);
        let is_new = known.is_none();
        if let Some(known) = known
            && known.prints.contains(&print)
        {
            known.met = now;
            return None;
        }
        let most = if self.troubles.len() < MOST {
            SHARE
        } else {
            FEW
        };
        let name = tenant;
        let tenant = self.tenants.entry(Arc::clone(name)).or_default();
        let full = is_new && tenant.known >= most;
        let full_at = tenant.full_at.max(now) + REFILL;
        if full_at.saturating_sub(now) > REFILL * BURST {
            tenant.left_out += 1;
            tenant.left_out_at = now;
            return None;
        }
        tenant.full_at = full_at;
        let left_out = std::mem::take(&mut tenant.left_out);
        if !full {
            tenant.known += usize::from(is_new);
            let known = KnownTrouble {
                tenant: Arc::clone(name),
                prints: [print, before],
                met: now,
            };
            self.troubles.insert(about, known);
        }
        Some(DueTrouble { left_out })
    }

    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        self.troubles.retain(|_, known| {
            let stays = now.saturating_sub(known.met) < KEPT;
            if !stays && let Some(tenant) = self.tenants.get_mut(&known.tenant) {
                tenant.known -= 1;
            }
            stays
        });
        self.tenants.retain(|_, tenant| {
            let is_told = tenant.left_out > 0 && now.saturating_sub(tenant.left_out_at) < KEPT;
            tenant.full_at > now || is_told || tenant.known > 0
        });
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The longest message.
const LONGEST: usize = 4096;
/// Shorter words reveal nothing about an object.
const SHORTEST: usize = 4;

/// Removes the contents of objects from the reasons that may be about them. Names stay, because they are no contents.
///
/// `None` among the objects stands for those that are not looked through: any word may be theirs.
pub fn clean<'o>(
    reasons: &mut [&mut Reason],
    names: impl Iterator<Item = &'o Key>,
    objects: impl Iterator<Item = Option<Arc<Object>>>,
) {
    for reason in &mut *reasons {
        reason.detail.truncate(start(&reason.detail, LONGEST).len());
    }
    let texts = reasons.iter().map(|reason| &*reason.detail);
    let mask = Mask::of(texts, names, objects);
    for reason in reasons {
        let detail = &*reason.detail;
        reason.detail = match complaint::read(detail) {
            Some(complaint) => complaint.without_values(|why| mask.over(why)),
            // What was computed of values is no value any more, and quoted all the same.
            None if matches!(reason.code, Code::MutationFailed | Code::NamingFailed) => {
                mask.over(&without_quotes(detail))
            }
            None => mask.over(detail),
        };
    }
}

/// The failure of a request without contents of these objects.
pub fn clean_failure(
    failure: Failure,
    about: Option<&Key>,
    objects: impl Iterator<Item = Arc<Object>>,
) -> Failure {
    let (make, prefix): (fn(String) -> Failure, &str) = match &failure {
        Failure::Invalid(_) => (Failure::Invalid, complaint::REFUSED_PREFIX),
        Failure::Forbidden(_) => (Failure::Forbidden, "forbidden: "),
        Failure::Unavailable(_) => (Failure::Unavailable, "no answer: "),
        // Without words of a server.
        Failure::NotFound
        | Failure::Conflict
        | Failure::AlreadyExists
        | Failure::OtherIncarnation
        | Failure::NamespaceTerminating
        | Failure::TooLarge
        | Failure::Held(_)
        | Failure::Paused(_)
        | Failure::NotSent(_)
        | Failure::Early
        | Failure::Contested(_) => return failure,
    };
    // As the detail of a reason it is parsed.
    let mut reason = Reason::new(Code::Invalid, failure.to_string());
    clean(&mut [&mut reason], about.into_iter(), objects.map(Some));
    let detail = &*reason.detail;
    make(detail.strip_prefix(prefix).unwrap_or(detail).to_owned())
}

/// The failure of a write with secret contents. The paths of fields stay, and what is said about rights and quotas,
/// which knows no contents.
pub(super) fn withhold(failure: Failure) -> Failure {
    const WITHHELD: &str = "the server's words may quote a Secret, and are not shown";
    match failure {
        Failure::Invalid(_) => {
            let detail = failure.to_string();
            let fields = complaint::read(&detail);
            let fields = fields.map(|fields| fields.without_values(|_| String::new()));
            let fields = fields.as_deref();
            let said = fields.and_then(|fields| fields.strip_prefix(complaint::REFUSED_PREFIX));
            Failure::Invalid(said.unwrap_or(WITHHELD).to_owned())
        }
        Failure::Forbidden(said) if !is_about_limits(&said) => Failure::Forbidden(WITHHELD.into()),
        // Without a status, there was no answer.
        Failure::Unavailable(said) if said.starts_with("status ") => {
            let status = said.split(": ").next().unwrap_or_default();
            Failure::Unavailable(format!("{status}: {WITHHELD}"))
        }
        failure => failure,
    }
}

/// Whether a refusal has the form `secrets "name" is forbidden: User "name" cannot …` or `…: exceeded quota: …`.
fn is_about_limits(said: &str) -> bool {
    let Some((object, why)) = said.split_once(" is forbidden: ") else {
        return false;
    };
    let mut known = ["User \"", "exceeded quota: "].iter();
    object.split(' ').count() <= 2 && known.any(|start| why.starts_with(start))
}

/// The longest prefix of a text that has at most this many bytes.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The words of texts that occur in objects.
struct Mask(BTreeSet<String>);

impl Mask {
    fn of<'t, 'o>(
        texts: impl Iterator<Item = &'t str>,
        names: impl Iterator<Item = &'o Key>,
        objects: impl Iterator<Item = Option<Arc<Object>>>,
    ) -> Self {
        let mut open = BTreeSet::new();
        for key in names {
            let parts = [&*key.name, &key.kind.kind, &key.kind.group, &key.cluster];
            for part in parts.into_iter().chain(key.namespace.as_deref()) {
                open.extend(tokens(part).map(str::to_lowercase));
            }
        }
        let mut asked: BTreeSet<String> = texts
            .flat_map(tokens)
            .filter(|word| word.chars().count() >= SHORTEST)
            .map(str::to_lowercase)
            .filter(|word| !open.contains(word) && !VOCABULARY.contains(&word.as_str()))
            .collect();
        let mut hidden = BTreeSet::new();
        for object in objects {
            if asked.is_empty() {
                break;
            }
            let Some(object) = object else {
                hidden.append(&mut asked);
                break;
            };
            contained(&object, |word| {
                // The word itself, or one that a message has cut.
                let mut start = word;
                while let Some(found) = asked
                    .range::<str, _>((Unbounded, Included(start)))
                    .next_back()
                {
                    let shared = shared(found, start);
                    if shared < found.len() {
                        // Other starts of the word are no longer than what it shares with this one.
                        start = &start[..shared];
                    } else {
                        let found = found.clone();
                        asked.remove(&found);
                        hidden.insert(found);
                    }
                }
            });
        }
        Self(hidden)
    }

    fn over(&self, text: &str) -> String {
        let mut told = String::with_capacity(text.len());
        let mut end = 0;
        for word in tokens(text) {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            told.push_str(&text[end..at]);
            end = at + word.len();
            let hidden = self.0.contains(&word.to_lowercase());
            told.push_str(if hidden { "…" } else { word });
        }
        told.push_str(&text[end..]);
        told.trim().to_owned()
    }
}

/// The bytes that two texts have in common at their beginning.
fn shared(one: &str, other: &str) -> usize {
    let same = one.char_indices().zip(other.chars());
    let same = same.take_while(|((_, a), b)| a == b);
    same.last()
        .map_or(0, |((at, char), _)| at + char.len_utf8())
}

/// The words of a text. Escape sequences are not words.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c: char| {
        if std::mem::take(&mut escaped) {
            return true;
        }
        escaped = c == '\\';
        !c.is_alphanumeric()
    })
    .filter(|word| !word.is_empty())
}

/// The metadata that only identifies the object.
const IDENTITY: [&str; 10] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
    "finalizers",
];

/// All words in the values of an object, in lower case.
fn contained(object: &Object, mut found: impl FnMut(&str)) {
    let mut values: Vec<&Value> = Vec::new();
    let is_secret = object.gvk().kind == "Secret";
    for (field, value) in object.root() {
        match value {
            Value::Object(metadata) if field == "metadata" => {
                let own = metadata.iter();
                values.extend(
                    own.filter(|(name, _)| !IDENTITY.contains(&name.as_str()))
                        .map(|(_, value)| value),
                );
            }
            value if !["apiVersion", "kind"].contains(&field.as_str()) => values.push(value),
            _ => {}
        }
    }
    let mut all = |text: &str| {
        for word in tokens(text) {
            found(&word.to_lowercase());
        }
    };
    // Not by calling itself: objects may be nested deeper than the stack is.
    while let Some(value) = values.pop() {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => all(&number.to_string()),
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            Value::String(text) => {
                inside(text, &mut all);
                if is_secret && let Ok(bytes) = STANDARD.decode(text) {
                    inside(&String::from_utf8_lossy(&bytes), &mut all);
                }
            }
        }
    }
}

/// The words of a text, which may be a document; names of fields are left out.
fn inside(text: &str, all: &mut impl FnMut(&str)) {
    let document: Option<Value> = text
        .starts_with(['{', '['])
        .then(|| serde_json::from_str(text).ok())
        .flatten();
    let Some(document) = document else {
        return all(text);
    };
    let mut values = vec![&document];
    while let Some(value) = values.pop() {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => all(&number.to_string()),
            Value::String(text) => all(text),
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
        }
    }
}

/// A text without its quoted parts: parsers quote what they did not expect.
pub fn without_quotes(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        told.push(c);
        // An apostrophe is no quote.
        if c == '"' || c == '`' || (c == '\'' && !before.is_alphanumeric()) {
            let mut escaped = false;
            told.push('…');
            for inner in chars.by_ref() {
                if inner == c && !escaped {
                    told.push(c);
                    break;
                }
                escaped = inner == '\\' && !escaped;
            }
        }
        before = c;
    }
    told
}

/// Words that servers and Hawser use to describe problems, whether or not an object contains them too.
const VOCABULARY: &[&str] = &[
    "admission",
    "already",
    "answer",
    "apiversion",
    "array",
    "body",
    "boolean",
    "cannot",
    "change",
    "changes",
    "character",
    "characters",
    "cluster",
    "consist",
    "create",
    "delete",
    "denied",
    "deletion",
    "duplicate",
    "empty",
    "error",
    "exceeded",
    "exists",
    "expression",
    "failed",
    "field",
    "fields",
    "forbidden",
    "format",
    "found",
    "greater",
    "immutable",
    "integer",
    "invalid",
    "kind",
    "label",
    "labels",
    "least",
    "length",
    "less",
    "list",
    "long",
    "lowercase",
    "match",
    "metadata",
    "missing",
    "more",
    "most",
    "must",
    "mutation",
    "name",
    "namespace",
    "null",
    "number",
    "object",
    "permission",
    "object",
    "patch",
    "policy",
    "quota",
    "read",
    "refused",
    "request",
    "required",
    "requires",
    "resource",
    "rule",
    "rules",
    "schema",
    "server",
    "should",
    "spec",
    "status",
    "step",
    "string",
    "supported",
    "template",
    "than",
    "that",
    "this",
    "type",
    "unknown",
    "unsupported",
    "update",
    "user",
    "valid",
    "validation",
    "value",
    "values",
    "version",
    "webhook",
    "with",
];

#[cfg(test)]
mod tests;
