use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Where this differs from Go, and does no harm.
const TOLERATED: [(&str, &str); 5] = [
    ("{null: 1}", "key that no JSON has"),
    ("{dyn(null): 1}", "key that no JSON has"),
    ("{[1]: 1}", "key that no JSON has"),
    (
        "google.protobuf.Int32Value{value: 1}",
        "messages of protobuf are not known here",
    ),
    (
        "google.protobuf.Struct{}",
        "messages of protobuf are not known here",
    ),
];

/// Numbers only Go's parser takes.
const GO_NUMBERS: [&str; 2] = ["double('0x1p4')", "double('1_0')"];

#[test]
fn every_expression_of_the_contract_evaluates_as_recorded() {
    let golden: Value = serde_json::from_str(include_str!("../../../tests/data/cel.json")).unwrap();
    assert_eq!(golden["cases"].as_array().unwrap().len(), 199);
    check_all(&golden);
}

#[test]
fn every_further_expression_tried_with_go_evaluates_the_same() {
    check_all(&serde_json::from_str(include_str!("../../../tests/data/cel_more.json")).unwrap());
}

#[track_caller]
fn check_all(golden: &Value) {
    let cases = golden["cases"].as_array().unwrap();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| {
            let expression = case["expr"].as_str().unwrap();
            !TOLERATED
                .iter()
                .any(|(tolerated, _)| *tolerated == expression)
                && !GO_NUMBERS.contains(&expression)
        })
        .filter_map(|case| {
            Some(format!(
                "{}: {}\n    {}",
                case["id"],
                case["expr"],
                difference(golden, case)?
            ))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn difference(golden: &Value, case: &Value) -> Option<String> {
    let other = (case["other"] == "set").then_some(&golden["other"]);
    let value = &golden["values"][case["value"].as_str().unwrap()];
    let compiled = Program::compile(case["expr"].as_str().unwrap());
    if case["phase"] == "compile" {
        return compiled
            .is_ok()
            .then(|| format!("compiled, but: {}", case["message"]));
    }
    let result = match compiled {
        Ok(program) => program.evaluate(scope(value, &golden["self"], other), MAX_COST),
        Err(error) => return Some(format!("refused: {error}")),
    };
    match (result, case["error"] == true) {
        (Err(_), true) => None,
        (Err(EvalError::Failed(why)), false) if case["type"] == "double" && why == INFINITE => None,
        (Ok((got, _)), true) => Some(format!("got {got}, but: {}", case["message"])),
        (Err(error), false) => Some(format!("failed: {error}, want {}", case["want"])),
        (Ok((got, _)), false) => {
            (got != case["want"]).then(|| format!("got {got}, want {}", case["want"]))
        }
    }
}

const INFINITE: &str = "a double that is infinite or NaN cannot be written as JSON";

fn scope<'d>(value: &'d Value, this: &'d Value, other: Option<&'d Value>) -> EvalScope<'d> {
    EvalScope { value, this, other }
}

fn evaluate(expression: &str, this: &Value) -> Result<Value, EvalError> {
    let program = Program::compile(expression).unwrap();
    program
        .evaluate(scope(&Value::Null, this, None), MAX_COST)
        .map(|(result, _)| result)
}

#[test]
fn a_bomb_over_long_lists_is_ended() {
    let doc = json!({"l": vec![1; 10_000]});
    for bomb in [
        "self.l.map(a, self.l.map(b, a + b))",
        "self.l.map(a, self.l)",
        "self.l.all(a, self.l.all(b, self.l.all(c, true)))",
        "self.l.filter(a, self.l.map(b, b) == self.l)",
        "self.l.map(a, [self.l, self.l]).map(b, [b, b, b])",
    ] {
        assert!(
            matches!(evaluate(bomb, &doc), Err(EvalError::TooExpensive { .. })),
            "{bomb}"
        );
    }
}

/// What a loop does in each round is counted in each round, whatever it is: with twice the elements an
/// expression takes about twice the steps, and one over all pairs about four times.
#[test]
fn every_kind_of_step_is_counted_for_each_element() {
    let doc = |n: usize| {
        json!({"l": (0..n).collect::<Vec<_>>(), "s": "ab".repeat(n),
            "t": (0..n).map(|n| format!("item-{n}")).collect::<Vec<_>>(),
            "m": (0..n).map(|n| (format!("key-{n}"), json!({"v": n}))).collect::<serde_json::Map<_, _>>()})
    };
    let steps = |expression: &str, n: usize| {
        let program = Program::compile(expression).unwrap();
        let doc = doc(n);
        let (_, steps) = program.evaluate(scope(&doc, &doc, None), MAX_COST).unwrap();
        steps
    };
    for (expression, squared) in [
        ("self.l.all(a, true)", false),
        ("self.l.all(a, a + a >= 0)", false),
        ("self.l.map(a, {'a': a, 'b': a}).size()", false),
        ("self.m.all(k, self.m[k].v >= 0)", false),
        ("self.t.map(a, a + 'x').size()", false),
        ("self.l.map(a, string(a)).size()", false),
        ("self.s.matches('(a|b|ab)*c')", false),
        ("self.s.contains('abc')", false),
        ("self.l == self.l", false),
        (
            "self.l.all(a, timestamp('2024-01-01T00:00:00Z') + duration('1h') > timestamp('2023-01-01T00:00:00Z'))",
            false,
        ),
        ("self.l.all(a, a in self.l)", true),
        ("self.t.all(a, self.t.exists(b, a == b))", true),
        ("self.l.all(a, self.l == self.l)", true),
        ("self.l.all(a, !self.s.contains('abc'))", true),
    ] {
        let (one, two) = (steps(expression, 100), steps(expression, 200));
        let least = if squared { 3 * one } else { one + one / 2 };
        assert!(two >= least, "{expression}: {one} steps, then {two}");
        assert!(one >= 10, "{expression}: {one} steps for 100 elements");
    }
}

#[test]
fn text_cannot_be_doubled_until_memory_is_gone() {
    let doubled = (0..8).fold("self.s".to_owned(), |inner, _| {
        format!("[{inner}].map(x, x + x)[0]")
    });
    let error = evaluate(&doubled, &json!({"s": "x".repeat(100_000)})).unwrap_err();
    assert!(matches!(error, EvalError::TooExpensive { .. }), "{error:?}");
}

#[test]
fn what_is_usual_over_large_objects_is_not_refused() {
    let items: Vec<Value> = (0..2_000)
        .map(|i| json!({"name": format!("n{i}"), "v": i, "note": "x".repeat(100)}))
        .collect();
    let doc = json!({"items": items});
    for expression in [
        "self.items.map(i, i.name)",
        "self.items.filter(i, i.v > 10).map(i, {'name': i.name, 'value': string(i.v)}).size()",
        "self.items.exists(i, i.name.matches('^n1[0-9]+$'))",
        "self.items.all(i, i.name != '' && i.v >= 0)",
    ] {
        assert!(
            evaluate(expression, &doc).is_ok(),
            "{expression}: {:?}",
            evaluate(expression, &doc)
        );
    }
}

#[test]
fn members_of_a_map_come_in_the_order_of_their_keys() {
    let doc = json!({"m": {"z": 1, "b": 2, "a": 3, "y": 4, "c": 5}});
    assert_eq!(
        evaluate("self.m.map(k, k)", &doc).unwrap(),
        json!(["a", "b", "c", "y", "z"])
    );
    assert_eq!(
        evaluate("self.m.filter(k, self.m[k] > 2)", &doc).unwrap(),
        json!(["a", "c", "y"])
    );
}

#[test]
fn results_that_json_has_no_word_for_are_errors() {
    assert_eq!(
        evaluate("1.0 / 0.0", &Value::Null),
        Err(EvalError::Failed(INFINITE.to_owned()))
    );
    assert_eq!(evaluate("2.0", &Value::Null).unwrap().to_string(), "2");
    assert_eq!(
        evaluate("9007199254740993 + 1", &Value::Null)
            .unwrap()
            .to_string(),
        "9007199254740994"
    );
}

#[test]
fn an_error_says_where_in_the_expression_it_is() {
    #[track_caller]
    fn check(expression: &str, offset: usize) {
        assert_eq!(
            Program::compile(expression).err().unwrap().offset,
            offset,
            "{expression}"
        );
    }
    check("self.a + nope", 9);
    check("'é' + nope", 7);
    check("1 +\n  nope", 6);
    check("1 + 'a'", 2);
}

/// Both what is just accepted, which has to evaluate, and what is far too deep.
#[test]
fn no_depth_of_nesting_overflows_the_stack() {
    let this = json!({"a": [1]});
    for depth in (1..100).chain([500, 1_500]) {
        for expression in [
            format!("{}1{}", "(".repeat(depth), ")".repeat(depth)),
            format!("{}1{}", "[".repeat(depth), "]".repeat(depth)),
            format!("{}1", "1+".repeat(depth)),
            format!("{}1", "- ".repeat(depth)),
            format!("{}true", "!".repeat(depth)),
            format!("{}1", "true?1:".repeat(depth)),
            format!("{}true", "false||".repeat(depth)),
            format!("self{}", ".a".repeat(depth)),
            format!("self{}", "[0]".repeat(depth)),
            format!("{}1{}", "{'a':".repeat(depth), "}".repeat(depth)),
            format!("{}1{}", "self.a.map(x,".repeat(depth), ")".repeat(depth)),
            format!("self.a{}", ".map(x,x)".repeat(depth)),
            format!("{}1{}", "dyn(".repeat(depth), ")".repeat(depth)),
        ] {
            if let Ok(program) = Program::compile(&expression) {
                drop(program.evaluate(scope(&Value::Null, &this, None), MAX_COST));
            }
        }
    }
}

const PIECES: &str = concat!(
    r"(self|value|other|x|1|1u|1\.5|'a'|null|true|\[|\]|\{|\}|\(|\)|\.|,|:|\?| \+ | - | \* |/|%|==|!=|<|>=| in |&&|\|\||!|-",
    r"|\.map\(x,|\.filter\(x,|\.all\(x,|has\(self\.|size\(|string\(|int\(|dyn\(|duration\('1h'\)|timestamp\(0\)",
    r"|\.matches\('|\.a|\.b|\[0\]|'|\x22|é|`|//|\n)",
);

proptest! {
    #![proptest_config(ProptestConfig { cases: fuzz::cases(), ..ProptestConfig::default() })]

    #[test]
    fn fuzz_cel(pieces in prop::collection::vec(PIECES, 0..16)) {
        let source = pieces.concat();
        let this = json!({"a": [1, 2.5, "x", null], "b": {"a": "é", "b": [[1]]}});
        match Program::compile(&source) {
            Ok(program) => drop(program.evaluate(scope(&json!([1, "a"]), &this, Some(&this)), MAX_COST)),
            Err(error) => prop_assert!(source.is_char_boundary(error.offset)),
        }
    }
}
