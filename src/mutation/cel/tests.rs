use serde_json::json;

use super::*;

/// Refused by Go before evaluation for reasons of static types, which this engine only finds when it evaluates, or
/// not at all: an expression Go runs is not touched by this.
const ONLY_STATICALLY_WRONG: [&str; 0] = [];

#[test]
fn every_expression_of_the_contract_evaluates_as_recorded() {
    let golden: Value = serde_json::from_str(include_str!("../../../tests/data/cel.json")).unwrap();
    assert_eq!(golden["cases"].as_array().unwrap().len(), 199);
    check_all(&golden);
}

#[track_caller]
fn check_all(golden: &Value) {
    let engine = Engine::new();
    let cases = golden["cases"].as_array().unwrap();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| !ONLY_STATICALLY_WRONG.contains(&case["id"].as_str().unwrap()))
        .filter_map(|case| {
            Some(format!(
                "{}: {}\n    {}",
                case["id"],
                case["expr"],
                difference(&engine, golden, case)?
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

fn difference(engine: &Engine, golden: &Value, case: &Value) -> Option<String> {
    let other = (case["other"] == "set").then_some(&golden["other"]);
    let scope = Scope::new(&golden["self"], other);
    let value = &golden["values"][case["value"].as_str().unwrap()];
    let compiled = engine.compile(case["expr"].as_str().unwrap());
    if case["phase"] == "compile" {
        return compiled
            .is_ok()
            .then(|| format!("compiled, but: {}", case["message"]));
    }
    let result = match compiled {
        Ok(program) => program.evaluate(value, &scope),
        Err(error) => return Some(format!("refused: {error}")),
    };
    match (result, case["error"] == true) {
        (Err(_), true) => None,
        (Err(EvalError::NotJson(_)), false) if case["type"] == "double" => None,
        (Ok((got, _)), true) => Some(format!("got {got}, but: {}", case["message"])),
        (Err(error), false) => Some(format!("failed: {error}, want {}", case["want"])),
        (Ok((got, _)), false) => {
            (got != case["want"]).then(|| format!("got {got}, want {}", case["want"]))
        }
    }
}
