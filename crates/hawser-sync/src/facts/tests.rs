use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::{CopyOrigin, Marks, Owner, Policy, Rules, Target};

/// Rules whose mutation is counted.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Rules for Counting {
    fn mutated(&self, source: &Object, _: Option<&Object>) -> Result<Option<Object>, Reason> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut mutated = source.clone();
        mutated.root_mut().insert("mutated".into(), json!(true));
        Ok(Some(mutated))
    }

    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(crate::model::svc("Thing", "copies", "a"))
    }

    fn desired(&self, _: &Object, mutated: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Ok(mutated.clone())
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, _: &Object) -> Owner {
        Owner::Nobody
    }

    fn status(&self, _: &Object, _: &Object, mutated: &Object) -> Result<Option<Value>, Reason> {
        Ok(mutated.root().get("spec").cloned())
    }
}

fn object(uid: &str, version: Option<&str>, spec: &str) -> Object {
    let metadata = json!({"name": "a", "uid": uid, "resourceVersion": version});
    Object::new(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn what_mutations_make_of_an_object_is_worked_out_once_for_each_of_its_states() {
    let rules = Arc::new(Counting::default());
    let key = crate::model::kcp("c1", "Thing", "a");
    let link = Link {
        id: LinkId::new("primary"),
        wave: 0,
        source: Source::Live(key.clone()),
        target: Target::Named(key),
        rules: Arc::clone(&rules) as Arc<dyn Rules>,
        policy: Policy::primary(),
    };
    let facts = Facts::default();
    let times = || rules.0.swap(0, Ordering::Relaxed);
    let desired = |source: &Object, copy: Option<&Object>| {
        let desired = facts.desired(&link, source, copy).unwrap();
        assert_eq!(desired.root()["mutated"], json!(true));
        desired.root()["spec"].clone()
    };

    let (source, copy) = (object("s", Some("1"), "one"), object("c", Some("7"), ""));
    for _ in 0..5 {
        assert_eq!(desired(&source, Some(&copy)), "one");
        let status = facts.status(&link, &source, &copy).unwrap().unwrap();
        assert_eq!(*status, "one");
    }
    assert_eq!(times(), 1);
    for _ in 0..3 {
        facts.place(&link, &source).unwrap();
        assert_eq!(desired(&source, None), "one");
    }
    assert_eq!(times(), 1);

    // Another state of either, and another object of the same name.
    let (newer, other) = (
        object("s", Some("2"), "two"),
        object("t", Some("2"), "three"),
    );
    assert_eq!(desired(&newer, Some(&copy)), "two");
    assert_eq!(desired(&newer, Some(&object("c", Some("8"), ""))), "two");
    assert_eq!(desired(&other, Some(&copy)), "three");
    assert_eq!(times(), 3);

    // Objects that do not say which state they are in.
    for spec in ["four", "five"] {
        assert_eq!(desired(&object("t", Some(""), spec), Some(&copy)), spec);
    }
    assert_eq!(times(), 2);
}
