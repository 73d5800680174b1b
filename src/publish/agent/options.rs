//! What an agent is told when it starts: validated once, plain data afterwards.
//!
//! Knows the rules that the values of the flags have to keep and what is taken where nothing is given.
//! Does not know how a command line is written, nor reads any file that it names.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use hawser_runtime::cluster::config::Lookup;
use kube_lang::selector::{Selector, SelectorError};

/// What an agent is called after: its slice, and this.
const DEFAULT_NAME_SUFFIX: &str = "-syncagent";

/// The longest RFC 1035 label.
const MAX_LABEL: usize = 63;

/// A part of an agent that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    ApiExport,
    ApiResourceSchema,
    Sync,
}

/// Whether several agents settle by a Lease who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderElection {
    On,
    Off,
}

/// How many requests may be on their way, a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    pub kcp: NonZeroUsize,
    pub service: NonZeroUsize,
}

/// The share of a kind's copies that may go within one window before deletions of that kind are held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeletionBrake {
    /// Above 0, at most 1.
    Share(f64),
    Off,
}

/// All that an agent is told.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOptions {
    pub kcp_kubeconfig: PathBuf,
    /// Holds the Lease and the state Secrets.
    pub namespace: String,
    /// The name of the endpoint slice in the workspace that the kcp kubeconfig points at.
    pub slice: String,
    pub agent_name: String,
    /// Which published resources this agent serves.
    pub selector: Selector,
    pub disabled: BTreeSet<Controller>,
    pub leader_election: LeaderElection,
    /// Where the service cluster is, as far as the command line says so.
    pub service_cluster: Lookup,
    /// Where metrics are served; nowhere if none.
    pub metrics_address: Option<String>,
    /// Where probes are served; nowhere if none.
    pub health_address: Option<String>,
    pub in_flight: InFlight,
    pub deletion_brake: DeletionBrake,
}

/// What stands on a command line. An empty text is one that was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub kubeconfig: String,
    pub kubeconfig_host_override: String,
    pub kubeconfig_ca_file_override: String,
    pub kcp_kubeconfig: String,
    pub namespace: String,
    pub slice: String,
    /// The obsolete name of an export; its slice of the same name is meant.
    pub export: String,
    pub agent_name: String,
    pub selector: String,
    pub disabled_controllers: Vec<String>,
    pub leader_election: bool,
    pub metrics_address: String,
    pub health_address: String,
    pub max_in_flight_kcp: usize,
    pub max_in_flight_service: usize,
    pub deletion_brake: String,
}

/// Options that hold, and what their author should know about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub options: AgentOptions,
    pub warnings: Vec<String>,
}

/// One thing that is wrong with what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("--namespace is required")]
    NoNamespace,
    #[error(
        "--agent-name {0:?} is no RFC 1035 label: at most 63 of a-z, 0-9 and '-', starting with a letter and not \
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
        "--disabled-controllers: there is no {0:?}, only apiexport, apiresourceschema and sync"
    )]
    Controller(String),
    #[error("{0} must be at least 1")]
    InFlight(&'static str),
    #[error(
        "--deletion-brake {0:?} is no share: a number above 0 and up to 1, a percentage such as 50%, or off"
    )]
    DeletionBrake(String),
}

/// Everything that is wrong with what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
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

    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiExport => "apiexport",
            Self::ApiResourceSchema => "apiresourceschema",
            Self::Sync => "sync",
        }
    }
}

// === impl AgentOptions ===

impl AgentOptions {
    pub fn enabled(&self, controller: Controller) -> bool {
        !self.disabled.contains(&controller)
    }
}

// === impl Given ===

impl Given {
    /// All that is wrong is said at once.
    pub fn check(self) -> Result<Checked, Problems> {
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        if self.namespace.is_empty() {
            problems.push(Problem::NoNamespace);
        }
        if !self.agent_name.is_empty() && !is_label(&self.agent_name) {
            problems.push(Problem::AgentName(self.agent_name.clone()));
        }
        let slice = self.slice_or_export(&mut warnings);
        if slice.is_empty() {
            problems.push(Problem::NoSlice);
        }
        if self.kcp_kubeconfig.is_empty() {
            problems.push(Problem::NoKcpKubeconfig);
        }
        let selector = or_noted(read_selector(&self.selector), &mut problems);
        let mut disabled = BTreeSet::new();
        for name in &self.disabled_controllers {
            disabled.extend(or_noted(read_controller(name), &mut problems));
        }
        let kcp = or_noted(
            read_in_flight("--max-in-flight-kcp", self.max_in_flight_kcp),
            &mut problems,
        );
        let service = or_noted(
            read_in_flight("--max-in-flight-service", self.max_in_flight_service),
            &mut problems,
        );
        let deletion_brake = or_noted(read_brake(&self.deletion_brake), &mut problems);
        let (Some(selector), Some(kcp), Some(service), Some(deletion_brake), true) =
            (selector, kcp, service, deletion_brake, problems.is_empty())
        else {
            return Err(Problems(problems));
        };
        let agent_name = match self.agent_name {
            // Not checked again: names of slices may have dots, and so may names that come from them.
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
            service_cluster: Lookup {
                kubeconfig: given(self.kubeconfig).map(PathBuf::from),
                host_override: given(self.kubeconfig_host_override),
                ca_file_override: given(self.kubeconfig_ca_file_override).map(PathBuf::from),
            },
            metrics_address: address(self.metrics_address),
            health_address: address(self.health_address),
            in_flight: InFlight { kcp, service },
            deletion_brake,
        };
        Ok(Checked { options, warnings })
    }

    /// kcp makes a slice of the same name with each export, so the name of the export will do.
    fn slice_or_export(&self, warnings: &mut Vec<String>) -> String {
        if self.export.is_empty() {
            return self.slice.clone();
        }
        if self.slice.is_empty() {
            warnings.push(format!(
                "--apiexport-ref is obsolete: taking {:?} for the name of an APIExportEndpointSlice, better say \
                 --apiexportendpointslice-ref",
                self.export
            ));
            self.export.clone()
        } else {
            warnings.push(
                "--apiexport-ref is obsolete and ignored beside --apiexportendpointslice-ref"
                    .to_owned(),
            );
            self.slice.clone()
        }
    }
}

/// The value, or a note of what is wrong with it.
fn or_noted<T>(read: Result<T, Problem>, problems: &mut Vec<Problem>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Nothing and `0` mean that nobody listens.
fn address(text: String) -> Option<String> {
    given(text).filter(|text| text != "0")
}

fn read_selector(text: &str) -> Result<Selector, Problem> {
    Selector::parse(text).map_err(|source| Problem::Selector {
        text: text.to_owned(),
        source,
    })
}

fn read_controller(name: &str) -> Result<Controller, Problem> {
    Controller::ALL
        .into_iter()
        .find(|controller| controller.name() == name)
        .ok_or_else(|| Problem::Controller(name.to_owned()))
}

fn read_in_flight(flag: &'static str, number: usize) -> Result<NonZeroUsize, Problem> {
    NonZeroUsize::new(number).ok_or(Problem::InFlight(flag))
}

fn read_brake(text: &str) -> Result<DeletionBrake, Problem> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(DeletionBrake::Off);
    }
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(DeletionBrake::Share(share)),
        _ => Err(Problem::DeletionBrake(text.to_owned())),
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

    fn complete() -> Given {
        Given {
            kcp_kubeconfig: "/kcp/kubeconfig".to_owned(),
            namespace: "agents".to_owned(),
            slice: "databases".to_owned(),
            max_in_flight_kcp: 32,
            max_in_flight_service: 32,
            deletion_brake: "0.5".to_owned(),
            ..Given::default()
        }
    }

    #[track_caller]
    fn check_problems(given: Given, expected: &[&str]) {
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
        assert!(Controller::ALL.into_iter().all(|c| options.enabled(c)));
        assert!(checked.warnings.is_empty());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let given = Given {
            agent_name: "9lives".to_owned(),
            selector: "a in b".to_owned(),
            disabled_controllers: vec!["sync".to_owned(), "Sync".to_owned(), String::new()],
            deletion_brake: "half".to_owned(),
            max_in_flight_service: 1,
            ..Given::default()
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
    fn a_given_agent_name_is_a_label_and_one_made_from_a_slice_may_have_dots() {
        let longest = "a".repeat(63);
        for name in ["a", "a-1", "agent", longest.as_str()] {
            let given = Given {
                agent_name: name.to_owned(),
                ..complete()
            };
            assert_eq!(given.check().unwrap().options.agent_name, name);
        }
        for name in ["1a", "a.b", "A", "a-", "-a", &"a".repeat(64), "ä", "a_b"] {
            let given = Given {
                agent_name: name.to_owned(),
                ..complete()
            };
            check_problems(given, &["RFC 1035"]);
        }
        let given = Given {
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
        let old = Given {
            slice: String::new(),
            export: "exported".to_owned(),
            ..complete()
        };
        let checked = old.check().unwrap();
        assert_eq!(checked.options.slice, "exported");
        assert_eq!(checked.options.agent_name, "exported-syncagent");
        assert!(checked.warnings[0].contains("--apiexportendpointslice-ref"));

        let both = Given {
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
            let checked = Given {
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
