//! What a definition says about its objects: which side owns them, which of them are meant, where the
//! status goes. All of it is compiled once; what is not clear is refused with a reason.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Gvk;

pub const SPEC_SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
pub const FILTER_BY_ROBOT_NAME: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
pub const STATUS_SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
/// The label that says which robot an object is for.
pub const ROBOT_NAME: &str = "cloudrobotics.com/robot-name";
/// On the owner's object: the version of its copy when the status was last carried over.
pub const REMOTE_RESOURCE_VERSION: &str = "cr-syncer.cloudrobotics.com/remote-resource-version";

/// One of the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plane {
    Cloud,
    Robot,
}

impl Plane {
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Cloud => Self::Robot,
            Self::Robot => Self::Cloud,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cloud => "cloud",
            Self::Robot => "robot",
        }
    }
}

/// What the process was told, as far as it decides about objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Empty where none was given.
    pub robot_name: String,
    pub robot_spec_source: RobotSpecSource,
    pub observed_generation: ObservedGeneration,
    pub earlier_life: EarlierLife,
    pub fresh_copy: FreshCopy,
    pub unclear_filter: UnclearFilter,
    /// Where objects with a namespace are looked for.
    pub namespaces: Vec<Arc<str>>,
}

impl Settings {
    /// What holds for a robot where nothing else was said.
    pub fn of_robot(robot_name: &str) -> Self {
        Self {
            robot_name: robot_name.to_owned(),
            robot_spec_source: RobotSpecSource::Refused,
            observed_generation: ObservedGeneration::Translate,
            earlier_life: EarlierLife::Ignore,
            fresh_copy: FreshCopy::KeepStatus,
            unclear_filter: UnclearFilter::Refuse,
            namespaces: vec!["default".into()],
        }
    }
}

/// Whether definitions may say that the robot owns their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RobotSpecSource {
    Enabled,
    Refused,
}

/// What becomes of `status.observedGeneration`, which counts the generations of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservedGeneration {
    /// To the owner's generation where the copy's is observed, else to 0.
    Translate,
    Verbatim,
}

/// What becomes of the status of a copy in deletion that was made for an object of the same name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EarlierLife {
    Ignore,
    Copy,
}

/// What a copy that has no status yet does to the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FreshCopy {
    KeepStatus,
    ResetStatus,
}

/// What becomes of a definition whose filter cannot be applied as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnclearFilter {
    Refuse,
    /// All objects are meant.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Whether the version that is used serves the status as a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Subresource,
    InObject,
}

/// A definition whose objects are kept in step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Definition {
    /// Of the definition itself: `plural.group`.
    pub name: Arc<str>,
    pub kind: Arc<Gvk>,
    pub plural: Arc<str>,
    pub scope: Scope,
    pub status: Status,
    /// Which side owns spec, metadata and life.
    pub owner: Plane,
    /// The robot whose objects are meant; all where there is none.
    pub robot: Option<Arc<str>>,
    /// The one field of the status that is carried over; all of it where there is none.
    pub subtree: Option<Arc<str>>,
    pub settings: Arc<Settings>,
}

/// Why a definition that asks for it is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("unknown spec source {0:?}: it is cloud or robot")]
    SpecSource(String),
    #[error("the robot may own objects only where --enable-robot-spec-source is given")]
    RobotSpecSource,
    #[error(
        "the robot may own objects only of a definition that is filtered by robot name: each robot \
         would take the others' objects in the cloud for left over and delete them"
    )]
    RobotSpecSourceUnfiltered,
    #[error(
        "{FILTER_BY_ROBOT_NAME} is {0:?}, which is neither true nor false: nothing is synced before that is clear"
    )]
    Filter(String),
    #[error("{FILTER_BY_ROBOT_NAME} is set, but this robot has no name: give --robot-name")]
    NoRobotName,
    #[error("the robot name {0:?} cannot be the value of a label")]
    RobotName(String),
    #[error("no version is marked as the stored one")]
    NoStoredVersion,
    #[error("no version is served")]
    NoServedVersion,
    #[error("the definition lacks {0}")]
    Incomplete(&'static str),
}

/// A definition compiled; none where it does not ask to be followed, or is being deleted.
pub fn compile(crd: &Value, settings: &Arc<Settings>) -> Result<Option<Definition>, Refusal> {
    let annotation = |name: &str| {
        let value = crd["metadata"]["annotations"][name].as_str();
        value.filter(|value| !value.is_empty())
    };
    let Some(source) = annotation(SPEC_SOURCE) else {
        return Ok(None);
    };
    if crd["metadata"]["deletionTimestamp"].is_string() {
        return Ok(None);
    }
    let owner = match source {
        "cloud" => Plane::Cloud,
        "robot" => Plane::Robot,
        other => return Err(Refusal::SpecSource(other.to_owned())),
    };
    if owner == Plane::Robot && settings.robot_spec_source == RobotSpecSource::Refused {
        return Err(Refusal::RobotSpecSource);
    }
    let robot = robot(annotation(FILTER_BY_ROBOT_NAME), settings)?;
    if owner == Plane::Robot && robot.is_none() {
        return Err(Refusal::RobotSpecSourceUnfiltered);
    }
    let text = |value: &Value, what| {
        value
            .as_str()
            .ok_or(Refusal::Incomplete(what))
            .map(Arc::from)
    };
    let spec = &crd["spec"];
    let group: Arc<str> = text(&spec["group"], "its group")?;
    let kind: Arc<str> = text(&spec["names"]["kind"], "its kind")?;
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions
        .clone()
        .find(|version| version["storage"] == true)
        .ok_or(Refusal::NoStoredVersion)?;
    // Nobody gets at a version that is not served, stored or not.
    let served = |version: &&Value| version["served"] != false;
    let stored = Some(stored).filter(served);
    let stored = stored.or_else(|| versions.clone().find(served));
    let stored = stored.ok_or(Refusal::NoServedVersion)?;
    let version: Arc<str> = text(&stored["name"], "the name of its version")?;
    Ok(Some(Definition {
        name: text(&crd["metadata"]["name"], "its name")?,
        kind: Arc::new(Gvk::new(&group, &version, &kind)),
        plural: text(&spec["names"]["plural"], "its plural")?,
        scope: match spec["scope"].as_str() {
            Some("Namespaced") => Scope::Namespaced,
            Some("Cluster") => Scope::Cluster,
            _ => return Err(Refusal::Incomplete("its scope")),
        },
        status: match &stored["subresources"]["status"] {
            Value::Null => Status::InObject,
            _ => Status::Subresource,
        },
        owner,
        robot,
        subtree: annotation(STATUS_SUBTREE).map(Into::into),
        settings: Arc::clone(settings),
    }))
}

/// Why all objects of a definition are meant although it has a filter, where that is put up with.
pub fn ignored_filter(crd: &Value, settings: &Settings) -> Option<Refusal> {
    let strict = Settings {
        unclear_filter: UnclearFilter::Refuse,
        ..settings.clone()
    };
    let filter = crd["metadata"]["annotations"][FILTER_BY_ROBOT_NAME].as_str();
    let filter = filter.filter(|filter| !filter.is_empty());
    (settings.unclear_filter == UnclearFilter::Ignore)
        .then(|| robot(filter, &strict).err())
        .flatten()
}

/// The robot whose objects are meant.
fn robot(filter: Option<&str>, settings: &Settings) -> Result<Option<Arc<str>>, Refusal> {
    let lenient = settings.unclear_filter == UnclearFilter::Ignore;
    match filter {
        None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(None),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => match &*settings.robot_name {
            "" if lenient => Ok(None),
            "" => Err(Refusal::NoRobotName),
            name if is_label_value(name) => Ok(Some(name.into())),
            name => Err(Refusal::RobotName(name.to_owned())),
        },
        Some(_) if lenient => Ok(None),
        Some(other) => Err(Refusal::Filter(other.to_owned())),
    }
}

/// What is let pass here goes into a query as it is.
fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

impl Definition {
    /// Differs wherever a difference matters.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The namespaces to look into; none for objects that have no namespace.
    pub fn namespaces(&self) -> Vec<Option<Arc<str>>> {
        match self.scope {
            Scope::Cluster => vec![None],
            Scope::Namespaced => {
                let all = self.settings.namespaces.iter();
                all.map(|namespace| Some(Arc::clone(namespace))).collect()
            }
        }
    }

    /// The finalizer that cr-syncer once put on objects, and nobody takes off any more.
    pub fn legacy_finalizer(&self) -> String {
        let cluster = match self.owner {
            Plane::Cloud => format!("robot-{}", self.settings.robot_name),
            Plane::Robot => "cloud".to_owned(),
        };
        format!("{cluster}.synced.cr-syncer.cloudrobotics.com")
    }
}

#[cfg(test)]
mod tests;
