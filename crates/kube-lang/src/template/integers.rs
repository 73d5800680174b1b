//! Types of integers. Go tells `int`, the type of literals, from `int64`, the type of numbers in objects. Values here have
//! one integer type, so the types are inferred from the template, and functions whose result depends on them are called
//! with the types that were inferred.

use std::collections::BTreeSet;

use gotmpl::parse::{CommandNode, Expr, ListNode, Node, Number, PipeNode};

/// The type of all integers within a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integers {
    /// There is none.
    Absent,
    /// `int`
    Literal,
    /// `int64`
    Data,
    /// Some of each, or not to be told from the template.
    Unknown,
}

use Integers::{Absent, Data, Literal, Unknown};

impl Integers {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Absent, other) => other,
            (this, Absent) => this,
            (this, other) if this == other => this,
            _ => Unknown,
        }
    }

    fn bits(self) -> i64 {
        match self {
            Absent | Unknown => 0,
            Literal => 1,
            Data => 2,
        }
    }

    pub(super) fn differ(self, other: Self) -> bool {
        matches!((self, other), (Literal, Data) | (Data, Literal))
    }
}

/// A variable as far as the template tells.
pub(super) struct Variable {
    name: String,
    integers: Integers,
    /// An element of what a `range` goes through: it may be null, where other variables are absent instead.
    pub(super) element: bool,
}

/// The variables and the dot at a place of a template.
pub(super) struct Scope {
    variables: Vec<Variable>,
    /// Names that are assigned to anew somewhere.
    assigned: BTreeSet<String>,
    pub(super) dot: Integers,
    /// The dot is an element of what a `range` goes through.
    pub(super) element: bool,
    root: Integers,
}

impl Scope {
    /// The scope of a template: the main one begins with the data, others with what they are given.
    pub(super) fn new(tree: &ListNode, is_main: bool) -> Self {
        let mut assigned = BTreeSet::new();
        assignments(tree, &mut assigned);
        let root = if is_main { Data } else { Unknown };
        Self {
            variables: Vec::new(),
            assigned,
            dot: root,
            element: false,
            root,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.variables.len()
    }

    /// Forgets the variables of a block that has ended.
    pub(super) fn leave(&mut self, depth: usize) {
        self.variables.truncate(depth);
    }

    pub(super) fn declare(&mut self, name: &str, integers: Integers, element: bool) {
        let integers = if self.assigned.contains(name) {
            Unknown
        } else {
            integers
        };
        self.variables.push(Variable {
            name: name.to_owned(),
            integers,
            element,
        });
    }

    pub(super) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|known| known.name == name)
    }

    fn expr(&self, expr: &Expr) -> Integers {
        match expr {
            Expr::Number(_, Number::Int(_)) => Literal,
            Expr::Number(..) | Expr::String(..) | Expr::Bool(..) | Expr::Nil(_) => Absent,
            Expr::Dot(_) | Expr::Field(..) => self.dot,
            Expr::Variable(_, name, _) if name == "$" => self.root,
            Expr::Variable(_, name, _) => self
                .variable(name)
                .map_or(Unknown, |variable| variable.integers),
            Expr::Identifier(_, name) => integers_returned(name, &[]),
            Expr::Pipe(_, pipe) => self.pipe(pipe),
            Expr::Chain(_, inner, _) => self.expr(inner),
        }
    }

    pub(super) fn pipe(&self, pipe: &PipeNode) -> Integers {
        let mut piped = None;
        for command in &pipe.commands {
            piped = Some(self.command(command, piped));
        }
        piped.unwrap_or(Unknown)
    }

    pub(super) fn command(&self, command: &CommandNode, piped: Option<Integers>) -> Integers {
        match command.args.first() {
            Some(Expr::Identifier(_, name)) => {
                integers_returned(name, &self.arguments(command, piped))
            }
            Some(first) => self.expr(first),
            None => Unknown,
        }
    }

    /// The integers in each argument of a call.
    pub(super) fn arguments(
        &self,
        command: &CommandNode,
        piped: Option<Integers>,
    ) -> Vec<Integers> {
        let written = command.args.iter().skip(1).map(|arg| self.expr(arg));
        written.chain(piped).collect()
    }
}

fn assignments(list: &ListNode, found: &mut BTreeSet<String>) {
    for node in &list.nodes {
        match node {
            Node::List(list) => assignments(list, found),
            Node::Action(action) => {
                let pipe = &action.pipe;
                if pipe.is_assign {
                    found.extend(pipe.decl.iter().map(ToString::to_string));
                }
                // What changes its argument may put other integers into it.
                for command in &pipe.commands {
                    if let [Expr::Identifier(_, name), Expr::Variable(_, changed, _), ..] =
                        command.args.as_slice()
                        && MUTATING.contains(&name.as_str())
                    {
                        found.insert(changed.to_string());
                    }
                }
            }
            Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
                if branch.pipe.is_assign {
                    found.extend(branch.pipe.decl.iter().map(ToString::to_string));
                }
                assignments(&branch.body, found);
                let other = branch.else_body.iter();
                other.for_each(|list| assignments(list, found));
            }
            _ => {}
        }
    }
}

/// The integers that a function answers.
fn integers_returned(name: &str, args: &[Integers]) -> Integers {
    let of = |args: &[Integers]| args.iter().copied().fold(Absent, Integers::and);
    match name {
        "len" | "int" | "atoi" | "until" | "untilStep" => Literal,
        "int64" | "toDecimal" | "add" | "add1" | "sub" | "mul" | "div" | "mod" | "max"
        | "biggest" | "min" => Data,
        "list" | "tuple" | "dict" | "default" | "coalesce" | "ternary" | "first" | "mustFirst"
        | "last" | "mustLast" | "rest" | "mustRest" | "initial" | "mustInitial" | "append"
        | "mustAppend" | "push" | "mustPush" | "prepend" | "mustPrepend" | "reverse"
        | "mustReverse" | "uniq" | "mustUniq" | "compact" | "mustCompact" | "concat" | "get"
        | "values" | "pick" | "omit" | "pluck" | "dig" | "merge" | "mustMerge"
        | "mergeOverwrite" | "mustMergeOverwrite" | "set" | "unset" | "deepCopy"
        | "mustDeepCopy" | "and" | "or" => of(args),
        // The others are indices.
        "index" | "slice" | "mustSlice" | "without" | "mustWithout" => {
            of(&args[..args.len().min(1)])
        }
        "chunk" | "mustChunk" => of(args.get(1..).unwrap_or_default()),
        "semver" | "call" => Unknown,
        name if name.starts_with("gjson") => Data,
        _ => Absent,
    }
}

/// The parameters of functions that are Go's `int`, so that an `int64` is an error.
pub(super) fn int_parameters(name: &str) -> &'static [usize] {
    match name {
        "repeat" | "trunc" | "indent" | "nindent" | "until" | "abbrev" | "chunk" | "mustChunk"
        | "wrap" | "wrapWith" => &[0],
        "substr" | "abbrevboth" | "seq" => &[0, 1],
        "untilStep" => &[0, 1, 2],
        "splitn" | "round" => &[1],
        "plural" | "regexFindAll" | "mustRegexFindAll" | "regexSplit" | "mustRegexSplit" => &[2],
        _ => &[],
    }
}

/// A float literal without a fraction is an `int` where one is wanted.
pub(super) fn narrow(name: &str, command: &mut CommandNode) {
    for at in int_parameters(name) {
        if let Some(Expr::Number(_, number @ Number::Float(_))) = command.args.get_mut(at + 1)
            && let Number::Float(float) = *number
            && float.fract() == 0.0
            && float.abs() < 1e15
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a whole number of at most 15 digits"
            )]
            let whole = float as i64;
            *number = Number::Int(whole);
        }
    }
}

/// The dependence of a call on the types of integers.
pub(super) enum Call {
    /// Not at all.
    Plain,
    /// As [`call`] takes it: two bits for each argument.
    Typed(i64),
    /// In a way that cannot be told.
    Unclear,
}

pub(super) const MUTATING: &[&str] = &[
    "set",
    "unset",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
];

/// Reads how a function depends on the types of what it is given.
pub(super) fn call_of(name: &str, args: &[Integers]) -> Call {
    let literal = args.contains(&Literal);
    let depends = match name {
        "typeOf" | "kindOf" | "kindIs" | "typeIs" | "typeIsLike" | "duration" => {
            args.last() == Some(&Literal)
        }
        "has" | "mustHas" | "without" | "mustWithout" | "deepEqual" => {
            if literal && args.contains(&Unknown) {
                return Call::Unclear;
            }
            literal && args.contains(&Data)
        }
        _ => int_parameters(name)
            .iter()
            .any(|at| args.get(*at) == Some(&Data)),
    };
    if !depends || args.len() > 30 {
        return Call::Plain;
    }
    let bits = args.iter().enumerate();
    Call::Typed(bits.fold(0, |bits, (at, integers)| bits | integers.bits() << (2 * at)))
}
