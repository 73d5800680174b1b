//! The parameters of a request.

use std::borrow::Cow;

use crate::select::{FieldSelector, LabelSelector, SelectError};
use crate::status::Status;
use kube_schema::field::FieldError;

/// The longest name of a field manager.
pub(super) const MAX_MANAGER: usize = 128;

/// Whether a character is allowed in the name of a field manager: letters, marks, symbols, plain spaces.
pub(super) fn is_printed(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

/// Parameters by name; the first of several counts.
pub(super) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The parameter that determines the meaning of a resourceVersion.
pub(super) const MATCH: &str = "resourceVersionMatch";

/// The required age of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Newest,
    NotOlderThan(u64),
    Exact(u64),
}

/// The treatment of unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl<'a> Query<'a> {
    pub(super) fn parse(query: Option<&'a str>) -> Self {
        // As in Go, a part with a semicolon is dropped.
        let parts = query.unwrap_or_default().split('&');
        let parts = parts.filter(|part| !part.contains(';'));
        Self {
            pairs: parts
                .flat_map(|part| form_urlencoded::parse(part.as_bytes()))
                .collect(),
        }
    }

    /// The value, unless it is missing or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.given(name).filter(|value| !value.is_empty())
    }

    /// The value, unless it is missing.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "parameters are read alike, whether they can be wrong or not"
    )]
    pub(super) fn flag(&self, name: &str) -> Result<bool, Status> {
        // Every value except `0` and `false` counts as true, also an empty one.
        Ok(self
            .given(name)
            .is_some_and(|said| said != "0" && !said.eq_ignore_ascii_case("false")))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number: i64 = text
            .parse()
            .map_err(|_| Status::bad_request(unparsed("ParseInt", text)))?;
        // A negative number counts as none.
        Ok(u64::try_from(number).ok())
    }

    /// `None`: not given, or 0, which means "any".
    pub(super) fn resource_version(&self) -> Result<Option<u64>, Status> {
        let text = self.get("resourceVersion").unwrap_or("0");
        let number: u64 = text.parse().map_err(|_| {
            Status::bad_request(format!("invalid resource version: {}", no_version(text)))
        })?;
        Ok(Some(number).filter(|number| *number > 0))
    }

    /// The same for an endpoint that parses it only after reading the objects, and fails then.
    pub(super) fn late_resource_version(&self) -> Result<Option<u64>, Status> {
        self.resource_version().map_err(|_| {
            let given = self.get("resourceVersion").unwrap_or_default();
            Status::new(500, "", no_version(given))
        })
    }

    /// By the Kubernetes table of `resourceVersion` and `resourceVersionMatch` for lists.
    pub(super) fn age(&self) -> Result<Age, Status> {
        let revision = self.resource_version()?;
        let given = self.get("resourceVersion").is_some();
        let matching = self.get("resourceVersionMatch");
        let mut errors = Vec::new();
        if self.get("sendInitialEvents").is_some() {
            errors.push(FieldError::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        if matching.is_some() && !given {
            errors.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if matching.is_some() && self.get("continue").is_some() {
            errors.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !errors.is_empty() {
            return Err(list_options(&errors));
        }
        match (matching, revision) {
            (Some("Exact"), None) => Err(list_options(&[FieldError::forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            )])),
            (Some("Exact"), Some(revision)) => Ok(Age::Exact(revision)),
            // A page of a given revision is of exactly that revision.
            (None, Some(revision)) if self.number("limit")?.is_some_and(|limit| limit > 0) => {
                Ok(Age::Exact(revision))
            }
            (None | Some("NotOlderThan"), Some(revision)) => Ok(Age::NotOlderThan(revision)),
            (None | Some("NotOlderThan"), None) => Ok(Age::Newest),
            (Some(other), _) => Err(list_options(&[FieldError::not_supported(
                MATCH,
                other,
                ["Exact", "NotOlderThan", ""],
            )])),
        }
    }

    pub(super) fn label_selector(&self) -> Result<LabelSelector, Status> {
        let text = self.get("labelSelector").unwrap_or_default();
        LabelSelector::parse(text).map_err(|error| selector(&error))
    }

    pub(super) fn field_selector(&self) -> Result<FieldSelector, Status> {
        let text = self.get("fieldSelector").unwrap_or_default();
        FieldSelector::parse(text).map_err(|error| selector(&error))
    }

    /// Whether the request is a dry run. `options` is the name of the verb's options.
    pub(super) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        match self.given("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(unsupported_dry_run(options, other)),
        }
    }

    /// The value of `fieldManager`, or an empty string if the client did not set it.
    pub(super) fn field_manager(&self, options: &str) -> Result<&str, Status> {
        let manager = self.get("fieldManager").unwrap_or_default();
        let mut errors = Vec::new();
        if manager.len() > MAX_MANAGER {
            let longest = MAX_MANAGER as u64;
            errors.push(FieldError::too_long("fieldManager", longest));
        }
        for (at, c) in manager.char_indices().filter(|(_, c)| !is_printed(*c)) {
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                u32::from(c)
            );
            errors.push(FieldError::invalid("fieldManager", manager, &detail));
        }
        if errors.is_empty() {
            return Ok(manager);
        }
        Err(Status::invalid("meta.k8s.io", options, "", &errors))
    }

    /// The value of `force`; `None` if it is not given.
    pub(super) fn force(&self) -> Option<bool> {
        let given = self.pairs.iter().find(|(key, _)| key == "force")?;
        // Go's conversion of parameters: every value except these is true.
        Some(!matches!(&*given.1.to_ascii_lowercase(), "false" | "0"))
    }

    pub(super) fn field_validation(&self, options: &str) -> Result<FieldValidation, Status> {
        match self.get("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => Err(bad_options(
                options,
                FieldError::not_supported(
                    "fieldValidation",
                    other,
                    ["", "Ignore", "Strict", "Warn"],
                ),
            )),
        }
    }
}

pub(super) fn selector(error: &SelectError) -> Status {
    Status::bad_request(error.to_string())
}

pub(super) fn list_options(errors: &[FieldError]) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", errors)
}

/// The error of the real server's parser for an invalid number.
fn unparsed(parser: &str, text: &str) -> String {
    format!("strconv.{parser}: parsing {text:?}: invalid syntax")
}

/// The error for an invalid resourceVersion.
pub(super) fn no_version(text: &str) -> String {
    let why = unparsed("ParseUint", text);
    format!("resourceVersion: Invalid value: {text:?}: {why}")
}

pub(super) fn bad_options(options: &str, error: FieldError) -> Status {
    Status::invalid("meta.k8s.io", options, "", &[error])
}

/// The error for invalid options, if any.
pub(super) fn refused_options(options: &str, errors: &[FieldError]) -> Option<Status> {
    (!errors.is_empty()).then(|| Status::invalid("meta.k8s.io", options, "", errors))
}

pub(super) fn unsupported_dry_run(options: &str, given: &str) -> Status {
    let error = FieldError::not_supported("dryRun", vec![given], ["All"]);
    bad_options(options, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn age(query: &str, expected: Result<Age, u16>) {
        let found = Query::parse(Some(query)).age();
        assert_eq!(found.map_err(|status| status.code), expected, "{query}");
    }

    #[test]
    fn the_age_of_a_list_follows_the_table_of_resource_versions() {
        age("", Ok(Age::Newest));
        age("resourceVersion=0", Ok(Age::Newest));
        age(
            "resourceVersion=0&resourceVersionMatch=NotOlderThan",
            Ok(Age::Newest),
        );
        age("resourceVersion=7", Ok(Age::NotOlderThan(7)));
        age("resourceVersion=7&limit=2", Ok(Age::Exact(7)));
        age(
            "resourceVersion=7&limit=2&resourceVersionMatch=NotOlderThan",
            Ok(Age::NotOlderThan(7)),
        );
        age(
            "resourceVersion=7&resourceVersionMatch=Exact",
            Ok(Age::Exact(7)),
        );
        age("resourceVersion=0&resourceVersionMatch=Exact", Err(422));
        age("resourceVersionMatch=Exact", Err(422));
        age("resourceVersion=7&resourceVersionMatch=Some", Err(422));
        age(
            "resourceVersion=7&resourceVersionMatch=Exact&continue=x",
            Err(422),
        );
        age("resourceVersion=-7", Err(400));
        age("resourceVersion=abc", Err(400));
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let query = Query::parse(Some(
            "watch=maybe&limit=x&labelSelector=a%20b&fieldSelector=x&dryRun=Some&fieldValidation=x",
        ));
        assert_eq!(query.flag("watch"), Ok(true));
        assert_eq!(query.number("limit").unwrap_err().code, 400);
        assert_eq!(query.label_selector().unwrap_err().code, 400);
        assert_eq!(query.field_selector().unwrap_err().code, 400);
        assert_eq!(query.dry_run("CreateOptions").unwrap_err().code, 422);
        let refused = query.field_validation("CreateOptions").unwrap_err();
        assert_eq!(refused.code, 422);
        assert_eq!(query.get("missing"), None);
    }
}
