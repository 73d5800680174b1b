//! The client that all dialects send their requests through: it translates requests of the engine into calls, and
//! responses into answers.

use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cache::{Cache, Change};
use super::connection::{
    Call, CallClass, CallError, Connection, Guard, REQUEST_TIMEOUT, Refusal, Reply, RequestError,
};
use super::{document, troubles};
use hawser_sync::{
    Answer, Failure, Key, Labels, Request, Scope, Seen, Store as _, WriteConflict, WriteHistory,
    WrittenFields,
};
use kube_lang::object::{Gvk, Object};

/// The endpoint that serves the objects of a scope.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// At the cluster of the scope.
    pub connection: Connection,
    /// The plural name of the resource in paths.
    pub resource: Arc<str>,
}

/// Maps scopes to endpoints.
pub trait Router: Send + Sync {
    /// `None` if the scope is unknown, such as a workspace that is no longer bound.
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint>;

    /// Whether answers with one object of the scope have its managed fields. Caches never keep them.
    fn keeps_managed_fields(&self, _scope: &Scope) -> bool {
        false
    }
}

/// The characters that need no escaping in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'*');

/// The content type of server-side apply; JSON is YAML.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The page size of lists.
const PAGE: usize = 500;
/// The largest list that a pass gets, in bytes of its objects.
const LARGEST_LIST: usize = 32 << 20;

/// A name in a path.
pub fn segment(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, SEGMENT)
}

/// The path of all objects of a resource: `/api/v1/secrets`, `/apis/apps/v1/namespaces/a/deployments`.
pub fn collection(kind: &Gvk, namespace: Option<&str>, resource: &str) -> String {
    let (version, resource) = (segment(&kind.version), segment(resource));
    let root = if kind.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", segment(&kind.group))
    };
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{}/{resource}", segment(namespace)),
        None => format!("{root}/{resource}"),
    }
}

/// A label selector for a query: all these labels with these values.
pub(crate) fn label_query(labels: &Labels) -> String {
    let pairs: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("labelSelector={}", segment(&pairs.join(",")))
}

/// Sends the requests of all passes over a cache.
///
/// A write that another writer undoes each time waits ([`WriteHistory`]). Right before a request leaves the process, the
/// caller checks whether it is still wanted, and the connection checks whether this process may still write. The answer
/// is in the cache before the caller gets it.
pub struct GuardedClient {
    pub(crate) cache: Arc<Cache>,
    contests: Mutex<WriteHistory>,
    started: Instant,
    hides_contents: bool,
}

impl GuardedClient {
    /// For the controller, which removes contents of all objects of a pass from its failures.
    pub fn new(cache: &Arc<Cache>) -> Arc<Self> {
        Self::with(cache, false)
    }

    /// For dialects without the controller: failures have no contents of the object that was written or is in its place,
    /// so they may be logged and told to anybody.
    pub fn hiding_contents(cache: &Arc<Cache>) -> Arc<Self> {
        Self::with(cache, true)
    }

    fn with(cache: &Arc<Cache>, hides_contents: bool) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::clone(cache),
            contests: Mutex::default(),
            started: Instant::now(),
            hides_contents,
        })
    }

    /// Sends a request to the endpoint of its scope; returns the answer, and what it changed in the cache. No event of a
    /// watch reports these changes again: the caller acts on them or queues what they concern. Requests of a tenant have
    /// a share of the concurrent calls; those without a tenant have none.
    pub async fn send(
        &self,
        router: &dyn Router,
        tenant: Option<&Arc<str>>,
        is_wanted: &Guard<'_>,
        request: &Request,
    ) -> Result<(Answer, Vec<Change>), WriteConflict> {
        let class = CallClass::Work;
        let exchange = pin!(exchange(router, tenant, is_wanted, class, request));
        self.send_by(tenant, request, exchange).await
    }

    /// Sends a request by this exchange, which begins only if the request need not wait.
    pub(crate) async fn send_by(
        &self,
        tenant: Option<&Arc<str>>,
        request: &Request,
        exchange: impl Future<Output = Answer>,
    ) -> Result<(Answer, Vec<Change>), WriteConflict> {
        let imposed = self.judge(tenant, request)?;
        let known = self.cache.known_version(request);
        let answer = exchange.await;
        if request.writes() && !matches!(answer, Answer::Failed(_)) {
            let now = self.started.elapsed();
            self.contests.lock().made(tenant, imposed, now);
        }
        let (answer, changes) = self.cache.learn(request, answer, known);
        let answer = match answer {
            Answer::Failed(failure) if self.hides_contents => {
                Answer::Failed(clean(&self.cache, failure, request))
            }
            answer => answer,
        };
        Ok((answer, changes))
    }

    /// The places that a write sets, unless it has to wait because another writer undoes it each time.
    fn judge(
        &self,
        tenant: Option<&Arc<str>>,
        request: &Request,
    ) -> Result<WrittenFields, WriteConflict> {
        let imposed = WrittenFields::of(request, || match self.cache.get(request.key()?) {
            Seen::Present(live) => Some(live),
            Seen::Absent | Seen::Unknown => None,
        });
        let now = self.started.elapsed();
        self.contests.lock().judge(tenant, &imposed, now)?;
        Ok(imposed)
    }
}

/// The failure of a request without contents of objects.
fn clean(cache: &Cache, failure: Failure, request: &Request) -> Failure {
    let key = request.key();
    let live = key.and_then(|key| match cache.get(key) {
        Seen::Present(live) => Some(live),
        Seen::Absent | Seen::Unknown => None,
    });
    let sent = match request {
        Request::Create { object, .. }
        | Request::Replace { object, .. }
        | Request::ReplaceStatus { object, .. } => Some(object.clone()),
        Request::Patch { key, patch } => {
            let mut patch = patch.clone();
            if let Some(fields) = patch.as_object_mut() {
                fields.insert("kind".to_owned(), (*key.kind.kind).into());
            }
            Object::new(patch).ok()
        }
        Request::Read { .. } | Request::Find { .. } | Request::Delete { .. } => None,
    };
    troubles::clean_failure(failure, key, live.into_iter().chain(sent.map(Arc::new)))
}

/// The failure of a write with secret contents, without words that may quote them.
pub fn withheld(cache: &Cache, failure: Failure, request: &Request) -> Failure {
    troubles::withhold(clean(cache, failure, request))
}

/// Sends a write as a dry run on behalf of a tenant, and returns the server's answer. Reads are sent unchanged.
pub async fn dry_run(router: &dyn Router, tenant: Option<&Arc<str>>, request: &Request) -> Answer {
    exchange(router, tenant, &|| Ok(()), CallClass::DryRun, request).await
}

async fn exchange(
    router: &dyn Router,
    tenant: Option<&Arc<str>>,
    is_wanted: &Guard<'_>,
    class: CallClass,
    request: &Request,
) -> Answer {
    let scope = request.scope();
    let Some(mut endpoint) = router.endpoint(&scope) else {
        return no_endpoint(&scope);
    };
    if let Some(tenant) = tenant {
        endpoint.connection = endpoint.connection.of(tenant);
    }
    match (request, request.key()) {
        (Request::Find { labels, .. }, _) => list(&endpoint, &scope, labels).await,
        (_, None) => no_endpoint(&scope),
        (_, Some(key)) => {
            let call = call(request, key, &endpoint.resource).class(class);
            match endpoint.connection.call_if(is_wanted, call).await {
                Ok(reply) => {
                    let read = if router.keeps_managed_fields(&scope) {
                        document::with_managed_fields
                    } else {
                        document::object
                    };
                    answer(request, key, &reply, read)
                }
                Err(error) => failed_call(&error),
            }
        }
    }
}

/// Reads the object of a document.
type ReadObject = fn(&str, &Gvk) -> Result<Object, String>;

/// A server-side apply.
pub struct Application<'a> {
    pub key: &'a Key,
    /// The fields that the manager wants.
    pub body: &'a Value,
    pub manager: &'static str,
    /// Takes fields from other managers.
    pub force: bool,
    /// Only makes a dry run.
    pub dry_run: bool,
}

impl GuardedClient {
    /// Applies an object; returns the answer, and what it changed in the cache. A refusal has the message of the server,
    /// for example about conflicts with other managers, a webhook or a missing namespace.
    pub async fn apply(
        &self,
        router: &dyn Router,
        is_wanted: &Guard<'_>,
        application: &Application<'_>,
    ) -> Result<(Answer, Vec<Change>), WriteConflict> {
        let key = application.key;
        let request = Request::Patch {
            key: key.clone(),
            patch: application.body.clone(),
        };
        let imposed = if application.dry_run {
            None
        } else {
            Some(self.judge(None, &request)?)
        };
        let scope = key.scope();
        let Some(endpoint) = router.endpoint(&scope) else {
            return Ok((no_endpoint(&scope), Vec::new()));
        };
        let all = collection(&key.kind, key.namespace.as_deref(), &endpoint.resource);
        let force = application.force;
        let class = if application.dry_run {
            CallClass::DryRun
        } else {
            CallClass::Work
        };
        let call = Call {
            content_type: APPLY_PATCH,
            ..Call::merge_patch(
                format!(
                    "{all}/{}?fieldManager={}&force={force}",
                    segment(&key.name),
                    application.manager
                ),
                application.body,
            )
            .class(class)
        };
        let answer = match endpoint.connection.call_if(is_wanted, call).await {
            // What is wrong with a manifest is told to its author. A dry run that failed says nothing about it.
            Ok(reply) if !application.dry_run && matches!(reply.status, 404 | 409 | 500) => {
                Answer::Failed(Failure::Invalid(reply.refusal().message))
            }
            Ok(reply) => answer(&request, key, &reply, document::object),
            Err(error) => failed_call(&error),
        };
        if let Answer::Failed(failure) = answer {
            let cleaned = Answer::Failed(clean(&self.cache, failure, &request));
            return Ok((cleaned, Vec::new()));
        }
        let Some(imposed) = imposed else {
            return Ok((answer, Vec::new()));
        };
        let now = self.started.elapsed();
        self.contests.lock().made(None, imposed, now);
        Ok(self.cache.learn(&request, answer, None))
    }
}

async fn list(endpoint: &Endpoint, scope: &Scope, labels: &Labels) -> Answer {
    let path = collection(&scope.kind, None, &endpoint.resource);
    let query = label_query(labels);
    let mut found = FoundItems::default();
    let mut next = String::new();
    loop {
        let path = format!("{path}?{query}&limit={PAGE}{next}");
        match page(endpoint, path, scope, &mut found).await {
            Ok(token) if token.is_empty() => return Answer::Listed(found.objects),
            Ok(token) => next = format!("&continue={}", segment(&token)),
            Err(answer) => return answer,
        }
    }
}

/// The objects of a list, and their size as text.
#[derive(Default)]
struct FoundItems {
    objects: Vec<(Key, Arc<Object>)>,
    bytes: usize,
}

/// One page, and the token for the next one.
async fn page(
    endpoint: &Endpoint,
    path: String,
    scope: &Scope,
    found: &mut FoundItems,
) -> Result<String, Answer> {
    let unasked = |error| match error {
        RequestError::Call(error) => failed_call(&error),
        // What is not served holds nothing that could be concluded from.
        RequestError::Refused(refusal) if refusal.code == 404 => {
            unavailable(format!("the resource is not served: {refusal}"))
        }
        RequestError::Refused(refusal) => Answer::Failed(failure(&refusal)),
    };
    let page = endpoint.connection.page(Call::get(path), REQUEST_TIMEOUT);
    let mut page = page.await.map_err(unasked)?;
    while let Some(item) = page.item().await.map_err(|error| failed_call(&error))? {
        found.bytes += item.len();
        if found.bytes > LARGEST_LIST {
            let most = LARGEST_LIST >> 20;
            return Err(unavailable(format!("the list is larger than {most} MiB")));
        }
        let object = read(&item, &scope.kind, document::object)?;
        let key = scope.key(object.namespace(), object.name());
        found.objects.push((key, Arc::new(object)));
    }
    Ok(page.end().map_err(|error| failed_call(&error))?.next)
}

fn call(request: &Request, key: &Key, resource: &str) -> Call {
    let all = collection(&key.kind, key.namespace.as_deref(), resource);
    let one = format!("{all}/{}", segment(&key.name));
    match request {
        Request::Read { .. } | Request::Find { .. } => Call::get(one),
        Request::Create { object, .. } => Call::post(all, object.as_value()),
        Request::Patch { patch, .. } => Call::merge_patch(one, patch),
        Request::Replace { object, .. } => Call::put(one, object.as_value()),
        Request::ReplaceStatus { object, .. } => {
            Call::put(format!("{one}/status"), object.as_value())
        }
        Request::Delete { uid, options, .. } => {
            let mut options = options.clone();
            options.insert("apiVersion".into(), "v1".into());
            options.insert("kind".into(), "DeleteOptions".into());
            let conditions = options.entry("preconditions").or_insert_with(|| json!({}));
            if let Some(conditions) = conditions.as_object_mut() {
                conditions.entry("uid").or_insert_with(|| (**uid).into());
            }
            Call::delete(one, &Value::Object(options))
        }
    }
}

fn answer(request: &Request, key: &Key, reply: &Reply, read_object: ReadObject) -> Answer {
    if !reply.is_success() {
        return refused(request, key, &reply.refusal());
    }
    let is_delete = matches!(request, Request::Delete { .. });
    if is_delete && is_status(&reply.body) {
        return Answer::Gone;
    }
    match read(&reply.body, &key.kind, read_object) {
        Ok(object) if is_delete && !object.in_deletion() => Answer::Gone,
        Ok(object) => Answer::Object(Arc::new(object)),
        Err(answer) => answer,
    }
}

fn is_status(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Document {
        kind: String,
    }
    serde_json::from_slice(body).is_ok_and(|document: Document| document.kind == "Status")
}

fn read(body: &[u8], kind: &Gvk, read_object: ReadObject) -> Result<Object, Answer> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string());
    let object = text.and_then(|text| read_object(text, kind));
    object.map_err(|problem| unavailable(format!("the response is not an object: {problem}")))
}

fn refused(request: &Request, key: &Key, refusal: &Refusal) -> Answer {
    if refusal.code == 404 {
        let reads = matches!(request, Request::Read { .. } | Request::Delete { .. });
        return match () {
            // The path is unknown: the resource is not served, or not here.
            () if refusal.name.is_empty() => {
                unavailable(format!("the resource is not served: {refusal}"))
            }
            () if reads && *refusal.name == *key.name => Answer::Gone,
            () => Answer::Failed(Failure::NotFound),
        };
    }
    Answer::Failed(failure(refusal))
}

/// The failure of a request that was not sent through a [`GuardedClient`], without contents of what was sent.
pub fn clean_error(error: &RequestError, sent: &[&Value]) -> Failure {
    let failure = match error {
        RequestError::Refused(refusal) => failure(refusal),
        RequestError::Call(error) => Failure::Unavailable(error.to_string()),
    };
    let sent = sent
        .iter()
        .filter_map(|one| Object::new((*one).clone()).ok());
    troubles::clean_failure(failure, None, sent.map(Arc::new))
}

/// The failure for a refusal other than 404.
fn failure(refusal: &Refusal) -> Failure {
    let caused_by = |reason: &str| refusal.causes.iter().any(|cause| cause.reason == reason);
    let said = || refusal.message.clone();
    match refusal.code {
        404 => Failure::NotFound,
        409 if refusal.reason == "AlreadyExists" => Failure::AlreadyExists,
        409 if refusal.message.contains("UID in") => Failure::OtherIncarnation,
        409 => Failure::Conflict,
        403 if caused_by("NamespaceTerminating") => Failure::NamespaceTerminating,
        403 => Failure::Forbidden(said()),
        // A patch that names the uid of another incarnation would change what cannot be changed.
        422 if refusal.causes.iter().any(|c| c.field == "metadata.uid") => {
            Failure::OtherIncarnation
        }
        413 => Failure::TooLarge,
        500 if refusal.message.contains("request is too large") => Failure::TooLarge,
        400 | 405 | 406 | 415 | 422 => Failure::Invalid(said()),
        _ => Failure::Unavailable(refusal.to_string()),
    }
}

fn failed_call(error: &CallError) -> Answer {
    unavailable(error.to_string())
}

fn unavailable(why: String) -> Answer {
    Answer::Failed(Failure::Unavailable(why))
}

fn no_endpoint(scope: &Scope) -> Answer {
    let Scope {
        side,
        kind,
        cluster,
    } = scope;
    unavailable(format!(
        "{kind} of {side} {cluster:?} cannot be reached now"
    ))
}

#[cfg(test)]
mod tests;
