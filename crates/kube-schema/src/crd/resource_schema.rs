//! kcp's `APIResourceSchema`: a definition without a status, and with the schema one level higher.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{
    Conversion, Definition, check,
    read::{self, flag, list, text},
    version,
};
use crate::field::{FieldError, Path};
use crate::names::{self, NameRule};
use crate::schema::Schema;

static PREFIX: LazyLock<Regex> = LazyLock::new(|| constant("^[a-z]([-a-z0-9]*[a-z0-9])?$"));
static VERSION: LazyLock<Regex> = LazyLock::new(|| constant("^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the two patterns above are constants that the tests compile")
}

impl Definition {
    /// Reads a whole `APIResourceSchema` (`apis.kcp.io/v1alpha1`) to which [`default_resource_schema`](super::default_resource_schema) has been
    /// applied. kcp answers its errors with 403.
    pub fn from_resource_schema(object: &Value) -> Result<Self, Vec<FieldError>> {
        let empty = Value::Object(serde_json::Map::new());
        let spec = object.get("spec").unwrap_or(&empty);
        let mut errors = read::check_spec_types(spec);
        if !errors.is_empty() {
            return Err(errors);
        }
        let group = text(spec, "group");
        check_group(group, &mut errors);
        let scope = check::scope(text(spec, "scope"), &mut errors);
        check::required_names(spec, &mut errors);
        check::check_names(spec, &mut errors);
        check_name(object, spec, &mut errors);
        errors.extend(check::approval(object, group));
        let name_rule = match text(spec, "nameValidation") {
            "" | "DNS1123Subdomain" => NameRule::Dns1123Subdomain,
            "PathSegmentName" => NameRule::PathSegment,
            other => {
                errors.push(FieldError::not_supported(
                    "spec.nameValidation",
                    other,
                    ["DNS1123Subdomain", "PathSegmentName"],
                ));
                NameRule::Dns1123Subdomain
            }
        };
        let conversion = conversion(spec, &mut errors);
        let versions = versions(spec, &mut errors);
        match scope {
            Some(scope) if errors.is_empty() => Ok(Self {
                group: group.to_owned(),
                names: read::names(spec),
                scope,
                name_rule,
                versions,
                conversion,
            }),
            _ => Err(errors),
        }
    }
}

/// The core group has no name; others are domains.
fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        return;
    }
    let complaints = names::dns1123_subdomain(group);
    if !complaints.is_empty() {
        errors.push(FieldError::invalid(
            "spec.group",
            group,
            &complaints.join(","),
        ));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            group,
            "should be a domain with at least one dot",
        ));
    }
}

/// `<prefix>.<plural>.<group>`, with `core` for the core group.
fn check_name(object: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or("");
    let plural = text(spec.get("names").unwrap_or(&Value::Null), "plural");
    let group = match text(spec, "group") {
        "" => "core",
        group => group,
    };
    let suffix = format!(".{plural}.{group}");
    match name.strip_suffix(&suffix) {
        None => errors.push(FieldError::invalid(
            "metadata.name",
            name,
            &format!("must end in {suffix}"),
        )),
        Some(prefix) if !PREFIX.is_match(prefix) => errors.push(FieldError::invalid(
            "metadata.name",
            name,
            &format!("must match {} in front of {suffix}", PREFIX.as_str()),
        )),
        Some(_) => {}
    }
}

fn conversion(spec: &Value, errors: &mut Vec<FieldError>) -> Conversion {
    let at = "spec.conversion";
    let given = spec.get("conversion").filter(|c| !c.is_null());
    let Some(conversion) = given else {
        if list(spec, "versions").len() > 1 {
            errors.push(FieldError::required(
                at,
                "must be specified when more than one version is specified",
            ));
        }
        return Conversion::None;
    };
    match text(conversion, "strategy") {
        "None" => Conversion::None,
        "Webhook" => Conversion::Webhook,
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

fn versions(spec: &Value, errors: &mut Vec<FieldError>) -> Vec<version::Version> {
    let root = Path::Root;
    let spec_path = root.field("spec");
    let all = spec_path.field("versions");
    let written = list(spec, "versions");
    let mut compiled: Vec<version::Version> = Vec::new();
    for (nth, one) in written.iter().enumerate() {
        let at = all.index(nth);
        let name = text(one, "name");
        if !VERSION.is_match(name) {
            errors.push(FieldError::invalid(
                at.field("name"),
                name,
                &format!("must match {}", VERSION.as_str()),
            ));
        }
        if written[..nth]
            .iter()
            .any(|other| text(other, "name") == name)
        {
            errors.push(FieldError::duplicate(at.field("name"), name.into()));
        }
        version::check_columns(one, &at.field("additionalPrinterColumns"), errors);
        let schema_at = at.field("schema");
        let Some(document) = one.get("schema").filter(|schema| !schema.is_null()) else {
            errors.push(FieldError::required(schema_at, ""));
            continue;
        };
        let fields_at = at.field("selectableFields");
        version::check_selectable(one, Some(document), &fields_at, errors);
        match Schema::compile(document, &schema_at) {
            Ok(schema) => compiled.push(version::compiled(one, schema, document)),
            Err(found) => errors.extend(found),
        }
    }
    if written.iter().filter(|v| flag(v, "storage")).count() != 1 {
        errors.push(FieldError::invalid(
            all,
            Value::Array(written.to_vec()),
            "must have exactly one version marked as storage version",
        ));
    }
    compiled
}
