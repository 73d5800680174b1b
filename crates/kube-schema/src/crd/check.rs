//! The rules on definitions, with the messages and the paths of the server.
//!
//! The server moves parts that all versions have in common to the place of older definitions, and uses that place in
//! errors: the schema of a single version is `spec.validation.openAPIV3Schema`.

use std::collections::BTreeSet;

use serde_json::Value;

use kube_lang::names::is_community_domain;

use super::{
    Conversion, Definition,
    read::{self, flag, list, text},
    version::{self, Version},
};
use crate::field::{FieldError, Path};
use crate::names::{self, MetadataRules, NameRule, Scope};

const APPROVAL: &str = "api-approved.kubernetes.io";

impl Definition {
    /// Reads a whole `CustomResourceDefinition` (`apiextensions.k8s.io/v1`) to which [`default_crd`](super::default_crd) has been applied.
    /// The errors are those of the server's 422.
    pub fn from_crd(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let empty = Value::Object(serde_json::Map::new());
        let spec = crd.get("spec").unwrap_or(&empty);
        let wrong_types = read::check_spec_types(spec);
        if !wrong_types.is_empty() {
            return Err(wrong_types);
        }
        let mut errors = metadata(crd, spec);
        group(text(spec, "group"), &mut errors);
        let scope = scope(text(spec, "scope"), &mut errors);
        let versions = versions(spec, &mut errors);
        required_names(spec, &mut errors);
        check_names(spec, &mut errors);
        let conversion = conversion(spec, &mut errors);
        errors.extend(approval(crd, text(spec, "group")));
        if flag(spec, "preserveUnknownFields") {
            errors.push(FieldError::invalid(
                "spec.preserveUnknownFields",
                true,
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ));
        }
        match scope {
            Some(scope) if errors.is_empty() => Ok(Self {
                group: text(spec, "group").to_owned(),
                names: read::names(spec),
                scope,
                name_rule: NameRule::Dns1123Subdomain,
                versions,
                conversion,
            }),
            _ => Err(errors),
        }
    }
}

fn metadata(crd: &Value, spec: &Value) -> Vec<FieldError> {
    let empty = serde_json::Map::new();
    let metadata = crd
        .get("metadata")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let rules = MetadataRules {
        name: NameRule::Dns1123Subdomain,
        scope: Scope::Cluster,
    };
    let mut errors = names::check_metadata(metadata, rules);
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or("");
    let names = spec.get("names").unwrap_or(&Value::Null);
    let wanted = format!("{}.{}", text(names, "plural"), text(spec, "group"));
    if !name.is_empty() && name != wanted {
        errors.push(FieldError::invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    errors
}

fn group(group: &str, errors: &mut Vec<FieldError>) {
    let at = "spec.group";
    let complaints = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !complaints.is_empty() {
        errors.push(FieldError::invalid(at, group, &complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            at,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

pub(super) fn scope(scope: &str, errors: &mut Vec<FieldError>) -> Option<Scope> {
    match scope {
        "Cluster" => return Some(Scope::Cluster),
        "Namespaced" => return Some(Scope::Namespaced),
        "" => errors.push(FieldError::required("spec.scope", "")),
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            other,
            ["Cluster", "Namespaced"],
        )),
    }
    None
}

/// True if the server reads this part from the top level instead of from the versions.
fn is_hoisted(versions: &[Value], part: &str) -> bool {
    let first = versions.first().and_then(|version| version.get(part));
    first.is_some() && versions.iter().all(|version| version.get(part) == first)
}

fn versions(spec: &Value, errors: &mut Vec<FieldError>) -> Vec<Version> {
    let root = Path::Root;
    let path = root.field("spec");
    let all = path.field("versions");
    let written = list(spec, "versions");
    let mut compiled = Vec::new();
    let mut seen = BTreeSet::new();
    for (nth, written_version) in written.iter().enumerate() {
        let at = all.index(nth);
        let name = text(written_version, "name");
        seen.insert(name);
        let complaints = names::dns1035_label(name);
        if !complaints.is_empty() {
            let complaint = complaints.join(",");
            errors.push(FieldError::invalid(at.field("name"), name, &complaint));
            if nth == 0 && !name.is_empty() {
                errors.push(FieldError::invalid(path.field("version"), name, &complaint));
            }
        }
        let place = |part: &str, hoisted: &'static str| {
            let up = is_hoisted(written, part);
            // Reported once, with the first version.
            (up && nth > 0, if up { Some(hoisted) } else { None })
        };
        let (told, hoisted) = place("schema", "validation");
        let holder = hoisted.map_or_else(|| at.field("schema"), |name| path.field(name));
        let schema_at = holder.field("openAPIV3Schema");
        let schema = written_version
            .get("schema")
            .and_then(|schema| schema.get("openAPIV3Schema"))
            .filter(|schema| !schema.is_null());
        let mut found = Vec::new();
        let result = version::schema(schema, written_version, &schema_at, &mut found);
        if schema.is_none() {
            let holder = at.field("schema");
            errors.push(FieldError::required(holder.field("openAPIV3Schema"), ""));
        } else if !told {
            errors.extend(found);
        }
        let (told, hoisted) = place("subresources", "subresources");
        let at_sub = hoisted.map_or_else(|| at.field("subresources"), |name| path.field(name));
        if !told {
            version::check_scale(written_version, &at_sub, errors);
        }
        let (told, hoisted) = place("additionalPrinterColumns", "additionalPrinterColumns");
        let at_columns = hoisted.map_or_else(
            || at.field("additionalPrinterColumns"),
            |name| path.field(name),
        );
        if !told {
            version::check_columns(written_version, &at_columns, errors);
        }
        let (told, hoisted) = place("selectableFields", "selectableFields");
        let at_fields =
            hoisted.map_or_else(|| at.field("selectableFields"), |name| path.field(name));
        if !told {
            version::check_selectable(written_version, schema, &at_fields, errors);
        }
        version::check_deprecation(written_version, &at, errors);
        if let (Some(schema), Some(document)) = (result, schema) {
            compiled.push(version::compiled(written_version, schema, document));
        }
    }
    let shown = || Value::Array(written.to_vec());
    if seen.len() != written.len() {
        errors.push(FieldError::invalid(
            all,
            shown(),
            "must contain unique version names",
        ));
    }
    if written.iter().filter(|v| flag(v, "storage")).count() != 1 {
        errors.push(FieldError::invalid(
            all,
            shown(),
            "must have exactly one version marked as storage version",
        ));
    }
    compiled
}

pub(super) fn required_names(spec: &Value, errors: &mut Vec<FieldError>) {
    let names = spec.get("names").unwrap_or(&Value::Null);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
}

pub(super) fn check_names(spec: &Value, errors: &mut Vec<FieldError>) {
    let root = Path::Root;
    let spec_path = root.field("spec");
    let path = spec_path.field("names");
    let names = read::names(spec);
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        if !name.is_empty() {
            label(&path.field(field), name, errors);
        }
    }
    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let complaints = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !complaints.is_empty() {
            errors.push(FieldError::invalid(
                path.field(field),
                name.as_str(),
                &format!(
                    "may have mixed case, but should otherwise match: {}",
                    complaints.join(",")
                ),
            ));
        }
    }
    for (field, list) in [
        ("shortNames", &names.short_names),
        ("categories", &names.categories),
    ] {
        let at = path.field(field);
        for (nth, name) in list.iter().enumerate() {
            label(&at.index(nth), name, errors);
        }
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        errors.push(FieldError::invalid(
            path.field("listKind"),
            names.list_kind.as_str(),
            "kind and listKind may not be the same",
        ));
    }
}

fn label(at: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    let complaints = names::dns1035_label(name);
    if !complaints.is_empty() {
        errors.push(FieldError::invalid(at, name, &complaints.join(",")));
    }
}

fn conversion(spec: &Value, errors: &mut Vec<FieldError>) -> Conversion {
    let conversion = spec.get("conversion").unwrap_or(&Value::Null);
    let at = "spec.conversion";
    let webhook = conversion.get("webhook").filter(|w| !w.is_null());
    match text(conversion, "strategy") {
        "None" => {
            if webhook.is_some_and(|w| w.get("clientConfig").is_some()) {
                errors.push(FieldError::forbidden(
                    format!("{at}.webhookClientConfig"),
                    "should not be set when strategy is not set to Webhook",
                ));
            }
            Conversion::None
        }
        "Webhook" => {
            let config = webhook.and_then(|w| w.get("clientConfig"));
            if config.is_none() {
                errors.push(FieldError::required(
                    format!("{at}.webhookClientConfig"),
                    "required when strategy is set to Webhook",
                ));
            } else if config.is_some_and(|c| c.get("url").is_some() == c.get("service").is_some()) {
                errors.push(FieldError::required(
                    format!("{at}.webhookClientConfig"),
                    "exactly one of url or service is required",
                ));
            }
            let versions = webhook.map_or(&[][..], |w| list(w, "conversionReviewVersions"));
            let field = format!("{at}.conversionReviewVersions");
            if versions.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
                errors.push(FieldError::invalid(
                    field,
                    Value::Array(versions.to_vec()),
                    "must include at least one of v1, v1beta1",
                ));
            }
            Conversion::Webhook
        }
        "" => {
            errors.push(FieldError::required(format!("{at}.strategy"), ""));
            Conversion::None
        }
        other => {
            errors.push(FieldError::not_supported(
                format!("{at}.strategy"),
                other,
                ["None", "Webhook"],
            ));
            Conversion::None
        }
    }
}

/// Groups of the Kubernetes community need an approval annotation.
pub(super) fn approval(object: &Value, group: &str) -> Option<FieldError> {
    if !is_community_domain(group) {
        return None;
    }
    let at = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let value = object
        .pointer("/metadata/annotations")
        .map_or("", |annotations| text(annotations, APPROVAL));
    let is_url = value
        .split_once("://")
        .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
    if value.is_empty() {
        Some(FieldError::required(
            at,
            &format!("protected groups must have approval annotation \"{APPROVAL}\", {see}"),
        ))
    } else if value.starts_with("unapproved") || is_url {
        None
    } else {
        Some(FieldError::invalid(
            at,
            value,
            &format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {see}"
            ),
        ))
    }
}
