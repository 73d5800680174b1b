//! The options of an agent: validated once, plain data afterwards.
//!
//! Knows the valid values of the flags and their defaults. Does not know the syntax of a command line, and reads no
//! files.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::publish::pause::LONGEST_OF_CONSUMERS;
use hawser_runtime::cluster::config::Lookup;
use hawser_runtime::process::shards;
use jiff::SignedDuration;
use kube_lang::object::Object;
use kube_lang::selector::{Selector, SelectorError};

/// The default name of an agent is the slice's name with this suffix.
const DEFAULT_NAME_SUFFIX: &str = "-syncagent";

/// The longest RFC 1035 label.
const MAX_LABEL: usize = 63;

/// A part of an agent that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    ApiExport,
    ApiResourceSchema,
    Sync,
}

/// Whether agents of one name elect a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderElection {
    On,
    Off,
}

/// The number of concurrent requests to each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    pub kcp: NonZeroUsize,
    pub service: NonZeroUsize,
}

/// The share of a kind's copies that may be deleted within one window before further deletions are held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeletionBrake {
    /// Above 0, at most 1.
    Share(f64),
    Off,
}

/// The validated options of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOptions {
    pub kcp_kubeconfig: PathBuf,
    /// Holds the Lease and the state Secrets.
    pub namespace: String,
    /// The name of the endpoint slice in the workspace of the kcp kubeconfig.
    pub slice: String,
    pub agent_name: String,
    /// Selects the published resources that this agent serves.
    pub selector: Selector,
    pub disabled: BTreeSet<Controller>,
    pub leader_election: LeaderElection,
    /// The number of parts in which replicas share the workspaces.
    pub shards: NonZeroUsize,
    /// The configuration of the service cluster, from the command line.
    pub service_cluster: Lookup,
    /// The listen address for metrics, if any.
    pub metrics_address: Option<String>,
    /// The listen address for probes, if any.
    pub health_address: Option<String>,
    /// The listen address of the page for people, if any.
    pub page_address: Option<String>,
    pub in_flight: InFlight,
    pub deletion_brake: DeletionBrake,
    /// Bytes of a workspace's objects of one kind in the caches; no limit if there is none.
    pub workspace_cache: Option<usize>,
    /// The longest pause of a consumer.
    pub longest_pause: SignedDuration,
    /// Whether requests carry the trace contexts of objects.
    pub trace_context: bool,
}

impl AgentOptions {
    /// Whether a published resource is for this agent.
    pub fn selects(&self, published: &Object) -> bool {
        let labels: Vec<_> = published.labels().collect();
        self.selector.matches(labels.iter().copied())
    }
}

/// The values on a command line. An empty text stands for a flag that was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAgentArgs {
    pub kubeconfig: String,
    pub kubeconfig_host_override: String,
    pub kubeconfig_ca_file_override: String,
    pub kcp_kubeconfig: String,
    pub namespace: String,
    pub slice: String,
    /// Deprecated: the name of an export, which has a slice of the same name.
    pub export: String,
    pub agent_name: String,
    pub selector: String,
    pub disabled_controllers: Vec<String>,
    pub leader_election: bool,
    /// `None` stands for the default.
    pub shards: Option<usize>,
    pub metrics_address: String,
    pub health_address: String,
    pub page_address: String,
    pub max_in_flight_kcp: usize,
    pub max_in_flight_service: usize,
    pub deletion_brake: String,
    pub workspace_cache_mib: usize,
    /// `None` stands for the default.
    pub longest_consumer_pause: Option<Duration>,
    pub trace_context: bool,
}

/// Valid options, and warnings about them.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidAgentArgs {
    pub options: AgentOptions,
    pub warnings: Vec<String>,
}

/// One invalid flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    #[error("--namespace is required")]
    NoNamespace,
    #[error(
        "--agent-name {0:?} is not an RFC 1035 label: at most 63 of a-z, 0-9 and '-', starting with a letter and not \
         ending with '-'"
    )]
    AgentName(String),
    #[error("--apiexportendpointslice-ref is required")]
    NoSlice,
    #[error("--kcp-kubeconfig is required")]
    NoKcpKubeconfig,
    #[error("--published-resource-selector {text:?}: {source}")]
    Selector { text: String, source: SelectorError },
    #[error(
        "--disabled-controllers: unknown controller {0:?}: use apiexport, apiresourceschema or sync"
    )]
    Controller(String),
    #[error("{0} must be at least 1")]
    InFlight(&'static str),
    #[error(
        "--deletion-brake {0:?} is not a share: use a number above 0 and up to 1, a percentage such as 50%, or off"
    )]
    DeletionBrake(String),
    #[error("--shards must be from 1 to 64")]
    Shards,
    #[error(
        "--shards needs --enable-leader-election, because replicas share the workspaces by Leases: set both, or neither"
    )]
    ShardsWithoutElection,
    #[error(
        "--workspace-cache-mib must be 0 (no limit) or at least 2, because one object may have 1.5 MiB"
    )]
    WorkspaceCache,
}

/// All invalid flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagErrors(pub Vec<FlagError>);

impl std::error::Error for FlagErrors {}

impl fmt::Display for FlagErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid options: ")?;
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

// === impl Controller ===

impl Controller {
    pub const ALL: [Self; 3] = [Self::ApiExport, Self::ApiResourceSchema, Self::Sync];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiExport => "apiexport",
            Self::ApiResourceSchema => "apiresourceschema",
            Self::Sync => "sync",
        }
    }
}

// === impl RawAgentArgs ===

impl RawAgentArgs {
    /// Validates the flags and returns all errors at once.
    pub fn check(self) -> Result<ValidAgentArgs, FlagErrors> {
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        if self.namespace.is_empty() {
            problems.push(FlagError::NoNamespace);
        }
        if !self.agent_name.is_empty() && !is_label(&self.agent_name) {
            problems.push(FlagError::AgentName(self.agent_name.clone()));
        }
        let slice = self.slice_or_export(&mut warnings);
        if slice.is_empty() {
            problems.push(FlagError::NoSlice);
        }
        if self.kcp_kubeconfig.is_empty() {
            problems.push(FlagError::NoKcpKubeconfig);
        }
        let selector = value_or_noted(read_selector(&self.selector), &mut problems);
        let mut disabled = BTreeSet::new();
        for name in &self.disabled_controllers {
            disabled.extend(value_or_noted(read_controller(name), &mut problems));
        }
        let kcp = value_or_noted(
            read_in_flight("--max-in-flight-kcp", self.max_in_flight_kcp),
            &mut problems,
        );
        let service = value_or_noted(
            read_in_flight("--max-in-flight-service", self.max_in_flight_service),
            &mut problems,
        );
        let deletion_brake = value_or_noted(read_brake(&self.deletion_brake), &mut problems);
        let workspace_cache = match self.workspace_cache_mib {
            0 => None,
            1 => {
                problems.push(FlagError::WorkspaceCache);
                None
            }
            mib => Some(mib.saturating_mul(1 << 20)),
        };
        let shards = value_or_noted(
            read_shards(self.shards.unwrap_or(1), self.leader_election),
            &mut problems,
        );
        let (Some(selector), Some(kcp), Some(service), Some(deletion_brake), Some(shards), true) = (
            selector,
            kcp,
            service,
            deletion_brake,
            shards,
            problems.is_empty(),
        ) else {
            return Err(FlagErrors(problems));
        };
        let agent_name = match self.agent_name {
            // Not validated again: names of slices may contain dots, and so may the default name.
            name if name.is_empty() => format!("{slice}{DEFAULT_NAME_SUFFIX}"),
            name => name,
        };
        let options = AgentOptions {
            kcp_kubeconfig: self.kcp_kubeconfig.into(),
            namespace: self.namespace,
            slice,
            agent_name,
            selector,
            disabled,
            leader_election: if self.leader_election {
                LeaderElection::On
            } else {
                LeaderElection::Off
            },
            shards,
            service_cluster: Lookup {
                kubeconfig: given(self.kubeconfig).map(PathBuf::from),
                host_override: given(self.kubeconfig_host_override),
                ca_file_override: given(self.kubeconfig_ca_file_override).map(PathBuf::from),
            },
            metrics_address: address(self.metrics_address),
            health_address: address(self.health_address),
            page_address: address(self.page_address),
            in_flight: InFlight { kcp, service },
            deletion_brake,
            workspace_cache,
            longest_pause: self
                .longest_consumer_pause
                .map_or(LONGEST_OF_CONSUMERS, |longest| {
                    SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX)
                }),
            trace_context: self.trace_context,
        };
        Ok(ValidAgentArgs { options, warnings })
    }

    /// kcp creates a slice of the same name for each export, so the name of the export is accepted.
    fn slice_or_export(&self, warnings: &mut Vec<String>) -> String {
        if self.export.is_empty() {
            return self.slice.clone();
        }
        if self.slice.is_empty() {
            warnings.push(format!(
                "--apiexport-ref is deprecated: using {:?} as the name of the APIExportEndpointSlice; set --apiexportendpointslice-ref instead",
                self.export
            ));
            self.export.clone()
        } else {
            warnings.push(
                "--apiexport-ref is deprecated and ignored, because --apiexportendpointslice-ref is set"
                    .to_owned(),
            );
            self.slice.clone()
        }
    }
}

/// The value, or the error of its flag.
fn value_or_noted<T>(read: Result<T, FlagError>, problems: &mut Vec<FlagError>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// An empty text and `0` disable listening.
fn address(text: String) -> Option<String> {
    given(text).filter(|text| text != "0")
}

fn read_selector(text: &str) -> Result<Selector, FlagError> {
    Selector::parse(text).map_err(|source| FlagError::Selector {
        text: text.to_owned(),
        source,
    })
}

fn read_controller(name: &str) -> Result<Controller, FlagError> {
    Controller::ALL
        .into_iter()
        .find(|controller| controller.name() == name)
        .ok_or_else(|| FlagError::Controller(name.to_owned()))
}

fn read_in_flight(flag: &'static str, number: usize) -> Result<NonZeroUsize, FlagError> {
    NonZeroUsize::new(number).ok_or(FlagError::InFlight(flag))
}

fn read_shards(number: usize, elects_leader: bool) -> Result<NonZeroUsize, FlagError> {
    let number = NonZeroUsize::new(number).filter(|number| number.get() <= shards::MOST);
    match number {
        None => Err(FlagError::Shards),
        Some(number) if number.get() > 1 && !elects_leader => Err(FlagError::ShardsWithoutElection),
        Some(number) => Ok(number),
    }
}

fn read_brake(text: &str) -> Result<DeletionBrake, FlagError> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(DeletionBrake::Off);
    }
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(DeletionBrake::Share(share)),
        _ => Err(FlagError::DeletionBrake(text.to_owned())),
    }
}

/// Whether this is an RFC 1035 label.
fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> RawAgentArgs {
        RawAgentArgs {
            kcp_kubeconfig: "/kcp/kubeconfig".to_owned(),
            namespace: "agents".to_owned(),
            slice: "databases".to_owned(),
            max_in_flight_kcp: 32,
            max_in_flight_service: 32,
            deletion_brake: "0.5".to_owned(),
            workspace_cache_mib: 64,
            ..RawAgentArgs::default()
        }
    }

    #[track_caller]
    fn check_problems(given: RawAgentArgs, expected: &[&str]) {
        let problems = given.check().unwrap_err();
        let texts: Vec<_> = problems.0.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:#?}");
        for (text, part) in texts.iter().zip(expected) {
            assert!(text.contains(part), "{text} does not mention {part}");
            assert!(problems.to_string().contains(text));
        }
    }

    #[test]
    fn what_is_required_suffices() {
        let checked = complete().check().unwrap();
        let options = checked.options;
        assert_eq!(options.agent_name, "databases-syncagent");
        assert!(options.selector.is_empty());
        assert_eq!(options.leader_election, LeaderElection::Off);
        assert_eq!(options.metrics_address, None);
        assert_eq!(options.health_address, None);
        assert_eq!(options.service_cluster.kubeconfig, None);
        assert_eq!(options.service_cluster.host_override, None);
        assert_eq!(options.deletion_brake, DeletionBrake::Share(0.5));
        assert!(options.disabled.is_empty());
        assert!(checked.warnings.is_empty());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let given = RawAgentArgs {
            agent_name: "9lives".to_owned(),
            selector: "a in b".to_owned(),
            disabled_controllers: vec!["sync".to_owned(), "Sync".to_owned(), String::new()],
            deletion_brake: "half".to_owned(),
            max_in_flight_service: 1,
            ..RawAgentArgs::default()
        };
        check_problems(
            given,
            &[
                "--namespace is required",
                "\"9lives\"",
                "--apiexportendpointslice-ref is required",
                "--kcp-kubeconfig is required",
                "--published-resource-selector \"a in b\"",
                "\"Sync\"",
                "\"\"",
                "--max-in-flight-kcp",
                "\"half\"",
            ],
        );
    }

    #[test]
    fn shards_need_an_election() {
        let of = |shards, leader_election| RawAgentArgs {
            shards: Some(shards),
            leader_election,
            ..complete()
        };
        assert_eq!(of(1, false).check().unwrap().options.shards.get(), 1);
        assert_eq!(of(64, true).check().unwrap().options.shards.get(), 64);
        check_problems(of(3, false), &["--shards needs --enable-leader-election"]);
        check_problems(of(0, true), &["--shards must be from 1 to 64"]);
        check_problems(of(65, true), &["--shards must be from 1 to 64"]);
    }

    #[test]
    fn a_given_agent_name_is_a_label_and_one_made_from_a_slice_may_have_dots() {
        let longest = "a".repeat(63);
        for name in ["a", "a-1", "agent", longest.as_str()] {
            let given = RawAgentArgs {
                agent_name: name.to_owned(),
                ..complete()
            };
            assert_eq!(given.check().unwrap().options.agent_name, name);
        }
        for name in ["1a", "a.b", "A", "a-", "-a", &"a".repeat(64), "ä", "a_b"] {
            let given = RawAgentArgs {
                agent_name: name.to_owned(),
                ..complete()
            };
            check_problems(given, &["RFC 1035"]);
        }
        let given = RawAgentArgs {
            slice: "databases.example.com".to_owned(),
            ..complete()
        };
        assert_eq!(
            given.check().unwrap().options.agent_name,
            "databases.example.com-syncagent"
        );
    }

    #[test]
    fn the_obsolete_export_names_the_slice_where_none_is_given() {
        let old = RawAgentArgs {
            slice: String::new(),
            export: "exported".to_owned(),
            ..complete()
        };
        let checked = old.check().unwrap();
        assert_eq!(checked.options.slice, "exported");
        assert_eq!(checked.options.agent_name, "exported-syncagent");
        assert!(checked.warnings[0].contains("--apiexportendpointslice-ref"));

        let both = RawAgentArgs {
            export: "exported".to_owned(),
            ..complete()
        };
        let checked = both.check().unwrap();
        assert_eq!(checked.options.slice, "databases");
        assert!(checked.warnings[0].contains("ignored"));
    }

    #[test]
    fn nobody_listens_at_an_empty_address_or_zero() {
        for (given, expected) in [("", None), ("0", None), (":8081", Some(":8081"))] {
            let checked = RawAgentArgs {
                health_address: given.to_owned(),
                metrics_address: given.to_owned(),
                ..complete()
            }
            .check()
            .unwrap();
            assert_eq!(checked.options.health_address.as_deref(), expected);
            assert_eq!(checked.options.metrics_address.as_deref(), expected);
        }
    }

    #[test]
    fn the_brake_is_a_share_a_percentage_or_off() {
        for (text, expected) in [
            ("0.25", DeletionBrake::Share(0.25)),
            ("1", DeletionBrake::Share(1.0)),
            ("50%", DeletionBrake::Share(0.5)),
            ("Off", DeletionBrake::Off),
        ] {
            assert_eq!(read_brake(text), Ok(expected));
        }
        for text in ["", "0", "-1", "1.1", "101%", "NaN", "inf", "%"] {
            assert!(read_brake(text).is_err(), "{text}");
        }
    }
}
