//! What has to be true of both sides when nothing is left to do. It is read from the objects alone, without the engine.

use serde_json::Value;

use super::dialect::{FINALIZER, FOREIGN, Id, NAME, SOURCE};
use super::schedule::{Grace, Simulation};
use hawser_sync::Key;
use kube_lang::object::Object;

/// The finalizer of somebody else.
pub(super) const OTHER: &str = "x/hold";

fn of(object: &Object, pointer: &str) -> Option<Value> {
    object.as_value().pointer(pointer).cloned()
}

/// Things and copies agree, and nothing is left of Things that are gone.
pub(super) fn at_rest(it: &Simulation) -> Result<(), String> {
    for (id, grace) in it.subjects() {
        let found = subject(it, id, grace);
        found.map_err(|problem| format!("{}: {problem}", id.source()))?;
    }
    Ok(())
}

fn subject(it: &Simulation, id: &Id, grace: Grace) -> Result<(), String> {
    let keys = &id.0;
    let world = &it.world;
    let is_foreign = |key: &Key| {
        let object = world.get(key);
        object.is_some_and(|object| object.annotation(FOREIGN).is_some())
    };
    let Some(thing) = world.get(&keys.thing) else {
        return gone(it, id, grace);
    };
    if thing.in_deletion() {
        return Err("a deletion does not end".to_owned());
    }
    if !thing.has_finalizer(FINALIZER) {
        return Err("a thing without finalizer".to_owned());
    }
    if is_foreign(&keys.copy) {
        return Ok(());
    }
    let copy = world.get(&keys.copy).ok_or("no copy")?;
    if copy.in_deletion() {
        return Err("the copy is in deletion".to_owned());
    }
    if copy.annotation(SOURCE) != Some(&*id.source()) || copy.label(NAME).is_none() {
        return Err("the copy has no marks".to_owned());
    }
    let mut has = of(copy, "/spec").unwrap_or_default();
    let mut wanted = of(thing, "/spec").unwrap_or_default();
    if let (Some(has), Some(wanted)) = (has.as_object_mut(), wanted.as_object_mut()) {
        has.remove("local");
        if grace.lost {
            has.retain(|field, _| wanted.contains_key(field));
        }
    }
    if has != wanted {
        return Err(format!("the copy has {has}, not {wanted}"));
    }
    let mine = "/metadata/labels/mine";
    let (has, wanted) = (of(copy, mine), of(thing, mine));
    if has != wanted && !(grace.lost && wanted.is_none()) {
        return Err(format!("the label of the copy is {has:?}, not {wanted:?}"));
    }
    let (has, wanted) = (of(thing, "/status"), of(copy, "/status"));
    if has != wanted {
        return Err(format!("the status is {has:?}, not {wanted:?}"));
    }
    for (original, target) in [&keys.credentials, &keys.settings] {
        let data = |key| world.get(key).and_then(|object| of(object, "/data"));
        let (has, wanted) = (data(target), data(original));
        // A copy without marks is known by the memory alone.
        if has != wanted && !is_foreign(target) && !grace.lost {
            return Err(format!("{target} has {has:?}, not {wanted:?}"));
        }
    }
    memory(it, id)
}

/// The memory has the content of the thing. A copy with marks is known by these, so that its uid may be an earlier one.
fn memory(it: &Simulation, id: &Id) -> Result<(), String> {
    let state = it.world.get(&id.0.state).ok_or("no memory")?;
    let entry = of(state, "/entries/primary").ok_or("no record of the copy")?;
    let thing = it.world.get(&id.0.thing).ok_or("no thing")?;
    let (has, wanted) = (&entry["snapshot"]["spec"], of(thing, "/spec"));
    if Some(has) != wanted.as_ref() {
        return Err(format!("the memory has {has}, not {wanted:?}"));
    }
    Ok(())
}

fn gone(it: &Simulation, id: &Id, grace: Grace) -> Result<(), String> {
    let keys = &id.0;
    let theirs = |object: &Object| object.annotation(FOREIGN).is_some();
    let left = |key: &Key| it.world.get(key).is_some_and(|object| !theirs(object));
    if left(&keys.copy) {
        return Err("a copy without a source".to_owned());
    }
    if left(&keys.state) {
        return Err(format!(
            "the memory is left: {:?}",
            it.world.get(&keys.state)
        ));
    }
    let original = &keys.settings.0;
    if it
        .world
        .get(original)
        .is_some_and(|it| it.has_finalizer(FINALIZER))
    {
        return Err("the finalizer of the settings is left".to_owned());
    }
    for (_, target) in [&keys.credentials, &keys.settings] {
        if left(target) && !grace.lost {
            return Err(format!("{target} is left"));
        }
    }
    Ok(())
}

/// Everything was deleted: nothing of the agent is left anywhere.
pub(super) fn nothing_is_left(it: &Simulation) -> Result<(), String> {
    for (id, grace) in it.subjects() {
        if it.world.get(&id.0.thing).is_some() {
            return Err(format!("{}: a deletion does not end", id.source()));
        }
        gone(it, id, grace).map_err(|problem| format!("{}: {problem}", id.source()))?;
    }
    Ok(())
}
