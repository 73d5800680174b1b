//! The options of the process: flags and their validation.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use super::definition::{
    NewCopyStatus, ObservedGeneration, RobotSpecSource, Settings, StaleCopyStatus, UnclearFilter,
};

/// The flags as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawMirrorArgs {
    pub remote_server: String,
    pub remote_path: String,
    pub remote_kubeconfig: String,
    pub remote_ca_file: String,
    pub remote_token_file: String,
    pub remote_token_url: String,
    /// The metadata server's host, if the environment names one.
    pub metadata_host: String,
    /// The file with a Google account, if there is one.
    pub credentials_file: String,
    pub use_robot_jwt: bool,
    pub robot_name: String,
    pub kubeconfig: String,
    pub listen_address: String,
    pub page_address: String,
    pub conflict_error_limit: u32,
    pub timeout: u64,
    pub max_in_flight: usize,
    pub requests_per_second: u32,
    pub enable_robot_spec_source: bool,
    pub namespaces: String,
    pub observed_generation: String,
    pub status_of_earlier_life: String,
    pub status_of_fresh_copy: String,
    pub unclear_filter: String,
    pub deletion_brake: String,
    pub trace_context: bool,
}

/// The validated options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorOptions {
    pub cloud: Cloud,
    /// The kubeconfig of the robot's cluster.
    pub kubeconfig: Option<PathBuf>,
    pub listen_address: Option<String>,
    /// The listen address of the page about objects that are out of sync.
    pub page_address: Option<String>,
    pub conflict_limit: u32,
    /// The duration of a watch.
    pub watch_seconds: u64,
    pub in_flight: usize,
    /// Requests a second to each cluster; `None` is unlimited.
    pub per_second: Option<NonZeroU32>,
    /// The share of copies in percent beyond which deletions are held; `None` holds none.
    pub brake: Option<u8>,
    /// Whether requests carry the trace contexts of objects.
    pub trace_context: bool,
    pub settings: Settings,
}

/// The way to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cloud {
    Server {
        /// The URL of its API server, always https.
        url: String,
        ca_file: Option<PathBuf>,
        tokens: Tokens,
    },
    Kubeconfig(PathBuf),
}

/// The source of the tokens for the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    File(PathBuf),
    /// A URL that returns a signed token.
    RobotJwt(String),
    /// A URL that returns a document with a token.
    AccessToken(String),
    /// The metadata server of a cloud machine, which may not exist.
    Machine(String),
    /// A file with a Google account.
    Account(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    #[error(
        "--remote-server or --remote-kubeconfig is required: the host of the cloud, with a port if it is not 443"
    )]
    NoServer,
    #[error("--remote-server {0:?} is not a host with an optional port")]
    Server(String),
    #[error("--{flag}={value:?} is not one of {allowed}")]
    Choice {
        flag: &'static str,
        value: String,
        allowed: &'static str,
    },
    #[error("--deletion-brake={0:?} is neither a share such as 50% nor off")]
    Brake(String),
    #[error("--{0} must be greater than 0")]
    Zero(&'static str),
}

/// The metadata server of a robot or of a cloud machine.
const METADATA_HOST: &str = "169.254.169.254";
const ACCOUNT: &str = "/computeMetadata/v1/instance/service-accounts/default";

impl RawMirrorArgs {
    pub fn check(self) -> Result<MirrorOptions, OptionError> {
        let tokens = self.tokens();
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        if self.conflict_error_limit == 0 {
            return Err(OptionError::Zero("conflict-error-limit"));
        }
        if self.timeout == 0 {
            return Err(OptionError::Zero("timeout"));
        }
        let listens = |address: &str| {
            let is_given = !["", "0"].contains(&address);
            is_given.then(|| address.to_owned())
        };
        let cloud = match path(&self.remote_kubeconfig) {
            Some(path) => Cloud::Kubeconfig(path),
            None => Cloud::Server {
                url: address(&self.remote_server, &self.remote_path)?,
                ca_file: path(&self.remote_ca_file),
                tokens,
            },
        };
        Ok(MirrorOptions {
            cloud,
            kubeconfig: path(&self.kubeconfig),
            listen_address: listens(&self.listen_address),
            page_address: listens(&self.page_address),
            conflict_limit: self.conflict_error_limit,
            watch_seconds: self.timeout,
            in_flight: self.max_in_flight.max(1),
            per_second: NonZeroU32::new(self.requests_per_second),
            brake: brake(&self.deletion_brake)?,
            trace_context: self.trace_context,
            settings: self.settings()?,
        })
    }

    fn tokens(&self) -> Tokens {
        let host = match &*self.metadata_host {
            "" => METADATA_HOST,
            host => host,
        };
        let url = |what: &str| match &*self.remote_token_url {
            "" => format!("http://{host}{ACCOUNT}/{what}"),
            given => given.to_owned(),
        };
        match (&*self.remote_token_file, self.use_robot_jwt) {
            ("", true) => Tokens::RobotJwt(url("identity")),
            ("", false)
                if self.remote_token_url.is_empty() && !self.credentials_file.is_empty() =>
            {
                Tokens::Account((&*self.credentials_file).into())
            }
            ("", false) if self.remote_token_url.is_empty() && self.metadata_host.is_empty() => {
                Tokens::Machine(url("token"))
            }
            ("", false) => Tokens::AccessToken(url("token")),
            (file, _) => Tokens::File(file.into()),
        }
    }

    fn settings(&self) -> Result<Settings, OptionError> {
        let names = self.namespaces.split(',').map(str::trim);
        let mut namespaces: Vec<Arc<str>> = names
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect();
        namespaces.sort();
        namespaces.dedup();
        if namespaces.is_empty() {
            namespaces.push("default".into());
        }
        Ok(Settings {
            robot_name: self.robot_name.clone(),
            robot_spec_source: if self.enable_robot_spec_source {
                RobotSpecSource::Enabled
            } else {
                RobotSpecSource::Refused
            },
            observed_generation: choose(
                "observed-generation",
                &self.observed_generation,
                ("translate", ObservedGeneration::Translate),
                ("verbatim", ObservedGeneration::Verbatim),
                "translate, verbatim",
            )?,
            earlier_life: choose(
                "status-of-earlier-life",
                &self.status_of_earlier_life,
                ("ignore", StaleCopyStatus::Ignore),
                ("copy", StaleCopyStatus::Copy),
                "ignore, copy",
            )?,
            fresh_copy: choose(
                "status-of-fresh-copy",
                &self.status_of_fresh_copy,
                ("keep", NewCopyStatus::KeepStatus),
                ("reset", NewCopyStatus::ResetStatus),
                "keep, reset",
            )?,
            unclear_filter: choose(
                "unclear-filter",
                &self.unclear_filter,
                ("refuse", UnclearFilter::Refuse),
                ("ignore", UnclearFilter::Ignore),
                "refuse, ignore",
            )?,
            namespaces,
        })
    }
}

fn choose<T>(
    flag: &'static str,
    value: &str,
    first: (&str, T),
    second: (&str, T),
    allowed: &'static str,
) -> Result<T, OptionError> {
    match value {
        value if value == first.0 => Ok(first.1),
        value if value == second.0 => Ok(second.1),
        other => Err(OptionError::Choice {
            flag,
            value: other.to_owned(),
            allowed,
        }),
    }
}

/// Always https, whatever scheme is given: tokens are sent by TLS only.
fn address(server: &str, path: &str) -> Result<String, OptionError> {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    let host = host.trim_end_matches('/');
    if host.is_empty() {
        return Err(OptionError::NoServer);
    }
    if host.contains(['/', '?', '#', '@']) || host.contains(char::is_whitespace) {
        let (_, shown) = server.rsplit_once('@').unwrap_or(("", server));
        return Err(OptionError::Server(shown.to_owned()));
    }
    let path = path.trim_matches('/');
    Ok(match path {
        "" => format!("https://{host}"),
        path => format!("https://{host}/{path}"),
    })
}

fn brake(text: &str) -> Result<Option<u8>, OptionError> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let wrong = || OptionError::Brake(text.to_owned());
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let share: u8 = number.parse().map_err(|_| wrong())?;
    (1..=100)
        .contains(&share)
        .then_some(Some(share))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> RawMirrorArgs {
        RawMirrorArgs {
            remote_server: "www.example.com".into(),
            remote_path: "/apis/core.kubernetes".into(),
            conflict_error_limit: 5,
            timeout: 300,
            observed_generation: "translate".into(),
            status_of_earlier_life: "ignore".into(),
            status_of_fresh_copy: "keep".into(),
            unclear_filter: "refuse".into(),
            deletion_brake: "50%".into(),
            trace_context: false,
            ..RawMirrorArgs::default()
        }
    }

    #[track_caller]
    fn check_address(server: &str, path: &str, expected: Result<&str, OptionError>) {
        let given = RawMirrorArgs {
            remote_server: server.into(),
            remote_path: path.into(),
            ..given()
        };
        let found = given.check().map(|options| match options.cloud {
            Cloud::Server { url, .. } => url,
            Cloud::Kubeconfig(path) => panic!("{path:?}"),
        });
        assert_eq!(found, expected.map(str::to_owned));
    }

    #[test]
    fn the_cloud_is_only_spoken_to_by_https_below_its_prefix() {
        let prefixed = Ok("https://www.example.com/apis/core.kubernetes");
        check_address("www.example.com", "/apis/core.kubernetes", prefixed.clone());
        check_address("http://www.example.com/", "apis/core.kubernetes/", prefixed);
        check_address("127.0.0.1:8443", "", Ok("https://127.0.0.1:8443"));
        check_address("", "/x", Err(OptionError::NoServer));
        let wrong = "example.com/other";
        check_address(wrong, "/x", Err(OptionError::Server(wrong.to_owned())));
    }

    #[test]
    fn tokens_come_from_the_machine_unless_a_file_or_an_address_is_given() {
        let of = |jwt: bool, file: &str, url: &str, host: &str| {
            let given = RawMirrorArgs {
                use_robot_jwt: jwt,
                remote_token_file: file.into(),
                remote_token_url: url.into(),
                metadata_host: host.into(),
                ..given()
            };
            match given.check().unwrap().cloud {
                Cloud::Server { tokens, .. } => tokens,
                Cloud::Kubeconfig(path) => panic!("{path:?}"),
            }
        };
        let at = |host: &str, what: &str| {
            format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/{what}")
        };
        let usual = "169.254.169.254";
        assert_eq!(
            of(true, "", "", ""),
            Tokens::RobotJwt(at(usual, "identity"))
        );
        assert_eq!(of(false, "", "", ""), Tokens::Machine(at(usual, "token")));
        assert_eq!(
            of(false, "", "", "m:1"),
            Tokens::AccessToken(at("m:1", "token"))
        );
        assert_eq!(
            of(true, "", "http://x/y", ""),
            Tokens::RobotJwt("http://x/y".into())
        );
        assert_eq!(of(true, "/token", "", ""), Tokens::File("/token".into()));
        let account = |jwt: bool| {
            let given = RawMirrorArgs {
                use_robot_jwt: jwt,
                credentials_file: "/key.json".into(),
                ..given()
            };
            given.tokens()
        };
        assert_eq!(account(false), Tokens::Account("/key.json".into()));
        assert_eq!(account(true), Tokens::RobotJwt(at(usual, "identity")));
    }

    #[test]
    fn choices_that_do_not_exist_are_refused_by_name() {
        let wrong = RawMirrorArgs {
            observed_generation: "maybe".into(),
            ..given()
        };
        let said = wrong.check().unwrap_err().to_string();
        assert_eq!(
            said,
            "--observed-generation=\"maybe\" is not one of translate, verbatim"
        );
        for (text, expected) in [
            ("off", Some(None)),
            ("1%", Some(Some(1))),
            ("101%", None),
            ("x", None),
        ] {
            assert_eq!(brake(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn one_namespace_is_looked_into_unless_others_are_named() {
        let of = |text: &str| {
            let given = RawMirrorArgs {
                namespaces: text.into(),
                ..given()
            };
            given.check().unwrap().settings.namespaces.join(" ")
        };
        assert_eq!(of(""), "default");
        assert_eq!(of("robots, default,robots"), "default robots");
    }
}
