//! The fuzz targets, as ordinary tests: with the inputs of their corpora, with slips of them, and with made-up ones.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

#[allow(unreachable_pub, reason = "it is a crate of its own for the fuzzer")]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

/// Larger inputs of a corpus are replayed, but not changed.
const CHANGED_UP_TO: usize = 1024;

#[test]
fn every_input_of_the_corpora_holds() {
    for (target, check) in fuzz::TARGETS {
        for (file, input) in corpus(target) {
            attempt(check, &input, &format!("{}", file.display()));
        }
    }
}

#[test]
fn inputs_of_the_corpora_that_are_cut_or_slightly_wrong_hold() {
    for (target, check) in fuzz::TARGETS {
        for (file, input) in corpus(target) {
            if input.len() > CHANGED_UP_TO {
                continue;
            }
            for at in 0..input.len() {
                attempt(check, &input[..at], &format!("{} cut at {at}", file.display()));
                for other in [
                    b'"',
                    b'\\',
                    b'{',
                    b'\n',
                    0,
                    input[at] ^ 0x20,
                    input[at].wrapping_add(1),
                    0xff,
                ] {
                    let mut changed = input.clone();
                    changed[at] = other;
                    attempt(check, &changed, &format!("{} with {other:#x} at {at}", file.display()));
                }
                let mut without = input.clone();
                without.remove(at);
                attempt(check, &without, &format!("{} without {at}", file.display()));
            }
        }
    }
}

#[test]
fn every_target_is_built_and_has_a_corpus() {
    let manifest = fs::read_to_string(package().join("Cargo.toml")).unwrap();
    let built: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"))
        .collect();
    assert_eq!(built.len(), fuzz::TARGETS.len());
    for (target, _) in fuzz::TARGETS {
        assert!(
            built.contains(&&*format!("{target}.rs\"")),
            "{target} is in fuzz/Cargo.toml"
        );
        let program = fs::read_to_string(package().join(format!("fuzz_targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("mcpfleet_fuzz::{target}::check")));
        assert!(corpus(target).len() >= 3, "{target}");
    }
}

proptest! {
    #[test]
    fn any_bytes_hold(data in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, check) in fuzz::TARGETS {
            check(&data);
        }
    }

    #[test]
    fn any_object_holds(object in json().prop_filter("an object", |text| text.trim_start().starts_with('{'))) {
        for (_, check) in fuzz::TARGETS {
            check(object.as_bytes());
        }
    }

    #[test]
    fn messages_with_any_id_params_and_result_hold(id in json(), params in json(), name in "[a-z/]{1,12}") {
        for member in [format!(r#""method":"{name}","params""#), "\"result\"".into(), "\"error\"".into()] {
            fuzz::envelope::check(format!(r#"{{"jsonrpc":"2.0","id":{id},{member}:{params}}}"#).as_bytes());
        }
    }

    #[test]
    fn any_text_in_a_header_holds(text in any::<String>()) {
        fuzz::header_value::check(text.as_bytes());
    }
}

/// JSON as nobody's serializer writes it: odd spaces, escapes, numbers, and names that mean something here.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        "\"(\\\\u00[2-7][0-9a-f]|[a-z ]|\\\\n|\\\\/){0,6}\"",
        prop::sample::select(WORDS).prop_map(|word| format!("\"{word}\"")),
    ];
    let space = || prop::sample::select(&["", " ", "\n", "\t \r"][..]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let member = (prop::sample::select(WORDS), space(), inner.clone(), space());
        let member = member.prop_map(|(name, before, value, after)| format!("\"{name}\"{before}:{after}{value}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..6), space()).prop_map(|(items, s)| format!("[{s}{}{s}]", items.join(","))),
            (prop::collection::vec(member, 0..6), space()).prop_map(|(all, s)| format!("{s}{{{s}{}}}", all.join(","))),
        ]
    })
}

const WORDS: &[&str] = &[
    "jsonrpc",
    "id",
    "method",
    "params",
    "_meta",
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/serverInfo",
    "name",
    "arguments",
    "content",
    "type",
    "text",
    "audio",
    "resource_link",
    "structuredContent",
    "resultType",
    "complete",
    "input_required",
    "inputRequests",
    "requestState",
    "messages",
    "message",
    "role",
    "code",
    "data",
    "uri",
    "ttlMs",
    "requestedSchema",
    "properties",
    "object",
    "string",
    "mode",
    "url",
    "x-mcp-header",
    "outputSchema",
    "elicitation",
    "sampling",
    "roots",
    "",
];

/// Runs a check, and says which input it fails with.
fn attempt(check: fuzz::Check, input: &[u8], what: &str) {
    let checked = catch_unwind(AssertUnwindSafe(|| check(input)));
    assert!(checked.is_ok(), "{what}: {:?}", String::from_utf8_lossy(input));
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = package().join("corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| (file.clone(), fs::read(file).unwrap()))
        .collect()
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}
