//! The Kubernetes API over the store: verbs, discovery, watches.
//!
//! This module knows paths, headers and status codes, but no connections. It does not know particular kinds, except
//! namespaces: the catalog of a scope has its resources and their rules.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

mod accept;
mod apply;
mod aside;
mod body;
mod complaints;
mod create;
pub(super) mod delete;
pub(super) mod delete_options;
mod discovery;
mod ground;
mod list;
mod metadata;
mod openapi;
mod owning;
mod paging;
mod query;
mod replace;
mod select;
mod target;
mod view;
mod watch;
mod write;

#[cfg(test)]
pub(super) mod tests;

use super::api::{Api, ApiBody, ApiRequest, ApiResponse};
use super::catalog::{Catalog, Flavour, Resource, Scope, Scopes, Verbs};
use super::openapi::Documents;
use super::status::Status;
use super::store::{Name, Outcome, Read, Store, Tx};
use accept::{Accepts, Discovery, Form, Route};
use aside::{Aside, SMALL};
use discovery::Part;
use list::Listing;
use query::Query;
use select::Chosen;
use target::{ResourcePath, Target};
use view::View;
use watch::{Current, Plan, Standing, Watched};

/// Answers requests about the objects of a store.
pub(crate) struct Rest {
    store: Arc<Store>,
    scopes: Arc<dyn Scopes>,
    /// The content of `/version`: major, minor, the whole version.
    version: (String, String, String),
    documents: Documents,
    aside: Aside,
}

/// A request about a resource.
struct Call<'a> {
    request: &'a ApiRequest,
    query: Query<'a>,
    path: ResourcePath,
    accepts: Accepts,
    clock: fn() -> Timestamp,
}

impl Call<'_> {
    /// The cluster of the request; without one, there is no such endpoint.
    fn cluster(&self) -> Result<Name, Status> {
        let cluster = self.request.scope.cluster();
        cluster.cloned().ok_or_else(Status::no_such_path)
    }

    fn view(&self, resource: Arc<Resource>) -> View {
        // A request without an acceptable form is refused before it is executed.
        let accepted = self.accepts.best(&resource);
        let mut view = View::new(resource, accepted.unwrap_or(Form::Whole.into()), self.clock);
        view.across = matches!(self.request.scope, Scope::ExportWildcard { .. });
        view
    }
}

impl Rest {
    /// Serves the catalogs of `scopes`. `version` is a Kubernetes version such as `v1.34.2`.
    pub(crate) fn new(store: Arc<Store>, scopes: Arc<dyn Scopes>, version: &str) -> Self {
        let mut numbers = version.trim_start_matches('v').split('.');
        let mut number = || numbers.next().unwrap_or_default().to_owned();
        Self {
            store,
            scopes,
            version: (number(), number(), version.to_owned()),
            documents: Documents::default(),
            aside: Aside::default(),
        }
    }

    async fn dispatch(&self, request: &ApiRequest) -> Result<ApiResponse, Status> {
        let target = Target::parse(&request.path);
        if let Target::Resource(path) = target {
            let query = Query::parse(request.query.as_deref());
            let accepts = Accepts::parse(&request.headers, query.get("includeObject"));
            let (accepts, refused) = match accepts {
                Ok(accepts) => (accepts, None),
                Err(status) => (Accepts::default(), Some(status)),
            };
            let call = Call {
                request,
                query,
                path,
                accepts,
                clock: self.store.clock(),
            };
            if let Err(refused) = Route::BuiltIn.check(&request.headers)
                && self.is_built_in(&call).unwrap_or(false)
            {
                return Err(refused);
            }
            if let Some(status) = refused {
                return Err(status);
            }
            return self.serve(&call).await;
        }
        if target == Target::Health {
            return Ok(health(request));
        }
        if target == Target::Nothing {
            return Err(self.nowhere(request));
        }
        let looks = match target {
            Target::Version => request.method == Method::GET,
            _ => matches!(request.method, Method::GET | Method::HEAD),
        };
        if !looks {
            return Err(Status::method_not_allowed());
        }
        if matches!(
            target,
            Target::Swagger | Target::OpenApi | Target::OpenApiOf(_)
        ) {
            return self.describe(request, &target).await;
        }
        if let Target::Resources { group, version } = &target
            && let Err(refused) = Route::BuiltIn.check(&request.headers)
            && self.has_built_in(&request.scope, group, version)
        {
            return Err(refused);
        }
        if target == Target::Version {
            Route::Version.check(&request.headers)?;
        } else if let Discovery::Aggregated = discovery_form(request, &target)? {
            return self.aggregate(request, &target);
        }
        let document = self.discover(&request.scope, &target)?;
        Ok(full(200, view::bytes(&document)))
    }

    /// Aggregated discovery, which clients cache as long as its `ETag` is the same.
    fn aggregate(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let catalog = self
            .store
            .read(|read| self.scopes.catalog(read, &request.scope))?;
        let part = match target {
            Target::CoreVersions => Part::Core,
            _ => Part::Named,
        };
        let document = view::bytes(&discovery::aggregated(&catalog, part));
        let mut tag = String::with_capacity(130);
        tag.push('"');
        for byte in Sha512::digest(&document) {
            let _ = write!(tag, "{byte:02X}");
        }
        tag.push('"');
        let asked = request.headers.get(IF_NONE_MATCH);
        let mut response = if asked.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            full(304, Bytes::new())
        } else {
            full(200, document)
        };
        let tag = HeaderValue::from_str(&tag).map_err(Status::internal)?;
        let headers = &mut response.headers;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
        headers.insert(ETAG, tag);
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        Ok(response)
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
        let in_view = scope.is_view();
        let found = match target {
            Target::CoreVersions => Some(discovery::core_versions()),
            Target::Groups => Some(discovery::groups(&catalog)),
            Target::Group(group) => discovery::group(&catalog, group),
            Target::Resources { group, version } => {
                let found = discovery::resources(&catalog, group, version);
                found.map(|list| {
                    if in_view {
                        discovery::of_view(list)
                    } else {
                        list
                    }
                })
            }
            _ => None,
        };
        found.ok_or_else(|| match target {
            Target::Group(group) | Target::Resources { group, .. } => {
                nothing_there(&catalog, group)
            }
            _ => Status::page_not_found(),
        })
    }

    /// The error for an unknown path.
    fn nowhere(&self, request: &ApiRequest) -> Status {
        let path = request.path.strip_prefix('/').unwrap_or_default();
        let group = match path.split_once('/') {
            Some(("api", _)) => "",
            Some(("apis", rest)) if !rest.starts_with('/') => {
                rest.split('/').next().unwrap_or_default()
            }
            _ => return Status::page_not_found(),
        };
        let found = self
            .store
            .read(|read| self.scopes.catalog(read, &request.scope));
        match found {
            Ok(catalog) => nothing_there(&catalog, group),
            Err(status) => status,
        }
    }

    async fn serve(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let name = call.path.name.as_deref();
        match (call.request.method.as_str(), name) {
            ("HEAD", _) if self.is_built_in(call)? => Err(Status::method_not_allowed()),
            ("GET" | "HEAD", Some(name)) => self.get(call, name).await,
            ("GET" | "HEAD", None) if call.query.flag("watch")? => self.watch(call).await,
            ("GET" | "HEAD", None) => self.list(call).await,
            ("POST", None) => Ok(self.create(call)?.into()),
            ("PUT", Some(name)) => Ok(self.update(call, name)?.into()),
            ("PATCH", Some(name)) => Ok(self.patch(call, name)?.into()),
            ("DELETE", Some(name)) if call.path.subresource.is_empty() => {
                Ok(self.delete(call, name)?.into())
            }
            ("DELETE", None) => Ok(self.delete_collection(call)?.into()),
            _ => {
                // An unknown path is answered with 404, whatever the method is.
                let resource = self.store.read(|read| self.address(read, call))?;
                let custom = resource.flavour == Flavour::Custom;
                Err(match call.request.method.as_str() {
                    "PUT" | "PATCH"
                        if custom && resource.namespaced && call.path.namespace.is_none() =>
                    {
                        Status::page_not_found()
                    }
                    "PUT" | "PATCH" if custom => Status::bad_request("name must be provided"),
                    "POST" => not_supported(&resource, "create"),
                    "DELETE" => not_supported(&resource, "delete"),
                    _ => not_supported(&resource, ""),
                })
            }
        }
    }

    fn has_built_in(&self, scope: &Scope, group: &str, version: &str) -> bool {
        let catalog = self.store.read(|read| self.scopes.catalog(read, scope));
        let Ok(catalog) = catalog else {
            return false;
        };
        let found = catalog.version(group, version);
        let mut resources = found.into_iter().flat_map(|version| &version.resources);
        resources.any(|known| known.flavour != Flavour::Custom)
    }

    fn is_built_in(&self, call: &Call<'_>) -> Result<bool, Status> {
        let resource = self.store.read(|read| self.address(read, call))?;
        Ok(resource.flavour != Flavour::Custom)
    }

    fn address(&self, read: &dyn Read, call: &Call<'_>) -> Result<Arc<Resource>, Status> {
        let catalog = self.scopes.catalog(read, &call.request.scope)?;
        look_up(&catalog, &call.path)
    }

    /// The resource of a path, if it has this verb.
    fn find(
        &self,
        read: &dyn Read,
        scope: &Scope,
        path: &ResourcePath,
        verb: &str,
    ) -> Result<Arc<Resource>, Status> {
        let catalog = self.scopes.catalog(read, scope)?;
        if matches!(scope, Scope::ExportCluster { .. })
            && (catalog.find(&path.group, &path.version, &path.plural)).is_none()
        {
            let why = "the APIExport neither exports nor claims it";
            let name = path.name.as_deref().unwrap_or_default();
            return Err(Status::forbidden(&path.group, &path.plural, name, why));
        }
        let resource = look_up(&catalog, path)?;
        let allowed = match path.subresource.as_str() {
            "" => resource.verbs.allow(verb),
            "status" => resource.verbs.allow_status(verb),
            _ => verb == "update",
        };
        let everywhere = resource.namespaced && path.namespace.is_none();
        let everywhere_allowed = matches!(verb, "list" | "watch");
        let namespaces = discovery::is_namespaces(&resource) && verb == "deletecollection";
        if everywhere
            && matches!(verb, "create" | "deletecollection")
            && resource.flavour == Flavour::Custom
        {
            return Err(Status::page_not_found());
        }
        if !allowed || namespaces || (everywhere && !everywhere_allowed) {
            return Err(Status::method_not_allowed());
        }
        self.scopes.authorize(read, scope, &resource, verb)?;
        Ok(resource)
    }

    /// Like [`find`](Self::find), for a request, which has to accept a form that is served.
    fn meant(&self, read: &dyn Read, call: &Call<'_>, verb: &str) -> Result<Arc<Resource>, Status> {
        let resource = self.find(read, &call.request.scope, &call.path, verb)?;
        call.accepts.best(&resource)?;
        Ok(resource)
    }

    async fn get(&self, call: &Call<'_>, name: &str) -> Result<ApiResponse, Status> {
        call.cluster()?;
        if let Some(revision) = call.query.late_resource_version()? {
            list::reach(&self.store, revision).await?;
        }
        let scope = &call.request.scope;
        let (resource, stored) = self.store.read(|read| {
            let resource = self.meant(read, call, "get")?;
            let key = select::key(scope, &resource, &call.path, name);
            let stored = key.and_then(|key| read.get(&key));
            Ok::<_, Status>((resource, stored))
        })?;
        match stored.filter(|stored| select::visible(&resource, stored)) {
            Some(stored) => {
                let view = call.view(resource);
                let answer = full(200, view.body(&stored)?);
                Ok(answer.of(view.media_type()))
            }
            None => Err(Status::not_found(&resource.group, &resource.plural, name)),
        }
    }

    async fn list(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let scope = &call.request.scope;
        let resource = self.store.read(|read| self.meant(read, call, "list"))?;
        let chosen = Chosen::parse(&call.query, &resource)?.within(scope);
        let range = select::range(scope, &resource, &call.path)?;
        let view = call.view(resource);
        let asked = Listing {
            range: &range,
            chosen: &chosen,
            view: &view,
            query: &call.query,
        };
        let list = list::list(&self.store, &asked, &self.aside).await?;
        let answer = ApiResponse {
            status: 200,
            headers: HeaderMap::new(),
            body: if list.left() < SMALL {
                ApiBody::Full(list.whole())
            } else {
                ApiBody::Pieces(list)
            },
        };
        Ok(answer.of(view.media_type()))
    }

    async fn watch(&self, call: &Call<'_>) -> Result<ApiResponse, Status> {
        let scope = &call.request.scope;
        let resource = self.store.read(|read| self.meant(read, call, "watch"))?;
        let plan = Plan::parse(&call.query)?;
        let chosen = Arc::new(Chosen::parse(&call.query, &resource)?.within(scope));
        let range = select::range(scope, &resource, &call.path)?;
        let current = self.stays(scope, &call.path, &resource);
        let view = call.view(resource);
        let media_type = view.media_type_of_events();
        let watched = Watched {
            range,
            chosen,
            view,
            current,
            aside: self.aside.clone(),
        };
        let events = watch::watch(&self.store, watched, plan).await?;
        let answer = ApiResponse {
            status: 200,
            headers: HeaderMap::new(),
            body: ApiBody::Stream(events),
        };
        Ok(answer.of(media_type))
    }

    /// A watch ends when its resource is no longer served, or is served in another way. In an export's view, it then
    /// fails, and it falls silent when the export is deleted.
    fn stays(&self, scope: &Scope, path: &ResourcePath, resource: &Arc<Resource>) -> Current {
        let store = Arc::clone(&self.store);
        let scopes = Arc::clone(&self.scopes);
        let (scope, path) = (scope.clone(), path.clone());
        let was = (resource.incarnation, resource.table.clone());
        let label = resource.required_label.clone();
        Arc::new(move || {
            let catalog = store.read(|read| scopes.catalog(read, &scope));
            if catalog.is_err() && scope.is_view() {
                return Standing::Silent;
            }
            let found = catalog.and_then(|catalog| look_up(&catalog, &path));
            let found = found.ok().filter(|now| {
                now.incarnation == was.0 && now.table == was.1 && now.required_label == label
            });
            match found {
                Some(resource) => Standing::Served(resource),
                None if scope.is_view() => Standing::Failed,
                None => Standing::Gone,
            }
        })
    }

    /// Executes all parts of a write in one transaction or, for a dry run, none.
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

/// Only the roots of discovery have the aggregated form, and only in a cluster: virtual workspaces have the plain form
/// alone.
fn discovery_form(request: &ApiRequest, target: &Target) -> Result<Discovery, Status> {
    let root = matches!(target, Target::CoreVersions | Target::Groups);
    if root && matches!(request.scope, Scope::Cluster(_)) {
        Discovery::parse(&request.headers)
    } else {
        Discovery::parse_plain(&request.headers)
    }
}

fn look_up(catalog: &Catalog, path: &ResourcePath) -> Result<Arc<Resource>, Status> {
    let found = catalog.find(&path.group, &path.version, &path.plural);
    let resource = found.ok_or_else(|| nothing_there(catalog, &path.group))?;
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
    if resource.verbs == Verbs::CreateOnly && path.name.is_some() {
        return Err(Status::no_such_path());
    }
    match (&path.name, placed && part) {
        (_, true) => Ok(Arc::clone(resource)),
        (Some(name), false) if placed && resource.flavour == Flavour::Custom => {
            Err(Status::not_found(&path.group, &path.plural, name))
        }
        _ if resource.flavour == Flavour::Custom => Err(Status::page_not_found()),
        _ => Err(Status::no_such_path()),
    }
}

/// The error for a missing resource: built-in groups answer with a `Status`, other paths with a plain text.
fn nothing_there(catalog: &Catalog, group: &str) -> Status {
    let built_in = catalog.groups().any(|(name, versions)| {
        let mut resources = versions.iter().flat_map(|version| &version.resources);
        **name == *group && resources.any(|known| known.flavour != Flavour::Custom)
    });
    if built_in || group.is_empty() {
        Status::no_such_path()
    } else {
        Status::page_not_found()
    }
}

/// The error for a verb that a path does not have.
fn not_supported(resource: &Resource, verb: &str) -> Status {
    if resource.flavour == Flavour::Custom {
        Status::not_supported(&resource.group, &resource.plural, verb)
    } else {
        Status::method_not_allowed()
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

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

/// The answer of a probe, short or with each check.
fn health(request: &ApiRequest) -> ApiResponse {
    let query = Query::parse(request.query.as_deref());
    let path = request.path.trim_matches('/');
    if query.given("verbose").is_none() || path.contains('/') {
        return text("ok".to_owned());
    }
    text(format!(
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n{path} check passed\n"
    ))
}

fn text(text: String) -> ApiResponse {
    let mut response = full(200, Bytes::from(text));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers.insert(CONTENT_TYPE, plain);
    response
}
