//! Explains objects: what the mirror would do about each of them now, and why.
//!
//! A [`MirrorExplainer`] follows the CRDs and fills the caches like the mirror, but nothing works on its queues. It runs
//! single passes with dry runs in place of writes. Nothing changes in either cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::following::{CrdController, DEFINITIONS};
use super::numbers::MirrorMetrics;
use super::planes::MirrorConnections;
use super::process::{Connected, MirrorError, syncer_config};
use super::syncer::{Syncer, SyncerConfig, plane_of};
use crate::explain::{DueWrite, TrialLimits, Tried, is_left, is_of_kind};
use crate::mirror::definition::{Definition, ROBOT_NAME, SPEC_SOURCE, Settings};
use crate::mirror::options::MirrorOptions;
use crate::mirror::rules::Id;
use hawser_runtime::cluster::connection::{Call, RequestError};
use hawser_runtime::cluster::queue::QueueKey as _;
use hawser_runtime::cluster::wire::{collection, segment};
use hawser_runtime::controller;
use hawser_runtime::overview::KindOverview;
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::serve::Health;
use hawser_sync::reason::Class;
use hawser_sync::{Code, Key, Reason, Seen, Store as _};
use kube_lang::object::Gvk;

/// The time limit for credentials, for the CRDs, and then for filling the caches.
const PATIENCE: Duration = Duration::from_mins(1);
/// A list that has failed for so long is not waited for.
const HOPELESS: Duration = Duration::from_secs(3);
/// The interval at which the progress of the lists is looked at.
const LOOK_ROUND: Duration = Duration::from_millis(50);
/// The number of objects that are explained concurrently.
const TOGETHER: usize = 16;

/// The reason why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum MirrorExplainError {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("there were no credentials for the cloud within 60 seconds: {0}")]
    NoCredentials(String),
    #[error("reading the CRDs on the robot")]
    CrdsUnread(#[source] Box<RequestError>),
    #[error("the CRDs on the robot were not listed within 60 seconds")]
    CrdsUnlisted,
    #[error(
        "the mirror syncs no kind {kind}: its CRD on the robot needs the annotation {SPEC_SOURCE}; kinds: {known}"
    )]
    KindUnknown { kind: String, known: String },
    #[error("{kind} {name} is neither in the cloud nor on the robot")]
    NotFound { kind: String, name: String },
}

/// Which objects to explain.
#[derive(Clone, Debug, Default)]
pub struct MirrorSelection {
    /// Kind or plural name; all kinds without it.
    pub kind: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
}

/// An object, and what the mirror would do about it.
#[derive(Debug)]
pub struct MirrorExplained {
    /// The name of the CRD.
    pub crd: String,
    /// The annotations of the CRD that concern the mirror.
    pub annotations: Vec<(&'static str, String)>,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// The owner's object, then its copy; none if the kind is not synced or not listed.
    pub sides: Vec<(Key, SideState)>,
    /// Why the object is not among those that are synced.
    pub left_out_by: Option<String>,
    pub reason: Reason,
    /// The writes that are due, in the order in which they would be sent.
    pub due: Vec<DueWrite>,
}

/// What is known of an object in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideState {
    Present,
    InDeletion,
    Absent,
    /// It has the name of another robot, or of none.
    OfOther(Option<String>),
    /// It cannot be read.
    Unknown(String),
}

/// The part of the mirror that reads and decides.
pub struct MirrorExplainer {
    following: Arc<CrdController>,
    planes: MirrorConnections,
    limits: TrialLimits,
    _running: Vec<AbortOnDropHandle<()>>,
    _stop: DropGuard,
}

impl MirrorExplained {
    /// Whether the object is in sync.
    pub fn is_in_step(&self) -> bool {
        self.is_settled() && self.left_out_by.is_none()
    }

    /// Whether nothing is left to do for the mirror.
    pub fn is_settled(&self) -> bool {
        self.reason.code.class() == Class::Settled
    }
}

impl MirrorExplainer {
    /// Connects to both clusters, and lists everything that the mirror with these options watches.
    pub async fn begin(options: MirrorOptions) -> Result<Self, MirrorExplainError> {
        let numbers = MirrorMetrics::new();
        // The fence stays closed: every request that is not a dry run is refused before it is sent.
        let guard = Fence::closed().guard();
        let connected = Connected::new(&options, &numbers, Some(guard))?;
        connected.find_tokens().await.map_err(MirrorError::from)?;
        let planes = connected.planes.clone();
        let health = Arc::new(Health::missing(["credentials"]));
        let renewed = connected.renew(&health);
        if timeout(PATIENCE, planes.link.admitted()).await.is_err() {
            let missing = health.not_ready().join("; ");
            return Err(MirrorExplainError::NoCredentials(missing));
        }
        let config = syncer_config(&options);
        Self::over(planes, &numbers, options.settings, config, renewed).await
    }

    /// Over connections with credentials, which the tasks renew.
    pub(super) async fn over(
        planes: MirrorConnections,
        numbers: &Arc<MirrorMetrics>,
        settings: Settings,
        config: SyncerConfig,
        mut running: Vec<AbortOnDropHandle<()>>,
    ) -> Result<Self, MirrorExplainError> {
        // Lists are repeated until they succeed. This one has an answer.
        let first = Call::get(format!("{DEFINITIONS}?limit=1"));
        if let Err(source) = planes.robot.ask(first).await {
            return Err(MirrorExplainError::CrdsUnread(Box::new(source)));
        }
        let config = SyncerConfig {
            // The holds of another process are not known here.
            brake: None,
            workers: 0,
            ..config
        };
        let stop = CancellationToken::new();
        let following = CrdController::new(&planes, numbers, settings, config, stop.clone());
        let (known, listed) = oneshot::channel();
        let follows = Arc::clone(&following).run(move || {
            // Nobody waits any longer if this ends early.
            let _ = known.send(());
        });
        running.push(AbortOnDropHandle::new(tokio::spawn(follows)));
        let explainer = Self {
            following,
            planes,
            limits: TrialLimits::new(),
            _running: running,
            _stop: stop.drop_guard(),
        };
        let Ok(Ok(())) = timeout(PATIENCE, listed).await else {
            return Err(MirrorExplainError::CrdsUnlisted);
        };
        // The problem of what is not listed by then is a reason.
        let _ = timeout(PATIENCE, explainer.filled()).await;
        Ok(explainer)
    }

    /// Waits until everything is listed that can be.
    async fn filled(&self) {
        let is_known = |syncer: &Arc<Syncer>| syncer.is_open() || syncer.is_unlisted_for(HOPELESS);
        while !self.following.is_at_rest() || !self.following.syncers().iter().all(is_known) {
            sleep(LOOK_ROUND).await;
        }
    }

    /// The name of the robot.
    pub fn robot(&self) -> &str {
        self.following.robot()
    }

    /// The CRDs whose objects are not synced, or not listed, with the reason.
    pub fn problems(&self) -> Vec<(String, String)> {
        let refused = self.following.refused().into_iter();
        let refused = refused.map(|kind| (kind.name, kind.problems.join("; ")));
        let syncers = self.syncers().into_iter();
        let unlisted = syncers.map(|syncer| {
            let name = syncer.definition.name.to_string();
            (name, syncer.unlisted().join("; "))
        });
        let unlisted = unlisted.filter(|(_, problem)| !problem.is_empty());
        let mut problems: Vec<_> = refused.chain(unlisted).collect();
        problems.sort();
        problems
    }

    fn syncers(&self) -> Vec<Arc<Syncer>> {
        let mut syncers = self.following.syncers();
        syncers.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        syncers
    }

    /// Explains the selected objects.
    pub async fn explain(
        &self,
        selection: &MirrorSelection,
    ) -> Result<Vec<MirrorExplained>, MirrorExplainError> {
        let (mut explained, mut kinds) = (Vec::new(), BTreeSet::new());
        let mut has_kind = false;
        for syncer in self.syncers() {
            let Definition { kind, plural, .. } = &*syncer.definition;
            kinds.insert(kind.kind.clone());
            if !selection.is_of_kind(kind, plural) {
                continue;
            }
            has_kind = true;
            if syncer.is_open() {
                let ids = futures::stream::iter(selection.ids(&syncer));
                let each = ids.map(|id| self.one(&syncer, id, selection.name.is_some()));
                let each = each.buffered(TOGETHER).filter_map(std::future::ready);
                explained.extend(each.collect::<Vec<_>>().await);
            } else {
                let why = Reason::new(Code::NotSeen, syncer.unlisted().join("; "));
                let name = &syncer.definition.name;
                explained.extend(self.unknown(selection, name, &kind.kind, why));
            }
        }
        for KindOverview {
            name,
            kind,
            problems,
            ..
        } in self.following.refused()
        {
            let (plural, group) = name.split_once('.').unwrap_or_default();
            kinds.insert(kind.clone());
            if selection.is_of_kind(&Gvk::new(group, "", &kind), plural) {
                has_kind = true;
                let why = Reason::new(Code::RulesInvalid, problems.join("; "));
                explained.extend(self.unknown(selection, &name, &kind, why));
            }
        }
        let kind = selection.kind.clone().unwrap_or_default();
        if selection.kind.is_some() && !has_kind {
            let known = if kinds.is_empty() {
                "none".to_owned()
            } else {
                kinds.into_iter().collect::<Vec<_>>().join(", ")
            };
            return Err(MirrorExplainError::KindUnknown { kind, known });
        }
        match &selection.name {
            Some(name) if explained.is_empty() => {
                let name = name.clone();
                Err(MirrorExplainError::NotFound { kind, name })
            }
            _ => Ok(explained),
        }
    }

    /// A named object of a kind of which nothing is known.
    fn unknown(
        &self,
        selection: &MirrorSelection,
        crd: &str,
        kind: &str,
        reason: Reason,
    ) -> Option<MirrorExplained> {
        Some(MirrorExplained {
            crd: crd.to_owned(),
            annotations: self.following.annotations(crd),
            kind: kind.to_owned(),
            namespace: selection.namespace.clone(),
            name: selection.name.clone()?,
            sides: Vec::new(),
            left_out_by: None,
            reason,
            due: Vec::new(),
        })
    }

    /// `None` if the object is in neither cluster.
    async fn one(&self, syncer: &Arc<Syncer>, id: Id, is_named: bool) -> Option<MirrorExplained> {
        let definition = &syncer.definition;
        let mut sides = Vec::new();
        for plane in [definition.owner, definition.owner.other()] {
            let key = id.at(definition, plane);
            let state = self.side_state(syncer, &key, is_named).await;
            sides.push((key, state));
        }
        if sides.iter().all(|(_, side)| *side == SideState::Absent) {
            return None;
        }
        let is_watched = definition.namespaces().contains(&id.namespace);
        let left_out_by = match &id.namespace {
            Some(namespace) if !is_watched => {
                Some(format!("--namespaces does not contain {namespace}"))
            }
            _ => left_out_by(definition, &sides[0].1),
        };
        let (mut reason, mut due) = (Reason::from(Code::NoSource), Vec::new());
        if is_watched {
            let pass = controller::Dialect::begin(syncer, &id)?;
            let tried = Tried {
                pass: &pass,
                front: &pass,
                tenant: id.tenant(),
                router: &**syncer,
                cache: &syncer.cache,
                brakes: None,
                compares: true,
            };
            let writes = self.limits.run(tried).await;
            let reasons = writes
                .report
                .outcomes
                .into_iter()
                .map(|outcome| outcome.reason);
            let worst = reasons.max_by_key(|reason| reason.code.class());
            reason = worst.unwrap_or(reason);
            due = writes.due;
        }
        if is_left(&due) && reason.code.class() == Class::Settled {
            reason = Code::Working.into();
        }
        Some(MirrorExplained {
            crd: definition.name.to_string(),
            annotations: self.following.annotations(&definition.name),
            kind: definition.kind.kind.clone(),
            namespace: id.namespace.as_deref().map(str::to_owned),
            name: id.name.to_string(),
            sides,
            left_out_by,
            reason,
            due,
        })
    }

    /// Reads a named object that the watch does not show, as far as the mirror may read it.
    async fn side_state(&self, syncer: &Syncer, key: &Key, is_named: bool) -> SideState {
        match syncer.cache.get(key) {
            Seen::Present(object) if object.in_deletion() => return SideState::InDeletion,
            Seen::Present(_) => return SideState::Present,
            Seen::Absent if syncer.definition.robot.is_none() || !is_named => {
                return SideState::Absent;
            }
            Seen::Absent | Seen::Unknown => {}
        }
        let all = collection(
            &key.kind,
            key.namespace.as_deref(),
            &syncer.definition.plural,
        );
        let connection = self.planes.at(plane_of(&key.side));
        let path = format!("{all}/{}", segment(&key.name));
        match connection.ask(Call::get(path)).await {
            Ok(object) => {
                let robot = object["metadata"]["labels"][ROBOT_NAME].as_str();
                match &syncer.definition.robot {
                    Some(own) if robot != Some(own) => SideState::OfOther(robot.map(str::to_owned)),
                    _ => SideState::Present,
                }
            }
            Err(error) if error.code() == Some(404) => SideState::Absent,
            Err(error) => SideState::Unknown(error.to_string()),
        }
    }
}

/// The filter of the CRD, if it leaves the owner's object out.
fn left_out_by(definition: &Definition, owner: &SideState) -> Option<String> {
    let own = definition.robot.as_ref()?;
    Some(match owner {
        SideState::Present | SideState::InDeletion | SideState::Absent => return None,
        SideState::OfOther(Some(robot)) => {
            format!("its label {ROBOT_NAME} is {robot}, and this robot is {own}")
        }
        SideState::OfOther(None) => {
            format!("it has no label {ROBOT_NAME}, and this robot is {own}")
        }
        SideState::Unknown(_) => {
            format!(
                "no object of this name in the {} has the label {ROBOT_NAME}: {own}",
                definition.owner.as_str()
            )
        }
    })
}

impl MirrorSelection {
    fn is_of_kind(&self, kind: &Gvk, plural: &str) -> bool {
        let selected = self.kind.as_deref();
        selected.is_none_or(|selected| is_of_kind(selected, kind, plural))
    }

    /// The known objects that are selected, or the one that is named if it is not known.
    fn ids(&self, syncer: &Syncer) -> BTreeSet<Id> {
        let mut ids = syncer.names();
        ids.retain(|id| {
            self.name.as_deref().is_none_or(|name| name == &*id.name)
                && (self.namespace.is_none()
                    || self.namespace.as_deref() == id.namespace.as_deref())
        });
        let Some(name) = self.name.as_deref().filter(|_| ids.is_empty()) else {
            return ids;
        };
        let mut namespaces = syncer.definition.namespaces();
        if let Some(namespace) = &self.namespace
            && !namespaces.contains(&None)
        {
            namespaces = vec![Some(namespace.as_str().into())];
        }
        let named = namespaces.into_iter().map(|namespace| Id {
            namespace,
            name: name.into(),
        });
        named.collect()
    }
}
