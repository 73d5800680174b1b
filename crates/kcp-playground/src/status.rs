//! Errors: `Status` documents, which Kubernetes clients classify by `reason`, then by `code`.
//!
//! One constructor for each case, so that each message is in one place. Of HTTP, it only knows the status code.

use std::fmt;

use kube_schema::field::FieldError;
use serde_json::{Map, Value, json};

/// The reason why a request was refused. Serialises to a `v1 Status` with `status: Failure`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// The warnings beside the error, sent as headers.
    pub warnings: Vec<String>,
    /// Sent as plain text, not as a document.
    pub plain: bool,
    /// The continue token for a client whose page is no longer available.
    pub next_page: Option<Box<str>>,
}

/// The object of a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The plural resource; the kind for `Invalid`, as in Kubernetes.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
}

/// One of several causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// `resource.group`, or only the resource in the core group.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

impl Status {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            warnings: Vec::new(),
            plain: false,
            next_page: None,
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        group.clone_into(&mut details.group);
        kind.clone_into(&mut details.kind);
        name.clone_into(&mut details.name);
        self
    }

    /// With empty details, as in answers that are generated from a status code.
    #[must_use]
    pub fn about_nothing(mut self) -> Self {
        self.details.get_or_insert_default();
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(
        mut self,
        reason: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        });
        self
    }

    /// Sets the time after which the client should retry; also sent as the `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// No such API: clients show it as "the server could not find the requested resource".
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about_nothing()
    }

    /// Nothing is at this path: the plain text answer of a web server.
    pub fn page_not_found() -> Self {
        Self {
            plain: true,
            ..Self::new(404, "", "404 page not found\n")
        }
    }

    /// The server failed before it had read the request.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self {
            plain: true,
            ..Self::new(500, "", format!("Internal Server Error: {why}\n"))
        }
    }

    /// A patch that does not fit its object.
    pub fn misfit() -> Self {
        Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .about_nothing()
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, resource));
        Self::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// A conflict with another write; `why` completes the sentence.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified(group, resource)
        );
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// A write with an outdated resourceVersion.
    pub fn stale(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let summary = kube_schema::field::aggregate(errors);
        let message = format!(
            "{} \"{name}\" is invalid: {summary}",
            qualified(group, kind)
        );
        let mut status = Self::new(422, "Invalid", message).about(group, kind, name);
        for error in errors {
            status = status.cause(error.kind.reason(), error.body(), error.field.as_str());
        }
        status
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!(
                "{} \"{name}\" is forbidden: {why}",
                qualified(group, resource)
            )
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The revision is before the retained history.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// The revision is in the future.
    pub fn too_new(asked: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1)
    }

    /// The path does not have this verb.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about_nothing()
    }

    /// A custom resource does not have this verb; the message names the resource.
    pub fn not_supported(group: &str, resource: &str, verb: &str) -> Self {
        let kind = qualified(group, resource);
        let message = format!("{verb} is not supported on resources of kind {kind:?}");
        Self::new(405, "MethodNotAllowed", message).about(group, resource, "")
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub fn too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .cause("", message, "")
    }

    /// The document as it is sent.
    pub fn to_json(&self) -> Value {
        let mut root = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let Some(map) = root.as_object_mut()
            && !self.reason.is_empty()
        {
            map.insert("reason".into(), self.reason.into());
        }
        if let Some(token) = &self.next_page {
            root["metadata"]["continue"] = (**token).into();
        }
        if let (Some(details), Some(map)) = (&self.details, root.as_object_mut()) {
            map.insert("details".into(), details.to_json());
        }
        root
    }
}

impl Details {
    /// Without empty fields, as in the sent form.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (field, value) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !value.is_empty() {
                map.insert(field.into(), value.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_json).collect();
            map.insert("causes".into(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (field, value) in [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !value.is_empty() {
                map.insert(field.into(), value.as_str().into());
            }
        }
        Value::Object(map)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
