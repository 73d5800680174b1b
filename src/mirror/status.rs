//! The status on its way from the copy back to the owner's object.

use serde_json::{Map, Value};

use super::definition::{NewCopyStatus, ObservedGeneration, Settings, StaleCopyStatus};
use hawser_sync::{Code, Reason};
use kube_lang::object::{Object, json_type};

/// The incarnations that belonged together when they were last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedUids {
    pub source: String,
    pub copy: String,
}

impl LinkedUids {
    pub fn of(source: &Object, copy: &Object) -> Option<Self> {
        Some(Self {
            source: source.uid()?.to_owned(),
            copy: copy.uid()?.to_owned(),
        })
    }
}

/// Whether a copy in deletion was created for an earlier object of the same name: by the incarnations that were seen
/// together, or else by the times of deletion and creation.
pub fn is_of_earlier_life(copy: &Object, source: &Object, seen: Option<&LinkedUids>) -> bool {
    if !copy.in_deletion() || source.in_deletion() {
        return false;
    }
    if let (Some(seen), Some(now)) = (seen, LinkedUids::of(source, copy))
        && seen.copy == now.copy
    {
        return seen.source != now.source;
    }
    let time = |object: &Object, field: &str| {
        let text = object
            .root()
            .get("metadata")?
            .get(field)?
            .as_str()?
            .to_owned();
        text.parse::<jiff::Timestamp>().ok()
    };
    match (
        time(copy, "deletionTimestamp"),
        time(source, "creationTimestamp"),
    ) {
        (Some(went), Some(came)) => came >= went,
        _ => false,
    }
}

/// The whole status, for the owner.
pub fn whole(settings: &Settings, copy: &Object, source: &Object) -> Option<Value> {
    let own = || source.root().get("status").cloned();
    let Some(mut status) = found(copy).cloned() else {
        return match (settings.fresh_copy, found(source)) {
            (NewCopyStatus::ResetStatus, Some(_)) => Some(Map::new().into()),
            _ => own(),
        };
    };
    if settings.observed_generation == ObservedGeneration::Translate
        && let Some(observed) = status.get_mut("observedGeneration")
        && is_integer(observed)
    {
        let generation = |object: &Object| object.root()["metadata"].get("generation").cloned();
        *observed = match generation(source) {
            Some(now) if generation(copy).as_ref() == Some(&*observed) => now,
            _ => 0.into(),
        };
    }
    Some(status)
}

/// One field of the status, written into the owner's; all other fields stay the owner's.
pub fn subtree(key: &str, copy: &Object, source: &Object) -> Result<Option<Value>, Reason> {
    let own = found(source);
    let from = match found(copy) {
        None => return Ok(own.cloned()),
        Some(Value::Object(from)) => from,
        Some(other) => return Err(no_object("the copy", other)),
    };
    let mut to = match own {
        None => Map::new(),
        Some(Value::Object(to)) => to.clone(),
        Some(other) => return Err(no_object("the owner's object", other)),
    };
    match from.get(key).filter(|value| !value.is_null()) {
        Some(value) => to.insert(key.to_owned(), value.clone()),
        None => to.remove(key),
    };
    Ok(Some(to.into()))
}

/// Whether the status of this copy concerns the owner's object.
pub fn counts(
    settings: &Settings,
    copy: &Object,
    source: &Object,
    seen: Option<&LinkedUids>,
) -> bool {
    settings.earlier_life == StaleCopyStatus::Copy || !is_of_earlier_life(copy, source, seen)
}

fn found(object: &Object) -> Option<&Value> {
    object
        .root()
        .get("status")
        .filter(|status| !status.is_null())
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn no_object(whose: &str, found: &Value) -> Reason {
    let found = json_type(found);
    let detail = format!("the status of {whose} is {found}, not an object: it has no fields");
    Reason::new(Code::RulesInvalid, detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: u64, status: Value) -> Object {
        let mut object = json!({"metadata": {"name": "a", "generation": generation}});
        if !status.is_null() {
            object["status"] = status;
        }
        Object::new(object).unwrap()
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn check_whole(copy: Value, source: Value, expected: Value) {
        let settings = Settings::of_robot("r");
        let found = whole(&settings, &object(3, copy), &object(7, source));
        assert_eq!(found.unwrap_or(Value::Null), expected);
    }

    #[test]
    fn a_generation_that_was_observed_is_translated_and_any_other_is_none() {
        check_whole(
            json!({"observedGeneration": 3, "a": 1}),
            json!(null),
            json!({"observedGeneration": 7, "a": 1}),
        );
        check_whole(
            json!({"observedGeneration": 2}),
            json!(null),
            json!({"observedGeneration": 0}),
        );
        for other in [json!(3.0), json!("3"), json!(null), json!({})] {
            let status = json!({"observedGeneration": other});
            check_whole(status.clone(), json!(null), status);
        }
        let verbatim = Settings {
            observed_generation: ObservedGeneration::Verbatim,
            ..Settings::of_robot("r")
        };
        let copy = object(3, json!({"observedGeneration": 2}));
        let found = whole(&verbatim, &copy, &object(7, json!(null)));
        assert_eq!(found, Some(json!({"observedGeneration": 2})));
    }

    #[test]
    fn the_whole_status_takes_the_place_of_what_was_there() {
        check_whole(json!({"a": 1}), json!({"b": 2}), json!({"a": 1}));
        check_whole(json!("done"), json!({"b": 2}), json!("done"));
        check_whole(json!({}), json!({"b": 2}), json!({}));
    }

    #[test]
    fn a_copy_without_a_status_leaves_the_owners_unless_asked_to_reset_it() {
        check_whole(json!(null), json!({"b": 2}), json!({"b": 2}));
        check_whole(json!(null), json!(null), json!(null));
        let reset = Settings {
            fresh_copy: NewCopyStatus::ResetStatus,
            ..Settings::of_robot("r")
        };
        let of = |status| whole(&reset, &object(1, json!(null)), &object(1, status));
        assert_eq!(of(json!({"b": 2})), Some(json!({})));
        assert_eq!(of(json!(null)), None);
    }

    #[track_caller]
    fn check_subtree(copy: Value, source: Value, expected: Result<Value, &str>) {
        let found = subtree("robot", &object(1, copy), &object(1, source));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.unwrap_or_default(), expected),
            (Err(found), Err(part)) => assert!(found.detail.contains(part), "{found}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn of_a_subtree_the_rest_stays_the_owners() {
        let own = json!({"cloud": {"x": 1}, "robot": {"old": 1}});
        let with = |robot: Value| json!({"cloud": {"x": 1}, "robot": robot});
        check_subtree(
            json!({"robot": {"y": 2}}),
            own.clone(),
            Ok(with(json!({"y": 2}))),
        );
        check_subtree(
            json!({"other": 1}),
            own.clone(),
            Ok(json!({"cloud": {"x": 1}})),
        );
        check_subtree(
            json!({"robot": null}),
            own.clone(),
            Ok(json!({"cloud": {"x": 1}})),
        );
        check_subtree(json!(null), own.clone(), Ok(own));
        check_subtree(json!({"robot": 1}), json!(null), Ok(json!({"robot": 1})));
        let inner = json!({"robot": {"observedGeneration": 1}});
        check_subtree(inner.clone(), json!(null), Ok(inner));
    }

    #[test]
    fn a_status_that_has_no_fields_has_no_subtree() {
        check_subtree(json!("done"), json!({}), Err("the copy is a string"));
        check_subtree(json!({}), json!([1]), Err("the owner's object is a list"));
    }

    fn lived(uid: &str, came: &str, went: Option<&str>) -> Object {
        let mut object = json!({"metadata": {"name": "a", "uid": uid, "creationTimestamp": came}});
        if let Some(went) = went {
            object["metadata"]["deletionTimestamp"] = went.into();
        }
        Object::new(object).unwrap()
    }

    #[test]
    fn a_copy_in_deletion_is_of_an_earlier_life_where_its_owner_was_another() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let source = lived("s2", late, None);
        let copy = lived("c1", early, Some(early));
        assert!(is_of_earlier_life(&copy, &source, None));
        let seen = |source: &str, copy: &str| LinkedUids {
            source: source.to_owned(),
            copy: copy.to_owned(),
        };
        assert!(is_of_earlier_life(&copy, &source, Some(&seen("s1", "c1"))));
        // What was seen counts for more than clocks.
        assert!(!is_of_earlier_life(&copy, &source, Some(&seen("s2", "c1"))));
        assert!(is_of_earlier_life(&copy, &source, Some(&seen("s2", "c0"))));
        // Deleted on the robot alone.
        let deleted = lived("c1", early, Some(late));
        assert!(!is_of_earlier_life(
            &deleted,
            &lived("s1", early, None),
            None
        ));
        // A copy that lives goes on with the next life.
        assert!(!is_of_earlier_life(
            &lived("c1", early, None),
            &source,
            Some(&seen("s1", "c1"))
        ));
    }
}
