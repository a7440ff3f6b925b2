use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::defaults::JSON_DEPTH_MAX;
use crate::manifest::path::Path;

fn one(text: &str) -> Node {
    let (mut documents, faults) = documents(text);
    assert_eq!(faults, []);
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn faults(text: &str) -> Vec<(usize, String)> {
    let faults = documents(text).1.into_iter();
    faults.map(|fault| (fault.line, fault.message)).collect()
}

#[test]
fn values_know_their_lines() {
    let node = one("# first\na: 1\nlist:\n- x\n- deep: |\n    text\n    more\nflow: {b: [1,\n 2]}\n");
    assert_eq!(
        node.to_json(),
        json!({"a": 1, "list": ["x", {"deep": "text\nmore\n"}], "flow": {"b": [1, 2]}})
    );
    let list = Path::default().field("list");
    assert_eq!(node.line_of(&Path::default().field("a")), 2);
    assert_eq!(node.line_of(&list), 3);
    assert_eq!(node.line_of(&list.index(1)), 5);
    assert_eq!(node.line_of(&list.index(1).field("deep")), 5);
    assert_eq!(node.line_of(&Path::of_fields("flow.b").index(1)), 9);
    assert_eq!(
        node.line_of(&list.index(7).field("nowhere")),
        3,
        "the nearest that exists"
    );
}

#[test]
fn empty_documents_are_skipped() {
    let (documents, faults) = documents("---\n# nothing\n---\na: 1\n---\n\n---\nnull\n...\n---\nb: 2\n---\n");
    assert_eq!(faults, []);
    assert_eq!(documents.iter().map(|d| d.line).collect::<Vec<_>>(), [4, 11]);
    assert_eq!(super::documents("").0.len(), 0);
}

#[test]
fn json_is_yaml() {
    let text = "{\n\t\"a\": \"\\u00e4\\/\\ud83d\\ude00\",\t\"b\":[true,null,1e3,-2],\n\"c\":{}}";
    assert_eq!(
        one(text).to_json(),
        json!({"a": "ä/😀", "b": [true, null, 1000, -2], "c": {}})
    );
}

#[test]
fn anchors_and_merges_work_as_in_kubectl() {
    let node =
        one("base: &b {x: 1, w: 2}\nuse: *b\nmore:\n  <<: *b\n  w: 3\nmany: {<<: [{z: 1}, *b]}\nquoted: {\"<<\": 1}\n");
    assert_eq!(
        node.to_json(),
        json!({"base": {"x": 1, "w": 2}, "use": {"x": 1, "w": 2}, "more": {"w": 3, "x": 1},
               "many": {"z": 1, "x": 1, "w": 2}, "quoted": {"<<": 1}})
    );
}

#[test]
fn tags_of_yaml_itself_are_obeyed() {
    assert_eq!(
        one("a: !!str 12\nb: !!int 12\nc: !!map {}\n").to_json(),
        json!({"a": "12", "b": 12, "c": {}})
    );
    assert_eq!(faults("a: !secret x\nb: !!binary aGk=\n").len(), 2);
}

#[test]
fn faults_tell_the_line_and_the_way_out() {
    let twice = faults("a: 1\nb: 2\na: 3\n");
    assert_eq!(
        twice,
        [(3, "the key `a` stands twice in one map; remove one of them".into())]
    );
    let tab = faults("a:\n\tb: 1\n");
    assert_eq!(tab[0].0, 2);
    assert!(tab[0].1.contains("; indent with spaces"), "{tab:?}");
    for (text, fix) in [
        ("a: b: c\n", "put text that holds `: ` in quotes"),
        ("a: @b\n", "put the text in quotes"),
        ("a:\n  b: 1\n c: 2\n", "check the indentation of this line"),
        ("- a\nb: 1\n", "check the indentation of this line"),
        ("a: *b\n", "put text that starts with `*` in quotes"),
        ("a: {{ .Values.a }}\n", "render templates such as {{ … }} before"),
    ] {
        assert!(faults(text)[0].1.ends_with(fix), "{text}: {:?}", faults(text));
    }
    let indentation = faults("a:\n  b: 1\n c: 2\n");
    assert_eq!(indentation[0].0, 3, "{indentation:?}");
    assert!(faults("on: 1\n")[0].1.contains("quotes"));
    assert!(faults("? [a]\n: 1\nb: 2\n")[0].1.contains("plain text"));
    assert!(
        faults("a: *nowhere\n")[0].1.contains("anchor"),
        "{:?}",
        faults("a: *nowhere\n")
    );
    assert_eq!(faults("a: &a [*a]\n").len(), 1);
    assert_eq!(faults("a: {<<: 1}\n").len(), 1);
}

#[test]
fn a_refused_key_does_not_shift_what_follows() {
    let (documents, faults) = documents("a: &a k\n? {x: [1]}\n: {w: 1}\n*a : 2\na: 3\nb: 4\n");
    assert_eq!(documents[0].to_json(), json!({"a": "k", "b": 4}));
    assert_eq!(faults.len(), 3);
}

#[test]
fn documents_after_a_broken_one_are_read() {
    let (documents, faults) = documents("a: [1\n---\nb: {\n---\nc: 1\nc: 2\n");
    assert_eq!(documents.len(), 1);
    assert_eq!(
        faults.iter().map(|f| f.line).collect::<Vec<_>>(),
        [1, 3, 6],
        "{faults:?}"
    );
}

#[test]
fn an_anchor_bomb_is_refused_in_bounded_memory() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..20 {
        let previous = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![previous; 10].join(","));
    }
    assert!(faults(&bomb)[0].1.contains("values"), "{:?}", faults(&bomb));
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert_eq!(faults(&deep(JSON_DEPTH_MAX)), []);
    assert!(faults(&deep(JSON_DEPTH_MAX + 1))[0].1.contains("deeper"));
    let aliased = format!("a: &a {}\nb: {}", deep(100), "[".repeat(60) + "*a" + &"]".repeat(60));
    assert!(faults(&aliased)[0].1.contains("deeper"));
}

#[test]
fn many_comments_are_no_matter() {
    assert_eq!(one(&("# comment\n".repeat(5000) + "a: 1\n")).line, 5001);
}

proptest! {
    #[test]
    fn no_text_brings_the_reader_down(text in "([a-c:\\- \\n\\t\\[\\]{},&*!|>'\"#%?]|---\n|<<: |a: ){0,60}") {
        documents(&text);
    }

    #[test]
    fn whatever_json_says_is_read_as_json_says_it(value in json_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let read = documents(&text).0;
        prop_assert_eq!(read[0].to_json(), value);
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[ -~]{1,6}", inner, 1..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

#[test]
fn a_long_text_is_not_copied_without_end() {
    let aliased = |times: usize| format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; times].join(", "));
    assert!(faults(&aliased(8)).is_empty());
    assert!(faults(&aliased(1_000))[0].1.contains("bytes of text"));
    let in_keys = format!(
        "a: &a {{{}: 1}}\nb: [{}]\n",
        "x".repeat(1_000),
        vec!["*a"; 50_000].join(", ")
    );
    assert!(faults(&in_keys)[0].1.contains("bytes of text"));
}
