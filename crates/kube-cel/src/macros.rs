//! Macros: calls that expand to larger expressions, such as `l.all(x, p)`.

use super::{
    declarations::Library,
    expr::{Bind, Call, Entry, Expr, Fold, Is, Position, SortBy},
    problem::Problem,
};

const NAMES: [&str; 13] = [
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "existsOne",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "optMap",
    "optFlatMap",
    "sortBy",
];

/// The number of macros without the libraries of Kubernetes.
const STANDARD: usize = 6;

pub(super) fn is_one(name: &str, library: Library) -> bool {
    match library {
        Library::Standard => NAMES[..STANDARD].contains(&name),
        Library::Kubernetes => NAMES.contains(&name),
    }
}

/// A call, or what it stands for if it is that of a macro.
pub(super) fn expand(at: Position, mut call: Call, library: Library) -> Result<Expr, Problem> {
    let count = call.arguments.len();
    let is_known = matches!(
        (call.name.as_str(), call.target.is_some(), count),
        ("has", false, 1)
            | (
                "optMap"
                    | "optFlatMap"
                    | "sortBy"
                    | "all"
                    | "exists"
                    | "exists_one"
                    | "filter"
                    | "map",
                true,
                2,
            )
            | (
                "map" | "all" | "exists" | "exists_one" | "existsOne",
                true,
                3
            )
            | (
                "transformList" | "transformMap" | "transformMapEntry",
                true,
                3 | 4
            )
    );
    // The language itself has macros of one variable only.
    let is_there = library == Library::Kubernetes
        || (is_one(&call.name, library) && (count < 3 || call.name == "map"));
    if !is_known || !is_there {
        return Ok(Expr {
            at,
            is: Is::Call(Box::new(call)),
        });
    }
    if call.target.is_none() {
        return has(at, call.arguments.remove(0));
    }
    let Call {
        name,
        target,
        arguments,
        ..
    } = call;
    let mut arguments = arguments.into_iter();
    let (Some(range), Some(first)) = (target, arguments.next()) else {
        return Ok(Expr { at, is: Is::Null });
    };
    let variable = variable(first)?;
    let one_variable = count == 2 || name == "map";
    let second = match arguments.next() {
        Some(second) if !one_variable => Some(self::variable(second)?),
        Some(body) => {
            let rest = arguments.next();
            return Ok(single(at, &name, (range, variable), (body, rest)));
        }
        None => return Ok(Expr { at, is: Is::Null }),
    };
    let Some(body) = arguments.next() else {
        return Ok(Expr { at, is: Is::Null });
    };
    let over = Over {
        at,
        range,
        variable,
        second,
    };
    Ok(match name.as_str() {
        "all" => over.all(body),
        "exists" => over.exists(body),
        "exists_one" | "existsOne" => over.exists_one(body),
        "transformList" => over.list(body, arguments.next()),
        "transformMap" => over.map(body, arguments.next()),
        _ => over.entries(body, arguments.next()),
    })
}

fn single(
    at: Position,
    name: &str,
    (range, variable): (Expr, String),
    (body, rest): (Expr, Option<Expr>),
) -> Expr {
    let is = match name {
        "optMap" | "optFlatMap" => Is::Bind(Box::new(Bind {
            of: range,
            variable,
            body,
            flat: name == "optFlatMap",
        })),
        "sortBy" => Is::SortBy(Box::new(SortBy {
            of: range,
            variable,
            key: body,
        })),
        _ => {
            let over = Over {
                at,
                range,
                variable,
                second: None,
            };
            return match name {
                "all" => over.all(body),
                "exists" => over.exists(body),
                "exists_one" => over.exists_one(body),
                "filter" => {
                    let kept = Expr {
                        at,
                        is: Is::Name(over.variable.clone()),
                    };
                    over.list(body, Some(kept))
                }
                _ => over.list(body, rest),
            };
        }
    };
    Expr { at, is }
}

fn has(at: Position, argument: Expr) -> Result<Expr, Problem> {
    match argument.is {
        Is::Select {
            of,
            field,
            test: false,
        } => Ok(Expr {
            at,
            is: Is::Select {
                of,
                field,
                test: true,
            },
        }),
        _ => Err(Problem::new(
            argument.at,
            "invalid argument to has() macro".to_owned(),
        )),
    }
}

fn variable(argument: Expr) -> Result<String, Problem> {
    match argument.is {
        Is::Name(name) if !name.starts_with('.') => Ok(name),
        _ => Err(Problem::new(
            argument.at,
            "argument must be a simple name".to_owned(),
        )),
    }
}

struct Over {
    at: Position,
    range: Expr,
    variable: String,
    second: Option<String>,
}

impl Over {
    fn node(&self, is: Is) -> Expr {
        Expr { at: self.at, is }
    }

    fn call(&self, name: &str, arguments: Vec<Expr>) -> Expr {
        Expr::call(self.at, name, arguments)
    }

    fn carried(&self) -> Expr {
        Expr::carried(self.at)
    }

    fn fold(self, initial: Expr, goes_on: Expr, step: Expr, result: Expr) -> Expr {
        let at = self.at;
        let fold = Fold {
            range: self.range,
            variable: self.variable,
            second: self.second,
            initial,
            goes_on,
            step,
            result,
        };
        Expr {
            at,
            is: Is::Fold(Box::new(fold)),
        }
    }

    fn all(self, body: Expr) -> Expr {
        let goes_on = self.call("@not_strictly_false", vec![self.carried()]);
        let step = self.call("_&&_", vec![self.carried(), body]);
        let (initial, result) = (self.node(Is::Bool(true)), self.carried());
        self.fold(initial, goes_on, step, result)
    }

    fn exists(self, body: Expr) -> Expr {
        let not = self.call("!_", vec![self.carried()]);
        let goes_on = self.call("@not_strictly_false", vec![not]);
        let step = self.call("_||_", vec![self.carried(), body]);
        let (initial, result) = (self.node(Is::Bool(false)), self.carried());
        self.fold(initial, goes_on, step, result)
    }

    fn exists_one(self, body: Expr) -> Expr {
        let one = || self.node(Is::Int(1));
        let more = self.call("_+_", vec![self.carried(), one()]);
        let step = self.call("_?_:_", vec![body, more, self.carried()]);
        let result = self.call("_==_", vec![self.carried(), one()]);
        let (initial, goes_on) = (self.node(Is::Int(0)), self.node(Is::Bool(true)));
        self.fold(initial, goes_on, step, result)
    }

    /// With two bodies the first says which elements are taken.
    fn collected(self, initial: Expr, (body, rest): (Expr, Option<Expr>), add: Add) -> Expr {
        let (filter, body) = match rest {
            Some(rest) => (Some(body), rest),
            None => (None, body),
        };
        let more = match add {
            Add::Item => {
                let item = self.node(Is::List {
                    items: vec![body],
                    optional: Vec::new(),
                });
                self.call("_+_", vec![self.carried(), item])
            }
            Add::Value => {
                let key = self.node(Is::Name(self.variable.clone()));
                self.call("@mapInsert", vec![self.carried(), key, body])
            }
            Add::Entries => self.call("@mapInsert", vec![self.carried(), body]),
        };
        let step = match filter {
            Some(filter) => self.call("_?_:_", vec![filter, more, self.carried()]),
            None => more,
        };
        let (goes_on, result) = (self.node(Is::Bool(true)), self.carried());
        self.fold(initial, goes_on, step, result)
    }

    fn list(self, body: Expr, rest: Option<Expr>) -> Expr {
        let none = self.node(Is::List {
            items: Vec::new(),
            optional: Vec::new(),
        });
        self.collected(none, (body, rest), Add::Item)
    }

    fn map(self, body: Expr, rest: Option<Expr>) -> Expr {
        let none = self.node(Is::Map(Vec::<Entry>::new()));
        self.collected(none, (body, rest), Add::Value)
    }

    fn entries(self, body: Expr, rest: Option<Expr>) -> Expr {
        let none = self.node(Is::Map(Vec::<Entry>::new()));
        self.collected(none, (body, rest), Add::Entries)
    }
}

#[derive(Clone, Copy)]
enum Add {
    Item,
    Value,
    Entries,
}
