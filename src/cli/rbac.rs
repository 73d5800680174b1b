//! `hawser rbac`: the minimal roles of an agent on both sides, and a check whether it has these rights.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::agent_place::AgentPlace;
use super::check;
use super::manifest::{Document, ManifestError};
use super::output::{Output, yaml};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::agent::options::{AgentOptions, FlagErrors};
use crate::publish::agent::place::{PlaceError, check_place};
use crate::publish::agent::process::{AgentError, Connections};
use crate::publish::agent::review::{self, ReviewError, Reviewers};
use crate::publish::agent::startup::{StartError, locate};
use crate::publish::rights::{self, AgentNeeds, PublishedKindNeeds, Right, RightsSide};
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::discovery::Discovery;
use hawser_runtime::errors::chain;
use hawser_runtime::overview::plain;
use hawser_runtime::process::lease::Fence;
use hawser_runtime::process::metrics::Metrics;

/// The exit code if a right is missing.
const LACKS: u8 = 2;
/// The time limit for reading slice and export from kcp. Without the right to read them, kcp never shows them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Print the minimal roles of an agent on both sides, or check its rights.
///
/// The roles are for the PublishedResources of the files, or for those of the service cluster. With --check, asks both
/// servers which of these rights the credentials lack, and prints what does not work without them.
///
/// Exits with 0 if no right is missing, with 2 if one is, and with 1 after errors. If the rights for one
/// PublishedResource cannot be known, no roles are printed, and --check checks those for the others.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # Roles for what a file publishes, with a binding for the agent's service account
  hawser rbac -f databases.yaml -f crd.yaml --namespace hawser --service-account hawser \\
    --apiexportendpointslice-ref databases.example.org --side service | kubectl apply -f -

  # Check whether the agent has every right that it needs
  hawser rbac --check --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org")]
pub(super) struct RbacArgs {
    /// YAML file with PublishedResources, and with their CRDs; - is stdin. May be repeated [default: those of the
    /// service cluster]
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Check which rights the credentials of the kubeconfigs lack
    #[arg(long)]
    check: bool,

    /// Print roles for one side only
    #[arg(long, value_enum)]
    side: Option<RoleSide>,

    /// Service account in the agent's namespace that gets the roles of the service cluster
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,

    /// User that gets the role in kcp
    #[arg(long, value_name = "NAME")]
    kcp_user: Option<String>,

    /// Leave out the rights for leader election
    #[arg(long)]
    without_leader_election: bool,

    /// Add the rights for an agent with --shards
    #[arg(long, conflicts_with = "without_leader_election")]
    with_shards: bool,

    /// Name of the APIExport [default: as in kcp, or that of the slice]
    #[arg(long, value_name = "NAME")]
    apiexport: Option<String>,

    /// Kubeconfig of the service cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", default_value = "")]
    kubeconfig: String,

    /// Kubeconfig of the kcp workspace that has the APIExportEndpointSlice; not needed for files alone
    #[arg(long, value_name = "FILE", default_value = "")]
    kcp_kubeconfig: String,

    /// Namespace of the service cluster with the state Secrets
    #[arg(long, value_name = "NAME")]
    namespace: String,

    /// Name of the APIExportEndpointSlice
    #[arg(long, value_name = "NAME")]
    apiexportendpointslice_ref: String,

    /// Name of the agent, and of its roles [default: the slice's name with -syncagent]
    #[arg(long, value_name = "NAME", default_value = "")]
    agent_name: String,

    /// Selector of the PublishedResources that the agent serves [default: all]
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    published_resource_selector: String,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

/// The side that roles are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleSide {
    Service,
    Kcp,
}

#[derive(Debug, thiserror::Error)]
enum RbacFailed {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("none of the files contains a PublishedResource: add a file with one")]
    Nothing,
    #[error("{0}; hawser check shows where")]
    Invalid(String),
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(
        "no roles are printed, because the rights for these PublishedResources are not known: {0}"
    )]
    Incomplete(String),
}

/// Both servers.
struct Servers {
    planes: Connections,
    options: AgentOptions,
}

pub(super) fn run(args: RbacArgs) -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(RbacFailed::from)
        .and_then(|runtime| runtime.block_on(shown(&ObjectProgress::default(), act(args))));
    match done {
        Ok((text, code)) => {
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            code
        }
        Err(failed) => super::output::fail(&failed),
    }
}

async fn act(args: RbacArgs) -> Result<(String, ExitCode), RbacFailed> {
    let servers = (args.files.is_empty() || args.check)
        .then(|| connect(&args))
        .transpose()?;
    let (reviewers, export) = match &servers {
        Some(servers) => {
            if args.check {
                check_place(&servers.planes, &servers.options).await?;
            }
            let (reviewers, export) = provider(servers).await?;
            (Some(reviewers), export)
        }
        None => (None, None),
    };
    let slice = args.apiexportendpointslice_ref.clone();
    let agent = AgentNeeds {
        namespace: args.namespace.clone(),
        export: args
            .apiexport
            .clone()
            .or(export)
            .unwrap_or_else(|| slice.clone()),
        slice,
        elects_leader: !args.without_leader_election,
        has_shards: args.with_shards,
    };
    let PublishedKinds {
        published,
        problems,
    } = published(&args, servers.as_ref()).await?;
    // Roles that are applied replace those that exist: incomplete ones would take rights away.
    if !args.check && !problems.is_empty() {
        return Err(RbacFailed::Incomplete(problems.join("; ")));
    }
    for problem in &problems {
        // Where there is no stderr nobody can be told.
        let _ = writeln!(io::stderr(), "hawser: {problem}");
    }
    let needed = rights::needed(&agent, &published);
    let needed: Vec<Right> = needed
        .into_iter()
        .filter(|right| args.side.is_none_or(|side| side.grantor() == right.grantor))
        .collect();
    match reviewers.filter(|_| args.check) {
        None => Ok((manifests(&args, &needed), ExitCode::SUCCESS)),
        Some(reviewers) => {
            let lacking = reviewers.lacking(&needed).await?;
            let code = if !problems.is_empty() {
                ExitCode::FAILURE
            } else if lacking.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(LACKS)
            };
            let missing = || lacking.iter().map(as_json).collect::<Vec<_>>();
            let text = args.output.show(
                || in_words(&lacking, needed.len()),
                || json!({"missing": missing(), "problems": problems}),
            );
            Ok((text, code))
        }
    }
}

fn connect(args: &RbacArgs) -> Result<Servers, RbacFailed> {
    let options = AgentPlace {
        kubeconfig: args.kubeconfig.clone(),
        kcp_kubeconfig: args.kcp_kubeconfig.clone(),
        namespace: args.namespace.clone(),
        apiexportendpointslice_ref: args.apiexportendpointslice_ref.clone(),
        agent_name: args.agent_name.clone(),
        published_resource_selector: args.published_resource_selector.clone(),
        longest_consumer_pause: None,
    };
    let options = options.options()?;
    // A review is a request that stores nothing.
    let fence = Fence::always_open();
    let planes = Connections::of_command(&options, &Arc::new(Metrics::new()), &fence)?;
    Ok(Servers { planes, options })
}

/// The servers to ask, and the name of the export.
async fn provider(servers: &Servers) -> Result<(Reviewers, Option<String>), RbacFailed> {
    let Servers {
        planes, options, ..
    } = servers;
    let service = planes.service.clone();
    if let Ok(located) = timeout(PATIENCE, locate(&planes.kcp, &options.slice)).await {
        let located = located?;
        let reviewers = Reviewers {
            service,
            provider: located.export_workspace.connection,
            slices: located.slice_workspace.connection,
        };
        return Ok((reviewers, Some(located.export)));
    }
    let reviewers = Reviewers {
        service,
        provider: planes.kcp.clone(),
        slices: planes.kcp.clone(),
    };
    Ok((reviewers, None))
}

/// What is published, as far as it is known.
#[derive(Default)]
struct PublishedKinds {
    published: Vec<PublishedKindNeeds>,
    /// Why the rights for others are not known.
    problems: Vec<String>,
}

impl PublishedKinds {
    fn add(&mut self, kind: Result<PublishedKindNeeds, ReviewError>) {
        match kind {
            Ok(kind) => self.published.push(kind),
            Err(problem) => self.problems.push(plain(&chain(&problem))),
        }
    }
}

async fn published(
    args: &RbacArgs,
    servers: Option<&Servers>,
) -> Result<PublishedKinds, RbacFailed> {
    let discovery = servers.map(|servers| Discovery::new(servers.planes.service.clone()));
    let mut kinds = PublishedKinds::default();
    if let (true, Some(servers), Some(discovery)) = (args.files.is_empty(), servers, &discovery) {
        let selector = &servers.options.selector;
        for spec in review::published(&servers.planes.service, selector).await? {
            match spec {
                // Nothing is needed for it, and its kind may be gone.
                Ok(spec) if !spec.synchronizes() => {}
                Ok(spec) => kinds.add(review::served(discovery, spec).await),
                Err(problem) => kinds.add(Err(problem)),
            }
        }
        return Ok(kinds);
    }
    let documents = check::read_all(&args.files)?;
    let published = documents
        .iter()
        .filter(|one| check::is_published_resource(one));
    let mut is_empty = true;
    for document in published {
        is_empty = false;
        let spec = spec_of(document, &documents)?;
        if !spec.synchronizes() {
            continue;
        }
        kinds.add(match (plural(&spec, &documents), &discovery) {
            (Some(plural), _) => Ok(PublishedKindNeeds { spec, plural }),
            (None, Some(discovery)) => review::served(discovery, spec).await,
            (None, None) => Ok(assumed(spec)),
        });
    }
    if is_empty {
        return Err(RbacFailed::Nothing);
    }
    Ok(kinds)
}

fn spec_of(document: &Document, all: &[Document]) -> Result<PublishedResourceSpec, RbacFailed> {
    let invalid = |problems: Vec<String>| {
        let what = document.describe();
        RbacFailed::Invalid(format!("{what}: {}", problems.join("; ")))
    };
    let (problems, _) = check::problems(document, all);
    let errors = problems.iter().filter(|problem| problem.is_error());
    let errors: Vec<_> = errors.map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(invalid(errors));
    }
    let spec = document.value["spec"].clone();
    serde_json::from_value(spec).map_err(|error| invalid(vec![error.to_string()]))
}

/// The plural of a published kind, if its CRD is among the documents.
fn plural(spec: &PublishedResourceSpec, all: &[Document]) -> Option<String> {
    let document = check::definition(spec, all)?;
    Some(document.text("/spec/names/plural").to_owned())
}

fn assumed(spec: PublishedResourceSpec) -> PublishedKindNeeds {
    let kind = &spec.resource.kind;
    let plural = format!("{}s", kind.to_lowercase());
    // Where there is no stderr nobody can be told.
    let _ = writeln!(
        io::stderr(),
        "hawser: the plural of {kind} is assumed to be {plural}: add its CRD to the files"
    );
    PublishedKindNeeds { spec, plural }
}

fn manifests(args: &RbacArgs, needed: &[Right]) -> String {
    let name = if args.agent_name.is_empty() {
        format!("{}-syncagent", args.apiexportendpointslice_ref)
    } else {
        args.agent_name.clone()
    };
    let account = args.service_account.as_ref().map(
        |account| json!({"kind": "ServiceAccount", "name": account, "namespace": args.namespace}),
    );
    let user = args
        .kcp_user
        .as_ref()
        .map(|user| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}));
    let sides = [(RightsSide::Service, account), (RightsSide::Provider, user)];
    let of_side = |(grantor, subject): &(RightsSide, Option<Value>)| {
        rights::roles(needed, *grantor, &name, subject.as_ref())
    };
    let human = || {
        let mut text = String::new();
        for side in &sides {
            for manifest in of_side(side) {
                let separator = if text.is_empty() { "" } else { "---\n" };
                let place = side.0.as_str();
                let _ = write!(text, "{separator}# {place}\n{}", yaml(&manifest));
            }
        }
        text
    };
    args.output.show(human, || {
        let items: Vec<_> = sides.iter().flat_map(of_side).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    })
}

fn in_words(lacking: &[Right], asked: usize) -> String {
    let mut text = String::new();
    for right in lacking {
        let _ = writeln!(text, "missing: {right}\n  without it: {}", right.purpose);
    }
    let _ = match lacking.len() {
        0 => writeln!(text, "none of {asked} rights is missing"),
        missing => writeln!(text, "{missing} of {asked} rights are missing"),
    };
    text
}

fn as_json(right: &Right) -> Value {
    let mut spec = right.review()["spec"].take();
    spec["side"] = match right.grantor {
        RightsSide::Service => "service".into(),
        RightsSide::Provider => "kcp".into(),
    };
    spec["right"] = right.to_string().into();
    spec["purpose"] = right.purpose.clone().into();
    spec
}

impl RoleSide {
    fn grantor(self) -> RightsSide {
        match self {
            Self::Service => RightsSide::Service,
            Self::Kcp => RightsSide::Provider,
        }
    }
}
