//! `kubefedctl enable`: the definition of a federated type, and its `FederatedTypeConfig`.

use clap::Args;
use serde_json::Value;

use hawser_federation::kubefedctl::enable::{EnableError, Enabled, WriteOutcome, check, enable};
use hawser_federation::kubefedctl::yaml;
use hawser_federation::types::type_config::EnableTypeDirectiveSpec;

use super::console::{CtlError, print, read, said, trying};
use super::flags::{ControlFlags, given};
use super::server::{Server, all_of, core, definition, is_absent};

/// Enable a type: its objects can be federated, and are propagated.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct EnableArgs {
    /// Plural, singular, kind or short name of the type; with .GROUP if several types have it
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    control: ControlFlags,

    /// Group of the federated type
    #[arg(long, value_name = "GROUP", default_value = "types.kubefed.io")]
    federated_group: String,

    /// Version of the federated type
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    federated_version: String,

    /// Version of the type [default: the one that the server prefers]
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true
    )]
    version: String,

    /// Print the objects in this format instead of writing them: yaml
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "",
        hide_default_value = true
    )]
    output: String,

    /// File with an EnableTypeDirective, instead of name and flags
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    filename: String,
}

pub(super) async fn run(args: EnableArgs) -> Result<(), CtlError> {
    let name = args.names.first().map(String::as_str);
    check(name, given(&args.filename), given(&args.output))?;
    let (name, directive) = if let Some(file) = given(&args.filename) {
        directive(file)?
    } else {
        let directive = EnableTypeDirectiveSpec {
            target_version: args.version,
            federated_group: args.federated_group,
            federated_version: args.federated_version,
        };
        (name.unwrap_or_default().to_owned(), directive)
    };
    let host = Server::host(&args.control.host)?;
    let enabled = objects(&host, &name, &directive).await?;
    if !args.output.is_empty() {
        let config = enabled.type_config(&args.control.kubefed_namespace);
        print(&yaml::print([&config, &enabled.definition]));
        return Ok(());
    }
    write(&host, &enabled, &args.control).await
}

/// The name and the rest of the directive in a file.
fn directive(file: &str) -> Result<(String, EnableTypeDirectiveSpec), CtlError> {
    let text = read(file)?;
    let documents = yaml::read(&text).map_err(|source| CtlError::Yaml {
        file: file.to_owned(),
        source,
    })?;
    let wrong = |problem: &str| CtlError::Document {
        file: file.to_owned(),
        problem: problem.to_owned(),
    };
    let Some(mut found) = documents.into_iter().next() else {
        return Err(wrong("it contains no EnableTypeDirective"));
    };
    if found["kind"] != "EnableTypeDirective" {
        return Err(wrong("the first document is not an EnableTypeDirective"));
    }
    let name = found["metadata"]["name"].as_str().map(str::to_owned);
    let name = name.ok_or_else(|| wrong("metadata.name is missing: it names the type"))?;
    let spec = match found["spec"].take() {
        Value::Null => EnableTypeDirectiveSpec::default(),
        spec => serde_json::from_value(spec).map_err(|error| wrong(&format!("spec: {error}")))?,
    };
    Ok((name, spec))
}

/// The objects that enable a type.
pub(super) async fn objects(
    host: &Server,
    name: &str,
    directive: &EnableTypeDirectiveSpec,
) -> Result<Enabled, CtlError> {
    let target = host.lookup(name, given(&directive.target_version)).await?;
    let schema = host.schema(&target.api).await?;
    Ok(enable(&target, directive, schema))
}

/// Writes definition and `FederatedTypeConfig`, and prints that.
pub(super) async fn write(
    host: &Server,
    enabled: &Enabled,
    flags: &ControlFlags,
) -> Result<(), CtlError> {
    let namespace = &flags.kubefed_namespace;
    let found = host.get(format!("/api/v1/namespaces/{namespace}")).await;
    found.map_err(|error| {
        if is_absent(&error) {
            let (namespace, error) = (namespace.clone(), said(&error));
            return EnableError::NoNamespace { namespace, error }.into();
        }
        let what = "Error attempting to determine if KubeFed system namespace";
        trying(format!("{what} {namespace:?} exists"))(error)
    })?;
    let there = host.type_configs(namespace).await?;
    let name = enabled.definition_name();
    let path = definition(&name);
    let found = host.find(&path).await;
    let found = found.map_err(trying(format!("Error getting CRD {name:?}")))?;
    enabled.check(&there, found.is_some())?;
    let is_new = found.is_none();
    let crd = put(host, &path, found, &enabled.definition, flags.dry_run).await;
    let verb = if is_new { "creating" } else { "updating" };
    let crd = crd.map_err(|error| named(error, &format!("Error {verb} CRD {name:?}")))?;
    print(&format!("{}\n", enabled.definition_line(crd)));

    let path = format!(
        "{}/{}",
        core(namespace, "federatedtypeconfigs"),
        enabled.name
    );
    let found = host.find(&path).await?;
    let object = enabled.type_config(namespace);
    let config = put(host, &path, found, &object, flags.dry_run).await;
    let what = format!("Error writing FederatedTypeConfig {:?}", enabled.name);
    let config = config.map_err(|error| named(error, &what))?;
    print(&format!(
        "{}\n",
        enabled.type_config_line(config, namespace)
    ));
    Ok(())
}

fn named(error: CtlError, what: &str) -> CtlError {
    match error {
        CtlError::Ask(error) => trying(what)(error),
        other => other,
    }
}

/// Creates an object, or replaces the spec of the one that was found.
async fn put(
    host: &Server,
    path: &str,
    found: Option<Value>,
    object: &Value,
    dry_run: bool,
) -> Result<WriteOutcome, CtlError> {
    let written = if found.is_some() {
        WriteOutcome::Updated
    } else {
        WriteOutcome::Created
    };
    if dry_run {
        return Ok(written);
    }
    if let Some(mut found) = found {
        found["spec"] = object["spec"].clone();
        host.replace(path, &found).await?;
    } else {
        let all = path.rsplit_once('/').map_or(path, |(all, _)| all);
        host.create(all, object).await?;
    }
    Ok(written)
}

/// Whether objects of the federated type exist.
pub(super) async fn has_instances(
    host: &Server,
    federated: &hawser_federation::types::type_config::ApiResource,
) -> Result<bool, CtlError> {
    match host
        .items(format!("{}?limit=1", all_of(federated, None)))
        .await
    {
        Err(error) if is_absent(&error) => Ok(false),
        listed => Ok(!listed?.is_empty()),
    }
}
