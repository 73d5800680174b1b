//! Evaluation of an expression over an object. Every step costs work, which is bounded, and recursion is as deep as the
//! expression, which is bounded too.

use std::rc::Rc;

use super::{
    expr::{Bind, CARRIED, Call, Entry, Expr, Fold, Is, SortBy},
    fault::{Fault, Meter, no_overload},
    functions,
    value::{Answer, Text, Val},
};

pub(super) struct Evaluation<'a, 'm> {
    /// Variables and their values; the innermost comes last.
    scope: Vec<(&'a str, Val<'a>)>,
    meter: &'m Meter,
}

/// Evaluates an expression with what its names stand for.
pub(super) fn evaluate<'a>(
    expr: &'a Expr,
    variables: &[(&'a str, Val<'a>)],
    meter: &Meter,
) -> Answer<'a> {
    let mut evaluation = Evaluation {
        scope: variables.to_vec(),
        meter,
    };
    evaluation.visit(expr)
}

impl<'a> Evaluation<'a, '_> {
    fn visit(&mut self, expr: &'a Expr) -> Answer<'a> {
        match &expr.is {
            Is::Null => Ok(Val::Null),
            Is::Bool(value) => Ok(Val::Bool(*value)),
            Is::Int(value) => Ok(Val::Int(*value)),
            Is::Uint(value) => Ok(Val::Uint(*value)),
            Is::Double(value) => Ok(Val::Double(*value)),
            Is::Text(text) => Ok(Val::Text(Text::There(text))),
            Is::Bytes(bytes) => {
                self.meter.bytes(bytes.len())?;
                Ok(Val::Bytes(bytes.as_ref().into()))
            }
            Is::Name(name) => self.name(name),
            Is::TypeName(name) => Ok(Val::Kind(name.as_str().into())),
            Is::Message(_) => Err(no_overload()),
            Is::Select { of, field, test } => self.select(of, field, *test),
            Is::Call(call) => self.call(call),
            Is::List { items, optional } => self.list(items, optional),
            Is::Map(entries) => self.map(entries),
            Is::Fold(fold) => self.fold(fold),
            Is::Bind(bind) => self.bind(bind),
            Is::SortBy(sort) => self.sort_by(sort),
        }
    }

    fn name(&self, name: &str) -> Answer<'a> {
        self.meter.charge(1)?;
        let name = name.trim_start_matches('.');
        match self.scope.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(Fault::Error(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, of: &'a Expr, field: &'a str, test: bool) -> Answer<'a> {
        let value = self.visit(of)?;
        self.meter.charge(1)?;
        if test && value.is_list() {
            return Err(Fault::new("unsupported index type 'string' in list"));
        }
        let key = Val::Text(Text::There(field));
        if let Val::Optional(inner) = &value {
            let found = match inner {
                Some(inner) => inner.member(&key, self.meter)?,
                None => None,
            };
            return Ok(if test {
                Val::Bool(found.is_some())
            } else {
                Val::Optional(found.map(Rc::new))
            });
        }
        if !value.has_parts() {
            return if test {
                Ok(Val::Bool(false))
            } else {
                Err(Fault::Error(format!("no such key: {field}")))
            };
        }
        let found = value.member(&key, self.meter)?;
        if test {
            return Ok(Val::Bool(found.is_some()));
        }
        found.ok_or_else(|| Fault::Error(format!("no such key: {field}")))
    }

    fn call(&mut self, call: &'a Call) -> Answer<'a> {
        self.meter.charge(1)?;
        match (call.name.as_str(), call.arguments.as_slice()) {
            ("_&&_", [a, b]) => return self.decided(a, b, false),
            ("_||_", [a, b]) => return self.decided(a, b, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.visit(condition)? {
                    Val::Bool(true) => self.visit(then),
                    Val::Bool(false) => self.visit(otherwise),
                    _ => Err(no_overload()),
                };
            }
            ("@not_strictly_false", [value]) => {
                return match self.visit(value) {
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    Err(Fault::Exhausted) => Err(Fault::Exhausted),
                    _ => Ok(Val::Bool(true)),
                };
            }
            _ => {}
        }
        let mut arguments = Vec::with_capacity(call.arguments.len() + 1);
        if let Some(target) = &call.target {
            arguments.push(self.visit(target)?);
        }
        for argument in &call.arguments {
            arguments.push(self.visit(argument)?);
        }
        functions::call(call, &arguments, self.meter)
    }

    /// `&&` and `||`: whichever side decides it, an error on the other one does not matter.
    fn decided(&mut self, a: &'a Expr, b: &'a Expr, decides: bool) -> Answer<'a> {
        let first = self.visit(a);
        match first {
            Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
            Err(Fault::Exhausted) => return first,
            _ => {}
        }
        match (first, self.visit(b)) {
            (_, Ok(Val::Bool(value))) if value == decides => Ok(Val::Bool(decides)),
            (Ok(Val::Bool(_)), Ok(Val::Bool(value))) => Ok(Val::Bool(value)),
            (_, Err(Fault::Exhausted)) => Err(Fault::Exhausted),
            (Err(fault), _) | (Ok(Val::Bool(_)), Err(fault)) => Err(fault),
            _ => Err(no_overload()),
        }
    }

    fn list(&mut self, items: &'a [Expr], optional: &[usize]) -> Answer<'a> {
        self.meter.charge(10 + items.len() as u64)?;
        let mut made = Vec::with_capacity(items.len());
        for (nth, item) in items.iter().enumerate() {
            let value = self.visit(item)?;
            match value {
                Val::Optional(inner) if optional.contains(&nth) => {
                    made.extend(inner.map(|inner| inner.as_ref().clone()));
                }
                _ if optional.contains(&nth) => return Err(no_overload()),
                value => made.push(value),
            }
        }
        Ok(Val::list(made))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Answer<'a> {
        self.meter.charge(30 + entries.len() as u64)?;
        let mut made: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.visit(&entry.key)?;
            if !key.can_be_key() {
                let kind = key.type_name();
                return Err(Fault::Error(format!("unsupported key type: {kind}")));
            }
            let value = self.visit(&entry.value)?;
            let value = match (value, entry.optional) {
                (Val::Optional(Some(inner)), true) => inner.as_ref().clone(),
                (Val::Optional(None), true) => continue,
                (_, true) => return Err(no_overload()),
                (value, false) => value,
            };
            functions::put(&mut made, key, value, self.meter)?;
        }
        Ok(Val::Map(Rc::new(made)))
    }

    fn fold(&mut self, fold: &'a Fold) -> Answer<'a> {
        let range = self.visit(&fold.range)?;
        let initial = self.visit(&fold.initial)?;
        let outside = self.scope.len();
        self.scope.push((CARRIED, initial));
        let folded = self.over(fold, &range);
        self.scope.truncate(outside + 1);
        let result = folded.and_then(|()| self.visit(&fold.result));
        self.scope.truncate(outside);
        result
    }

    fn over(&mut self, fold: &'a Fold, range: &Val<'a>) -> Result<(), Fault> {
        let keys = if range.is_list() {
            None
        } else {
            Some(range.keys(self.meter).unwrap_or_else(|| {
                Err(Fault::Error(format!(
                    "got '{}', expected iterable type",
                    range.implementation_name()
                )))
            })?)
        };
        let count = keys.as_ref().map_or(range.len().unwrap_or(0), Vec::len);
        let carried = self.scope.len() - 1;
        let mut last_fault = None;
        for nth in 0..count {
            self.meter.charge(1)?;
            let (first, second) = match (&keys, &fold.second) {
                (Some(keys), None) => (keys[nth].clone(), None),
                (Some(keys), Some(name)) => {
                    let key = keys[nth].clone();
                    let value = range.member(&key, self.meter)?.unwrap_or(Val::Null);
                    (key, Some((name, value)))
                }
                (None, None) => (element(range, nth)?, None),
                (None, Some(name)) => {
                    let index = Val::Int(i64::try_from(nth).unwrap_or(i64::MAX));
                    (index, Some((name, element(range, nth)?)))
                }
            };
            self.scope.truncate(carried + 1);
            self.scope.push((&fold.variable, first));
            if let Some((name, value)) = second {
                self.scope.push((name, value));
            }
            // A fault in one step may yet be outweighed by what a later one decides.
            match decider(fold) {
                Some(decides) => {
                    let Is::Call(step) = &fold.step.is else {
                        return Err(no_overload());
                    };
                    match self.visit(&step.arguments[1]) {
                        Ok(Val::Bool(value)) if value == decides => {
                            self.scope[carried].1 = Val::Bool(decides);
                            last_fault = None;
                            break;
                        }
                        Ok(Val::Bool(_)) => {}
                        Ok(_) => last_fault = Some(last_fault.unwrap_or_else(no_overload)),
                        Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                        Err(fault) => last_fault = Some(last_fault.unwrap_or(fault)),
                    }
                }
                None => self.step(&fold.step, carried)?,
            }
        }
        last_fault.map_or(Ok(()), Err)
    }

    /// A step that adds to what is carried does so in place.
    fn step(&mut self, step: &'a Expr, carried: usize) -> Result<(), Fault> {
        if let Is::Call(call) = &step.is {
            match (call.name.as_str(), call.arguments.as_slice()) {
                ("_?_:_", [condition, then, otherwise]) if is_carried(otherwise) => {
                    return match self.visit(condition)? {
                        Val::Bool(true) => self.step(then, carried),
                        Val::Bool(false) => Ok(()),
                        _ => Err(no_overload()),
                    };
                }
                ("_+_", [so_far, more]) if is_carried(so_far) => {
                    if let Is::List { items, .. } = &more.is
                        && let [item] = items.as_slice()
                    {
                        let item = self.visit(item)?;
                        self.meter.charge(2)?;
                        if let Val::List(items, _) = &mut self.scope[carried].1 {
                            Rc::make_mut(items).push(item);
                            return Ok(());
                        }
                        return Err(no_overload());
                    }
                }
                ("@mapInsert", [so_far, rest @ ..]) if is_carried(so_far) => {
                    let mut made = Vec::with_capacity(rest.len());
                    for argument in rest {
                        made.push(self.visit(argument)?);
                    }
                    let Val::Map(entries) = &mut self.scope[carried].1 else {
                        return Err(no_overload());
                    };
                    return functions::insert_all(Rc::make_mut(entries), made, self.meter);
                }
                _ => {}
            }
        }
        let value = self.visit(step)?;
        self.scope[carried].1 = value;
        Ok(())
    }

    fn bind(&mut self, bind: &'a Bind) -> Answer<'a> {
        self.meter.charge(1)?;
        let Val::Optional(of) = self.visit(&bind.of)? else {
            return Err(no_overload());
        };
        let Some(of) = of else {
            return Ok(Val::Optional(None));
        };
        self.scope.push((&bind.variable, of.as_ref().clone()));
        let body = self.visit(&bind.body);
        self.scope.pop();
        Ok(if bind.flat { body? } else { Val::some(body?) })
    }

    fn sort_by(&mut self, sort: &'a SortBy) -> Answer<'a> {
        let of = self.visit(&sort.of)?;
        let Some(items) = of.items(self.meter) else {
            return Err(no_overload());
        };
        let mut keyed = Vec::new();
        for item in items? {
            self.meter.charge(1)?;
            self.scope.push((&sort.variable, item.clone()));
            let key = self.visit(&sort.key);
            self.scope.pop();
            keyed.push((key?, item));
        }
        functions::sorted(keyed, self.meter)
    }
}

/// The value that ends a fold early: false for `all`, true for `exists`.
fn decider(fold: &Fold) -> Option<bool> {
    match &fold.step.is {
        Is::Call(call) if call.name == "_&&_" => Some(false),
        Is::Call(call) if call.name == "_||_" => Some(true),
        _ => None,
    }
}

fn is_carried(expr: &Expr) -> bool {
    matches!(&expr.is, Is::Name(name) if name == CARRIED)
}

fn element<'a>(range: &Val<'a>, nth: usize) -> Answer<'a> {
    range.at(nth).unwrap_or_else(|| Err(no_overload()))
}
