//! `hawser mirror`: keeps a robot's custom resources in step with its cloud.
//!
//! Knows how the flags are written, which is how Go's `flag` takes them: with one dash or two, values after
//! `=` or standing for themselves, switches with a value after `=` only; of flags given twice the last one
//! counts. Flags of the original's log library are taken and mean nothing.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, Args};

use crate::mirror::agent::process;
use crate::mirror::options::Given;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use super::service;

/// Keeps custom resources in step between a cloud and the robot that this runs on, as annotations on their
/// definitions say.
///
/// Takes the flags of cr-syncer, and is what `hawser` does when it is called by that name.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct MirrorArgs {
    /// The cloud: host, and port where that is not 443. Always spoken to by https
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    remote_server: String,

    /// The name of this robot: objects with this label are its own
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    robot_name: String,

    /// Where /health, /healthz, /readyz and /metrics are served; empty or 0 for nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":80",
        allow_hyphen_values = true
    )]
    listen_address: String,

    /// Conflicts in a row in the cloud, after which everything is listed anew
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    conflict_error_limit: u32,

    /// How many seconds a watch is asked to last
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,

    /// Take a signed token of the robot rather than an access token
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = truth)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    use_robot_jwt: bool,

    /// Obsolete: log everything that matters to nobody but developers
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = truth)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    verbose: bool,

    /// -4 for everything, 0 for what happens, 4 for warnings, 8 for errors
    #[arg(
        long,
        value_name = "LEVEL",
        default_value_t = 0,
        allow_hyphen_values = true
    )]
    log_level: i32,

    /// The path below which the cloud's API server is
    #[arg(long, value_name = "PATH", default_value = "/apis/core.kubernetes")]
    #[arg(allow_hyphen_values = true)]
    remote_path: String,

    /// Kubeconfig of the cloud, in place of a server and tokens
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_kubeconfig: String,

    /// The authority of the cloud's certificate [default: those of the system]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_ca_file: String,

    /// A file with the token for the cloud, read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_token_file: String,

    /// Where to ask for a token [default: the metadata server of the robot]
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    remote_token_url: String,

    /// Kubeconfig of the robot's cluster [default: $KUBECONFIG, else the Pod's service account]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    kubeconfig: String,

    /// How many requests to each cluster may be on their way
    #[arg(long, value_name = "NUMBER", default_value_t = 32)]
    max_in_flight: usize,

    /// How many requests a second to each cluster, twice as many at once after a pause; 0 for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    max_requests_per_second: u32,

    /// Follow definitions whose objects the robot owns
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = truth)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    enable_robot_spec_source: bool,

    /// Namespaces whose objects are kept in step, comma separated
    #[arg(long, value_name = "NAMES", default_value = "default")]
    namespaces: String,

    /// What becomes of status.observedGeneration in the cloud: translate, verbatim
    #[arg(long, value_name = "HOW", default_value = "translate")]
    observed_generation: String,

    /// What becomes of the status of a copy that outlived its object: ignore, copy
    #[arg(long, value_name = "HOW", default_value = "ignore")]
    status_of_earlier_life: String,

    /// What a copy that has no status yet does to that in the cloud: keep, reset
    #[arg(long, value_name = "HOW", default_value = "keep")]
    status_of_fresh_copy: String,

    /// What becomes of a definition whose filter is no boolean or lacks a robot: refuse, ignore
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    unclear_filter: String,

    /// Hold deletions of a kind when more than this share of its copies would go at once; off never holds them
    #[arg(long, value_name = "SHARE", default_value = "50%")]
    deletion_brake: String,

    #[command(flatten)]
    ignored: Ignored,
}

/// What the log library of the original takes.
#[derive(Debug, Args)]
struct Ignored {
    #[arg(long, hide = true)]
    v: Option<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    logtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    alsologtostderr: Option<String>,
    #[arg(long, hide = true)]
    alsologtostderrthreshold: Option<String>,
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long = "legacy_stderr_threshold_behavior", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    legacy_stderr_threshold_behavior: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_file", hide = true)]
    log_file: Option<String>,
    #[arg(long = "log_file_max_size", hide = true)]
    log_file_max_size: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long = "one_output", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    one_output: Option<String>,
    #[arg(long = "skip_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    skip_headers: Option<String>,
    #[arg(long = "skip_log_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    skip_log_headers: Option<String>,
    #[arg(long = "add_dir_header", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    add_dir_header: Option<String>,
    #[arg(hide = true, value_name = "IGNORED")]
    strays: Vec<String>,
}

/// The flags with two dashes, as they are read here, where they were written with one.
pub(super) fn two_dashes(args: &mut [OsString]) {
    for arg in args {
        let Some(text) = arg.to_str() else { continue };
        let name = text.strip_prefix('-').unwrap_or_default();
        if text != "-h" && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            *arg = format!("-{text}").into();
        }
    }
}

/// Runs until told to stop, or until nothing can go on.
pub(super) fn run(args: MirrorArgs) -> ExitCode {
    let log = args.log();
    let strays = args.ignored.strays.join(" ");
    let options = match args.given().check() {
        Ok(options) => options,
        Err(problem) => return super::fail(&problem),
    };
    if let Err(error) = logging::start(log) {
        return super::fail(&error);
    }
    if !strays.is_empty() {
        tracing::warn!(arguments = strays, "ignoring what is no flag");
    }
    service::run("the mirror ends", |stop| process::run(options, stop))
}

// === impl MirrorArgs ===

impl MirrorArgs {
    fn log(&self) -> LogOptions {
        LogOptions {
            format: LogFormat::Cloud,
            verbosity: match self.log_level {
                _ if self.verbose => Verbosity::Debug,
                ..0 => Verbosity::Debug,
                0..4 => Verbosity::Info,
                4..8 => Verbosity::Warn,
                8.. => Verbosity::Error,
            },
        }
    }

    fn given(self) -> Given {
        Given {
            remote_server: self.remote_server,
            remote_path: self.remote_path,
            remote_kubeconfig: self.remote_kubeconfig,
            remote_ca_file: self.remote_ca_file,
            remote_token_file: self.remote_token_file,
            remote_token_url: self.remote_token_url,
            metadata_host: std::env::var("GCE_METADATA_HOST").unwrap_or_default(),
            credentials_file: credentials(|name| std::env::var(name).unwrap_or_default()),
            use_robot_jwt: self.use_robot_jwt,
            robot_name: self.robot_name,
            kubeconfig: self.kubeconfig,
            listen_address: self.listen_address,
            conflict_error_limit: self.conflict_error_limit,
            timeout: self.timeout,
            max_in_flight: self.max_in_flight,
            requests_per_second: self.max_requests_per_second,
            enable_robot_spec_source: self.enable_robot_spec_source,
            namespaces: self.namespaces,
            observed_generation: self.observed_generation,
            status_of_earlier_life: self.status_of_earlier_life,
            status_of_fresh_copy: self.status_of_fresh_copy,
            unclear_filter: self.unclear_filter,
            deletion_brake: self.deletion_brake,
        }
    }
}

/// Where Google's programs look for an account before they ask the machine.
fn credentials(variable: impl Fn(&str) -> String) -> String {
    let given = variable("GOOGLE_APPLICATION_CREDENTIALS");
    let home = variable("HOME");
    if !given.is_empty() || home.is_empty() {
        return given;
    }
    let usual = format!("{home}/.config/gcloud/application_default_credentials.json");
    if std::path::Path::new(&usual).is_file() {
        usual
    } else {
        String::new()
    }
}

/// What Go takes for true and false.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::mirror::options::{Cloud, Tokens};

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        args: MirrorArgs,
    }

    fn parse(line: &str) -> MirrorArgs {
        let mut args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        two_dashes(&mut args);
        args.insert(0, "mirror".into());
        Alone::try_parse_from(args).unwrap().args
    }

    #[test]
    fn the_flags_of_the_shipped_deployment_are_understood() {
        let args = parse(
            "--listen-address=:8080 --remote-server=www.example.com --robot-name=r1 --use-robot-jwt=true --verbose=false",
        );
        assert_eq!((&*args.listen_address, &*args.robot_name), (":8080", "r1"));
        assert!(args.use_robot_jwt && !args.verbose);
        let cloud = args.given().check().unwrap().cloud;
        let Cloud::Server { url, tokens, .. } = cloud else {
            panic!("{cloud:?}");
        };
        assert_eq!(url, "https://www.example.com/apis/core.kubernetes");
        assert!(matches!(tokens, Tokens::RobotJwt(_)), "{tokens:?}");
    }

    #[test]
    fn flags_are_written_as_go_takes_them() {
        let args = parse(
            "-robot-name r2 -use-robot-jwt -conflict-error-limit=7 -timeout 60 -log-level -4",
        );
        assert_eq!(
            (&*args.robot_name, args.conflict_error_limit, args.timeout),
            ("r2", 7, 60)
        );
        assert!(args.use_robot_jwt);
        assert_eq!(args.log().verbosity, Verbosity::Debug);
        assert_eq!(parse("-log-level=4").log().verbosity, Verbosity::Warn);
        assert_eq!(parse("-robot-name=a -robot-name=b").robot_name, "b");
    }

    #[test]
    fn an_account_is_looked_for_where_googles_programs_look() {
        let home = tempfile::tempdir().unwrap();
        let of = |given: &'static str| {
            let home = home.path().display().to_string();
            credentials(move |name| match name {
                "HOME" => home.clone(),
                _ => given.to_owned(),
            })
        };
        assert_eq!((of("/k.json"), of("")), ("/k.json".into(), String::new()));
        let usual = home.path().join(".config/gcloud");
        std::fs::create_dir_all(&usual).unwrap();
        let usual = usual.join("application_default_credentials.json");
        std::fs::write(&usual, "{}").unwrap();
        assert_eq!(
            (of("/k.json"), of("")),
            ("/k.json".into(), usual.display().to_string())
        );
    }

    #[test]
    fn flags_of_the_log_library_are_taken_and_mean_nothing() {
        parse(
            "-v=3 -vmodule=a=1 -logtostderr -alsologtostderr=true -stderrthreshold 2 -log_dir /x -log_file y \
             -log_file_max_size 1 -log_backtrace_at=a:1 -one_output -skip_headers=true -skip_log_headers \
             -add_dir_header -alsologtostderrthreshold=1 -legacy_stderr_threshold_behavior",
        );
    }
}
