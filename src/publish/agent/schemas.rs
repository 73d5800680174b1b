//! Creates the schema of a published resource in the workspace of the export.
//!
//! The caller settles one published resource at a time; several may run concurrently. Nothing is read again while
//! neither the manifest nor the definition of its kind has changed. An existing schema is never changed, except for the
//! marks of the agent, and never deleted.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::notices::{self, Notice};
use super::switch::{self, Wanted};
use crate::publish::marks;
use crate::publish::names;
use crate::publish::projection;
use crate::publish::projection::Types;
use crate::publish::related::dangling_references;
use crate::publish::schema::{self, PublishedSchema};
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::discovery::Discovery;

mod definition;
pub(super) mod manifest;
mod problem;

pub use definition::CrdPrint;
use definition::{Before, KindDefinition};
pub use manifest::{Manifest, PUBLISHED_RESOURCES, plans_only};
pub use problem::{RetryPolicy, SchemaError};

/// The source of events on published resources, as in api-syncagent.
const COMPONENT: &str = "syncagent-apiresourceschema";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";

/// The state of a CRD, as the watch knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The watch has not listed yet.
    Unknown,
    Absent,
    Present(CrdPrint),
}

/// A published resource whose schema exists in kcp.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The name of the schema.
    pub schema: String,
    pub types: Types,
    /// The plural of the kind on the service cluster.
    pub local_plural: String,
    /// The plural in workspaces.
    pub remote_plural: String,
    pub remote_is_namespaced: bool,
    /// The CRD that it was made from; `None` for a kind that is not a custom resource.
    pub crd: Option<(String, CrdPrint)>,
    /// Whether this agent has made sure that the schema exists.
    pub mode: SchemaMode,
    /// Warnings for the owner that block nothing.
    pub warnings: Vec<String>,
}

/// Whether schemas are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaMode {
    /// They are created, and their names recorded.
    Writes,
    /// Schemas are only computed: another agent writes them, or nothing is to be written.
    Reads,
}

/// Creates schemas. Shared by all published resources.
pub struct Schemas {
    /// The service cluster.
    pub service: Connection,
    /// The workspace of the export.
    pub workspace: Connection,
    /// The discovery of the service cluster.
    pub discovery: Arc<Discovery>,
    pub agent: String,
    /// Asked right before each write.
    wanted: Wanted<Manifest>,
    mode: Mutex<SchemaMode>,
    settled: SettledSchemas,
    /// The last problem that was reported to owners, by the uid of the published resource.
    told: Mutex<HashMap<String, String>>,
}

/// The results, by the uid of the published resource.
type SettledSchemas = Mutex<HashMap<String, SettledSchema>>;

struct SettledSchema {
    /// The hash of the part of the manifest that concerns the type.
    asked: u64,
    settled: Settled,
    /// The version of the manifest with the name of the schema, if this agent wrote it.
    recorded_in: Option<u64>,
}

impl Schemas {
    pub fn new(
        service: Connection,
        workspace: Connection,
        discovery: Arc<Discovery>,
        agent: impl Into<String>,
        mode: SchemaMode,
        wanted: Wanted<Manifest>,
    ) -> Self {
        Self {
            service,
            workspace,
            discovery,
            agent: agent.into(),
            wanted,
            mode: Mutex::new(mode),
            settled: SettledSchemas::default(),
            told: Mutex::default(),
        }
    }

    /// Enables writing, and reports problems to owners again that another agent may have reported.
    pub fn begin_writing(&self) {
        *self.mode.lock() = SchemaMode::Writes;
        self.told.lock().clear();
    }

    /// Makes sure that the schema of a published resource exists in kcp, and its name in the status. `watched` returns
    /// the known state of a CRD by its name. Nothing is written for a manifest that is no longer wanted.
    pub async fn settle(
        &self,
        manifest: &Manifest,
        watched: impl Fn(&str) -> Watched,
    ) -> Result<Settled, SchemaError> {
        let settled = self.attempt(manifest, watched).await;
        match &settled {
            Ok(_) => {
                self.told.lock().remove(&manifest.uid);
            }
            // A plan tells its problems in the status.
            Err(_) if manifest.spec.plans_only() => {}
            Err(error) => self.report_problem(manifest, error).await,
        }
        settled
    }

    async fn attempt(
        &self,
        manifest: &Manifest,
        watched: impl Fn(&str) -> Watched,
    ) -> Result<Settled, SchemaError> {
        let asked = fingerprint(&manifest.spec);
        let mode = match *self.mode.lock() {
            _ if manifest.spec.plans_only() => SchemaMode::Reads,
            mode => mode,
        };
        let known = self.still_settled(&manifest.uid, asked, watched);
        let mut settled = match known.filter(|known| known.mode == mode) {
            Some(settled) => settled,
            None => self.establish(manifest, asked, mode).await?,
        };
        if mode == SchemaMode::Reads {
            return Ok(settled);
        }
        match self.record(manifest, &settled.schema).await {
            Ok(()) => {}
            Err(error @ SchemaError::Forbidden { .. }) => {
                settled.warnings.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(settled)
    }

    /// Forgets a published resource that is gone.
    pub fn forget(&self, uid: &str) {
        self.settled.lock().remove(uid);
        self.told.lock().remove(uid);
    }

    /// Reports a problem to the owner by an event, once for each problem. A server that does not answer is not
    /// reported: an owner cannot change that.
    async fn report_problem(&self, manifest: &Manifest, error: &SchemaError) {
        if error.retry_policy() == RetryPolicy::Retry {
            return;
        }
        let message = error.to_string();
        let before = self
            .told
            .lock()
            .insert(manifest.uid.clone(), message.clone());
        if before.as_ref() == Some(&message) {
            return;
        }
        let about = json!({
            "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
            "metadata": {
                "name": manifest.name, "uid": manifest.uid,
                "resourceVersion": manifest.version.map(|version| version.to_string()),
            },
        });
        let notice = Notice {
            about: &about,
            component: COMPONENT,
            kind: "Warning",
            reason: "ReconcilingError",
            message: &message,
        };
        notices::send(&self.still_wanted(&self.service, manifest), notice).await;
    }

    /// A connection for requests that are sent only while the manifest is wanted.
    fn still_wanted(&self, connection: &Connection, manifest: &Manifest) -> Connection {
        connection.guarded_by(switch::guard(&self.wanted, manifest.clone()))
    }

    fn still_settled(
        &self,
        uid: &str,
        asked: u64,
        watched: impl Fn(&str) -> Watched,
    ) -> Option<Settled> {
        let settled_schemas = self.settled.lock();
        let settled_schema = settled_schemas
            .get(uid)
            .filter(|settled_schema| settled_schema.asked == asked)?;
        let settled = &settled_schema.settled;
        let holds = match &settled.crd {
            None => match watched(&settled.definition_name()) {
                Watched::Unknown | Watched::Absent => true,
                Watched::Present(_) => false,
            },
            Some((name, print)) => match watched(name) {
                Watched::Unknown => true,
                Watched::Absent => false,
                // A watch that is older than the last read proves nothing.
                Watched::Present(seen) => {
                    seen.uid == print.uid && seen.generation <= print.generation
                }
            },
        };
        holds.then(|| settled.clone())
    }

    async fn establish(
        &self,
        manifest: &Manifest,
        asked: u64,
        mode: SchemaMode,
    ) -> Result<Settled, SchemaError> {
        let before = match self.settled.lock().get(&manifest.uid) {
            Some(settled_schema)
                if settled_schema.asked == asked && settled_schema.settled.crd.is_some() =>
            {
                Before::CustomResource
            }
            _ => Before::Unknown,
        };
        let resource = &manifest.spec.resource;
        let (group, kind) = (&resource.api_group, &resource.kind);
        let definition =
            definition::retrieve(&self.service, &self.discovery, group, kind, before).await;
        if matches!(definition, Err(SchemaError::DefinitionGone(_))) {
            // A definition found later is a new one.
            self.settled.lock().remove(&manifest.uid);
        }
        let definition = definition?;
        let (mut settled, published) = self.project(&definition, &manifest.spec, mode)?;
        if mode == SchemaMode::Writes {
            let workspace = self.still_wanted(&self.workspace, manifest);
            let warning = self.offer(&workspace, &published).await?;
            settled.warnings.extend(warning);
        }
        let settled_schema = SettledSchema {
            asked,
            settled: settled.clone(),
            recorded_in: None,
        };
        self.settled
            .lock()
            .insert(manifest.uid.clone(), settled_schema);
        Ok(settled)
    }

    fn project(
        &self,
        definition: &KindDefinition,
        spec: &PublishedResourceSpec,
        mode: SchemaMode,
    ) -> Result<(Settled, PublishedSchema), SchemaError> {
        let crd = &definition.crd;
        let projected = projection::project(crd, spec)?;
        let published = schema::publish(&projected.crd, &self.agent);
        let published = published.map_err(|source| SchemaError::Definition {
            name: crd.metadata.name.clone(),
            source: Box::new(source),
        })?;
        if !names::is_subdomain(&published.name) {
            return Err(SchemaError::Name(published.name));
        }
        let types = Types::of(crd, &projected);
        let mut warnings = Vec::new();
        if !definition.storage_is_served {
            warnings.push(format!(
                "the CustomResourceDefinition {} does not serve {}, the version that it stores and \
                 copies are written in: serve it",
                crd.metadata.name, types.local.version
            ));
        }
        warnings.extend(dangling_references(spec, crd).iter().map(|stray| {
            let field = &stray.field;
            format!("{field}: {}", stray.explain())
        }));
        let print = definition.print.clone();
        let settled = Settled {
            schema: published.name.clone(),
            types,
            local_plural: crd.spec.names.plural.clone(),
            remote_plural: projected.crd.spec.names.plural.clone(),
            remote_is_namespaced: projected.crd.spec.is_namespaced(),
            crd: print.map(|print| (crd.metadata.name.clone(), print)),
            mode,
            warnings,
        };
        Ok((settled, published))
    }

    /// Creates a schema unless it exists. Returns warnings.
    async fn offer(
        &self,
        workspace: &Connection,
        published: &PublishedSchema,
    ) -> Result<Option<String>, SchemaError> {
        let path = format!("{SCHEMAS}/{}", published.name);
        let what = format!("the APIResourceSchema {}", published.name);
        let of = |verb, error| SchemaError::of_call(verb, what.clone(), error);
        let mut existing = workspace.ask(Call::get(&*path)).await;
        if is(&existing, 404) {
            match workspace.ask(Call::post(SCHEMAS, &published.object)).await {
                Ok(_) => return Ok(None),
                // Another agent or process created it first: compares theirs.
                Err(error) if error.code() == Some(409) => {
                    existing = workspace.ask(Call::get(&*path)).await;
                }
                Err(error) => return Err(of("create", error)),
            }
        }
        let existing = existing.map_err(|error| of("get", error))?;
        let Some(marked) = marked(&existing, &self.agent) else {
            return Ok(None);
        };
        match workspace.ask(Call::put(path, &marked)).await {
            Ok(_) => Ok(None),
            Err(error) => match of("update", error) {
                // kcp's administrators grant no such right, and the missing marks do no harm.
                error @ SchemaError::Forbidden { .. } => Ok(Some(error.to_string())),
                error => Err(error),
            },
        }
    }

    /// Writes the name of the schema into the status, if it is missing.
    async fn record(&self, manifest: &Manifest, schema: &str) -> Result<(), SchemaError> {
        if manifest.recorded.as_deref() == Some(schema) {
            return Ok(());
        }
        let written = self
            .settled
            .lock()
            .get(&manifest.uid)
            .and_then(|m| m.recorded_in);
        if written.is_some_and(|written| manifest.version.is_some_and(|seen| seen <= written)) {
            return Ok(());
        }
        let path = format!("{PUBLISHED_RESOURCES}/{}/status", manifest.name);
        let call = Call::merge_patch(path, &json!({"status": {"resourceSchemaName": schema}}));
        let service = self.still_wanted(&self.service, manifest);
        let mut answer = service.ask(call.clone()).await;
        if is(&answer, 409) {
            answer = service.ask(call).await;
        }
        let what = format!("the status of the PublishedResource {}", manifest.name);
        let answer = answer.map_err(|error| SchemaError::of_call("patch", what, error))?;
        if let Some(settled_schema) = self.settled.lock().get_mut(&manifest.uid) {
            settled_schema.recorded_in = manifest::version(&answer);
        }
        Ok(())
    }
}

impl Settled {
    fn definition_name(&self) -> String {
        format!("{}.{}", self.local_plural, self.types.local.group)
    }
}

fn is(answer: &Result<Value, RequestError>, code: u16) -> bool {
    matches!(answer, Err(error) if error.code() == Some(code))
}

/// The fingerprint of everything that the schema depends on; names of copies and mutations do not count.
fn fingerprint(spec: &PublishedResourceSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    let objects: Vec<_> = spec.related.iter().map(|entry| &entry.object).collect();
    json!([spec.resource, spec.projection, objects])
        .to_string()
        .hash(&mut hasher);
    hasher.finish()
}

/// An existing schema with the agent's marks; `None` if it has them.
fn marked(existing: &Value, agent: &str) -> Option<Value> {
    let metadata = &existing["metadata"];
    let fields = ["labels", "annotations"];
    if fields
        .iter()
        .all(|field| metadata[field][marks::AGENT_NAME] == agent)
    {
        return None;
    }
    let mut marked = existing.clone();
    let metadata = marked.get_mut("metadata").and_then(Value::as_object_mut)?;
    for field in fields {
        let entry = metadata.entry(field).or_insert_with(|| json!({}));
        entry
            .as_object_mut()?
            .insert(marks::AGENT_NAME.to_owned(), agent.into());
    }
    Some(marked)
}

#[cfg(test)]
mod tests;
