//! The form of an answer, by the `Accept` header: the best one that is served.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

use crate::catalog::{Flavour, Resource};
use crate::protobuf::{self, Packing};
use crate::status::Status;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// The form in which objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// `PartialObjectMetadata`
    Metadata(MetaVersion),
    /// `PartialObjectMetadataList`
    MetadataList(MetaVersion),
    Table(MetaVersion, Beside),
}

/// The requested version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaVersion {
    V1,
    V1Beta1,
}

/// The object in a row, beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    Metadata,
    Object,
}

/// The accepted and known forms, the best one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Accepts(Vec<Negotiated>);

/// A form of an answer, and whether it is in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Negotiated {
    pub(super) form: Form,
    pub(super) packed: bool,
}

impl From<Form> for Negotiated {
    fn from(form: Form) -> Self {
        let packed = false;
        Self { form, packed }
    }
}

/// One media type of the header.
#[derive(Debug, Default)]
struct Clause<'h> {
    media_type: &'h str,
    kind: Option<&'h str>,
    group: Option<&'h str>,
    version: Option<&'h str>,
    quality: f32,
}

impl MetaVersion {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Beside {
    pub(super) fn parse(include: Option<&str>) -> Result<Self, Status> {
        match include {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::Nothing),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

impl Accepts {
    /// `include` determines the object in each row of a table.
    pub(super) fn parse(headers: &HeaderMap, include: Option<&str>) -> Result<Self, Status> {
        let text = header(headers);
        let clauses = clauses(&text);
        if clauses.is_empty() {
            return Ok(Self(vec![Form::Whole.into()]));
        }
        let mut accepted: Vec<_> = clauses.iter().filter_map(Clause::accepted).collect();
        // An error only if a table is requested.
        if let Some(Form::Table(..)) = accepted.first().map(|first| first.form) {
            let beside = Beside::parse(include)?;
            for one in &mut accepted {
                if let Form::Table(_, shown) = &mut one.form {
                    *shown = beside;
                }
            }
        }
        if accepted.is_empty() {
            return Err(refuse());
        }
        Ok(Self(accepted))
    }

    /// A resource without objects has no table, and not all kinds can be encoded in protobuf.
    pub(super) fn best(&self, resource: &Resource) -> Result<Negotiated, Status> {
        let fits = |one: &&Negotiated| match one.form {
            Form::Table(..) => resource.printer.is_some(),
            _ => !one.packed || is_packed(resource),
        };
        self.0.iter().find(fits).copied().ok_or_else(refuse)
    }
}

/// Whether objects of a resource can be shown in protobuf: those of built-in kinds can, unless they are shown as
/// claimed resources.
fn is_packed(resource: &Resource) -> bool {
    resource.flavour != Flavour::Custom
        && resource.required_label.is_none()
        && Packing::exists(&resource.group, &resource.version, &resource.kind)
}

/// The form of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    Plain,
    /// Aggregated.
    Aggregated,
}

impl Discovery {
    /// A client that accepts the aggregated form gets it, at any place in the header.
    pub(super) fn parse(headers: &HeaderMap) -> Result<Self, Status> {
        let text = header(headers);
        let clauses = clauses(&text);
        if clauses.iter().any(Clause::is_aggregated) {
            return Ok(Self::Aggregated);
        }
        Self::plain(&clauses)
    }

    /// The form without aggregation.
    pub(super) fn parse_plain(headers: &HeaderMap) -> Result<Self, Status> {
        Self::plain(&clauses(&header(headers)))
    }

    fn plain(clauses: &[Clause<'_>]) -> Result<Self, Status> {
        let whole = |clause: &Clause<'_>| clause.form() == Some(Form::Whole);
        if clauses.is_empty() || clauses.iter().any(whole) {
            Ok(Self::Plain)
        } else {
            Err(refuse())
        }
    }
}

/// Routes that compare media types as strings, before parameters count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    BuiltIn,
    Version,
}

impl Route {
    /// Refuses a client that accepts nothing that the route serves.
    pub(super) fn check(self, headers: &HeaderMap) -> Result<(), Status> {
        // Most clients name one of the first media types.
        let named = |value: &HeaderValue| {
            let mut common = [JSON, "*/*"].into_iter();
            common.any(|word| memchr::memmem::find(value.as_bytes(), word.as_bytes()).is_some())
        };
        if headers.get_all(ACCEPT).iter().any(named) {
            return Ok(());
        }
        let text = header(headers);
        let clauses = clauses(&text);
        let known = |clause: &Clause<'_>| self.has(clause.media_type);
        if clauses.is_empty() || clauses.iter().any(known) {
            return Ok(());
        }
        let told = match self {
            Self::BuiltIn => [JSON, YAML].join(", "),
            Self::Version => JSON.to_owned(),
        };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {told}");
        Err(Status::not_acceptable(message).about_nothing())
    }

    fn has(self, media_type: &str) -> bool {
        match self {
            Self::BuiltIn => [JSON, protobuf::MEDIA_TYPE, "*/*"].contains(&media_type),
            Self::Version => [JSON, "*/*"].contains(&media_type),
        }
    }
}

fn refuse() -> Status {
    Status::not_acceptable(
        "only the following media types are accepted: application/json, application/yaml",
    )
}

fn header(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter();
    let texts: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    texts.join(",")
}

/// The best media type first; of equal ones the most specific, then the first in the header.
fn clauses(text: &str) -> Vec<Clause<'_>> {
    let parts = text.split(',').map(str::trim).filter(|c| !c.is_empty());
    let mut clauses: Vec<Clause<'_>> = parts.map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        let vague = a.vagueness().cmp(&b.vagueness());
        b.quality.total_cmp(&a.quality).then(vague)
    });
    clauses
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self {
            media_type: parts.next().unwrap_or_default(),
            quality: 1.0,
            ..Self::default()
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            match name {
                "as" => clause.kind = Some(value),
                "g" => clause.group = Some(value),
                "v" => clause.version = Some(value),
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                _ => {}
            }
        }
        clause
    }

    fn vagueness(&self) -> u8 {
        match self.media_type {
            "*/*" => 2,
            other => u8::from(other.ends_with("/*")),
        }
    }

    fn is_json(&self) -> bool {
        [JSON, "application/*", "*/*"].contains(&self.media_type)
    }

    /// The kind of document that is requested instead of the object.
    fn wanted(&self) -> Option<(&str, &str, &str)> {
        let given = [self.kind, self.group, self.version];
        given.iter().any(Option::is_some).then(|| {
            let [kind, group, version] = given.map(Option::unwrap_or_default);
            (kind, group, version)
        })
    }

    fn form(&self) -> Option<Form> {
        let (kind, group, version) = match self.wanted() {
            _ if !self.is_json() => return None,
            None => return Some(Form::Whole),
            Some(wanted) => wanted,
        };
        let version = match (group, version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind {
            "Table" => Some(Form::Table(version, Beside::Metadata)),
            "PartialObjectMetadata" => Some(Form::Metadata(version)),
            "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
            _ => None,
        }
    }

    fn accepted(&self) -> Option<Negotiated> {
        if self.media_type == protobuf::MEDIA_TYPE && self.wanted().is_none() {
            return Some(Negotiated {
                form: Form::Whole,
                packed: true,
            });
        }
        self.form().map(Negotiated::from)
    }

    fn is_aggregated(&self) -> bool {
        let aggregated = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2");
        self.is_json() && self.wanted() == Some(aggregated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        headers
    }

    #[track_caller]
    fn accepts(accept: &str, expected: Result<Form, u16>) {
        let found = Accepts::parse(&headers(accept), None)
            .map(|accepts| accepts.0[0].form)
            .map_err(|status| status.code);
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_first_form_that_exists_is_taken() {
        let table = Form::Table(MetaVersion::V1, Beside::Metadata);
        accepts("", Ok(Form::Whole));
        accepts("*/*", Ok(Form::Whole));
        accepts("application/vnd.kubernetes.protobuf, */*", Ok(Form::Whole));
        accepts("application/vnd.kubernetes.protobuf", Ok(Form::Whole));
        accepts(
            &format!(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{PARTIAL},application/json"
            ),
            Ok(Form::Metadata(MetaVersion::V1)),
        );
        accepts(&format!("{TABLE},application/json"), Ok(table));
        accepts(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Ok(Form::Table(MetaVersion::V1Beta1, Beside::Metadata)),
        );
        accepts(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Ok(Form::MetadataList(MetaVersion::V1)),
        );
        accepts(
            "application/json;as=Nope;v=v1;g=meta.k8s.io, application/json",
            Ok(Form::Whole),
        );
        accepts(
            "application/json;stream=watch;charset=utf-8",
            Ok(Form::Whole),
        );
        accepts(&format!("application/json;q=0.5,{TABLE};q=0.9"), Ok(table));
        accepts("application/json;as=Table;v=v1", Err(406));
        accepts("application/json;as=Table;v=v2;g=meta.k8s.io", Err(406));
        accepts("application/yaml", Err(406));
        accepts("text/html", Err(406));
    }

    #[test]
    fn a_table_is_told_what_stands_beside_its_cells() {
        let beside = |include| {
            let accepts = Accepts::parse(&headers(TABLE), include);
            accepts.map(|accepts| accepts.0[0].form).map_err(|s| s.code)
        };
        for (include, expected) in [
            ("None", Beside::Nothing),
            ("Metadata", Beside::Metadata),
            ("Object", Beside::Object),
        ] {
            let table = Form::Table(MetaVersion::V1, expected);
            assert_eq!(beside(Some(include)), Ok(table));
        }
        assert_eq!(beside(Some("All")), Err(400));
        let other = Accepts::parse(&headers("application/json"), Some("All"));
        assert_eq!(other.unwrap().0, [Form::Whole.into()]);
    }

    #[test]
    fn routes_know_words_and_not_what_they_mean() {
        let packed = "application/vnd.kubernetes.protobuf";
        for (accept, built_in, version) in [
            ("", true, true),
            ("*/*", true, true),
            ("text/html, application/json;as=Nope", true, true),
            ("application/yaml", false, false),
            (packed, true, false),
            ("application/*", false, false),
            ("text/html", false, false),
        ] {
            let passes = |route: Route| route.check(&headers(accept)).is_ok();
            assert_eq!(passes(Route::BuiltIn), built_in, "{accept}");
            assert_eq!(passes(Route::Version), version, "{accept}");
        }
        let refused = Route::Version.check(&headers(packed)).unwrap_err();
        assert!(
            refused
                .message
                .ends_with("representations: application/json")
        );
    }

    #[test]
    fn discovery_is_aggregated_for_whoever_knows_that_form() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let older = aggregated.replace("v2", "v2beta1");
        let read = |accept: &str| Discovery::parse(&headers(accept)).map_err(|s| s.code);
        assert_eq!(read(""), Ok(Discovery::Plain));
        assert_eq!(read("application/json"), Ok(Discovery::Plain));
        assert_eq!(
            read(&format!("{aggregated},{older},application/json")),
            Ok(Discovery::Aggregated)
        );
        assert_eq!(
            read(&format!("{older},application/json")),
            Ok(Discovery::Plain)
        );
        assert_eq!(read(TABLE), Err(406));
        assert_eq!(read("text/html"), Err(406));
        let plain = |accept: &str| Discovery::parse_plain(&headers(accept)).map_err(|s| s.code);
        assert_eq!(
            plain(&format!("{aggregated},application/json")),
            Ok(Discovery::Plain)
        );
        assert_eq!(plain(aggregated), Err(406));
    }
}
