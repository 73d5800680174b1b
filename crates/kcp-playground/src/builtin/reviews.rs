//! Reviews: questions about permissions and identities, answered and never stored. Every access is allowed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::{Admission, Strategy, User};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::field::FieldError;

/// The user of a bearer token.
pub(crate) type Identify = Arc<dyn Fn(&str) -> Option<User> + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Access,
    SelfAccess,
    LocalAccess,
    SelfRules,
    Token,
    SelfSubject,
}

pub(super) struct Reviews {
    pub(super) question: Question,
    pub(super) identify: Identify,
}

impl Strategy for Reviews {
    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        review: &mut Object,
    ) -> Result<(), Status> {
        if self.question == Question::Token && spec_text(review, "token").is_empty() {
            return Err(Status::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        if self.question == Question::SelfRules && spec_text(review, "namespace").is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, review: &Object) -> Vec<FieldError> {
        let asks_access = matches!(
            self.question,
            Question::Access | Question::SelfAccess | Question::LocalAccess
        );
        let spec = review.root().get("spec").unwrap_or(&Value::Null);
        let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
        let mut errors = Vec::new();
        if asks_access && has("resourceAttributes") && has("nonResourceAttributes") {
            let other = |field: &str| spec_of(spec, "nonResourceAttributes", field);
            errors.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                json!({"Path": other("path"), "Verb": other("verb")}),
                "cannot be specified in combination with resourceAttributes",
            ));
        } else if asks_access && has("resourceAttributes") == has("nonResourceAttributes") {
            errors.push(FieldError::invalid(
                "spec.resourceAttributes",
                spec.get("resourceAttributes").cloned().unwrap_or_default(),
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
        if matches!(self.question, Question::Access | Question::LocalAccess) {
            let groups = spec.get("groups").and_then(Value::as_array);
            if spec_text(review, "user").is_empty() && groups.is_none_or(Vec::is_empty) {
                errors.push(FieldError::invalid(
                    "spec.user",
                    "",
                    "at least one of user or group must be specified",
                ));
            }
        }
        if self.question == Question::LocalAccess {
            errors.extend(check_local(review));
        }
        errors
    }

    fn answer(&self, admission: &Admission<'_>, review: &Object) -> Option<Object> {
        let user = admission.user;
        let status = match self.question {
            Question::Access | Question::SelfAccess | Question::LocalAccess => json!({
                "allowed": true,
            }),
            Question::SelfRules => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            Question::Token => match (self.identify)(spec_text(review, "token")) {
                Some(user) => json!({"authenticated": true, "user": info(&user)}),
                None => json!({"user": {}, "error": "invalid bearer token"}),
            },
            Question::SelfSubject => json!({"userInfo": info(user)}),
        };
        let mut answer = review.clone();
        if self.question == Question::SelfRules {
            answer.root_mut().insert("spec".into(), json!({}));
        }
        answer.root_mut().insert("status".into(), status);
        // Reviews are not stored, so they have no identity; one of them has a creation time.
        let metadata = answer.metadata_mut();
        metadata.remove("uid");
        if self.question == Question::SelfSubject {
            metadata.retain(|field, _| field == "creationTimestamp");
        } else {
            metadata.remove("creationTimestamp");
        }
        Some(answer)
    }
}

/// A local review asks about its own namespace.
fn check_local(review: &Object) -> Vec<FieldError> {
    let asked = review
        .as_value()
        .pointer("/spec/resourceAttributes/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut errors = Vec::new();
    if asked != review.namespace().unwrap_or_default() {
        errors.push(FieldError::invalid(
            "spec.resourceAttributes.namespace",
            asked,
            "must match metadata.namespace",
        ));
    }
    let other = review.as_value().pointer("/spec/nonResourceAttributes");
    if let Some(other) = other.filter(|value| !value.is_null()) {
        errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            other.clone(),
            "disallowed on this kind of request",
        ));
    }
    errors
}

fn info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    info
}

/// A string in a part of a spec.
fn spec_of<'s>(spec: &'s Value, part: &str, field: &str) -> &'s str {
    let found = spec.get(part).and_then(|part| part.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}

fn spec_text<'o>(review: &'o Object, field: &str) -> &'o str {
    review
        .root()
        .get("spec")
        .and_then(|spec| spec.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
