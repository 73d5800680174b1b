//! The fields that a template reads and the work that it takes, found in its tree before any data is known.

use std::collections::BTreeSet;

use gotmpl::parse::{ActionNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos};

/// The fields of its data that a template can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    All,
    Fields(BTreeSet<String>),
}

impl Default for Reads {
    fn default() -> Self {
        Self::Fields(BTreeSet::new())
    }
}

impl Reads {
    pub(super) fn of(template: &gotmpl::Template) -> Self {
        let mut reads = Self::default();
        for name in template.templates() {
            if let Some(tree) = template.lookup(name) {
                reads.list(tree);
            }
        }
        reads
    }

    pub(super) fn contains(&self, field: &str) -> bool {
        match self {
            Self::All => true,
            Self::Fields(fields) => fields.contains(field),
        }
    }

    fn list(&mut self, list: &ListNode) {
        for node in &list.nodes {
            match node {
                Node::List(list) => self.list(list),
                Node::Action(action) => self.pipe(&action.pipe),
                Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
                    self.pipe(&branch.pipe);
                    self.list(&branch.body);
                    branch.else_body.iter().for_each(|list| self.list(list));
                }
                Node::Template(template) => template.pipe.iter().for_each(|pipe| self.pipe(pipe)),
                Node::Define(define) => self.list(&define.body),
                _ => {}
            }
        }
    }

    fn pipe(&mut self, pipe: &PipeNode) {
        let args = pipe.commands.iter().flat_map(|command| &command.args);
        args.for_each(|arg| self.expr(arg));
    }

    fn expr(&mut self, expr: &Expr) {
        match (expr, &mut *self) {
            // The dot may be the whole of the data anywhere: what is meant by it is not followed.
            (Expr::Dot(_), _) => *self = Self::All,
            (Expr::Variable(_, name, path), _) if name == "$" && path.is_empty() => {
                *self = Self::All;
            }
            (Expr::Field(_, path), Self::Fields(fields)) => {
                fields.extend(path.first().map(ToString::to_string));
            }
            (Expr::Variable(_, name, path), Self::Fields(fields)) if name == "$" => {
                fields.extend(path.first().map(ToString::to_string));
            }
            (Expr::Pipe(_, pipe), Self::Fields(fields)) => match of_data(pipe) {
                Some(field) => drop(fields.insert(field.to_owned())),
                None => self.pipe(pipe),
            },
            (Expr::Chain(_, inner, _), _) => self.expr(inner),
            _ => {}
        }
    }
}

/// The arguments of a call that reads a field, as the preparation of a tree writes it.
fn reads_field(pipe: &PipeNode) -> Option<&[Expr]> {
    match pipe.commands.as_slice() {
        [command] => match command.args.split_first() {
            Some((Expr::Identifier(_, name), rest)) if name == "goField" => Some(rest),
            _ => None,
        },
        _ => None,
    }
}

/// The first field of the data that such a call reads.
fn of_data(pipe: &PipeNode) -> Option<&str> {
    match reads_field(pipe)? {
        [_, Expr::Dot(_), Expr::String(_, field), ..] => Some(field),
        [_, Expr::Variable(_, name, path), Expr::String(_, field), ..]
            if name == "$" && path.is_empty() =>
        {
            Some(field)
        }
        _ => None,
    }
}

/// Makes a tree count what it takes to go through it: at its beginning, and in every round of a `range`.
pub(super) fn count(tree: &mut ListNode) {
    let weight = weigh(tree);
    if weight > 0 {
        tree.nodes.insert(0, counter(tree.pos, weight));
    }
}

/// Counts the parts that are executed once; those of a `range` are counted in each of its rounds.
fn weigh(list: &mut ListNode) -> i64 {
    let mut weight = 0;
    for node in &mut list.nodes {
        weight += match node {
            Node::List(list) => weigh(list),
            Node::Action(action) => weight_of(&action.pipe),
            Node::If(branch) | Node::With(branch) => {
                let other = branch.else_body.as_mut().map_or(0, weigh);
                weight_of(&branch.pipe) + weigh(&mut branch.body) + other
            }
            Node::Range(branch) => {
                let round = weigh(&mut branch.body) + 1;
                branch.body.nodes.insert(0, counter(branch.pos, round));
                let other = branch.else_body.as_mut().map_or(0, weigh);
                weight_of(&branch.pipe) + other
            }
            Node::Template(template) => 1 + template.pipe.as_ref().map_or(0, weight_of),
            Node::Define(define) => {
                count(&mut define.body);
                0
            }
            _ => 1,
        };
    }
    weight
}

fn weight_of(pipe: &PipeNode) -> i64 {
    let of = |expr: &Expr| match expr {
        Expr::Pipe(_, pipe) if reads_field(pipe).is_none() => weight_of(pipe),
        _ => 1,
    };
    let args = pipe.commands.iter().flat_map(|command| &command.args);
    args.map(of).sum()
}

/// An action that writes nothing and spends so much. What it declares cannot be spelt by a template.
fn counter(pos: Pos, weight: i64) -> Node {
    let command = CommandNode {
        pos,
        args: vec![
            Expr::Identifier(pos, "goWork".into()),
            Expr::Number(pos, Number::Int(weight)),
        ],
    };
    Node::Action(ActionNode {
        pos,
        pipe: PipeNode {
            pos,
            decl: vec!["$go work".into()],
            commands: vec![command],
            is_assign: false,
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::template::{Engine, Template};

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        for engine in [Engine::Go, Engine::GoHtml] {
            let template = Template::compile(engine, text).unwrap();
            let fields = ["LocalObject", "RemoteObject", "Value"];
            let read: Vec<_> = fields.into_iter().filter(|f| template.reads(f)).collect();
            assert_eq!(read, want, "{text}");
        }
    }

    #[test]
    fn a_template_reads_the_fields_that_it_names() {
        check("plain", &[]);
        check("a/{{ .Value }}", &["Value"]);
        check("{{ $.LocalObject.spec.x | lower }}", &["LocalObject"]);
        check(
            "{{ if .RemoteObject }}{{ printf \"%s\" (upper .Value) }}{{ else }}x{{ end }}",
            &["RemoteObject", "Value"],
        );
        check("{{ (index .LocalObject.a 0).b }}", &["LocalObject"]);
        check(
            "{{ define \"x\" }}{{ .Value }}{{ end }}{{ template \"x\" }}",
            &["Value"],
        );
    }

    #[test]
    fn a_template_that_uses_its_data_as_a_whole_reads_all_of_it() {
        let all = &["LocalObject", "RemoteObject", "Value"];
        for text in [
            "{{ . }}",
            "{{ $x := $ }}{{ $x.Value }}",
            "{{ index . \"LocalObject\" }}",
            "{{ define \"x\" }}{{ .Value }}{{ end }}{{ template \"x\" . }}",
            "{{ with . }}a{{ end }}",
        ] {
            check(text, all);
        }
    }
}
