//! What a running process tells people: its kinds, tenants and problems, and the changes of the last minutes.
//!
//! An [`Overview`] is plain data that a dialect fills in. It names objects, and has no contents of objects.
//!
//! | module | content |
//! |---|---|
//! | [`fetch`] | the overview of a running process, by its address |
//! | [`page`] | an overview as HTML |
//! | [`recent`] | counts and latencies of the last minutes |
//! | [`site`] | the pages of a process |
//! | [`terminal`] | an overview as lines of a terminal |

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::cluster::cache::Cache;
use crate::cluster::queue::QueueState;
use hawser_sync::Code;

pub mod fetch;
pub mod page;
pub mod recent;
pub mod site;
pub mod terminal;

use recent::RecentChanges;

/// The objects of one reason in an overview, at most.
pub const MOST_OBJECTS: usize = 100;
/// The tenants in an overview, at most.
pub const MOST_TENANTS: usize = 100;

/// The state of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    pub name: String,
    pub version: String,
    pub role: Role,
    /// The shards of a process that shares its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardsOverview>,
    /// The time of this overview.
    pub time: String,
    pub uptime_seconds: u64,
    /// The word for a tenant: `workspace`.
    pub tenant_word: String,
    pub tenant_count: usize,
    /// Those with the most objects that are out of sync first.
    pub tenants: Vec<TenantOverview>,
    pub kinds: Vec<KindOverview>,
    /// Objects that are out of sync by reason, the worst first.
    pub reasons: Vec<ReasonOverview>,
    pub recent: RecentChanges,
    pub queue: QueueOverview,
    pub caches: Vec<CacheOverview>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    #[default]
    Starting,
    Standby,
    Leading,
    /// Shares the work of the leader.
    Sharing,
}

/// The shards that a process works on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShardsOverview {
    pub count: usize,
    pub held: Vec<usize>,
}

impl ShardsOverview {
    /// In words: `shards 0, 4 of 6`.
    pub fn text(&self) -> String {
        let held: Vec<String> = self.held.iter().map(ToString::to_string).collect();
        match &*held {
            [] => format!("no shards of {}", self.count),
            held => format!("shards {} of {}", held.join(", "), self.count),
        }
    }
}

impl Overview {
    /// The role of the process, with its shards.
    pub fn role_text(&self) -> String {
        let role = self.role.as_str();
        match &self.shards {
            Some(shards) => format!("{role}, {}", shards.text()),
            None => role.to_owned(),
        }
    }
}

impl Role {
    /// Why the process knows no objects that are out of sync, if it does not lead.
    pub fn ignorance(self) -> Option<&'static str> {
        match self {
            Self::Leading | Self::Sharing => None,
            Self::Standby => {
                Some("This process is a standby. Only the leader knows what is out of sync.")
            }
            Self::Starting => Some("This process is starting."),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Leading => "leading",
            Self::Sharing => "sharing",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantOverview {
    pub name: String,
    pub objects: usize,
    pub out_of_sync: usize,
}

/// The objects of one configuration, such as a `PublishedResource`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KindOverview {
    pub name: String,
    pub kind: String,
    pub objects: usize,
    pub out_of_sync: usize,
    /// Copies of tenants that have left.
    pub left_behind: usize,
    /// The conditions that are not true.
    pub problems: Vec<String>,
    pub held: Option<HeldOverview>,
}

/// Deletions that wait for approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldOverview {
    pub count: usize,
    pub why: String,
    /// The command that approves them.
    pub approval: String,
}

/// The objects that are out of sync for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReasonOverview {
    pub code: String,
    pub class: String,
    pub explanation: String,
    pub advice: Option<String>,
    pub count: usize,
    /// At most [`MOST_OBJECTS`], those that have been out of sync longest first.
    pub objects: Vec<ObjectOverview>,
}

/// An object that is out of sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectOverview {
    /// The configuration of its kind.
    pub config: String,
    pub kind: String,
    pub tenant: String,
    pub namespace: Option<String>,
    pub name: String,
    pub attempts: AttemptsOverview,
}

/// What a process knows of an object that is out of sync, beside the object itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttemptsOverview {
    pub code: String,
    /// Empty if the tenant has too many problems.
    pub detail: String,
    pub since_seconds: u64,
    pub attempts: u32,
    pub last_seconds: u64,
    /// `None` if the next attempt follows from an event only.
    pub next_seconds: Option<u64>,
}

/// The answer about one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectAnswer {
    /// The name of the process.
    pub agent: String,
    pub role: Role,
    /// Another process works on the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// `None` if the object is in sync, or not one of this process.
    pub attempts: Option<AttemptsOverview>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOverview {
    pub ready: usize,
    pub oldest_seconds: u64,
    pub busy: usize,
    pub workers: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CacheOverview {
    pub side: String,
    pub kind: String,
    pub objects: usize,
    pub bytes: usize,
    /// The time since the last event or bookmark.
    pub silent_seconds: u64,
}

impl Overview {
    /// An overview without contents, of a process that started then.
    pub fn now(started: Instant) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            uptime_seconds: started.elapsed().as_secs(),
            ..Self::default()
        }
    }

    pub fn objects(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects).sum()
    }

    pub fn out_of_sync(&self) -> usize {
        self.reasons.iter().map(|reason| reason.count).sum()
    }

    pub fn held(&self) -> usize {
        let held = self.kinds.iter().filter_map(|kind| kind.held.as_ref());
        held.map(|held| held.count).sum()
    }

    /// Keeps the tenants with the most objects out of sync, at most [`MOST_TENANTS`].
    pub fn rank_tenants(&mut self, mut all: Vec<TenantOverview>) {
        self.tenant_count = all.len();
        all.sort_by(|a, b| {
            let most = b.out_of_sync.cmp(&a.out_of_sync);
            most.then_with(|| a.name.cmp(&b.name))
        });
        all.truncate(MOST_TENANTS);
        self.tenants = all;
    }
}

impl CacheOverview {
    /// The tables of a cache.
    pub fn of(cache: &Cache) -> impl Iterator<Item = Self> {
        let sizes = cache.sizes().into_iter();
        sizes.map(|(side, kind, size)| Self {
            side: side.0.to_string(),
            kind: kind.kind.clone(),
            objects: size.entries,
            bytes: size.bytes,
            silent_seconds: size.silence.as_secs(),
        })
    }
}

impl QueueOverview {
    pub fn of(state: QueueState, workers: usize) -> Self {
        Self {
            ready: state.ready,
            oldest_seconds: state.oldest.as_secs(),
            busy: state.busy,
            workers,
        }
    }
}

/// Objects that are out of sync, by reason: the time since when, and what names each of them.
pub type ByReason<T> = HashMap<Code, Vec<(Instant, T)>>;

/// The reasons, the worst first. Of each reason, the objects that have been out of sync longest come first, and tenants
/// take turns.
pub fn reasons<T: Ord>(
    by_reason: ByReason<T>,
    tenant: impl Fn(&T) -> &str,
    advice: impl Fn(Code) -> Option<&'static str>,
    object: impl Fn(&T) -> Option<ObjectOverview>,
) -> Vec<ReasonOverview> {
    let mut by_reason: Vec<_> = by_reason.into_iter().collect();
    by_reason.sort_by_key(|(code, objects)| (Reverse((code.class(), objects.len())), *code));
    by_reason
        .into_iter()
        .map(|(code, mut objects)| {
            objects.sort_unstable();
            let mut ranks: HashMap<&str, usize> = HashMap::new();
            let ranked = objects.iter().enumerate().map(|(position, (_, named))| {
                let rank = ranks.entry(tenant(named)).or_default();
                *rank += 1;
                (*rank, position)
            });
            let mut ranked: Vec<_> = ranked.collect();
            ranked.sort_unstable();
            let listed = ranked.iter().take(MOST_OBJECTS);
            let listed = listed.map(|(_, position)| &objects[*position]);
            ReasonOverview {
                code: code.as_str().to_owned(),
                class: code.class().as_str().to_owned(),
                explanation: code.sentence().to_owned(),
                advice: advice(code).map(str::to_owned),
                count: objects.len(),
                objects: listed.filter_map(|(_, named)| object(named)).collect(),
            }
        })
        .collect()
}

/// A text without characters that a terminal would obey.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A time span in words: `3d 4h`.
pub fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let first = UNITS.iter().position(|(unit, _)| seconds >= *unit);
    let Some(first) = first else {
        return "0s".to_owned();
    };
    let (unit, letter) = UNITS[first];
    let text = format!("{}{letter}", seconds / unit);
    match UNITS.get(first + 1) {
        Some((next, letter)) if seconds % unit >= *next => {
            format!("{text} {}{letter}", seconds % unit / next)
        }
        _ => text,
    }
}

/// A number with thousands apart: `12,345`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
