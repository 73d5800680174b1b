//! Whose words a template writes: its author's alone, or also those of the objects it is given.
//!
//! Decided by reading the template, not by rendering it, so that no object can mislead it. Where it is
//! not certain, the answer is that objects have a say.

use gotmpl::parse::{Expr, ListNode, Node, PipeNode};

use super::{Engine, has_actions};

/// Whether everything that a template writes is its author's text or one of these fields of its
/// data, whatever decides which of its branches is taken.
pub fn writes_only(engine: Engine, text: &str, fields: &[&str]) -> bool {
    if !has_actions(text) {
        return true;
    }
    if engine == Engine::Handlebars {
        return false;
    }
    let Ok(parsed) = super::parse(text, engine) else {
        return false;
    };
    let reading = Reading {
        fields,
        at_root: true,
    };
    parsed
        .lookup(super::NAME)
        .is_some_and(|tree| reading.list(tree))
}

struct Reading<'a> {
    fields: &'a [&'a str],
    /// Whether the dot is still the whole of the data.
    at_root: bool,
}

impl Reading<'_> {
    fn list(&self, list: &ListNode) -> bool {
        list.nodes.iter().all(|node| self.node(node))
    }

    fn node(&self, node: &Node) -> bool {
        let otherwise = |other: Option<&ListNode>| other.is_none_or(|list| self.list(list));
        match node {
            Node::List(list) => self.list(list),
            Node::Text(_) => true,
            // A variable is not followed: whoever writes one writes what is not known.
            Node::Action(action) => !action.pipe.decl.is_empty() || self.pipe(&action.pipe),
            Node::If(branch) => self.list(&branch.body) && otherwise(branch.else_body.as_ref()),
            Node::With(branch) => {
                let inner = Reading {
                    fields: self.fields,
                    at_root: false,
                };
                inner.list(&branch.body) && otherwise(branch.else_body.as_ref())
            }
            // How often something is written is a word too.
            _ => false,
        }
    }

    fn pipe(&self, pipe: &PipeNode) -> bool {
        let mut args = pipe.commands.iter().flat_map(|command| &command.args);
        args.all(|arg| self.expr(arg))
    }

    fn expr(&self, expr: &Expr) -> bool {
        let known = |path: &[_]| matches!(path, [field] if self.is_known(field));
        match expr {
            Expr::String(..)
            | Expr::Number(..)
            | Expr::Bool(..)
            | Expr::Nil(_)
            | Expr::Identifier(..) => true,
            Expr::Field(_, path) => self.at_root && known(path),
            Expr::Variable(_, name, path) => name == "$" && known(path),
            Expr::Pipe(_, pipe) => pipe.decl.is_empty() && self.pipe(pipe),
            Expr::Dot(_) | Expr::Chain(..) => false,
        }
    }

    fn is_known(&self, field: impl AsRef<str>) -> bool {
        self.fields.contains(&field.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: bool) {
        let found = writes_only(Engine::Go, text, &["ClusterName", "Side"]);
        assert_eq!(found, want, "{text}");
    }

    #[test]
    fn what_authors_write_and_known_fields_are_nobody_elses_words() {
        for text in [
            "plain",
            "a-{{ .ClusterName }}",
            "{{ $.ClusterName | lower }}",
            "{{ if .Object.spec.prod }}prod{{ else if eq .Object.spec.x \"y\" }}test{{ else }}x{{ end }}",
            "{{ list \"fi\" \"nd\" | join \"-\" }}",
            "{{ printf \"%s-%s\" (lower \"ME\") .ClusterName }}",
            "{{ with .Object.spec }}{{ $.ClusterName }}{{ end }}",
            "{{ $x := .Object.spec.name }}fixed",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn what_may_be_an_objects_words_is_taken_for_them() {
        for text in [
            "{{ .Object.metadata.name }}",
            "{{ . }}",
            "{{ .ClusterPath }}",
            "{{ .ClusterName.x }}",
            "{{ $x := .Object.spec.name }}{{ $x }}",
            "{{ with .Object }}{{ .ClusterName }}{{ end }}",
            "{{ range .Object.spec.list }}a{{ end }}",
            "{{ if true }}{{ .Object.spec.x }}{{ end }}",
            "{{ ternary \"a\" .Object.spec.x true }}",
            "{{ define \"x\" }}{{ .Object }}{{ end }}{{ template \"x\" . }}",
            "{{ (index .Object \"spec\").name }}",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn a_language_that_is_not_read_is_not_trusted() {
        assert!(writes_only(Engine::Handlebars, "plain", &[]));
        assert!(!writes_only(
            Engine::Handlebars,
            "{{ClusterName}}",
            &["ClusterName"]
        ));
    }
}
