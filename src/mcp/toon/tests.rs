mod reader;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[track_caller]
fn writes(json: &str, lines: &[&str]) {
    assert_eq!(encode(json).as_deref(), Ok(lines.join("\n").as_str()), "{json}");
}

#[test]
fn objects_keep_the_order_of_their_members_and_numbers_their_digits() {
    writes(
        r#"{"node":"n-1","ready":true,"cpu":3.50,"note":null}"#,
        &["node: n-1", "ready: true", "cpu: 3.5", "note: null"],
    );
    writes(
        r#"{"big":1.5e20,"tiny":1e-10,"neg":-0.0,"id":9007199254740993}"#,
        &[
            "big: 150000000000000000000",
            "tiny: 0.0000000001",
            "neg: 0",
            "id: 9007199254740993",
        ],
    );
    writes(
        r#"{"a":{"b":{"c":1},"d":{}},"e":2}"#,
        &["a:", "  b:", "    c: 1", "  d:", "e: 2"],
    );
}

#[test]
fn lists_of_scalars_stand_on_one_line() {
    writes(
        r#"{"zones":["eu","us","ap"],"empty":[],"none":{}}"#,
        &["zones[3]: eu,us,ap", "empty[0]:", "none:"],
    );
}

#[test]
fn objects_of_the_same_scalar_members_are_a_table() {
    writes(
        r#"{"pods":[{"name":"api","restarts":0},{"restarts":2,"name":"db"}]}"#,
        &["pods[2]{name,restarts}:", "  api,0", "  db,2"],
    );
    writes(
        r#"{"p":[{"a b":1},{"a b":"x,y"}]}"#,
        &[r#"p[2]{"a b"}:"#, "  1", r#"  "x,y""#],
    );
}

#[test]
fn other_lists_have_hyphens() {
    writes(r#"{"a":[1,{"b":2},"c"]}"#, &["a[3]:", "  - 1", "  - b: 2", "  - c"]);
    writes(r#"{"a":[{"x":1},{"y":1}]}"#, &["a[2]:", "  - x: 1", "  - y: 1"]);
    writes(
        r#"{"a":[{"x":1,"y":[1,2],"z":{"k":1}},{}]}"#,
        &["a[2]:", "  - x: 1", "    y[2]: 1,2", "    z:", "      k: 1", "  -"],
    );
    writes(
        r#"{"a":[[1,2],[],[{"x":1},[3]]]}"#,
        &[
            "a[3]:",
            "  - [2]: 1,2",
            "  - [0]:",
            "  - [2]:",
            "    - x: 1",
            "    - [1]: 3",
        ],
    );
    writes(r#"[{},{}]"#, &["[2]:", "  -", "  -"]);
    writes(
        r#"{"a":[[{"x":1},{"x":2}]]}"#,
        &["a[1]:", "  - [2]:", "    - x: 1", "    - x: 2"],
    );
}

#[test]
fn a_nested_first_member_stands_behind_the_hyphen_and_what_is_its_own_one_step_further() {
    writes(
        r#"{"a":[{"users":[{"id":1},{"id":2}],"status":"up"},{"o":{"k":1},"p":2}]}"#,
        &[
            "a[2]:",
            "  - users[2]{id}:",
            "      1",
            "      2",
            "    status: up",
            "  - o:",
            "      k: 1",
            "    p: 2",
        ],
    );
}

#[test]
fn the_whole_may_be_anything() {
    writes(r#"[1,"two",null]"#, &["[3]: 1,two,null"]);
    writes("[]", &["[0]:"]);
    writes("{}", &[""]);
    writes(r#" [{"x":1},{"x":2}] "#, &["[2]{x}:", "  1", "  2"]);
    writes(r#""two""#, &["two"]);
    writes("-1.0e1", &["-10"]);
    writes("true", &["true"]);
}

#[test]
fn texts_that_would_be_misread_have_quotes() {
    for (text, quoted) in [
        ("", true),
        ("true", true),
        ("null", true),
        (" a", true),
        ("a ", true),
        ("\u{a0}a", true),
        ("-", true),
        ("-a", true),
        ("42", true),
        ("05", true),
        ("1e5", true),
        ("a:b", true),
        ("a,b", true),
        ("[a", true),
        ("a}", true),
        ("a\"b", true),
        ("a\\b", true),
        ("a\nb", true),
        ("a\r\tb", true),
        ("a\u{1}b", true),
        ("True", false),
        ("a b", false),
        ("a-b", false),
        ("é 文 🦀", false),
        ("1.2.3", false),
        ("#x", false),
        ("a|b", false),
    ] {
        let toon = encode(&Value::from(text).to_string()).unwrap();
        assert_eq!(toon.starts_with('"'), quoted, "{text:?} {toon}");
        assert_eq!(toon.lines().count(), 1, "{toon:?}");
    }
    writes(r#"{"k":"a\\b\"c\n\r\t"}"#, &[r#"k: "a\\b\"c\n\r\t""#]);
}

#[test]
fn names_that_are_no_identifiers_have_quotes_everywhere() {
    writes(
        r#"{"a-b":1,"":[1],"a.b_1":{},"1a":[{"x y":1}],"a\nb":2}"#,
        &[
            r#""a-b": 1"#,
            r#"""[1]: 1"#,
            "a.b_1:",
            r#""1a"[1]{"x y"}:"#,
            "  1",
            r#""a\nb": 2"#,
        ],
    );
}

#[test]
fn what_is_no_json_or_too_much_stays_as_it_is() {
    for json in [
        "",
        "hello",
        "{",
        "[1,]",
        "[,1]",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "[1 2]",
        "1 2",
        "01",
        "+1",
        "1.",
        "\"a",
        "\"\\x\"",
        "nul",
        "\"a\nb\"",
        "{1:2}",
        "[1]x",
        "\"\\ud800\"",
        "--1",
        "\"\\",
    ] {
        assert_eq!(encode(json), Err(ToonError::NotJson), "{json}");
    }
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(encode(&nested(128)).is_ok());
    assert_eq!(encode(&nested(129)), Err(ToonError::TooDeep));
    assert_eq!(encode(&nested(1_000_000)), Err(ToonError::TooDeep));
    assert_eq!(encode(r#"{"a":1,"b":2,"\u0061":3}"#), Err(ToonError::Ambiguous));
    assert_eq!(encode("[1e9999]"), Err(ToonError::TooLong));
    let many = format!("[{}0]", "0,".repeat(crate::defaults::TOON_VALUES_MAX));
    assert_eq!(encode(&many), Err(ToonError::TooMany));
}

#[test]
fn text_blocks_that_are_json_are_rewritten_in_a_result_and_nothing_else() {
    let result = r#"{ "content":[ {"type":"text","text":"{\"a\": [1,2]}","annotations":{}}, {"type":"text","text":"plain [1]"},{"type":"text","text":"7"},{"type":"image","text":"[1]"},{"type":"text","text":"[1"},7 ],"structuredContent":{"a": [1,2]},"x":1.0}"#;
    assert_eq!(
        in_tool_result(result),
        result.replace(r#""{\"a\": [1,2]}""#, r#""a[2]: 1,2""#)
    );
    for other in [
        "{}",
        "[]",
        r#"{"content":7}"#,
        r#"{"content":[{"type":"text","text":7}]}"#,
    ] {
        assert!(matches!(in_tool_result(other), Cow::Borrowed(_)), "{other}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9 :,\\-\\[\"\n]{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-c -]{0,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_written_can_be_read_again(value in any_json()) {
        let toon = encode(&value.to_string()).unwrap();
        prop_assert_eq!(reader::read(&toon), value, "{}", toon);
    }

    #[test]
    fn no_text_breaks_it(text in r#"(\{|\}|\[|\]|"a"|"|\\|:|,|1|-|e| |null|é){0,14}"#) {
        let is_json = serde_json::from_str::<Value>(&text).is_ok();
        match encode(&text) {
            Ok(_) => prop_assert!(is_json),
            Err(ToonError::NotJson) => prop_assert!(!is_json),
            Err(_) => {}
        }
    }
}

#[test]
fn short_exponents_do_not_become_a_long_text() {
    let many = format!("[{}]", vec!["1e1000"; 20_000].join(","));
    assert_eq!(encode(&many), Err(ToonError::Grown));
    assert!(encode("[1e1000]").is_ok());
}

#[test]
fn deep_lists_of_nothing_do_not_become_a_long_text() {
    let deep = |items: usize| format!("{}{}{}", "[".repeat(60), vec!["{}"; items].join(","), "]".repeat(60));
    assert_eq!(encode(&deep(50_000)), Err(ToonError::Grown));
    assert!(encode(&deep(1)).is_ok());
}
