use serde_json::json;

use super::*;

fn step(kind: &str, path: &str, first: &str, second: &str) -> Step {
    let (path, first, second) = (path.to_owned(), first.to_owned(), second.to_owned());
    match kind {
        "delete" => Step::Delete { path },
        "regex" => Step::Regex {
            path,
            pattern: first,
            replacement: second,
        },
        "template" => Step::Template {
            path,
            template: first,
        },
        _ => Step::Cel {
            path,
            expression: first,
        },
    }
}

fn apply(steps: &[Step], this: &Value) -> Result<Value, MutationError> {
    Pipeline::compile(steps).unwrap().apply(this, None)
}

#[track_caller]
fn check(one: Step, this: &Value, want: &Value) {
    assert_eq!(&apply(&[one], this).unwrap(), want);
}

#[test]
fn a_regex_always_writes_text() {
    let doc = || json!({"n": 12, "t": true, "o": {"a": 1}, "z": null, "s": "x"});
    check(
        step("regex", "n", "1", "0"),
        &doc(),
        &json!({"n": "02", "t": true, "o": {"a": 1}, "z": null, "s": "x"}),
    );
    let with = |key: &str, value: Value| {
        let mut doc = doc();
        doc[key] = value;
        doc
    };
    check(
        step("regex", "t", "x", "y"),
        &doc(),
        &with("t", json!("true")),
    );
    check(
        step("regex", "o", "x", "y"),
        &doc(),
        &with("o", json!("{\"a\":1}")),
    );
    check(step("regex", "z", "^", "y"), &doc(), &with("z", json!("y")));
    check(
        step("regex", "new", "^$", "y"),
        &doc(),
        &with("new", json!("y")),
    );
    check(
        step("regex", "s", "", "$1"),
        &doc(),
        &with("s", json!("$1")),
    );
}

#[test]
fn big_integers_and_markup_pass_every_step_unchanged() {
    let doc = json!({"big": 9_007_199_254_740_993_i64, "text": "<a>&\"'", "x": 1});
    for one in [
        step("regex", "x", "1", "1"),
        step("cel", "x", "'1'", ""),
        step("delete", "x", "", ""),
        step("cel", "copy", "self.big", ""),
    ] {
        let mutated = apply(&[one], &doc).unwrap();
        assert_eq!(
            (&mutated["big"], &mutated["text"]),
            (&doc["big"], &doc["text"])
        );
    }
    check(
        step("cel", "x", "self.big", ""),
        &doc,
        &json!({"big": doc["big"], "text": doc["text"], "x": doc["big"]}),
    );
}

#[test]
fn each_element_is_mutated_by_its_own_value() {
    let doc = json!({"i": [{"n": "a"}, {"n": "b"}, {}]});
    check(
        step("regex", "i[*].n", "^", "x-"),
        &doc,
        &json!({"i": [{"n": "x-a"}, {"n": "x-b"}, {"n": "x-"}]}),
    );
    check(
        step("delete", "i[*].n", "", ""),
        &doc,
        &json!({"i": [{}, {}, {}]}),
    );
    check(step("delete", "i[*]", "", ""), &doc, &json!({"i": []}));
    check(
        step(
            "cel",
            "i[*].n",
            "value == null ? self.i[0].n : value + '!'",
            "",
        ),
        &doc,
        &json!({"i": [{"n": "a!"}, {"n": "b!"}, {"n": "a"}]}),
    );
}

#[test]
fn a_step_sees_what_the_one_before_it_left() {
    let steps = [
        step("regex", "a", "", "1"),
        step("cel", "b", "self.a + '2'", ""),
        step("delete", "a", "", ""),
    ];
    assert_eq!(apply(&steps, &json!({})).unwrap(), json!({"b": "12"}));
}

#[test]
fn all_that_is_wrong_is_said_at_once_and_where() {
    let steps = [
        step("delete", "a.#.b", "", ""),
        step("regex", "", "a(", ""),
        step("cel", "a", "nope + 1", ""),
        step("delete", "fine", "", ""),
    ];
    let errors = Pipeline::compile(&steps).err().unwrap();
    let found: Vec<_> = errors
        .iter()
        .map(|error| (error.step, error.field, error.offset))
        .collect();
    assert_eq!(
        found,
        [
            (0, "path", Some(0)),
            (1, "path", Some(0)),
            (1, "pattern", Some(2)),
            (2, "expression", Some(0))
        ]
    );
    assert_eq!(
        errors[0].hint.as_deref(),
        Some("to delete from each element, write 'a[*].b'")
    );
}

#[test]
fn an_object_that_would_burst_is_refused() {
    let doc = json!({"i": vec![json!({"n": "x"}); 5_000]});
    let long = "y".repeat(10_000);
    let error = apply(&[step("regex", "i[*].n", "", &long)], &doc).unwrap_err();
    assert!(
        matches!(
            error,
            MutationError::Step {
                source: StepError::TooLarge,
                ..
            }
        ),
        "{error:?}"
    );
}

/// As many elements as a path may stand for in half, in an object of about 1.4 MB.
fn many() -> Value {
    let item = |i| json!({"image": format!("nginx-{i}"), "note": "x".repeat(240)});
    json!({"spec": {"items": (0..5_000).map(item).collect::<Vec<_>>()}})
}

fn work(steps: &[Step], this: &Value) -> Result<u64, MutationError> {
    let pipeline = Pipeline::compile(steps).unwrap();
    let other = this.clone();
    let counted = pipeline.apply_counted(this, Some(&other));
    counted.map(|(_, work)| work)
}

#[track_caller]
fn is_too_much(steps: &[Step], this: &Value) {
    let error = work(steps, this).unwrap_err();
    let MutationError::Step { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(
            source,
            StepError::TooMuchWork | StepError::Cel(EvalError::TooExpensive { .. })
        ),
        "{source}"
    );
}

#[test]
fn steps_on_each_of_many_elements_of_a_large_object_are_cheap() {
    let doc = many();
    for one in [
        step("template", "spec.items[*].image", "reg/{{ .Value }}", ""),
        step("regex", "spec.items[*].image", "^", "reg/"),
        step("cel", "spec.items[*].image", "'reg/' + value", ""),
        step(
            "cel",
            "spec.items[*].image",
            "self.spec.items[0].image + value",
            "",
        ),
    ] {
        let work = work(std::slice::from_ref(&one), &doc).unwrap();
        assert!(work < MAX_WORK / 2, "{one:?}: {work}");
    }
    // Both objects are made ready once, however many elements look at them.
    let looks = "{{ .LocalObject.spec.items | len }}-{{ .RemoteObject.kind }}";
    let looking = step("template", "spec.items[*].image", looks, "");
    assert!(work(&[looking], &doc).unwrap() < MAX_WORK);
}

#[test]
fn work_that_grows_with_the_square_of_an_object_is_refused() {
    let doc = many();
    let nothing = "{{ range .LocalObject.spec.items }}{{ end }}{{ .Value }}";
    let printing =
        "{{ if eq (print (slice .LocalObject.spec.items 0 3000)) \"x\" }}{{ end }}{{ .Value }}";
    for one in [
        step("template", "spec.items[*].image", nothing, ""),
        step("template", "spec.items[*].image", printing, ""),
        step("regex", "spec.items[*].#(a==1)", "^", "x"),
        step(
            "cel",
            "spec.items[*].image",
            "self.spec.items.exists(i, i.image == value) ? 'a' : 'b'",
            "",
        ),
    ] {
        is_too_much(&[one], &doc);
    }
}

#[test]
fn all_steps_together_are_bounded() {
    let doc = many();
    let one = step("template", "spec.items[*].image", "reg/{{ .Value }}", "");
    assert!(work(&vec![one.clone(); 3], &doc).is_ok());
    is_too_much(&vec![one; 200], &doc);
}

#[test]
fn many_steps_on_a_small_object_are_not_refused() {
    let doc = json!({"spec": {"image": "nginx", "note": "x".repeat(2_000)}});
    let steps: Vec<_> = (0..MAX_STEPS)
        .map(|i| match i % 3 {
            0 => step("regex", "spec.image", "$", "x"),
            1 => step("template", "spec.t", "{{ .LocalObject.spec.image }}", ""),
            _ => step("cel", "spec.c", "self.spec.image + other.spec.image", ""),
        })
        .collect();
    assert!(work(&steps, &doc).is_ok());
}

#[test]
fn a_pipeline_serves_all_workers_at_once() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Pipeline::compile(&[step("cel", "a", "1", "")]).unwrap());
}

#[test]
fn a_template_sees_its_value_and_both_objects_and_writes_text() {
    let doc = json!({"n": 7, "who": "a<b>", "list": [{"x": "p"}, {"x": "q"}]});
    let apply = |path: &str, template: &str, other: Option<&Value>| {
        let steps = [step("template", path, template, "")];
        let pipeline = Pipeline::compile(&steps).unwrap();
        pipeline.apply(&doc, other).unwrap()
    };
    let got = apply("n", " {{ .Value.Int | add 1 }} ", None);
    assert_eq!(got["n"], "8");
    let got = apply("who", "{{ .Value }}!", None);
    assert_eq!(got["who"], "a&lt;b&gt;!");
    let got = apply(
        "who",
        "{{ .LocalObject.n }}-{{ .RemoteObject.n }}",
        Some(&json!({"n": 9})),
    );
    assert_eq!(got["who"], "7-9");
    let got = apply(
        "who",
        "{{ if .RemoteObject }}there{{ else }}alone{{ end }}",
        None,
    );
    assert_eq!(got["who"], "alone");
    let got = apply("list[*].x", "{{ .Value.String | upper }}", None);
    assert_eq!(got["list"], json!([{"x": "P"}, {"x": "Q"}]));
}

#[test]
fn a_template_that_cannot_work_is_refused_when_it_is_compiled() {
    let errors = Pipeline::compile(&[step("template", "a", "ab{{ env \"HOME\" }}", "")])
        .err()
        .unwrap();
    assert_eq!((errors[0].field, errors[0].offset), ("template", Some(5)));
    assert!(errors[0].hint.is_some());
}

#[test]
fn other_is_null_when_there_is_no_other_side() {
    let steps = [step("cel", "a", "other == null ? 'alone' : other.name", "")];
    let pipeline = Pipeline::compile(&steps).unwrap();
    assert_eq!(
        pipeline.apply(&json!({}), None).unwrap(),
        json!({"a": "alone"})
    );
    assert_eq!(
        pipeline
            .apply(&json!({}), Some(&json!({"name": "o"})))
            .unwrap(),
        json!({"a": "o"})
    );
}

#[test]
fn a_failing_step_names_itself_and_its_path() {
    let error = apply(
        &[
            step("delete", "x", "", ""),
            step("cel", "i[*].n", "value.nope", ""),
        ],
        &json!({"i": [{"n": {}}]}),
    );
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "mutation step 1 at 'i.0.n'");
}
