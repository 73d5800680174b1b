//! The Kubernetes API over the store: verbs, discovery, watches.
//!
//! Knows HTTP's words (paths, headers, codes) but no connections, and nothing of particular kinds
//! beyond namespaces: what a scope serves and how its kinds behave stands in its catalog.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, WARNING};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

mod apply;
mod body;
mod delete;
mod discovery;
mod list;
mod metadata;
mod owning;
mod query;
mod select;
mod target;
mod view;
mod watch;
mod write;

#[cfg(test)]
pub(super) mod tests;

use super::api::{Api, ApiBody, ApiRequest, ApiResponse};
use super::catalog::{Catalog, Flavour, Resource, Scope, Scopes};
use super::status::Status;
use super::store::{Outcome, Read, Store, Tx};
use query::Query;
use select::Chosen;
use target::{ResourcePath, Target};
use view::{Form, View};
use watch::{Current, Plan};
use write::Written;

/// What answers requests about the objects of a store.
pub struct Rest {
    store: Arc<Store>,
    scopes: Arc<dyn Scopes>,
    /// What `/version` says: major, minor, the whole.
    version: (String, String, String),
}

/// A request about a resource.
struct Call<'a> {
    request: &'a ApiRequest,
    query: Query<'a>,
    path: ResourcePath,
    form: Form,
}

impl Call<'_> {
    fn view(&self, resource: Arc<Resource>) -> View {
        View {
            resource,
            form: self.form,
        }
    }
}

impl Rest {
    /// Serves what `scopes` finds. `version` is a Kubernetes version such as `v1.34.2`.
    pub fn new(store: Arc<Store>, scopes: Arc<dyn Scopes>, version: &str) -> Self {
        let mut numbers = version.trim_start_matches('v').split('.');
        let mut number = || numbers.next().unwrap_or_default().to_owned();
        Self {
            store,
            scopes,
            version: (number(), number(), version.to_owned()),
        }
    }

    async fn dispatch(&self, request: &ApiRequest) -> Result<ApiResponse, Status> {
        let target = Target::parse(&request.path);
        if let Target::Resource(path) = target {
            let query = Query::parse(request.query.as_deref());
            let call = Call {
                request,
                query,
                path,
                form: Form::accepted(&request.headers)?,
            };
            return self.serve(&call).await;
        }
        if target == Target::Health {
            return Ok(text("ok"));
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(Status::method_not_allowed());
        }
        let document = self.discover(&request.scope, &target)?;
        Ok(full(200, view::bytes(&document)))
    }

    fn discover(&self, scope: &Scope, target: &Target) -> Result<Value, Status> {
        if *target == Target::Version {
            let (major, minor, version) = &self.version;
            return Ok(json!({
                "major": major, "minor": minor, "gitVersion": version,
                "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "", "compiler": "", "platform": "",
            }));
        }
        let catalog = self.store.read(|read| self.scopes.catalog(read, scope))?;
        let found = match target {
            Target::CoreVersions => Some(discovery::core_versions()),
            Target::Groups => Some(discovery::groups(&catalog)),
            Target::Group(group) => discovery::group(&catalog, group),
            Target::Resources { group, version } => discovery::resources(&catalog, group, version),
            Target::Health | Target::Version | Target::Resource(_) | Target::Nothing => None,
        };
        found.ok_or_else(Status::no_such_path)
    }

    async fn serve(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let name = call.path.name.as_deref();
        match (call.request.method.as_str(), name) {
            ("GET" | "HEAD", Some(name)) => self.get(call, name),
            ("GET" | "HEAD", None) if call.query.flag("watch")? => self.watch(call).await,
            ("GET" | "HEAD", None) => self.list(call).await,
            ("POST", None) => Ok(written(self.create(call)?)),
            ("PUT", Some(name)) => Ok(written(self.update(call, name)?)),
            ("PATCH", Some(name)) => Ok(written(self.patch(call, name)?)),
            ("DELETE", Some(name)) if call.path.subresource.is_empty() => {
                Ok(written(self.delete(call, name)?))
            }
            ("DELETE", None) => Ok(written(self.delete_collection(call)?)),
            _ => {
                // An address that is nothing at all is missing, whatever the method.
                self.store.read(|read| self.address(read, call))?;
                Err(Status::method_not_allowed())
            }
        }
    }

    fn address(&self, read: &dyn Read, call: &Call<'_>) -> Result<Arc<Resource>, Status> {
        let catalog = self.scopes.catalog(read, &call.request.scope)?;
        look_up(&catalog, &call.path)
    }

    /// The resource of a path, if this verb is allowed on it here.
    fn find(
        &self,
        read: &dyn Read,
        scope: &Scope,
        path: &ResourcePath,
        verb: &str,
    ) -> Result<Arc<Resource>, Status> {
        let catalog = self.scopes.catalog(read, scope)?;
        let resource = look_up(&catalog, path)?;
        let allowed = match path.subresource.as_str() {
            "" => resource.verbs.allow(verb),
            "status" => resource.verbs.allow(verb) && matches!(verb, "get" | "update" | "patch"),
            _ => verb == "update",
        };
        let everywhere = resource.namespaced && path.namespace.is_none();
        let everywhere_allowed = matches!(verb, "list" | "watch");
        let namespaces = discovery::is_namespaces(&resource) && verb == "deletecollection";
        if !allowed || namespaces || (everywhere && !everywhere_allowed) {
            return Err(Status::method_not_allowed());
        }
        if scope.cluster().is_some() {
            self.scopes.authorize(read, scope, &resource, verb)?;
        }
        Ok(resource)
    }

    fn get(&self, call: &Call<'_>, name: &str) -> Result<ApiResponse, Status> {
        write::cluster(call)?;
        let scope = &call.request.scope;
        let (resource, stored) = self.store.read(|read| {
            let resource = self.find(read, scope, &call.path, "get")?;
            let key = select::key(scope, &resource, &call.path, name);
            let stored = key.and_then(|key| read.get(&key));
            Ok::<_, Status>((resource, stored))
        })?;
        match stored.filter(|stored| select::visible(&resource, stored)) {
            Some(stored) => Ok(full(200, call.view(resource).body(&stored)?)),
            None => Err(Status::not_found(&resource.group, &resource.plural, name)),
        }
    }

    async fn list(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let scope = &call.request.scope;
        let resource = self
            .store
            .read(|read| self.find(read, scope, &call.path, "list"))?;
        let chosen = Chosen::parse(&call.query, &resource)?;
        let range = select::range(scope, &resource, &call.path);
        let view = call.view(resource);
        let list = list::list(&self.store, &range, &chosen, &view, &call.query).await?;
        Ok(full(200, list))
    }

    async fn watch(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let scope = &call.request.scope;
        let resource = self
            .store
            .read(|read| self.find(read, scope, &call.path, "watch"))?;
        let plan = Plan::parse(&call.query)?;
        let chosen = Arc::new(Chosen::parse(&call.query, &resource)?);
        let range = select::range(scope, &resource, &call.path);
        let current = self.stays(scope, &call.path, &resource);
        let view = call.view(resource);
        let events = watch::watch(&self.store, range, chosen, view, plan, current).await?;
        Ok(ApiResponse {
            status: 200,
            headers: HeaderMap::new(),
            body: ApiBody::Stream(events),
        })
    }

    /// A watch ends when what it shows is served no longer, or as something else.
    fn stays(&self, scope: &Scope, path: &ResourcePath, resource: &Arc<Resource>) -> Current {
        let store = Arc::clone(&self.store);
        let scopes = Arc::clone(&self.scopes);
        let (scope, path) = (scope.clone(), path.clone());
        let was = (resource.incarnation, resource.table.clone());
        let label = resource.required_label.clone();
        Arc::new(move || {
            let found = store.read(|read| {
                let catalog = scopes.catalog(read, &scope)?;
                look_up(&catalog, &path)
            });
            found.ok().filter(|now| {
                now.incarnation == was.0 && now.table == was.1 && now.required_label == label
            })
        })
    }

    /// Everything of a write at once, or, dry, none of it.
    fn transact<T>(
        &self,
        dry_run: bool,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, Status>,
    ) -> Result<Outcome<T>, Status> {
        if dry_run {
            self.store.dry_run(f)
        } else {
            self.store.write(f)
        }
    }
}

fn look_up(catalog: &Catalog, path: &ResourcePath) -> Result<Arc<Resource>, Status> {
    let found = catalog.find(&path.group, &path.version, &path.plural);
    let resource = found.ok_or_else(Status::no_such_path)?;
    let placed = match (&path.namespace, resource.namespaced) {
        (Some(_), namespaced) => namespaced,
        (None, true) => path.name.is_none(),
        (None, false) => true,
    };
    let part = match path.subresource.as_str() {
        "" => true,
        "status" => resource.has_status,
        "finalize" => discovery::is_namespaces(resource),
        _ => false,
    };
    match (&path.name, placed && part) {
        (_, true) => Ok(Arc::clone(resource)),
        (Some(name), false) if placed && resource.flavour == Flavour::Custom => {
            Err(Status::not_found(&path.group, &path.plural, name))
        }
        _ => Err(Status::no_such_path()),
    }
}

impl Api for Rest {
    fn handle(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        async move {
            match self.dispatch(&request).await {
                Ok(response) => response,
                Err(status) => status.into(),
            }
        }
        .boxed()
    }

    fn revision(&self) -> u64 {
        self.store.revision()
    }
}

fn full(status: u16, body: Bytes) -> ApiResponse {
    ApiResponse {
        status,
        headers: HeaderMap::new(),
        body: ApiBody::Full(body),
    }
}

fn text(text: &'static str) -> ApiResponse {
    let mut response = full(200, Bytes::from_static(text.as_bytes()));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers.insert(CONTENT_TYPE, plain);
    response
}

fn written(written: Written) -> ApiResponse {
    let mut response = full(written.code, written.body);
    for warning in &written.warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // What is no header text is not worth a warning.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers.append(WARNING, value);
        }
    }
    response
}
