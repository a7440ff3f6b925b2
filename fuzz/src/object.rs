//! Any text as an object: its members are found as they were written, and one is replaced without touching another.

use mcpfleet::mcp::Members;
use mcpfleet::mcp::object::{ObjectWriter, replace_value, write_string};

use super::json;

const REPLACEMENTS: [&str; 3] = ["null", r#""\u0000""#, r#"{"a": [1.50]}"#];

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    strings(text);
    let Some(members) = Members::parse(text) else {
        assert!(json::object(data).is_none(), "an object is read");
        return;
    };
    assert!(
        json::object(data).is_some(),
        "only an object is read, and none with a member twice"
    );
    let all = read(text);

    let mut written = Vec::new();
    let mut object = ObjectWriter::open(&mut written);
    for (name, value) in &all {
        object.member(name, value);
    }
    object.close();
    assert_eq!(read(std::str::from_utf8(&written).expect("text")), all);

    for (at, (name, value)) in members.iter().enumerate() {
        assert_eq!(members.get(name).map(|found| found.get()), Some(value.get()));
        let range = json::range(data, value.get());
        for replacement in REPLACEMENTS {
            let spliced = replace_value(text, value, replacement);
            let (before, after) = (&data[..range.start], &data[range.end..]);
            assert_eq!(spliced.as_bytes(), [before, replacement.as_bytes(), after].concat());
            let mut expected = all.clone();
            expected[at].1 = replacement.to_owned();
            assert_eq!(read(&spliced), expected);
        }
    }
}

fn read(text: &str) -> Vec<(String, String)> {
    let members = Members::parse(text).expect("still an object");
    members
        .iter()
        .map(|(name, value)| (name.to_owned(), value.get().to_owned()))
        .collect()
}

/// Any string is written so that it is read again.
fn strings(text: &str) {
    let mut out = Vec::new();
    write_string(&mut out, text);
    assert_eq!(serde_json::from_slice::<String>(&out).expect("a JSON string"), text);
    let raw = json::value(&out).expect("a JSON value");
    assert_eq!(mcpfleet::mcp::object::string(raw).expect("a string"), text);
}
