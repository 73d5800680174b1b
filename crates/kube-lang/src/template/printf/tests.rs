use serde_json::Value as Json;

use super::*;

fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

#[track_caller]
fn check(format: &str, args: &[Value], wanted: &str) {
    super::super::WORK.set(Some(super::super::MAX_WORK));
    let all = [&[Value::Int(0), string(format)], args].concat();
    let Ok(Value::String(text)) = printf(&all) else {
        panic!("{format} is refused");
    };
    assert_eq!(&*text, wanted, "{format}");
}

#[track_caller]
fn refused(format: &str, args: &[Value]) {
    super::super::WORK.set(Some(super::super::MAX_WORK));
    let all = [&[Value::Int(0), string(format)], args].concat();
    assert!(printf(&all).is_err(), "{format}");
}

#[test]
fn a_verb_that_does_not_fit_says_so_with_the_type() {
    check("%d", &[Value::Float(1.5)], "%!d(float64=1.5)");
    check("%f", &[Value::Int(1)], "%!f(int64=1)");
    check(
        "%s|%t",
        &[Value::Int(1), string("a")],
        "%!s(int64=1)|%!t(string=a)",
    );
    check(
        "%d",
        &[list(vec![string("a"), Value::Int(2)])],
        "[%!d(string=a) 2]",
    );
    check("%5d|", &[string("abc")], "%!d(string=  abc)|");
    check("%z", &[Value::Nil], "%!z(<nil>)");
}

#[test]
fn a_literal_is_an_int_and_the_rest_an_int64() {
    super::super::WORK.set(Some(super::super::MAX_WORK));
    let args = [
        Value::Int(0b10),
        string("%f %f"),
        Value::Int(1),
        Value::Int(2),
    ];
    assert_eq!(printf(&args).unwrap(), string("%!f(int64=1) %!f(int=2)"));
}

#[test]
fn arguments_are_counted_chosen_and_missed() {
    let one = [Value::Int(7), Value::Int(8)];
    check("%[2]d %[1]d", &one, "8 7");
    check("%[3]d", &one, "%!d(BADINDEX)");
    check("%[x]d", &one, "%!d(BADINDEX)");
    check("%d", &one, "7%!(EXTRA int64=8)");
    check("%d %d %d", &one, "7 8 %!d(MISSING)");
    check("%", &[], "%!(NOVERB)");
    check("%*d|", &[Value::Int(-4), Value::Int(8)], "8   |");
    check("%*d|", &[string("x"), Value::Int(8)], "%!(BADWIDTH)8|");
    check("%.*f|", &[Value::Int(1), Value::Float(0.25)], "0.2|");
    check("%[1]*d|", &one, "      8|");
    check("a%%b", &[], "a%b");
}

#[test]
fn integers_have_their_bases_signs_and_zeros() {
    let n = [Value::Int(-42)];
    check(
        "%6d|%-6d|%06d|%+d",
        &[n[0].clone(), n[0].clone(), n[0].clone(), Value::Int(1)],
        "   -42|-42   |-00042|+1",
    );
    check(
        "%x %X %#x %#o %O %b",
        &vec![Value::Int(255); 6],
        "ff FF 0xff 0377 0o377 11111111",
    );
    check(
        "%.5d|%8.5d|%.0d|",
        &[Value::Int(42), Value::Int(42), Value::Int(0)],
        "00042|   00042||",
    );
    check(
        "%c%c %q %U %#U",
        &[
            Value::Int(97),
            Value::Int(-1),
            Value::Int(39),
            Value::Int(97),
            Value::Int(9731),
        ],
        "a\u{fffd} '\\'' U+0061 U+2603 '☃'",
    );
    check("%d", &[Value::Uint(u64::MAX)], "18446744073709551615");
    check("%d", &[Value::Int(i64::MIN)], "-9223372036854775808");
}

#[test]
fn floats_have_their_digits() {
    for (format, f, wanted) in [
        ("%f", 1.0, "1.000000"),
        ("%.2f", 2.675, "2.67"),
        ("%e", 0.0, "0.000000e+00"),
        ("%.2e", 1_234_567.0, "1.23e+06"),
        ("%g", 1e-5, "1e-05"),
        ("%v", 123_456_789.0, "1.23456789e+08"),
        ("%.3g", 1_234.5, "1.23e+03"),
        ("%.3g", 100.0, "100"),
        ("%.10g", 1e7, "10000000"),
        ("%.3g", 99.96, "100"),
        ("%.3g", 0.000_012_345, "1.23e-05"),
        ("%6.2v|", 3.0625, "   3.1|"),
        ("%08.3f", -3.1417, "-003.142"),
        ("%+.1f", 2.0, "+2.0"),
        ("% 06.1f", 2.0, " 002.0"),
        ("%G", 1e-7, "1E-07"),
        ("%5.1f|", f64::INFINITY, " +Inf|"),
        ("%f", f64::NAN, "NaN"),
    ] {
        check(format, &[Value::Float(f)], wanted);
    }
}

#[test]
fn texts_are_padded_cut_and_quoted() {
    check("%5s|%-5s|%05s", &vec![string("ab"); 3], "   ab|ab   |000ab");
    check("%.2s|%.2q", &vec![string("日本語"); 2], "日本|\"日本\"");
    check(
        "%x % x %#X %# x",
        &vec![string("hi"); 4],
        "6869 68 69 0X6869 0x68 0x69",
    );
    check(
        "%+q %#q",
        &[string("é☃😀"), string("a\tb")],
        "\"\\u00e9\\u2603\\U0001f600\" `a\tb`",
    );
}

#[test]
fn lists_and_maps_are_formatted_part_by_part() {
    let inner = list(vec![string("x"), Value::Nil]);
    check("%v", std::slice::from_ref(&inner), "[x <nil>]");
    check(
        "%q",
        &[list(vec![string("a"), string("b")])],
        "[\"a\" \"b\"]",
    );
    check(
        "%3d|",
        &[list(vec![Value::Int(1), Value::Int(22)])],
        "[  1  22]|",
    );
    let fields = [("k", Value::Int(1))].map(|(k, v)| (k.into(), v));
    check(
        "%s",
        &[super::super::values::map(fields.into())],
        "map[k:%!s(int64=1)]",
    );
}

#[test]
fn what_would_be_another_text_or_too_long_is_refused() {
    refused("%#v", &[Value::Int(1)]);
    refused("%p", &[Value::Int(1)]);
    refused("%x", &[Value::Float(1.5)]);
    refused("%99999d", &[Value::Int(1)]);
    refused("%*d", &[Value::Int(99_999), Value::Int(1)]);
    refused("%9999d", &[list(vec![Value::Int(1); 200])]);
    refused(&"%9999d".repeat(200), &vec![Value::Int(1); 200]);
}

#[derive(serde::Deserialize)]
struct Case {
    format: String,
    args: Vec<Json>,
    want: String,
}

/// Floats are marked, since JSON tells them from integers by their spelling only.
fn value(json: &Json) -> Value {
    match json {
        Json::Array(items) => list(items.iter().map(value).collect()),
        Json::Object(fields) => match fields.get("float") {
            Some(float) => Value::Float(float.as_str().unwrap().parse().unwrap()),
            None => super::super::values::from_json(json),
        },
        other => super::super::values::from_json(other),
    }
}

/// Answers of Go's `fmt` to random formats and values.
#[test]
fn random_formats_answer_as_go() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../../../tests/data/printf.json")).unwrap();
    assert!(cases.len() >= 1_490);
    let mut wrong = Vec::new();
    for case in &cases {
        super::super::WORK.set(Some(super::super::MAX_WORK));
        let mut all = vec![Value::Int(0), string(&case.format)];
        all.extend(case.args.iter().map(value));
        let answer = printf(&all);
        if answer != Ok(string(&case.want)) {
            wrong.push(format!(
                "{:?} {} -> {answer:?}, want {:?}",
                case.format,
                Json::from(case.args.clone()),
                case.want
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
