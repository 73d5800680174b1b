//! The engine's requests as calls, and answers as the engine understands them.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;

use super::connection::{
    AskError, Call, CallError, Connection, Guard, REQUEST_TIMEOUT, Refusal, Reply,
};
use super::document;
use hawser_sync::subject::Labels;
use hawser_sync::{Answer, Cluster, Failure, Key, Request, Scope};
use kube_lang::object::{Gvk, Object};

/// Where the objects of a scope are served.
#[derive(Clone, Debug)]
pub struct Place {
    /// At the cluster of the scope.
    pub connection: Connection,
    /// The name of the resource in paths.
    pub resource: Arc<str>,
}

/// What knows where scopes are served.
pub trait Atlas: Send + Sync {
    /// None where it is not known, such as a workspace that is no longer bound.
    fn place(&self, scope: &Scope) -> Option<Place>;
}

impl<T: Atlas + ?Sized> Atlas for Arc<T> {
    fn place(&self, scope: &Scope) -> Option<Place> {
        (**self).place(scope)
    }
}

/// Sends the requests of passes.
pub struct Wire<A> {
    atlas: A,
}

/// The wire on behalf of a tenant, for as long as a guard lets its requests pass. It is asked right
/// before each is sent.
pub struct Errand<'w, A> {
    wire: &'w Wire<A>,
    tenant: Option<&'w Arc<str>>,
    guard: &'w Guard<'w>,
}

/// What may stand in a segment of a path as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'*');

/// Objects a page of a list.
const PAGE: usize = 500;

fn segment(text: &str) -> impl std::fmt::Display + '_ {
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

/// A selector of labels that are all there with these values, for a query.
pub fn label_query(labels: &Labels) -> String {
    let pairs: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("labelSelector={}", segment(&pairs.join(",")))
}

impl<A: Atlas> Wire<A> {
    pub fn new(atlas: A) -> Self {
        Self { atlas }
    }

    pub fn atlas(&self) -> &A {
        &self.atlas
    }

    pub fn errand<'w>(&'w self, tenant: &'w Arc<str>, guard: &'w Guard<'w>) -> Errand<'w, A> {
        Errand {
            wire: self,
            tenant: Some(tenant),
            guard,
        }
    }
}

impl<A: Atlas> Errand<'_, A> {
    fn place(&self, scope: &Scope) -> Option<Place> {
        let place = self.wire.atlas.place(scope)?;
        Some(match self.tenant {
            Some(tenant) => Place {
                connection: place.connection.of(tenant),
                ..place
            },
            None => place,
        })
    }

    async fn list(&self, scope: &Scope, labels: &Labels) -> Answer {
        let Some(place) = self.place(scope) else {
            return nowhere(scope);
        };
        let path = collection(&scope.kind, None, &place.resource);
        let query = label_query(labels);
        let mut found = Vec::new();
        let mut next = String::new();
        loop {
            let page = format!("{path}?{query}&limit={PAGE}{next}");
            match self.page(&place, page, scope, &mut found).await {
                Ok(token) if token.is_empty() => return Answer::Listed(found),
                Ok(token) => next = format!("&continue={}", segment(&token)),
                Err(answer) => return answer,
            }
        }
    }

    /// One page, and what the next one is asked for by.
    async fn page(
        &self,
        place: &Place,
        path: String,
        scope: &Scope,
        found: &mut Vec<(Key, Arc<Object>)>,
    ) -> Result<String, Answer> {
        let unasked = |error| match error {
            AskError::Call(error) => unanswered(&error),
            // What is not served holds nothing that could be concluded from.
            AskError::Refused(refusal) if refusal.code == 404 => {
                unavailable(format!("the resource is not served: {refusal}"))
            }
            AskError::Refused(refusal) => Answer::Failed(failure(&refusal)),
        };
        let page = place.connection.page(Call::get(path), REQUEST_TIMEOUT);
        let mut page = page.await.map_err(unasked)?;
        while let Some(item) = page.item().await.map_err(|error| unanswered(&error))? {
            let object = read(&item, &scope.kind)?;
            let key = scope.key(object.namespace(), object.name());
            found.push((key, Arc::new(object)));
        }
        Ok(page.end().map_err(|error| unanswered(&error))?.next)
    }
}

impl<A: Atlas> Cluster for Wire<A> {
    async fn send(&self, request: &Request) -> Answer {
        let errand = Errand {
            wire: self,
            tenant: None,
            guard: &|| Ok(()),
        };
        errand.send(request).await
    }
}

impl<A: Atlas> Cluster for Errand<'_, A> {
    async fn send(&self, request: &Request) -> Answer {
        let key = match request {
            Request::Find { scope, labels } => return self.list(scope, labels).await,
            Request::Read { key }
            | Request::Create { key, .. }
            | Request::Patch { key, .. }
            | Request::Replace { key, .. }
            | Request::ReplaceStatus { key, .. }
            | Request::Delete { key, .. } => key,
        };
        let scope = key.scope();
        let Some(place) = self.place(&scope) else {
            return nowhere(&scope);
        };
        let call = call(request, key, &place.resource);
        let reply = place.connection.call_if(self.guard, call).await;
        match reply {
            Ok(reply) => answer(request, key, &reply),
            Err(error) => unanswered(&error),
        }
    }
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
        Request::Delete { uid, .. } => Call::delete(
            one,
            &json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": &**uid },
            }),
        ),
    }
}

fn answer(request: &Request, key: &Key, reply: &Reply) -> Answer {
    if !reply.is_success() {
        return refused(request, key, &reply.refusal());
    }
    let is_delete = matches!(request, Request::Delete { .. });
    if is_delete && is_status(&reply.body) {
        return Answer::Gone;
    }
    match read(&reply.body, &key.kind) {
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

fn read(body: &[u8], kind: &Gvk) -> Result<Object, Answer> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string());
    let object = text.and_then(|text| document::object(text, kind));
    object.map_err(|problem| unavailable(format!("the answer is no object: {problem}")))
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

/// What follows from a refusal other than 404.
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

fn unanswered(error: &CallError) -> Answer {
    unavailable(error.to_string())
}

fn unavailable(why: String) -> Answer {
    Answer::Failed(Failure::Unavailable(why))
}

fn nowhere(scope: &Scope) -> Answer {
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
