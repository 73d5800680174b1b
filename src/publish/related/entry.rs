//! Entries of `spec.related`, compiled: how names are found on each side, and who determines them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use crate::mutation::Pipeline;
use crate::mutation::Step;
use crate::publish::types::{
    LegacyKind, Origin, RegexRewrite, RelatedObjectSpec, RelatedSpec, Rewrite, SelectorSpec,
};
use kube_lang::selector::Selector;
use kube_lang::template::provenance::{self, Whose};
use kube_lang::template::{self, Engine, Template};

/// The template data that only the owner and the workspace determine.
const OWN: [&str; 1] = ["ClusterName"];
/// The path of a workspace. Nobody can choose all of it, but each part is the name that somebody gave a workspace.
const WHOLE: [&str; 1] = ["ClusterPath"];

/// What the compilation of an entry depends on beside the entry.
#[derive(Clone, Copy, Debug)]
pub struct Premises {
    pub engine: Engine,
    /// Whether consumers have no influence on the namespaces of copies.
    pub namespace_is_owners: bool,
}

/// The resource of a type in paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeName {
    pub group: String,
    pub version: String,
    pub resource: String,
}

/// The default maximum of objects of an entry.
pub const FAN_OUT: usize = 64;

/// One entry. Its mistakes were found before.
#[derive(Debug)]
pub struct Entry {
    pub identifier: String,
    pub origin: Origin,
    /// On the side of the originals, and on the side of the copies.
    pub source: TypeName,
    pub target: TypeName,
    pub(super) names: Values,
    pub(super) namespaces: Option<Values>,
    pub(super) spec: Pipeline,
    pub(super) status: Pipeline,
    pub(super) choices: AllowedNames,
    pub(super) allowed_namespaces: BTreeSet<String>,
    /// The maximum number of objects.
    pub(super) limit: usize,
}

/// The switches of an entry.
#[allow(
    clippy::struct_excessive_bools,
    reason = "the switches of a manifest are what they are"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllowedNames {
    pub(super) cleanup: bool,
    pub(super) sync_status: bool,
    pub(super) require_link: bool,
    pub(super) adopt: bool,
}

/// The author of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Owner,
    /// The status of the published object: determined by the provider if copies have a status subresource.
    Status,
    Consumer,
}

/// The authors of a value on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authors {
    pub kcp: Author,
    pub service: Author,
}

/// The authors of the names of an entry, and of its namespaces if the entry sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAuthors {
    pub names: Authors,
    pub namespaces: Option<Authors>,
}

/// The way in which values are found.
#[derive(Debug)]
pub(super) enum Values {
    Reference {
        path: String,
        rewriting: Option<Rewriting>,
    },
    Selector(Box<Selecting>),
    Template {
        template: Template,
        authors: Authors,
    },
}

#[derive(Debug)]
pub(super) struct Selecting {
    pub(super) labels: Vec<(LabelText, LabelText)>,
    pub(super) expressions: Selector,
    pub(super) rewrite: NameRule,
    /// The author of the selected labels.
    author: Author,
}

/// A label's key or value.
#[derive(Debug)]
pub(super) enum LabelText {
    Plain(String),
    Template(Template),
}

#[derive(Debug)]
pub(super) enum NameRule {
    Regex(Rewriting),
    Template {
        template: Template,
        author: Author,
        /// Whether it depends on the owner and the name of the original only.
        keeps: bool,
    },
}

/// A regular expression over one text, as in mutations.
#[derive(Debug)]
pub(super) struct Rewriting {
    pipeline: Pipeline,
    author: Author,
}

impl Rewriting {
    fn of(regex: &RegexRewrite) -> Option<Self> {
        let step = Step::Regex {
            path: "v".to_owned(),
            pattern: regex.pattern.clone(),
            replacement: regex.replacement.clone(),
        };
        Some(Self {
            pipeline: Pipeline::compile(&[step]).ok()?,
            // Without a pattern the replacement is the value; this pattern leaves nothing of any name.
            author: owner_if(
                regex.pattern.is_empty()
                    || regex.pattern == ".*" && !regex.replacement.contains('$'),
            ),
        })
    }

    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        let rewritten = self.pipeline.apply(&json!({"v": text}), None);
        let rewritten = rewritten.map_err(|error| error.to_string())?;
        Ok(rewritten["v"].as_str().unwrap_or_default().to_owned())
    }
}

impl Values {
    fn of(spec: &RelatedObjectSpec, premises: Premises) -> Option<Self> {
        let engine = premises.engine;
        if let Some(reference) = &spec.reference {
            let rewriting = match &reference.regex {
                Some(regex) => Some(Rewriting::of(regex)?),
                None => None,
            };
            return Some(Self::Reference {
                path: reference.path.clone(),
                rewriting,
            });
        }
        if let Some(selector) = &spec.selector {
            return Some(Self::Selector(Box::new(Selecting::of(selector, engine)?)));
        }
        let text = &spec.template.as_ref()?.template;
        let on = |side, paths: &[(&str, Whose)]| {
            let data = provenance::Data {
                own: &OWN,
                whole: &WHOLE,
                paths,
                given: &[("Side", side)],
                ..provenance::Data::default()
            };
            match provenance::written(engine, text, data).whose {
                Whose::Author | Whose::Whole => Author::Owner,
                Whose::Status => Author::Status,
                Whose::Objects => Author::Consumer,
            }
        };
        // There the object is the copy.
        let mut of_copy = vec![("Object.status", Whose::Status)];
        if premises.namespace_is_owners {
            of_copy.push(("Object.metadata.namespace", Whose::Author));
        }
        Some(Self::Template {
            template: Template::compile(engine, text).ok()?,
            authors: Authors {
                kcp: on("kcp", &[]),
                service: on("service", &of_copy),
            },
        })
    }

    /// The condition under which they lead to objects.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Reference { path, .. } => format!("{path} has no value on both sides"),
            Self::Selector(_) => "no original in the files has the labels".to_owned(),
            Self::Template { .. } => "the template is empty".to_owned(),
        }
    }

    /// The authors of a value. Originals are on the side of `origin`.
    pub(super) fn authors(&self, origin: Origin) -> Authors {
        let everywhere = |author| Authors {
            kcp: author,
            service: author,
        };
        match self {
            Self::Reference {
                rewriting: Some(rewriting),
                ..
            } if rewriting.author == Author::Owner => everywhere(Author::Owner),
            Self::Reference { path, .. } if is_plain_status_path(path) => {
                everywhere(Author::Status)
            }
            Self::Reference { .. } => everywhere(Author::Consumer),
            Self::Template { authors, .. } => *authors,
            Self::Selector(selecting) => match origin {
                Origin::Service => Authors {
                    kcp: selecting.rewrite.author_of_renamed(selecting.author),
                    service: selecting.author,
                },
                Origin::Kcp => Authors {
                    kcp: Author::Consumer,
                    service: selecting.rewrite.author_of_renamed(Author::Consumer),
                },
            },
        }
    }
}

impl Selecting {
    fn of(spec: &SelectorSpec, engine: Engine) -> Option<Self> {
        let word = |text: &String| {
            if template::has_actions(text) {
                Template::compile(engine, text)
                    .ok()
                    .map(LabelText::Template)
            } else {
                Some(LabelText::Plain(text.clone()))
            }
        };
        let labels = spec
            .match_labels
            .iter()
            .map(|(key, value)| Some((word(key)?, word(value)?)));
        let mut plain = spec.labels();
        plain.match_labels = BTreeMap::new();
        let own = |text: &String| writes_only(engine, text, &OWN);
        let mut texts = spec.match_labels.iter().flat_map(|(k, v)| [k, v]);
        Some(Self {
            labels: labels.collect::<Option<_>>()?,
            expressions: Selector::from_value(&json!(plain)).ok()?,
            rewrite: NameRule::of(&spec.rewrite, engine)?,
            author: owner_if(texts.all(own)),
        })
    }
}

impl NameRule {
    fn of(spec: &Rewrite, engine: Engine) -> Option<Self> {
        if let Some(regex) = &spec.regex {
            return Rewriting::of(regex).map(Self::Regex);
        }
        let text = &spec.template.as_ref()?.template;
        let [name] = OWN;
        Some(Self::Template {
            template: Template::compile(engine, text).ok()?,
            author: owner_if(writes_only(engine, text, &OWN)),
            keeps: writes_only(engine, text, &[name, "Value"]),
        })
    }

    /// The author of a name that is derived from such a value.
    fn author_of_renamed(&self, original: Author) -> Author {
        match self {
            Self::Regex(rewriting) if rewriting.author == Author::Owner => Author::Owner,
            Self::Template { author, .. } if *author == Author::Owner => Author::Owner,
            Self::Regex(_) | Self::Template { keeps: true, .. } => original,
            Self::Template { keeps: false, .. } => Author::Consumer,
        }
    }
}

impl Entry {
    /// Compiles a checked entry; `None` if it is invalid after all.
    pub fn of(
        spec: &RelatedSpec,
        mutations: (Pipeline, Pipeline),
        premises: Premises,
    ) -> Option<Self> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let source = match (given(&spec.resource), spec.kind) {
            (Some(resource), _) => TypeName {
                group: given(&spec.group).unwrap_or_default(),
                version: given(&spec.version)?,
                resource,
            },
            (None, Some(kind)) => TypeName {
                group: String::new(),
                version: "v1".to_owned(),
                resource: match kind {
                    LegacyKind::ConfigMap => "configmaps".to_owned(),
                    LegacyKind::Secret => "secrets".to_owned(),
                },
            },
            (None, None) => return None,
        };
        let other = spec.projection.clone().unwrap_or_default();
        let target = TypeName {
            group: given(&other.group).unwrap_or_else(|| source.group.clone()),
            version: given(&other.version).unwrap_or_else(|| source.version.clone()),
            resource: given(&other.resource).unwrap_or_else(|| source.resource.clone()),
        };
        let namespaces = match &spec.object.namespace {
            Some(namespace) => Some(Values::of(namespace, premises)?),
            None => None,
        };
        let (mutate, back) = mutations;
        Some(Self {
            identifier: spec.identifier.clone(),
            origin: spec.origin,
            source,
            target,
            names: Values::of(&spec.object.names(), premises)?,
            namespaces,
            spec: mutate,
            status: back,
            choices: AllowedNames {
                cleanup: spec.cleanup,
                sync_status: spec.sync_status,
                require_link: spec.require_link,
                adopt: spec.adopt,
            },
            allowed_namespaces: spec.allowed_namespaces.iter().cloned().collect(),
            limit: spec
                .max_objects
                .map_or(FAN_OUT, |limit| usize::from(limit.get())),
        })
    }

    /// The kind on the service cluster, and in workspaces.
    pub fn on_service(&self) -> &TypeName {
        match self.origin {
            Origin::Service => &self.source,
            Origin::Kcp => &self.target,
        }
    }

    pub fn in_workspaces(&self) -> &TypeName {
        match self.origin {
            Origin::Service => &self.target,
            Origin::Kcp => &self.source,
        }
    }

    /// Whether namespaces are selected by labels, on the side of the originals.
    pub fn selects_namespaces(&self) -> bool {
        matches!(self.namespaces, Some(Values::Selector(_)))
    }

    /// Whether consumers influence which objects of the service cluster are meant.
    pub fn consumers_choose(&self) -> bool {
        self.names.authors(self.origin).service == Author::Consumer
    }

    /// The authors of its names and namespaces.
    pub fn name_authors(&self) -> NameAuthors {
        let of = |values: &Values| values.authors(self.origin);
        NameAuthors {
            names: of(&self.names),
            namespaces: self.namespaces.as_ref().map(of),
        }
    }
}

impl Author {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Status => "status",
            Self::Consumer => "consumer",
        }
    }

    /// The text for owners.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Owner => "the provider",
            Self::Status => "the status",
            Self::Consumer => "consumers",
        }
    }
}

impl Authors {
    pub fn as_json(self) -> Value {
        json!({"kcp": self.kcp.as_str(), "service": self.service.as_str()})
    }
}

impl fmt::Display for Authors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kcp, service) = (self.kcp.in_words(), self.service.in_words());
        write!(f, "{kcp} in workspaces, {service} on the service cluster")
    }
}

fn writes_only(engine: Engine, text: &str, own: &[&str]) -> bool {
    let data = provenance::Data {
        own,
        whole: &WHOLE,
        ..provenance::Data::default()
    };
    provenance::writes_only(engine, text, data)
}

fn owner_if(own: bool) -> Author {
    if own { Author::Owner } else { Author::Consumer }
}

/// Whether a path leads into the status for every object: it has no queries, pipes or modifiers, by which paths can
/// lead anywhere.
fn is_plain_status_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    path.starts_with("status.") && path.chars().all(plain)
}
