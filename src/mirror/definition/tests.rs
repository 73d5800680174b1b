use serde_json::json;

use super::*;

fn crd(annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "missions.example.com", "annotations": annotations},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "missions", "kind": "Mission"},
            "versions": [
                {"name": "v1", "served": true, "storage": false, "subresources": {"status": {}}},
                {"name": "v2", "served": true, "storage": true},
            ],
        },
    })
}

fn compiled(annotations: &Value, settings: Settings) -> Result<Option<Definition>, Refusal> {
    compile(&crd(annotations), &Arc::new(settings))
}

/// What a filter comes to: the robot, all, or why not.
#[track_caller]
fn check(filter: &str, robot: &str, expected: Result<Option<&str>, Refusal>) {
    let annotations = json!({SPEC_SOURCE: "cloud", FILTER_BY_ROBOT_NAME: filter});
    let found = compiled(&annotations, Settings::of_robot(robot));
    let found = found.map(|definition| definition.unwrap().robot);
    assert_eq!(
        found,
        expected.map(|robot| robot.map(Arc::from)),
        "{filter:?} {robot:?}"
    );
}

#[test]
fn a_filter_is_what_go_takes_for_a_boolean_and_anything_else_is_refused() {
    for yes in ["1", "t", "T", "true", "TRUE", "True"] {
        check(yes, "r1", Ok(Some("r1")));
        check(yes, "", Err(Refusal::NoRobotName));
    }
    for no in ["0", "f", "F", "false", "FALSE", "False", ""] {
        check(no, "r1", Ok(None));
        check(no, "", Ok(None));
    }
    for unclear in ["yes", "tRUE", " true", "2"] {
        check(unclear, "r1", Err(Refusal::Filter(unclear.to_owned())));
    }
    check(
        "true",
        "r1,x=y",
        Err(Refusal::RobotName("r1,x=y".to_owned())),
    );
}

#[test]
fn an_unclear_filter_means_everything_only_where_that_was_asked_for() {
    for (filter, robot) in [("yes", "r1"), ("true", "")] {
        let annotations = json!({SPEC_SOURCE: "cloud", FILTER_BY_ROBOT_NAME: filter});
        let settings = Settings {
            unclear_filter: UnclearFilter::Ignore,
            ..Settings::of_robot(robot)
        };
        assert_eq!(
            compiled(&annotations, settings.clone())
                .unwrap()
                .unwrap()
                .robot,
            None
        );
        // And why that is so can be told, but for where nobody asked for it, or all is well.
        let told = |filter: &str, settings: &Settings| {
            let annotations = json!({SPEC_SOURCE: "cloud", FILTER_BY_ROBOT_NAME: filter});
            ignored_filter(&crd(&annotations), settings)
        };
        let why = if robot.is_empty() {
            Refusal::NoRobotName
        } else {
            Refusal::Filter(filter.to_owned())
        };
        assert_eq!(told(filter, &settings), Some(why));
        assert_eq!(told("false", &settings), None);
        assert_eq!(told("", &settings), None);
        assert_eq!(told(filter, &Settings::of_robot(robot)), None);
    }
}

#[test]
fn a_definition_without_an_owner_is_none_of_our_business_and_one_with_a_wrong_one_is_refused() {
    let of = |source: Value| compiled(&json!({SPEC_SOURCE: source}), Settings::of_robot("r1"));
    assert_eq!(of(Value::Null), Ok(None));
    assert_eq!(of(json!("")), Ok(None));
    assert_eq!(
        of(json!("Cloud")),
        Err(Refusal::SpecSource("Cloud".to_owned()))
    );
    assert_eq!(of(json!("cloud")).unwrap().unwrap().owner, Plane::Cloud);
}

#[test]
fn the_robot_owns_only_what_is_filtered_and_only_where_that_is_enabled() {
    let of = |filter: &str, robot_spec_source| {
        let annotations = json!({SPEC_SOURCE: "robot", FILTER_BY_ROBOT_NAME: filter});
        let settings = Settings {
            robot_spec_source,
            ..Settings::of_robot("r1")
        };
        compiled(&annotations, settings).map(|definition| definition.unwrap().owner)
    };
    assert_eq!(
        of("true", RobotSpecSource::Refused),
        Err(Refusal::RobotSpecSource)
    );
    let unfiltered = Err(Refusal::RobotSpecSourceUnfiltered);
    assert_eq!(of("false", RobotSpecSource::Enabled), unfiltered);
    assert_eq!(of("true", RobotSpecSource::Enabled), Ok(Plane::Robot));
}

#[test]
fn the_stored_version_is_used_with_its_own_subresources() {
    let annotations = json!({SPEC_SOURCE: "cloud", STATUS_SUBTREE: "robot"});
    let found = compiled(&annotations, Settings::of_robot("r1"))
        .unwrap()
        .unwrap();
    assert_eq!(*found.kind, Gvk::new("example.com", "v2", "Mission"));
    assert_eq!(found.status, Status::InObject);
    assert_eq!(found.subtree.as_deref(), Some("robot"));
    assert_eq!(
        found.legacy_finalizer(),
        "robot-r1.synced.cr-syncer.cloudrobotics.com"
    );
    assert_eq!(found.namespaces(), [Some("default".into())]);

    let mut crd = crd(&annotations);
    let settings = Arc::new(Settings::of_robot("r1"));
    // Where it is not served, one that is.
    crd["spec"]["versions"][1]["served"] = false.into();
    let found = compile(&crd, &settings).unwrap().unwrap();
    assert_eq!(*found.kind, Gvk::new("example.com", "v1", "Mission"));
    crd["spec"]["versions"][0]["served"] = false.into();
    assert_eq!(compile(&crd, &settings), Err(Refusal::NoServedVersion));
    crd["spec"]["versions"][1]["storage"] = false.into();
    assert_eq!(compile(&crd, &settings), Err(Refusal::NoStoredVersion));
}

#[test]
fn only_what_matters_changes_the_fingerprint() {
    let settings = Arc::new(Settings::of_robot("r1"));
    let print = |crd: &Value| compile(crd, &settings).unwrap().unwrap().fingerprint();
    let plain = crd(&json!({SPEC_SOURCE: "cloud"}));
    let mut same = plain.clone();
    same["metadata"]["labels"] = json!({"a": "b"});
    same["metadata"]["annotations"]["other"] = "x".into();
    same["status"] = json!({"conditions": []});
    same["spec"]["versions"][1]["schema"] = json!({});
    assert_eq!(print(&plain), print(&same));
    for (at, value) in [
        ("/spec/scope", json!("Cluster")),
        ("/spec/versions/1/name", json!("v3")),
        ("/spec/names/plural", json!("others")),
        (
            "/metadata/annotations",
            json!({SPEC_SOURCE: "cloud", STATUS_SUBTREE: "x"}),
        ),
    ] {
        let mut other = plain.clone();
        *other.pointer_mut(at).unwrap() = value;
        assert_ne!(print(&plain), print(&other), "{at}");
    }
}

#[test]
fn a_definition_in_deletion_is_followed_no_more() {
    let mut crd = crd(&json!({SPEC_SOURCE: "cloud"}));
    crd["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(compile(&crd, &Arc::new(Settings::of_robot("r1"))), Ok(None));
}
