//! The type checker: the errors of an expression that are known before there is an object.
//! Names of functions and types that are made of several are put together on the way.

use std::mem;

use kube_lang::go_regex::GoRegex;

use super::{
    declarations::{self, FREE, Library, Style},
    expr::{Bind, CARRIED, Call, Entry, Expr, Fold, Is, Position, SortBy},
    literals,
    problem::Problem,
    types::{Known, Type, most_general},
};

/// The variables of an expression, with their types.
pub type Variables<'a> = &'a [(&'a str, Type)];

/// The type of an expression, or all that is wrong with it.
pub(super) fn check(
    expr: &mut Expr,
    library: Library,
    variables: Variables<'_>,
) -> Result<Type, Vec<Problem>> {
    let mut checker = Checker {
        library,
        scope: variables
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.clone()))
            .collect(),
        known: Known::default(),
        next: 0,
        problems: Vec::new(),
        mixed: Vec::new(),
        formatted: 0,
    };
    let kind = checker.visit(expr);
    if checker.problems.is_empty() && library == Library::Kubernetes {
        checker.problems.append(&mut checker.mixed);
        literals::check(expr, &mut checker.problems);
    }
    if checker.problems.is_empty() {
        Ok(checker.known.shown(&kind))
    } else {
        Err(checker.problems)
    }
}

struct Checker {
    library: Library,
    /// The innermost comes last.
    scope: Vec<(String, Type)>,
    known: Known,
    /// The next free type.
    next: u32,
    problems: Vec<Problem>,
    /// Lists and maps of several types, told if there is nothing worse.
    mixed: Vec<Problem>,
    /// The number of enclosing calls of `format`, which take lists of mixed types.
    formatted: usize,
}

impl Checker {
    fn refuse(&mut self, at: Position, message: String) -> Type {
        if self.problems.len() < 200 {
            self.problems.push(Problem::new(at, message));
        }
        Type::Error
    }

    fn undeclared(&mut self, at: Position, name: &str) -> Type {
        self.refuse(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn mismatch(&mut self, at: Position, wanted: &Type, found: &Type) -> Type {
        let (wanted, found) = (self.known.shown(wanted), self.known.shown(found));
        self.refuse(at, format!("expected type '{wanted}' but found '{found}'"))
    }

    fn free(&mut self) -> Type {
        self.next += 1;
        Type::Free(self.next - 1)
    }

    fn visit(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        let kind = match &mut expr.is {
            Is::Null => Type::Null,
            Is::Bool(_) => Type::Bool,
            Is::Int(_) => Type::Int,
            Is::Uint(_) => Type::Uint,
            Is::Double(_) => Type::Double,
            Is::Text(_) => Type::Text,
            Is::Bytes(_) => Type::Bytes,
            Is::Name(_) | Is::TypeName(_) => self.name(expr),
            Is::Select { .. } => self.select(expr),
            Is::Call(call) => self.call(at, call),
            Is::List { items, optional } => {
                let optional = mem::take(optional);
                let kind = self.list(items, &optional);
                if let Is::List { optional: kept, .. } = &mut expr.is {
                    *kept = optional;
                }
                kind
            }
            Is::Map(entries) => self.map(entries),
            Is::Message(name) => {
                let name = mem::take(name);
                self.undeclared(at, &name)
            }
            Is::Fold(fold) => self.fold(fold),
            Is::Bind(bind) => self.bind(at, bind),
            Is::SortBy(sort) => self.sort_by(at, sort),
        };
        self.known.resolve(&kind)
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let name = name.trim_start_matches('.');
        self.scope
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, kind)| kind.clone())
    }

    fn name(&mut self, expr: &mut Expr) -> Type {
        let (Is::Name(name) | Is::TypeName(name)) = &expr.is else {
            return Type::Error;
        };
        if let Some(kind) = self.variable(name) {
            return kind;
        }
        if let Some(kind) = declarations::named_type(name.trim_start_matches('.'), self.library) {
            expr.is = Is::TypeName(name.trim_start_matches('.').to_owned());
            return Type::Kind(kind.into());
        }
        let name = name.clone();
        self.undeclared(expr.at, &name)
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(dotted) = expr.dotted()
            && let Some(kind) = declarations::named_type(&dotted, self.library)
        {
            expr.is = Is::TypeName(dotted);
            return Type::Kind(kind.into());
        }
        let at = expr.at;
        let Is::Select { of, field, test } = &mut expr.is else {
            return Type::Error;
        };
        let found = self.member(at, of, field, Selects::Plain);
        if *test { Type::Bool } else { found }
    }

    fn member(&mut self, at: Position, of: &mut Expr, field: &str, selects: Selects) -> Type {
        let operand = self.visit(of);
        let (target, is_optional) = match &operand {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let found = match &target {
            Type::Map(both) => both.1.clone(),
            Type::Object(shape) => match shape.member(field).and_then(|m| m.shape.type_of()) {
                Some(kind) => kind,
                None => self.refuse(at, format!("undefined field '{field}'")),
            },
            Type::Free(_) => {
                self.known.fits(&Type::Dyn, &target);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                let shown = self.known.shown(other);
                self.refuse(
                    at,
                    format!("type '{shown}' does not support field selection"),
                );
                Type::Dyn
            }
        };
        if is_optional || selects == Selects::Optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn call(&mut self, at: Position, call: &mut Call) -> Type {
        if call.name == "_?._" {
            let [of, field] = call.arguments.as_mut_slice() else {
                return Type::Error;
            };
            let Is::Text(field) = &field.is else {
                return Type::Error;
            };
            return self.member(at, of, &field.clone(), Selects::Optional);
        }
        let mut kinds: Vec<Type> = Vec::with_capacity(call.arguments.len() + 1);
        let formats = usize::from(call.name == "format" && call.target.is_some());
        self.formatted += formats;
        for argument in &mut call.arguments {
            let kind = self.visit(argument);
            kinds.push(kind);
        }
        self.formatted -= formats;
        if matches!(call.name.as_str(), "matches" | "find" | "findAll") {
            // One that cannot be compiled fails where it is used.
            let pattern = call.arguments.get(usize::from(call.target.is_none()));
            if let Some(Is::Text(pattern)) = pattern.map(|pattern| &pattern.is) {
                call.pattern = GoRegex::compile(pattern).ok();
            }
        }
        let Some(target) = &mut call.target else {
            let name = call.name.trim_start_matches('.').to_owned();
            call.name = name;
            return self.resolve(at, call, &kinds, Style::Global);
        };
        let qualified = target
            .dotted()
            .map(|prefix| format!("{prefix}.{}", call.name))
            .filter(|name| declarations::find(name, self.library).is_some());
        if let Some(qualified) = qualified {
            call.name = qualified;
            call.target = None;
            return self.resolve(at, call, &kinds, Style::Global);
        }
        let kind = self.visit(target);
        kinds.insert(0, kind);
        self.resolve(at, call, &kinds, Style::Member)
    }

    fn resolve(&mut self, at: Position, call: &Call, kinds: &[Type], style: Style) -> Type {
        let Some(overloads) = declarations::find(&call.name, self.library) else {
            return self.undeclared(at, &call.name);
        };
        if matches!(call.name.as_str(), "_&&_" | "_||_") {
            let mut result = Type::Bool;
            for (kind, argument) in kinds.iter().zip(&call.arguments) {
                if !self.known.fits(kind, &Type::Bool) {
                    result = self.mismatch(argument.at, &Type::Bool, kind);
                }
            }
            return result;
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.style == style) {
            let from = self.next;
            self.next += FREE;
            let places: Vec<Type> = overload.takes.iter().map(|t| t.fresh(from)).collect();
            if !self.known.fit_all(kinds, &places) {
                continue;
            }
            let gives = self.known.resolve(&overload.gives.fresh(from));
            result = Some(match result {
                None => gives,
                Some(found) if matches!(found, Type::Dyn) || gives.is(&found) => found,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| self.no_overload(at, &call.name, kinds, style))
    }

    fn no_overload(&mut self, at: Position, name: &str, kinds: &[Type], style: Style) -> Type {
        let shown = |kinds: &[Type]| {
            let shown: Vec<String> = kinds
                .iter()
                .map(|kind| self.known.shown(kind).to_string())
                .collect();
            shown.join(", ")
        };
        let applied = match (style, kinds.split_first()) {
            (Style::Member, Some((target, rest))) => {
                format!("{}.({})", self.known.shown(target), shown(rest))
            }
            _ => format!("({})", shown(kinds)),
        };
        self.refuse(
            at,
            format!("found no matching overload for '{name}' applied to '{applied}'"),
        )
    }

    /// The type of elements so far and of one more.
    fn joined(&mut self, at: Position, so_far: Option<Type>, more: Type) -> Type {
        let Some(so_far) = so_far else { return more };
        if self.known.fits(&so_far, &more) {
            return most_general(&so_far, &more);
        }
        if self.formatted == 0 && self.mixed.len() < 200 {
            let (so_far, more) = (self.known.shown(&so_far), self.known.shown(&more));
            let message = format!("expected type '{so_far}' but found '{more}'");
            self.mixed.push(Problem::new(at, message));
        }
        Type::Dyn
    }

    /// The type within an optional, at a place where it may be left out.
    fn unwrapped(&mut self, at: Position, kind: Type) -> Type {
        match kind {
            Type::Optional(inner) => (*inner).clone(),
            kind if kind.is_dyn_or_error() => kind,
            kind => self.mismatch(at, &Type::optional(kind.clone()), &kind),
        }
    }

    fn list(&mut self, items: &mut [Expr], optional: &[usize]) -> Type {
        let mut joined = None;
        for (nth, item) in items.iter_mut().enumerate() {
            let mut kind = self.visit(item);
            if optional.contains(&nth) {
                kind = self.unwrapped(item.at, kind);
            }
            joined = Some(self.joined(item.at, joined, kind));
        }
        Type::list(joined.unwrap_or_else(|| self.free()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.visit(&mut entry.key);
            keys = Some(self.joined(entry.key.at, keys, key));
            let mut value = self.visit(&mut entry.value);
            if entry.optional {
                value = self.unwrapped(entry.value.at, value);
            }
            values = Some(self.joined(entry.value.at, values, value));
        }
        let key = keys.unwrap_or_else(|| self.free());
        let value = values.unwrap_or_else(|| self.free());
        Type::map(key, value)
    }

    fn must_be(&mut self, expr: &Expr, found: &Type, wanted: &Type) {
        if !self.known.fits(found, wanted) {
            self.mismatch(expr.at, wanted, found);
        }
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.visit(&mut fold.range);
        let carried = self.visit(&mut fold.initial);
        let (first, second) = match &range {
            Type::List(element) if fold.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(both) => both.as_ref().clone(),
            Type::Dyn | Type::Error | Type::Free(_) => {
                self.known.fits(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let shown = self.known.shown(other);
                self.refuse(
                    fold.range.at,
                    format!(
                        "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        };
        let outside = self.scope.len();
        self.scope.push((CARRIED.to_owned(), carried.clone()));
        self.scope.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scope.push((name.clone(), second));
        }
        let goes_on = self.visit(&mut fold.goes_on);
        self.must_be(&fold.goes_on, &goes_on, &Type::Bool);
        let step = self.visit(&mut fold.step);
        self.must_be(&fold.step, &step, &carried);
        self.scope.truncate(outside + 1);
        let result = self.visit(&mut fold.result);
        self.scope.truncate(outside);
        result
    }

    fn bind(&mut self, at: Position, bind: &mut Bind) -> Type {
        let of = self.visit(&mut bind.of);
        let inner = self.free();
        if !self.known.fits(&of, &Type::optional(inner.clone())) {
            return self.no_overload(at, "hasValue", &[of], Style::Member);
        }
        self.scope
            .push((bind.variable.clone(), self.known.resolve(&inner)));
        let body = self.visit(&mut bind.body);
        self.scope.pop();
        if !bind.flat {
            return Type::optional(body);
        }
        let result = Type::optional(self.free());
        self.must_be(&bind.body, &body, &result);
        result
    }

    fn sort_by(&mut self, at: Position, sort: &mut SortBy) -> Type {
        let of = self.visit(&mut sort.of);
        let element = self.free();
        if !self.known.fits(&of, &Type::list(element.clone())) {
            return self.no_overload(at, "sortBy", &[of], Style::Member);
        }
        self.scope
            .push((sort.variable.clone(), self.known.resolve(&element)));
        let key = self.visit(&mut sort.key);
        self.scope.pop();
        let comparable = matches!(
            key,
            Type::Dyn
                | Type::Error
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::Duration
                | Type::Time
                | Type::Text
                | Type::Bytes
        );
        if comparable {
            of
        } else {
            let keys = Type::list(key);
            self.no_overload(at, "@sortByAssociatedKeys", &[of, keys], Style::Member)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Selects {
    Plain,
    Optional,
}
