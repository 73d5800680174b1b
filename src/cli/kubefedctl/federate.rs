//! `kubefedctl federate`: creates federated objects from existing objects.

use std::time::Duration;

use clap::Args;
use kube_lang::object::Object;
use serde_json::Value;

use hawser_federation::kubefedctl::federate::{
    Arguments, FederateError, Federated, contents, created, default_type, federate, guessed_type,
    qualified_name, unfit,
};
use hawser_federation::kubefedctl::{Resource, yaml};
use hawser_federation::types::type_config::{
    ApiResource, EnableTypeDirectiveSpec, FederatedTypeConfigSpec, NAMESPACES,
};
use hawser_runtime::cluster::connection::RequestError;

use super::console::{CtlError, print, read, said, tell, trying};
use super::enable;
use super::flags::{ControlFlags, given};
use super::server::{Server, all_of, find_type, is_absent};
use crate::cli::agent::parse_bool;

/// The time in which a new definition has to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
const SERVED_EVERY: Duration = Duration::from_millis(200);

/// Create federated objects from existing objects.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct FederateObjectArgs {
    /// Type and name of the object
    #[arg(value_name = "TYPE NAME")]
    names: Vec<String>,

    #[command(flatten)]
    control: ControlFlags,

    /// Namespace of the object [default: the context's]
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    namespace: String,

    /// Print the objects in this format instead of creating them: yaml
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "",
        hide_default_value = true
    )]
    output: String,

    /// Enable the type for federation if it is not enabled yet
    #[arg(short = 't', long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_type: bool,

    /// Federate everything in the namespace as well
    #[arg(short, long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    contents: bool,

    /// Print federated objects for the objects in a file; - is stdin
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    filename: String,

    /// Types or groups that --contents leaves out
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    skip_api_resources: Vec<String>,
}

/// A type that is enabled, or that the command enables.
struct Enabling {
    federated: ApiResource,
    is_enabled: bool,
}

pub(super) async fn run(args: FederateObjectArgs) -> Result<(), CtlError> {
    if !matches!(&*args.output, "" | "yaml") {
        let output = args.output.clone();
        return Err(hawser_federation::kubefedctl::enable::EnableError::Output(output).into());
    }
    let arguments = Arguments {
        names: args.names.clone(),
        output_yaml: !args.output.is_empty(),
        enable_type: args.enable_type,
        contents: args.contents,
        filename: given(&args.filename).map(str::to_owned),
    };
    arguments.check()?;
    let host = Server::host(&args.control.host)?;
    if let Some(file) = &arguments.filename {
        return of_file(file);
    }
    let types = host.types(None).await?;
    let target = find_type(&types, &arguments.names[0])?;
    arguments.check_type(&target.api)?;
    let is_namespace = target.api.qualified_name() == NAMESPACES;
    let name = &arguments.names[1];
    let namespace = if is_namespace {
        tell(
            "Resource to federate is a namespace. Given namespace will itself be the container for the federated namespace",
        );
        name
    } else {
        let namespace = given(&args.namespace).or(host.namespace.as_deref());
        namespace.unwrap_or("default")
    };
    let known = host.type_configs(&args.control.kubefed_namespace).await?;
    let mut chosen = vec![(
        target.clone(),
        vec![object(&host, &target.api, namespace, name).await?],
    )];
    if args.contents {
        for resource in contents(&types, &args.skip_api_resources) {
            let objects = of_namespace(&host, resource, namespace).await?;
            if !objects.is_empty() {
                chosen.push((resource.clone(), objects));
            }
        }
    }
    let mut planned = Vec::new();
    for (resource, objects) in chosen {
        let enabling = enabling(&resource.api, &known, &arguments)?;
        planned.push((resource, enabling, objects));
    }
    if arguments.output_yaml {
        let objects = planned.iter().flat_map(|(_, enabling, objects)| {
            objects
                .iter()
                .map(move |object| federated(object, &enabling.federated).object)
        });
        print(&yaml::print(&objects.collect::<Vec<_>>()));
        return Ok(());
    }
    for (resource, enabling, _) in planned
        .iter()
        .filter(|(_, enabling, _)| !enabling.is_enabled)
    {
        let directive = EnableTypeDirectiveSpec {
            target_version: resource.api.version.clone(),
            federated_group: enabling.federated.group.clone(),
            federated_version: enabling.federated.version.clone(),
        };
        let schema = host.schema(&resource.api).await?;
        let enabled = hawser_federation::kubefedctl::enable::enable(resource, &directive, schema);
        enable::write(&host, &enabled, &args.control).await?;
    }
    for (_, enabling, objects) in &planned {
        for object in objects {
            make(&host, object, &enabling.federated, args.control.dry_run).await?;
        }
    }
    Ok(())
}

/// Prints federated objects for those in a file; no type is looked up.
fn of_file(file: &str) -> Result<(), CtlError> {
    let text = read(file)?;
    let documents = yaml::read(&text).map_err(|source| CtlError::Yaml {
        file: file.to_owned(),
        source,
    })?;
    let mut objects = Vec::new();
    for document in documents {
        let object = parsed(document, file)?;
        objects.push(federated(&object, &default_type(&guessed_type(&object))).object);
    }
    print(&yaml::print(&objects));
    Ok(())
}

fn parsed(value: Value, place: &str) -> Result<Object, CtlError> {
    Object::new(value).map_err(|error| CtlError::Document {
        file: place.to_owned(),
        problem: error.to_string(),
    })
}

/// The federated type of a target, by its `FederatedTypeConfig`, else by default where that will do.
fn enabling(
    target: &ApiResource,
    known: &[(String, FederatedTypeConfigSpec)],
    arguments: &Arguments,
) -> Result<Enabling, FederateError> {
    let name = target.qualified_name();
    if let Some((_, spec)) = known.iter().find(|(known, _)| *known == name) {
        return Ok(Enabling {
            federated: spec.federated_type.clone(),
            is_enabled: true,
        });
    }
    if !arguments.enable_type && !arguments.output_yaml {
        return Err(FederateError::NotEnabled(name));
    }
    Ok(Enabling {
        federated: default_type(target),
        is_enabled: false,
    })
}

/// The object to federate.
async fn object(
    host: &Server,
    target: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Object, CtlError> {
    let found = host
        .get(format!("{}/{name}", all_of(target, Some(namespace))))
        .await;
    let found = found.map_err(|error| FederateError::Target {
        kind: target.kind.clone(),
        name: if target.is_namespaced() {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        },
        error: said(&error),
    })?;
    parsed(found, name)
}

/// The objects of a type in a namespace, without those whose name no federated object can have.
async fn of_namespace(
    host: &Server,
    resource: &Resource,
    namespace: &str,
) -> Result<Vec<Object>, CtlError> {
    let api = &resource.api;
    let listed = match host.items(all_of(api, Some(namespace))).await {
        // Listed in discovery, but not in fact, as types without a list verb in one version.
        Err(error) if matches!(error.code(), Some(404 | 405)) => Vec::new(),
        listed => listed.map_err(trying(format!(
            "Error listing {} in namespace {namespace:?}",
            api.qualified_name()
        )))?,
    };
    let mut objects = Vec::new();
    for mut item in listed {
        // Items of a list do not have to say their type.
        item["apiVersion"] = api.gvk().api_version().into();
        item["kind"] = api.kind.clone().into();
        let object = parsed(item, &api.qualified_name())?;
        if let Some(warning) = unfit(&object) {
            tell(&warning);
            continue;
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The federated object; prints the warning about it.
fn federated(object: &Object, federated: &ApiResource) -> Federated {
    let made = federate(object, federated);
    if let Some(warning) = &made.warning {
        tell(warning);
    }
    made
}

async fn make(
    host: &Server,
    object: &Object,
    api: &ApiResource,
    dry_run: bool,
) -> Result<(), CtlError> {
    let made = parsed(federated(object, api).object, object.name())?;
    if !dry_run {
        let all = all_of(api, made.namespace());
        let body = Value::Object(made.root().clone());
        create(host, &all, &body)
            .await
            .map_err(|error| FederateError::Create {
                name: qualified_name(&made),
                error: said(&error),
            })?;
    }
    tell(&created(object.kind(), &made));
    Ok(())
}

/// Creates a federated object, as soon as its type is served.
async fn create(host: &Server, all: &str, object: &Value) -> Result<(), RequestError> {
    let begun = tokio::time::Instant::now();
    loop {
        match host.create(all, object).await {
            Err(error) if is_absent(&error) && begun.elapsed() < SERVED_WITHIN => {
                tokio::time::sleep(SERVED_EVERY).await;
            }
            created => return created.map(|_| ()),
        }
    }
}
