//! Functions over lists.

use gotmpl::Value;

use super::entry::{ANY, Answer, Entry, entry, int_arg, text_arg};
use super::typed;
use super::values::{bounded, printed, string, type_name};

pub(super) const TABLE: &[Entry] = &[
    entry("list", 0, ANY, |a| bounded(Value::List(a.into()))),
    entry("tuple", 0, ANY, |a| bounded(Value::List(a.into()))),
    entry("first", 1, 1, |a| {
        Ok(items(a, 0, "Cannot find first on type")?
            .first()
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    entry("mustFirst", 1, 1, |a| {
        Ok(items(a, 0, "Cannot find first on type")?
            .first()
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    entry("last", 1, 1, |a| {
        Ok(items(a, 0, "Cannot find last on type")?
            .last()
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    entry("mustLast", 1, 1, |a| {
        Ok(items(a, 0, "Cannot find last on type")?
            .last()
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    entry("rest", 1, 1, rest),
    entry("mustRest", 1, 1, rest),
    entry("initial", 1, 1, initial),
    entry("mustInitial", 1, 1, initial),
    entry("append", 2, 2, append),
    entry("push", 2, 2, append),
    entry("mustAppend", 2, 2, append),
    entry("mustPush", 2, 2, append),
    entry("prepend", 2, 2, prepend),
    entry("mustPrepend", 2, 2, prepend),
    entry("reverse", 1, 1, reverse),
    entry("mustReverse", 1, 1, reverse),
    entry("uniq", 1, 1, uniq),
    entry("mustUniq", 1, 1, uniq),
    entry("compact", 1, 1, compact),
    entry("mustCompact", 1, 1, compact),
    entry("without", 1, ANY, without),
    entry("mustWithout", 1, ANY, without),
    entry("has", 2, 2, has),
    entry("mustHas", 2, 2, has),
    entry("slice", 1, 3, slice),
    entry("mustSlice", 1, 3, slice),
    entry("concat", 0, ANY, concat),
    entry("chunk", 2, 2, chunk),
    entry("mustChunk", 2, 2, chunk),
    entry("join", 2, 2, join),
    entry("sortAlpha", 1, 1, sort_alpha),
    entry("toStrings", 1, 1, |a| {
        Ok(Value::List(texts(&a[0])?.into_iter().map(string).collect()))
    }),
];

fn items<'a>(args: &'a [Value], at: usize, wrong: &str) -> Result<&'a [Value], String> {
    match args.get(at) {
        Some(Value::List(items)) => Ok(items),
        Some(other) => Err(format!("{wrong} {}", type_name(other))),
        None => Err("the list argument is missing".to_owned()),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the end of functions that answer so"
)]
fn list(items: Vec<Value>) -> Answer {
    Ok(Value::List(items.into()))
}

fn rest(args: &[Value]) -> Answer {
    list(
        items(args, 0, "Cannot find rest on type")?
            .iter()
            .skip(1)
            .cloned()
            .collect(),
    )
}

fn initial(args: &[Value]) -> Answer {
    let items = items(args, 0, "Cannot find initial on type")?;
    list(items[..items.len().saturating_sub(1)].to_vec())
}

fn append(args: &[Value]) -> Answer {
    let mut items = items(args, 0, "Cannot push on type")?.to_vec();
    items.push(args[1].clone());
    bounded(Value::List(items.into()))
}

fn prepend(args: &[Value]) -> Answer {
    let mut items = items(args, 0, "Cannot prepend on type")?.to_vec();
    items.insert(0, args[1].clone());
    bounded(Value::List(items.into()))
}

fn reverse(args: &[Value]) -> Answer {
    list(
        items(args, 0, "Cannot find reverse on type")?
            .iter()
            .rev()
            .cloned()
            .collect(),
    )
}

fn contains_item(items: &[Value], wanted: &Value) -> Result<bool, String> {
    super::limits::spend(items.len() as u64)?;
    Ok(items.contains(wanted))
}

fn uniq(args: &[Value]) -> Answer {
    let mut kept = Vec::new();
    for item in items(args, 0, "Cannot find uniq on type")? {
        if !contains_item(&kept, item)? {
            kept.push(item.clone());
        }
    }
    list(kept)
}

fn compact(args: &[Value]) -> Answer {
    list(
        items(args, 0, "Cannot compact on type")?
            .iter()
            .filter(|v| v.is_truthy())
            .cloned()
            .collect(),
    )
}

fn without(args: &[Value]) -> Answer {
    let mut kept = Vec::new();
    for item in items(args, 0, "Cannot find without on type")? {
        if !contains_item(&args[1..], item)? {
            kept.push(item.clone());
        }
    }
    list(kept)
}

fn has(args: &[Value]) -> Answer {
    if args[1] == Value::Nil {
        return Ok(Value::Bool(false));
    }
    contains_item(items(args, 1, "Cannot find has on type")?, &args[0]).map(Value::Bool)
}

fn slice(args: &[Value]) -> Answer {
    let items = items(args, 0, "list should be type of slice or array but")?;
    let at = |index: usize, or: usize| match args.get(index) {
        None => Ok(or),
        Some(_) => int_arg(args, index)
            .and_then(|n| usize::try_from(n).map_err(|_| "slice index out of bounds".to_owned())),
    };
    let (from, to) = (at(1, 0)?, at(2, items.len())?);
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    items
        .get(from..to)
        .map(|part| Value::List(part.into()))
        .ok_or_else(|| "slice index out of bounds".to_owned())
}

fn concat(args: &[Value]) -> Answer {
    let mut all = Vec::new();
    for arg in args {
        let Value::List(items) = arg else {
            return Err(format!("Cannot concat type {} as list", type_name(arg)));
        };
        super::limits::spend(items.len() as u64)?;
        all.extend(items.iter().cloned());
    }
    if all.is_empty() {
        return typed::no_list();
    }
    bounded(Value::List(all.into()))
}

fn chunk(args: &[Value]) -> Answer {
    let size = usize::try_from(int_arg(args, 0)?).unwrap_or_default();
    let items = items(args, 1, "Cannot chunk type")?;
    if size == 0 {
        return Err("runtime error: makeslice: len out of range".to_owned());
    }
    list(
        items
            .chunks(size)
            .map(|part| Value::List(part.into()))
            .collect(),
    )
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::List(items) => items
            .iter()
            .filter(|v| **v != Value::Nil)
            .map(printed)
            .collect(),
        other => Ok(vec![printed(other)?]),
    }
}

fn join(args: &[Value]) -> Answer {
    let (separator, parts) = (text_arg(args, 0)?, texts(&args[1])?);
    if separator.len().saturating_mul(parts.len()) > super::limits::MAX_OUTPUT {
        return Err("the text would be too long".to_owned());
    }
    Ok(string(parts.join(separator)))
}

fn sort_alpha(args: &[Value]) -> Answer {
    let Value::List(_) = &args[0] else {
        return list(vec![string(printed(&args[0])?)]);
    };
    let mut parts = texts(&args[0])?;
    parts.sort_unstable();
    list(parts.into_iter().map(string).collect())
}
