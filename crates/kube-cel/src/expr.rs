//! Expressions as they are checked and evaluated: macros are expanded, depth is bounded.

use std::sync::Arc;

use kube_lang::go_regex::GoRegex;

/// One node, with where it stands in its source: a line from one on and a column from zero on.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) at: Position,
    pub(super) is: Is,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Is {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
    Bytes(Arc<[u8]>),
    Name(String),
    /// A name that was found to be a type's.
    TypeName(String),
    Select {
        of: Box<Expr>,
        field: String,
        test: bool,
    },
    Call(Box<Call>),
    List {
        items: Vec<Expr>,
        /// Those that may be left out: `[?a]`.
        optional: Vec<usize>,
    },
    Map(Vec<Entry>),
    /// A message of protobuf by its name; there are none in rules.
    Message(String),
    Fold(Box<Fold>),
    /// `a.optMap(v, e)`, `a.optFlatMap(v, e)`
    Bind(Box<Bind>),
    /// `l.sortBy(v, e)`
    SortBy(Box<SortBy>),
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) target: Option<Expr>,
    pub(super) arguments: Vec<Expr>,
    /// The pattern that it matches, where that is written out and right.
    pub(super) pattern: Option<GoRegex>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A comprehension, which most macros expand to: a result is carried from element to element.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    pub(super) range: Expr,
    pub(super) variable: String,
    /// With two, the first is the index or the key.
    pub(super) second: Option<String>,
    pub(super) initial: Expr,
    pub(super) goes_on: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

#[derive(Clone, Debug)]
pub(super) struct Bind {
    pub(super) of: Expr,
    pub(super) variable: String,
    pub(super) body: Expr,
    pub(super) flat: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SortBy {
    pub(super) of: Expr,
    pub(super) variable: String,
    pub(super) key: Expr,
}

/// The result that a fold carries; no identifier can be spelled like this.
pub(super) const CARRIED: &str = "@result";

impl Expr {
    pub(super) fn call(at: Position, name: &str, arguments: Vec<Self>) -> Self {
        let call = Call {
            name: name.to_owned(),
            target: None,
            arguments,
            pattern: None,
        };
        Self {
            at,
            is: Is::Call(Box::new(call)),
        }
    }

    pub(super) fn carried(at: Position) -> Self {
        Self {
            at,
            is: Is::Name(CARRIED.to_owned()),
        }
    }

    /// The dotted name that an expression spells.
    pub(super) fn dotted(&self) -> Option<String> {
        match &self.is {
            Is::Name(name) => Some(name.trim_start_matches('.').to_owned()),
            Is::Select {
                of,
                field,
                test: false,
            } => Some(format!("{}.{field}", of.dotted()?)),
            _ => None,
        }
    }

    /// True if the expression reads a variable.
    pub(super) fn uses(&self, name: &str) -> bool {
        let any = |all: &[Self]| all.iter().any(|one| one.uses(name));
        match &self.is {
            Is::Name(found) => found.trim_start_matches('.') == name,
            Is::Select { of, .. } => of.uses(name),
            Is::Call(call) => {
                call.target.as_ref().is_some_and(|target| target.uses(name)) || any(&call.arguments)
            }
            Is::List { items, .. } => any(items),
            Is::Map(entries) => entries
                .iter()
                .any(|entry| entry.key.uses(name) || entry.value.uses(name)),
            Is::Fold(fold) => [
                &fold.range,
                &fold.initial,
                &fold.goes_on,
                &fold.step,
                &fold.result,
            ]
            .into_iter()
            .any(|one| one.uses(name)),
            Is::Bind(bind) => bind.of.uses(name) || bind.body.uses(name),
            Is::SortBy(sort) => sort.of.uses(name) || sort.key.uses(name),
            _ => false,
        }
    }
}
