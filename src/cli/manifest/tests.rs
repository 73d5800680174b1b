use super::*;

fn one(text: &str) -> Document {
    parse(Path::new("f.yaml"), text).unwrap().remove(0)
}

#[track_caller]
fn check(text: &str, field: &str, offset: Option<usize>, wanted: (usize, usize)) {
    let place = one(text).place(field, Part::Value, offset);
    assert_eq!(
        (place.line + 1, place.column + 1),
        wanted,
        "{field} in {text}"
    );
}

#[test]
fn every_field_has_its_place() {
    let text = "a: 1\nb:\n  - c: x\n    d: \"y\"\n  - [p, q]\n";
    check(text, "a", None, (1, 4));
    check(text, "b[0].d", None, (4, 8));
    check(text, "b[0].d", Some(0), (4, 9));
    check(text, "b[1][1]", None, (5, 9));
    check(text, "b[0].missing.deep", None, (3, 5));
    check(text, "z", None, (1, 1));
}

#[test]
fn an_offset_into_a_block_is_found_in_its_lines() {
    let text = "t: |\n  ab\n  cdef\nu: x\n";
    check(text, "t", Some(0), (2, 3));
    check(text, "t", Some(4), (3, 4));
}

#[test]
fn documents_are_numbered_by_the_lines_of_their_file() {
    let documents = parse(Path::new("f"), "---\na: 1\n---\n# nothing\n---\nb: 2\n").unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[1].place("b", Part::Value, None).line, 5);
}

#[test]
fn broken_yaml_is_told_with_its_place() {
    let error = parse(Path::new("f.yaml"), "a: 1\nb: [1\n").err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with("f.yaml:"), "{text}");
    let empty = parse(Path::new("f.yaml"), "# only words\n").err().unwrap();
    assert_eq!(empty.to_string(), "f.yaml contains no document");
}

#[test]
fn an_excerpt_points_below_the_column() {
    let document = one("a: 1\nbcd: x\n");
    let place = document.place("bcd", Part::Value, None);
    assert_eq!(document.excerpt(place), "  |\n2 | bcd: x\n  |      ^\n");
}

#[test]
fn keys_have_places_of_their_own() {
    let document = one("spec:\n  a.b/c: 1\n  \"{{ x }}\": {y: 2}\n");
    for (field, offset, wanted) in [
        ("spec", None, (1, 1)),
        ("spec.a.b/c", None, (2, 3)),
        ("spec.{{ x }}", Some(3), (3, 7)),
        ("spec.{{ x }}.y", None, (3, 15)),
        ("spec.missing", None, (2, 3)),
    ] {
        let place = document.place(field, Part::Key, offset);
        assert_eq!((place.line + 1, place.column + 1), wanted, "{field}");
    }
}

#[test]
fn a_key_that_is_there_twice_is_told_with_its_line_in_the_file() {
    let text = "a: 1\n---\nkind: x\nspec:\n  b:\n    c: 1\n    c: 2\n";
    let error = parse(Path::new("f.yaml"), text).err().unwrap();
    assert_eq!(
        error.to_string(),
        "f.yaml:7:5: the key \"c\" appears twice in one map: remove one of them"
    );
}

#[test]
fn what_else_the_parser_refuses_is_told_without_its_layout() {
    for text in ["a: *missing\n", "a: !!binary 1\n", "a: 1\nb: {<<: 3}\n"] {
        let said = parse(Path::new("f.yaml"), text).err().unwrap().to_string();
        assert!(said.starts_with("f.yaml:"), "{said}");
        assert!(!said.contains('\n') && !said.contains("Options"), "{said}");
    }
}
