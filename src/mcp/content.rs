//! Content of results in what a client's revision knows: what it does not know becomes text or goes, everything else
//! stays as it was written.
//!
//! Of the contents that `resources/read` gives, every revision knows all kinds.

use std::borrow::Cow;
use std::cell::LazyCell;

use serde_json::Value;
use serde_json::value::RawValue;

use super::method::Method;
use super::object::{self, Members, ObjectWriter};
use super::version::{Era, Revision};

/// `result`, an answer to `method`, for a client of revision `to`; borrowed if all of it is known there.
///
/// Audio is known since 2025-03-26, links to resources and structured content since 2025-06-18, structured content
/// that is no object only to Modern clients. A link written in the old nested shape is straightened for everyone.
pub fn for_client(result: &str, method: Method, to: Revision) -> Cow<'_, str> {
    let rewritten = match method {
        Method::ToolsCall if may_differ(result, to) => tool_result(result, to),
        Method::PromptsGet if may_differ(result, to) => prompt_result(result, to),
        _ => None,
    };
    rewritten.map_or(Cow::Borrowed(result), Cow::Owned)
}

/// The one content block `raw` for a peer of revision `to`, or `None` if it is known there as it is.
pub fn block(raw: &str, to: Revision) -> Option<String> {
    if !may_differ(raw, to) {
        return None;
    }
    let members = Members::parse(raw)?;
    match members.string("type")?.as_ref() {
        "audio" if to < AUDIO_SINCE => Some(text_instead(&members, &audio_note(&members, to))),
        "resource_link" => {
            let link = Link::read(&members);
            if to < LINKS_SINCE {
                Some(text_instead(&members, &link.to_text()))
            } else {
                link.straightened()
            }
        }
        _ => None,
    }
}

/// Whether a peer of revision `to` takes `structured` as structured content.
pub fn takes_structured(to: Revision, structured: &RawValue) -> bool {
    to.era() == Era::Modern || (to >= STRUCTURED_SINCE && structured.get().starts_with('{'))
}

/// `content`, the blocks of a tool's result, for a peer of revision `to`, and with `structured`, the structured content
/// that it does not take, as one more text block, unless a text block carries the same value already.
///
/// `None` if nothing changes.
pub fn blocks(content: Option<&RawValue>, structured: Option<&RawValue>, to: Revision) -> Option<String> {
    let blocks: Vec<&RawValue> = content
        .and_then(|c| serde_json::from_str(c.get()).ok())
        .unwrap_or_default();
    // A null is how some servers write absence.
    let moved = structured.filter(|s| s.get() != "null" && !is_carried(s, &blocks));
    let mut changed = moved.is_some();
    let mut items: Vec<Cow<'_, str>> = Vec::with_capacity(blocks.len() + 1);
    for raw in blocks {
        let converted = block(raw.get(), to);
        changed |= converted.is_some();
        items.push(converted.map_or_else(|| Cow::Borrowed(raw.get()), Cow::Owned));
    }
    items.extend(moved.map(|structured| Cow::Owned(text_block(structured.get()))));
    changed.then(|| format!("[{}]", items.join(",")))
}

const AUDIO_SINCE: Revision = Revision::V2025_03_26;
const LINKS_SINCE: Revision = Revision::V2025_06_18;
const STRUCTURED_SINCE: Revision = Revision::V2025_06_18;

/// A cheap look that lets almost every result pass without being read: only these words can make a difference, or an
/// escape that could hide one of their letters.
fn may_differ(text: &str, to: Revision) -> bool {
    text.contains("resource_link")
        || (to.era() == Era::Legacy && text.contains("structuredContent"))
        || (to < AUDIO_SINCE && text.contains("audio"))
        || (text.contains(ESCAPE)
            && text
                .match_indices(ESCAPE)
                .any(|(at, _)| is_letter(text, at + ESCAPE.len())))
}

/// What escapes of ASCII characters begin with.
const ESCAPE: &str = "\\u00";

/// Whether the escape that goes on at `at` may be a letter or an underscore.
fn is_letter(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), Some(b'4'..=b'7'))
}

/// `result`, what a tool gave, for a peer of revision `to`; `None` if nothing changes.
pub(super) fn tool_result(result: &str, to: Revision) -> Option<String> {
    let members = Members::parse(result)?;
    let untaken = members
        .get("structuredContent")
        .filter(|structured| !takes_structured(to, structured));
    let content = blocks(members.get("content"), untaken, to);
    if untaken.is_none() && content.is_none() {
        return None;
    }
    let mut out = Vec::with_capacity(result.len() + 64);
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter() {
        match (name, &content) {
            ("structuredContent", _) if untaken.is_some() => {}
            ("content", Some(content)) => object.member(name, content),
            _ => object.member(name, value.get()),
        }
    }
    if let (None, Some(content)) = (members.get("content"), &content) {
        object.member("content", content);
    }
    object.close();
    String::from_utf8(out).ok()
}

fn prompt_result(result: &str, to: Revision) -> Option<String> {
    let messages = Members::parse(result)?.get("messages")?;
    let mut changed = false;
    let mut items: Vec<Cow<'_, str>> = Vec::new();
    for message in serde_json::from_str::<Vec<&RawValue>>(messages.get()).ok()? {
        let converted = Members::parse(message.get()).and_then(|members| {
            let content = members.get("content")?;
            let converted = block(content.get(), to)?;
            Some(object::replace_value(message.get(), content, &converted))
        });
        changed |= converted.is_some();
        items.push(converted.map_or_else(|| Cow::Borrowed(message.get()), Cow::Owned));
    }
    changed.then(|| object::replace_value(result, messages, &format!("[{}]", items.join(","))))
}

/// What `block` says, if it is a text.
pub(super) fn text_of(block: &str) -> Option<Cow<'_, str>> {
    let members = Members::parse(block)?;
    members
        .string("text")
        .filter(|_| members.string("type").as_deref() == Some("text"))
}

/// Whether one of `blocks` is a text that reads as the JSON value `structured`.
fn is_carried(structured: &RawValue, blocks: &[&RawValue]) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    // Once, however many blocks there are.
    let meant = LazyCell::new(|| read(structured.get()));
    let mut texts = blocks.iter().filter_map(|block| text_of(block.get()));
    texts.any(|text| text == structured.get() || read(&text).is_some_and(|said| meant.as_ref() == Some(&said)))
}

fn audio_note(audio: &Members<'_>, to: Revision) -> String {
    let kind = audio.string("mimeType").unwrap_or(Cow::Borrowed("of unknown type"));
    format!("Audio ({kind}) is left out: protocol revision {to} has no audio.")
}

/// A block that says `text`.
pub(super) fn text_block(text: &str) -> String {
    text_instead(&Members::default(), text)
}

/// A text block in the place of `block`, with what every block may have.
fn text_instead(block: &Members<'_>, text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut object = ObjectWriter::open(&mut out);
    object.string("type", "text");
    object.string("text", text);
    for name in ["annotations", "_meta"] {
        if let Some(value) = block.get(name) {
            object.member(name, value.get());
        }
    }
    object.close();
    String::from_utf8_lossy(&out).into_owned()
}

/// A link to a resource: flat as the protocol has it, or with the resource nested, its label called `text`, as servers
/// built on paularlott/mcp write it.
struct Link<'m, 'a> {
    block: &'m Members<'a>,
    nested: Option<Members<'a>>,
}

impl<'m, 'a> Link<'m, 'a> {
    fn read(block: &'m Members<'a>) -> Self {
        let nested = match block.string("uri") {
            Some(_) => None,
            None => block
                .get("resource")
                .and_then(|resource| Members::parse(resource.get())),
        };
        Self {
            block,
            nested: nested.filter(|resource| resource.string("uri").is_some()),
        }
    }

    fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        let own = self.block.string(name);
        own.or_else(|| self.nested.as_ref()?.string(name))
            .filter(|value| !value.is_empty())
    }

    /// The nested label.
    fn label(&self) -> Option<Cow<'a, str>> {
        self.nested.as_ref()?.string("text").filter(|label| !label.is_empty())
    }

    fn to_text(&self) -> String {
        let name = self.string("title").or_else(|| self.string("name"));
        let mut text = "Resource link:".to_owned();
        if let Some(name) = name.or_else(|| self.label()) {
            text.extend([" ", &name]);
        }
        if let Some(uri) = self.string("uri") {
            text.extend([" <", &uri, ">"]);
        }
        if let Some(description) = self.string("description") {
            text.extend(["\n", &description]);
        }
        text
    }

    /// The flat form of a nested link; `None` if it is flat.
    fn straightened(&self) -> Option<String> {
        let nested = self.nested.as_ref()?;
        let uri = nested.string("uri")?;
        let label = self.label();
        let mut out = Vec::new();
        let mut link = ObjectWriter::open(&mut out);
        link.string("type", "resource_link");
        link.string("uri", &uri);
        let named = self.string("name");
        match (&named, &label) {
            (Some(name), _) | (None, Some(name)) => link.string("name", name),
            (None, None) => link.string("name", &uri),
        }
        let described = self.block.get("description").or_else(|| nested.get("description"));
        if let (Some(_), Some(label), None) = (&named, &label, described) {
            link.string("description", label);
        }
        for (name, value) in self.block.iter() {
            if !matches!(name, "type" | "uri" | "name" | "resource") {
                link.member(name, value.get());
            }
        }
        for (name, value) in nested.iter() {
            if !matches!(name, "type" | "uri" | "name" | "text") && self.block.get(name).is_none() {
                link.member(name, value.get());
            }
        }
        link.close();
        String::from_utf8(out).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(result: &str, to: Revision) -> String {
        for_client(result, Method::ToolsCall, to).into_owned()
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_a_revision_knows_is_passed_without_being_built_anew() {
        let text = r#"{ "content" : [ {"type":"text", "text":"\u00e9 \u003c" } ], "odd":1.0 }"#;
        let structured = r#"{"content":[],"structuredContent": {"n": 1.50} }"#;
        let link = r#"{"content":[{"type":"resource_link","uri":"a:b" ,"name":"n"}]}"#;
        let audio = r#"{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"} ]}"#;
        let any = r#"{"content":[],"structuredContent": [1, 2]}"#;
        for (result, since) in [
            (text, Revision::V2024_11_05),
            (audio, Revision::V2025_03_26),
            (structured, Revision::V2025_06_18),
            (link, Revision::V2025_06_18),
            (any, Revision::V2026_07_28),
        ] {
            for to in Revision::ALL {
                let answer = for_client(result, Method::ToolsCall, to);
                let stays = matches!(answer, Cow::Borrowed(same) if std::ptr::eq(same, result));
                assert_eq!(stays, to >= since, "{result} for {to}: {answer}");
            }
        }
    }

    #[test]
    fn words_in_texts_and_foreign_members_change_nothing() {
        let result = r#"{ "content": [ {"type":"text","text":"\"type\":\"resource_link\", audio, structuredContent"}, {"type":"video_of_audio","structuredContent":1} ] }"#;
        for to in Revision::ALL {
            assert_eq!(called(result, to), result, "{to}");
        }
    }

    #[test]
    fn audio_becomes_a_note_where_it_is_not_known() {
        let result = r#"{"content":[{"type":"text","text":"a"},{"type":"audio","data":"AAAA","mimeType":"audio/wav","annotations":{"priority":1}}],"isError":false}"#;
        assert_eq!(
            called(result, Revision::V2024_11_05),
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"Audio (audio/wav) is left out: protocol revision 2024-11-05 has no audio.","annotations":{"priority":1}}],"isError":false}"#
        );
    }

    #[test]
    fn links_become_text_with_their_uri_where_they_are_not_known() {
        let result = r#"{"content":[{"type":"resource_link","uri":"file:///a.rs","name":"a.rs","title":"Entry","description":"where it starts","mimeType":"text/x-rust","_meta":{"k":1}},{"type":"resource_link","resource":{"uri":"x:y","text":"open"}},{"type":"resource_link"}]}"#;
        for to in [Revision::V2024_11_05, Revision::V2025_03_26] {
            assert_eq!(
                called(result, to),
                r#"{"content":[{"type":"text","text":"Resource link: Entry <file:///a.rs>\nwhere it starts","_meta":{"k":1}},{"type":"text","text":"Resource link: open <x:y>"},{"type":"text","text":"Resource link:"}]}"#
            );
        }
    }

    #[test]
    fn nested_links_are_straightened_for_everyone_who_knows_links() {
        for (nested, flat) in [
            (
                r#"{"type":"resource_link","resource":{"uri":"x:y","text":"open"}}"#,
                r#"{"type":"resource_link","uri":"x:y","name":"open"}"#,
            ),
            (
                r#"{"type":"resource_link","resource":{"uri":"x:y"}}"#,
                r#"{"type":"resource_link","uri":"x:y","name":"x:y"}"#,
            ),
            (
                r#"{"type":"resource_link","annotations":{"priority":0.50},"resource":{"uri":"x:y","name":"n","text":"t","mimeType":"a/b","annotations":{}}}"#,
                r#"{"type":"resource_link","uri":"x:y","name":"n","description":"t","annotations":{"priority":0.50},"mimeType":"a/b"}"#,
            ),
            (
                r#"{"type":"resource_link","name":"n","description":"","uri":null,"resource":{"uri":"x:y","text":"t"}}"#,
                r#"{"type":"resource_link","uri":"x:y","name":"n","description":""}"#,
            ),
            (
                r#"{"type":"resource\u005flink","resource":{"uri":"x:y","text":""}}"#,
                r#"{"type":"resource_link","uri":"x:y","name":"x:y"}"#,
            ),
        ] {
            for to in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
                let result = called(&format!(r#"{{"content":[{nested}]}}"#), to);
                assert_eq!(result, format!(r#"{{"content":[{flat}]}}"#));
                assert!(Members::parse(flat).is_some(), "no member twice");
            }
        }
        let broken =
            r#"{"content":[{"type":"resource_link","resource":{"text":"t"}},{"type":"resource_link","resource":1}]}"#;
        assert_eq!(called(broken, Revision::V2026_07_28), broken);
    }

    #[test]
    fn structured_content_that_is_not_taken_goes_and_stays_as_text() {
        let with = |content: &str, structured: &str| {
            format!(r#"{{"content":{content},"structuredContent":{structured},"isError":true}}"#)
        };
        let big = r#"{"n":9007199254740993,"x":1.0}"#;
        let moved = r#"{"content":[{"type":"text","text":"{\"n\":9007199254740993,\"x\":1.0}"}],"isError":true}"#;
        assert_eq!(called(&with("[]", big), Revision::V2025_03_26), moved);
        assert_eq!(called(&with("null", big), Revision::V2025_03_26), moved);
        let bare = format!(r#"{{"structuredContent":{big}}}"#);
        assert_eq!(
            called(&bare, Revision::V2024_11_05),
            r#"{"content":[{"type":"text","text":"{\"n\":9007199254740993,\"x\":1.0}"}]}"#
        );
        for any in ["[1,2]", "\"s\"", "7", "true"] {
            for to in Revision::LEGACY {
                let answer = value(&called(&with(r#"[{"type":"text","text":"t"}]"#, any), to));
                assert_eq!(answer.get("structuredContent"), None, "{any} for {to}");
                assert_eq!(answer["content"][0]["text"], "t");
                assert_eq!(answer["content"][1]["text"], any);
            }
        }
    }

    #[test]
    fn a_value_that_a_text_carries_already_is_not_told_twice() {
        for (text, structured) in [
            (r#"{\n  \"b\": 1,\n  \"a\": \"é\"\n}"#, r#"{"a":"\u00e9","b":1}"#),
            ("[1,2]", "[1, 2]"),
        ] {
            let content = format!(r#"[{{"type":"text","text":"more"}},{{"type":"text","text":"{text}"}}]"#);
            let result = format!(r#"{{"content":{content},"structuredContent":{structured}}}"#);
            let expected = format!(r#"{{"content":{content}}}"#);
            assert_eq!(called(&result, Revision::V2025_03_26), expected);
        }
        let null = r#"{"content":[],"structuredContent":null}"#;
        assert_eq!(called(null, Revision::V2025_11_25), r#"{"content":[]}"#);
        assert_eq!(called(null, Revision::V2026_07_28), null);
    }

    #[test]
    fn how_much_is_read_does_not_grow_with_texts_times_values() {
        let structured = format!("[{}0]", "0,".repeat(100_000));
        let texts = vec![r#"{"type":"text","text":"0"}"#; 20_000].join(",");
        let result = format!(r#"{{"content":[{texts}],"structuredContent":{structured}}}"#);
        let started = tokio::time::Instant::now();
        let answer = called(&result, Revision::LATEST_LEGACY);
        assert!(!answer.contains("structuredContent"));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn prompts_are_converted_message_by_message() {
        let result = r#"{ "description":"d", "messages": [ {"role":"user", "content": {"type":"audio","data":"","mimeType":"a/b"} }, {"role":"assistant","content":{"type":"text","text":"x"}} ] }"#;
        let prompt = |to| for_client(result, Method::PromptsGet, to).into_owned();
        assert_eq!(
            prompt(Revision::V2024_11_05),
            r#"{ "description":"d", "messages": [{"role":"user", "content": {"type":"text","text":"Audio (a/b) is left out: protocol revision 2024-11-05 has no audio."} },{"role":"assistant","content":{"type":"text","text":"x"}}] }"#
        );
        assert_eq!(prompt(Revision::V2025_03_26), result);
        let odd = r#"{"messages":[{"content":[{"type":"audio"}]},1],"structuredContent":1}"#;
        assert_eq!(for_client(odd, Method::PromptsGet, Revision::V2024_11_05), odd);
    }

    #[test]
    fn what_is_no_result_is_left_to_others() {
        for odd in [
            "[]",
            "\"audio\"",
            r#"{"content":1,"content":"audio"}"#,
            r#"{"content":"audio"}"#,
        ] {
            assert_eq!(called(odd, Revision::V2024_11_05), odd);
        }
        let contents = r#"{"contents":[{"type":"audio"}],"structuredContent":1}"#;
        assert_eq!(
            for_client(contents, Method::ResourcesRead, Revision::V2024_11_05),
            contents
        );
    }
}
