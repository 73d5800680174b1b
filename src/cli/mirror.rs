//! `hawser mirror`: keeps a robot's custom resources in sync with its cloud.
//!
//! Parses flags as Go's `flag` does: with one dash or two, values after `=` or as the next argument, boolean flags with
//! a value only after `=`; the last one of repeated flags applies. Flags of cr-syncer's log library are ignored.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, Args};

use crate::mirror::agent::process;
use crate::mirror::options::RawMirrorArgs;
use hawser_runtime::overview::site::PAGE_ADDRESS;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use super::service;

/// Keep custom resources in sync between a cloud and the robot that this runs on, as annotations on the CRDs define.
///
/// Accepts the flags of cr-syncer. `hawser` runs this command when it is called by that name.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct MirrorArgs {
    /// Host of the cloud, with a port if it is not 443; always https
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    remote_server: String,

    /// Name of this robot, the value of the label of its objects
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    robot_name: String,

    /// Listen address for /health, /healthz, /readyz and /metrics; empty or 0 disables
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":80",
        allow_hyphen_values = true
    )]
    listen_address: String,

    /// Listen address for the page about objects that are out of sync; 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS, allow_hyphen_values = true)]
    page_address: String,

    /// Number of consecutive conflicts in the cloud before a type is listed again
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    conflict_error_limit: u32,

    /// Duration of a watch in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,

    /// Use a signed token of the robot instead of an access token
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = parse_bool)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    use_robot_jwt: bool,

    /// Deprecated: same as --log-level -4
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = parse_bool)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    verbose: bool,

    /// Log level: -4 debug, 0 info, 4 warnings, 8 errors
    #[arg(
        long,
        value_name = "LEVEL",
        default_value_t = 0,
        allow_hyphen_values = true
    )]
    log_level: i32,

    /// Path prefix of the cloud's API server
    #[arg(long, value_name = "PATH", default_value = "/apis/core.kubernetes")]
    #[arg(allow_hyphen_values = true)]
    remote_path: String,

    /// Kubeconfig of the cloud, instead of a server and tokens
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_kubeconfig: String,

    /// File with the certificate authority of the cloud [default: those of the system]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_ca_file: String,

    /// File with the token for the cloud; reloaded when it changes
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    remote_token_file: String,

    /// URL that returns a token [default: the metadata server of the robot]
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

    /// Maximum number of concurrent requests to each cluster
    #[arg(long, value_name = "NUMBER", default_value_t = 32)]
    max_in_flight: usize,

    /// Maximum number of requests per second to each cluster, with bursts of twice as many; 0 disables
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    max_requests_per_second: u32,

    /// Follow CRDs whose objects the robot owns
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = parse_bool)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    enable_robot_spec_source: bool,

    /// Namespaces of the objects, comma separated
    #[arg(long, value_name = "NAMES", default_value = "default")]
    namespaces: String,

    /// How status.observedGeneration is written to the cloud: translate, verbatim
    #[arg(long, value_name = "HOW", default_value = "translate")]
    observed_generation: String,

    /// How to treat the status of a copy that outlived its object: ignore, copy
    #[arg(long, value_name = "HOW", default_value = "ignore")]
    status_of_earlier_life: String,

    /// How a copy without a status affects the status in the cloud: keep, reset
    #[arg(long, value_name = "HOW", default_value = "keep")]
    status_of_fresh_copy: String,

    /// How to treat a CRD whose filter is not a boolean or that needs a robot name: refuse, ignore
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    unclear_filter: String,

    /// Hold deletions of a kind when more than this share of its copies would be deleted at once; off disables
    #[arg(long, value_name = "SHARE", default_value = "50%")]
    deletion_brake: String,

    /// Send the annotation traceparent of an object with the requests about it
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = parse_bool)]
    #[arg(default_value = "false", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    trace_context: bool,

    #[command(flatten)]
    ignored: Ignored,
}

/// Flags of cr-syncer's log library.
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

/// Adds the second dash to flags that are written with one, except for these of one letter.
pub(super) fn two_dashes(args: &mut [OsString], letters: &[&str]) {
    for arg in args {
        let Some(text) = arg.to_str() else { continue };
        let name = text.strip_prefix('-').unwrap_or_default();
        let flag = name.split('=').next().unwrap_or_default();
        if !letters.contains(&flag) && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            *arg = format!("-{text}").into();
        }
    }
}

/// Runs until a signal or an error stops it.
pub(super) fn run(args: MirrorArgs) -> ExitCode {
    let log = args.log();
    let strays = args.ignored.strays.join(" ");
    let options = match args.given().check() {
        Ok(options) => options,
        Err(problem) => return super::output::fail(&problem),
    };
    if let Err(error) = logging::start(log) {
        return super::output::fail(&error);
    }
    if !strays.is_empty() {
        tracing::warn!(arguments = strays, "ignoring unexpected arguments");
    }
    service::run("the mirror stopped", |stop| process::run(options, stop))
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

    pub(super) fn given(self) -> RawMirrorArgs {
        RawMirrorArgs {
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
            page_address: self.page_address,
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
            trace_context: self.trace_context,
        }
    }
}

/// The file in which Google's programs look for an account before they ask the machine.
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

/// Parses a boolean as Go does.
fn parse_bool(text: &str) -> Result<bool, String> {
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
        two_dashes(&mut args, &["h"]);
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
