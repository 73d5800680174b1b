//! Which parts of an object an expression can look at, so that only these are made ready for it.

use std::collections::BTreeMap;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

/// What is needed of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    All,
    Members(BTreeMap<String, Self>),
}

/// What an expression needs of a variable.
pub(super) fn of(variable: &str, expression: &IdedExpr) -> Need {
    let mut need = Need::Members(BTreeMap::new());
    collect(variable, expression, &mut need);
    need
}

fn collect(variable: &str, node: &IdedExpr, need: &mut Need) {
    if let Some(path) = path_from(variable, node) {
        need.add(path.into_iter());
        return;
    }
    let mut visit = |child: &IdedExpr| collect(variable, child, need);
    match &node.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|target| visit(target));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(comprehension) => {
            visit(&comprehension.iter_range);
            visit(&comprehension.accu_init);
            visit(&comprehension.loop_cond);
            visit(&comprehension.loop_step);
            visit(&comprehension.result);
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}

/// The keys from a variable to what a node names: of `self.spec['a b']` these are `spec` and `a b`.
fn path_from<'e>(variable: &str, node: &'e IdedExpr) -> Option<Vec<&'e str>> {
    match &node.expr {
        Expr::Ident(name) => (name.strip_prefix('.').unwrap_or(name) == variable).then(Vec::new),
        Expr::Select(select) => {
            let mut path = path_from(variable, &select.operand)?;
            path.push(&select.field);
            Some(path)
        }
        Expr::Call(call) if call.func_name == "_[_]" => {
            let [of, key] = call.args.as_slice() else {
                return None;
            };
            let Expr::Literal(LiteralValue::String(key)) = &key.expr else {
                return None;
            };
            let mut path = path_from(variable, of)?;
            path.push(key.inner());
            Some(path)
        }
        _ => None,
    }
}

impl Need {
    fn add<'k>(&mut self, mut path: impl Iterator<Item = &'k str>) {
        match (path.next(), &mut *self) {
            (None, need) => *need = Self::All,
            (Some(_), Self::All) => {}
            (Some(key), Self::Members(members)) => {
                members
                    .entry(key.to_owned())
                    .or_insert_with(|| Self::Members(BTreeMap::new()))
                    .add(path);
            }
        }
    }

    /// A copy of a value without the members nobody asks for.
    pub(super) fn pruned(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Members(needed), Value::Object(members)) => {
                let kept = |(key, need): (&String, &Self)| {
                    Some((key.clone(), need.pruned(members.get(key)?)))
                };
                Value::Object(needed.iter().filter_map(kept).collect())
            }
            // Of a list the length may matter, of a scalar its type: only members can be left out.
            _ => value.clone(),
        }
    }
}
