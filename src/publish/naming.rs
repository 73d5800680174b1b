//! The name and the namespace of a copy: from templates, from the older placeholders, or from the defaults.

use serde_json::json;

use super::hashes::{sha1_short, sha3_short};
use super::marks::Remote;
use super::names;
use kube_lang::object::Object;
use kube_lang::template::{self, Engine, Template, provenance};

const DEFAULT_NAMESPACE: &str = "{{ .ClusterName }}";
const DEFAULT_NAME: &str =
    "{{ .Object.metadata.namespace | sha3short }}-{{ .Object.metadata.name | sha3short }}";

/// The reason why no name could be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NamingError {
    #[error("naming.{field}: {error}")]
    Compile {
        field: &'static str,
        error: template::CompileError,
    },
    #[error("naming.{field}: {error}")]
    Render {
        field: &'static str,
        error: template::RenderError,
    },
    #[error("the name {0:?} derived for a copy is not a DNS-1123 subdomain; change naming.name")]
    Name(String),
    #[error(
        "the namespace {0:?} derived for a copy is not a DNS-1123 label; change naming.namespace"
    )]
    Namespace(String),
}

/// The scope of the kind on the service cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalScope {
    Cluster,
    Namespaced,
}

/// The compiled patterns of a published resource.
#[derive(Clone, Debug)]
pub struct NamingRules {
    namespace: NamespaceRule,
    name: Pattern,
    /// Whether consumers can choose the name of a copy.
    name_is_chosen: bool,
    /// Whether every name contains the workspace or its path.
    name_varies: bool,
    /// Whether a name may depend on the path of the workspace.
    reads_path: bool,
    scope: LocalScope,
}

#[derive(Clone, Debug)]
struct NamespaceRule {
    pattern: Pattern,
    /// Whether consumers have no influence on the namespace.
    is_owners: bool,
    /// Whether every namespace contains the workspace.
    has_workspace: bool,
    /// Whether every namespace contains the workspace or its path.
    varies: bool,
}

#[derive(Clone, Debug)]
enum Pattern {
    ClusterName,
    Hashes,
    Placeholders(String),
    Template(Template),
}

/// The inputs of names.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub remote: &'a Remote,
    /// The whole object of the workspace.
    pub object: &'a Object,
    /// The path of its workspace; empty if paths are disabled.
    pub cluster_path: &'a str,
}

impl NamingRules {
    /// Compiles the patterns; an absent or empty one is the default.
    pub fn compile(
        engine: Engine,
        namespace: Option<&str>,
        name: Option<&str>,
        scope: LocalScope,
    ) -> Result<Self, NamingError> {
        let or = |field, given: Option<&str>, default| {
            let text = given.filter(|text| !text.is_empty()).unwrap_or(default);
            Pattern::compile(engine, text).map_err(|error| NamingError::Compile { field, error })
        };
        let owners = |text: &str| {
            // Not the path: each of its parts is the name that somebody gave a workspace.
            let data = provenance::Data {
                own: &["ClusterName"],
                ..provenance::Data::default()
            };
            let said = ["$remoteNamespace", "$remoteName"];
            provenance::writes_only(engine, text, data)
                && !said.iter().any(|word| text.contains(word))
        };
        let reads_path = |text: &str| text.contains("ClusterPath");
        // Nobody finds an object for a hash.
        let is_default = |text: &str| ["", DEFAULT_NAME].contains(&text.trim());
        Ok(Self {
            namespace: NamespaceRule {
                pattern: or("namespace", namespace, DEFAULT_NAMESPACE)?,
                is_owners: namespace.is_none_or(owners),
                has_workspace: namespace
                    .is_none_or(|text| contains_one_of(&["ClusterName"], engine, text)),
                varies: namespace.is_none_or(|text| varies_by_workspace(engine, text)),
            },
            name: or("name", name, DEFAULT_NAME)?,
            name_is_chosen: name.is_some_and(|text| !is_default(text) && !owners(text)),
            name_varies: name.is_some_and(|text| varies_by_workspace(engine, text)),
            reads_path: namespace.is_some_and(reads_path) || name.is_some_and(reads_path),
            scope,
        })
    }

    /// Whether the namespace of copies depends on the owner and the workspace's name only.
    pub fn namespace_is_owners(&self) -> bool {
        self.namespace.is_owners || self.scope == LocalScope::Cluster
    }

    /// Whether each namespace that the pattern gives contains the workspace.
    pub fn namespace_has_workspace(&self) -> bool {
        self.namespace.has_workspace
    }

    /// Whether each copy is in a namespace, or has a name, that contains its workspace or the path of that.
    pub fn place_varies_by_workspace(&self) -> bool {
        self.is_namespaced() && self.namespace.varies || self.name_varies
    }

    /// Whether copies live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == LocalScope::Namespaced
    }

    /// Whether consumers can choose the name of a copy.
    pub fn name_is_chosen(&self) -> bool {
        self.name_is_chosen
    }

    /// Whether names may depend on the path of the workspace.
    pub fn reads_path(&self) -> bool {
        self.reads_path
    }

    /// Whether a name needs a template to be rendered.
    pub fn has_templates(&self) -> bool {
        let patterns = [&self.namespace.pattern, &self.name];
        patterns
            .iter()
            .any(|pattern| matches!(pattern, Pattern::Template(_)))
    }

    /// The namespace, unless the kind is cluster-scoped on the service cluster, and the name of the copy.
    pub fn place(&self, named: Named<'_>) -> Result<(Option<String>, String), NamingError> {
        let render = |field, pattern: &Pattern| {
            let rendered = pattern.render(named);
            rendered.map_err(|error| NamingError::Render { field, error })
        };
        let name = render("name", &self.name)?;
        if !names::is_subdomain(&name) {
            return Err(NamingError::Name(name));
        }
        if self.scope == LocalScope::Cluster {
            return Ok((None, name));
        }
        let namespace = render("namespace", &self.namespace.pattern)?;
        if !names::is_label(&namespace) {
            return Err(NamingError::Namespace(namespace));
        }
        Ok((Some(namespace), name))
    }
}

impl Pattern {
    fn compile(engine: Engine, text: &str) -> Result<Self, template::CompileError> {
        match text.trim() {
            DEFAULT_NAMESPACE => Ok(Self::ClusterName),
            DEFAULT_NAME => Ok(Self::Hashes),
            _ if template::has_actions(text) => Template::compile(engine, text).map(Self::Template),
            _ => Ok(Self::Placeholders(text.to_owned())),
        }
    }

    fn render(&self, named: Named<'_>) -> Result<String, template::RenderError> {
        let remote = named.remote;
        let namespace = remote.namespace.as_deref().unwrap_or_default();
        Ok(match self {
            Self::ClusterName => remote.cluster.trim().to_owned(),
            Self::Hashes => format!("{}-{}", sha3_short(namespace), sha3_short(&remote.name)),
            Self::Placeholders(text) => replace(text, remote, namespace),
            Self::Template(template) => template.render_trimmed(&json!({
                "Object": named.object,
                "ClusterName": remote.cluster,
                "ClusterPath": named.cluster_path,
            }))?,
        })
    }
}

/// Whether the result of a pattern differs between workspaces: each contains the workspace or its path.
pub fn varies_by_workspace(engine: Engine, text: &str) -> bool {
    contains_one_of(&["ClusterName", "ClusterPath"], engine, text)
}

fn contains_one_of(fields: &[&str], engine: Engine, text: &str) -> bool {
    if !template::has_actions(text) {
        return text.is_empty() || text.contains("$remoteClusterName");
    }
    let data = provenance::Data {
        telling: fields,
        // Related entries have a template for both sides.
        given: &[("Side", "service")],
        ..provenance::Data::default()
    };
    provenance::written(engine, text, data).tells
}

fn replace(text: &str, remote: &Remote, namespace: &str) -> String {
    // At one place the longest placeholder wins.
    let table = [
        ("$remoteClusterName", remote.cluster.clone()),
        ("$remoteNamespaceHash", sha1_short(namespace)),
        ("$remoteNamespace", namespace.to_owned()),
        ("$remoteNameHash", sha1_short(&remote.name)),
        ("$remoteName", remote.name.clone()),
    ];
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let found = table.iter().find(|(word, _)| after.starts_with(word));
        let (word, value) = found.map_or(("$", "$"), |(word, value)| (*word, value.as_str()));
        out.push_str(value);
        rest = &after[word.len()..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(namespace: Option<&str>) -> Remote {
        Remote {
            cluster: "abc".into(),
            namespace: namespace.map(Into::into),
            name: "objname".into(),
        }
    }

    #[track_caller]
    fn check(pattern: Option<&str>, namespace: Option<&str>, want: Result<&str, NamingError>) {
        let naming = NamingRules::compile(Engine::Go, None, pattern, LocalScope::Namespaced);
        let got = naming.and_then(|naming| place(&naming, namespace));
        assert_eq!(got, want.map(|name| (Some("abc".into()), name.into())));
    }

    fn place(
        naming: &NamingRules,
        namespace: Option<&str>,
    ) -> Result<(Option<String>, String), NamingError> {
        let object = Object::new(json!({
            "metadata": {"name": "objname", "namespace": namespace, "labels": {"tier": "gold"}},
        }));
        naming.place(Named {
            remote: &remote(namespace),
            object: &object.unwrap(),
            cluster_path: "root:org",
        })
    }

    #[test]
    fn a_template_sees_the_object_and_its_workspace() {
        let tier = "{{ .Object.metadata.labels.tier }}-{{ .ClusterName | len }}";
        check(Some(tier), Some("ns"), Ok("gold-3"));
        check(
            Some(" {{ .ClusterPath | replace \":\" \".\" }} "),
            None,
            Ok("root.org"),
        );
        let none = "{{ .Object.spec.none }}";
        check(
            Some(none),
            None,
            Err(NamingError::Name("<no value>".into())),
        );
        let naming = NamingRules::compile(
            Engine::Handlebars,
            Some("{{ClusterName}}"),
            Some("{{sha3short Object.metadata.name}}"),
            LocalScope::Namespaced,
        )
        .unwrap();
        let hash = sha3_short("objname");
        assert_eq!(place(&naming, None), Ok((Some("abc".into()), hash)));
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_when_it_is_compiled() {
        for bad in ["{{ .X", "{{ nothing .X }}", "{{ env \"HOME\" }}"] {
            let refused = NamingRules::compile(Engine::Go, None, Some(bad), LocalScope::Namespaced);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("naming.name: template:1:"), "{refused}");
        }
    }

    #[test]
    fn the_defaults_give_the_names_of_the_contract() {
        let want = "2928c2aa0e510f017f07-73d08a1ba188f1340dae";
        check(None, Some("objnamespace"), Ok(want));
        check(Some(""), Some("objnamespace"), Ok(want));
        check(None, None, Ok("a7ffc6f8bf1ed76651c1-73d08a1ba188f1340dae"));
        assert_eq!(sha3_short("a"), "80084bf2fba02475726f");
    }

    #[test]
    fn placeholders_are_replaced_from_left_to_right_the_longest_first() {
        let hash = sha1_short("ns");
        let want = format!("abc-{hash}-ns-objname");
        let all = "$remoteClusterName-$remoteNamespaceHash-$remoteNamespace-$remoteName";
        check(Some(all), Some("ns"), Ok(&want));
        check(Some("$remoteNameHash"), None, Ok(&sha1_short("objname")));
        check(Some("$remoteNamex"), None, Ok("objnamex"));
    }

    #[test]
    fn a_name_that_no_server_takes_is_refused() {
        check(
            Some("$other"),
            None,
            Err(NamingError::Name("$other".into())),
        );
        let naming =
            NamingRules::compile(Engine::Go, Some("a.b"), None, LocalScope::Namespaced).unwrap();
        let refused = place(&naming, None);
        assert_eq!(refused, Err(NamingError::Namespace("a.b".into())));
    }

    #[test]
    fn whose_words_a_place_is_in_is_known_before_there_is_an_object() {
        for (namespace, owners) in [
            ("", true),
            ("fixed", true),
            ("{{ .ClusterName }}-x", true),
            ("$remoteClusterName", true),
            ("$remoteNamespace", false),
            ("team-$remoteNamespaceHash", false),
            ("{{ .Object.metadata.namespace }}", false),
            // Whoever makes a workspace names it.
            ("{{ splitList \":\" .ClusterPath | last }}", false),
        ] {
            let compile =
                |scope| NamingRules::compile(Engine::Go, Some(namespace), None, scope).unwrap();
            let naming = compile(LocalScope::Namespaced);
            assert_eq!(naming.namespace_is_owners(), owners, "{namespace}");
            assert!(compile(LocalScope::Cluster).namespace_is_owners());
            assert!(!naming.name_is_chosen(), "nobody chooses a hash");
        }
        for (name, chosen) in [
            ("", false),
            (DEFAULT_NAME, false),
            ("x", false),
            ("$remoteName", true),
        ] {
            let naming = NamingRules::compile(Engine::Go, None, Some(name), LocalScope::Cluster);
            assert_eq!(naming.unwrap().name_is_chosen(), chosen, "{name}");
        }
    }

    #[test]
    fn a_cluster_scoped_copy_has_no_namespace() {
        let naming =
            NamingRules::compile(Engine::Go, Some("a.b"), Some("x"), LocalScope::Cluster).unwrap();
        assert_eq!(place(&naming, Some("ns")), Ok((None, "x".into())));
    }
}
