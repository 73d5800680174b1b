//! The annotations of a CRD about its objects: the side that owns them, the filter, the place of the status. They are
//! compiled once; invalid ones are refused with a reason.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Gvk;

pub const SPEC_SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
pub const FILTER_BY_ROBOT_NAME: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
pub const STATUS_SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
/// The label with the robot of an object.
pub const ROBOT_NAME: &str = "cloudrobotics.com/robot-name";
/// On the owner's object: the version of its copy at the last transfer of the status.
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

/// The options of the process that concern objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Empty where none was given.
    pub robot_name: String,
    pub robot_spec_source: RobotSpecSource,
    pub observed_generation: ObservedGeneration,
    pub earlier_life: StaleCopyStatus,
    pub fresh_copy: NewCopyStatus,
    pub unclear_filter: UnclearFilter,
    /// The namespaces of the objects, where they have any.
    pub namespaces: Vec<Arc<str>>,
}

impl Settings {
    /// The defaults of a robot.
    #[cfg(test)]
    pub fn of_robot(robot_name: &str) -> Self {
        Self {
            robot_name: robot_name.to_owned(),
            robot_spec_source: RobotSpecSource::Refused,
            observed_generation: ObservedGeneration::Translate,
            earlier_life: StaleCopyStatus::Ignore,
            fresh_copy: NewCopyStatus::KeepStatus,
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

/// The treatment of `status.observedGeneration`, which counts the generations of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservedGeneration {
    /// Becomes the owner's generation if the copy's is observed, else 0.
    Translate,
    Verbatim,
}

/// The treatment of the status of a copy in deletion that was created for an earlier object of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleCopyStatus {
    Ignore,
    Copy,
}

/// The effect of a copy without a status on the owner's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewCopyStatus {
    KeepStatus,
    ResetStatus,
}

/// The treatment of a definition whose filter cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnclearFilter {
    Refuse,
    /// All objects are selected.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    Cluster,
    Namespaced,
}

/// Whether the version in use has a status subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Subresource,
    InObject,
}

/// A definition whose objects are synchronized.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Definition {
    /// The name of the CRD: `plural.group`.
    pub name: Arc<str>,
    pub kind: Arc<Gvk>,
    pub plural: Arc<str>,
    pub scope: ResourceScope,
    pub status: Status,
    /// The side that owns spec, metadata and deletion.
    pub owner: Plane,
    /// The robot whose objects are selected; all objects if there is none.
    pub robot: Option<Arc<str>>,
    /// The one field of the status that is synchronized; the whole status if there is none.
    pub subtree: Option<Arc<str>>,
    pub settings: Arc<Settings>,
}

/// The reason why a definition with the annotation is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("unknown spec source {0:?}: use cloud or robot")]
    SpecSource(String),
    #[error("spec source robot needs --enable-robot-spec-source")]
    RobotSpecSource,
    #[error(
        "the robot may own objects only if the CRD filters them by robot name: otherwise each robot \
         would delete the objects of other robots in the cloud"
    )]
    RobotSpecSourceUnfiltered,
    #[error(
        "{FILTER_BY_ROBOT_NAME} is {0:?}, neither true nor false: nothing is synced until it is corrected"
    )]
    Filter(String),
    #[error("{FILTER_BY_ROBOT_NAME} is set, but this robot has no name: set --robot-name")]
    NoRobotName,
    #[error("the robot name {0:?} is not a valid label value")]
    RobotName(String),
    #[error("no version has storage: true")]
    NoStoredVersion,
    #[error("no version is served")]
    NoServedVersion,
    #[error("the definition lacks {0}")]
    Incomplete(&'static str),
}

/// Compiles a definition; `None` without the annotation, or while it is being deleted.
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
            Some("Namespaced") => ResourceScope::Namespaced,
            Some("Cluster") => ResourceScope::Cluster,
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

/// The reason why all objects of a definition are selected although it has a filter, if that is tolerated.
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

/// The robot whose objects are selected.
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

/// The name is put into a query without escaping.
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
    /// Differs if any relevant part differs.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The namespaces to watch; none for cluster-scoped objects.
    pub fn namespaces(&self) -> Vec<Option<Arc<str>>> {
        match self.scope {
            ResourceScope::Cluster => vec![None],
            ResourceScope::Namespaced => {
                let all = self.settings.namespaces.iter();
                all.map(|namespace| Some(Arc::clone(namespace))).collect()
            }
        }
    }

    /// The finalizer of old versions of cr-syncer, which no program removes any more.
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
