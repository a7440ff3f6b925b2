//! `sampling/createMessage`: what a server asks of the client's model, in what the client's revision knows, and the
//! answer in what the server's knows.
//!
//! Messages have one block of content up to 2025-06-18; since 2025-11-25 several, uses of tools and their results too.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::asking::{Unaskable, write_params};
use super::content;
use super::object::{self, Members, ObjectWriter};
use super::version::Revision;

/// The `params` of a server's request for a client of revision `to`: where a message may have one block only, one of
/// several becomes several of one.
pub fn params(params: &str, to: Revision) -> Result<String, Unaskable> {
    let malformed = || Unaskable::Malformed("the request");
    let members = Members::parse(params).ok_or_else(malformed)?;
    let mut out = Vec::with_capacity(params.len());
    let mut object = ObjectWriter::open(&mut out);
    write_params(&mut object, &members, to, |object, name, value| match name {
        "messages" => {
            let messages: Vec<&RawValue> = serde_json::from_str(value).map_err(|_| malformed())?;
            let mut converted = Vec::with_capacity(messages.len());
            for message in messages {
                add_message(&mut converted, message.get(), to)?;
            }
            object.member(name, &format!("[{}]", converted.join(",")));
            Ok(true)
        }
        "tools" if to < SEVERAL_SINCE => match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(tools) if !tools.is_empty() => Err(Unaskable::Tools(to)),
            _ => Ok(true),
        },
        "toolChoice" => Ok(to < SEVERAL_SINCE),
        _ => Ok(false),
    })?;
    object.close();
    String::from_utf8(out).map_err(|_| malformed())
}

/// A client's answer for a server of revision `to`: where it may have one block only, several texts become one.
pub fn result(result: &str, to: Revision) -> Result<Cow<'_, str>, Unaskable> {
    let malformed = || Unaskable::Malformed("the answer");
    let members = Members::parse(result).ok_or_else(malformed)?;
    let content = members.get("content").ok_or_else(malformed)?;
    let converted = match Content::read(content.get()).ok_or_else(malformed)? {
        Content::One(block) => known(block, to)?,
        Content::Several(blocks) if to < SEVERAL_SINCE => Cow::Owned(one_of(&blocks, to)?),
        Content::Several(blocks) => several(content.get(), &blocks, to)?,
    };
    if matches!(converted, Cow::Borrowed(_)) {
        return Ok(Cow::Borrowed(result));
    }
    Ok(Cow::Owned(object::replace_value(result, content, &converted)))
}

const SEVERAL_SINCE: Revision = Revision::V2025_11_25;

/// What a message says.
enum Content<'a> {
    One(&'a str),
    Several(Vec<&'a RawValue>),
}

impl<'a> Content<'a> {
    fn read(raw: &'a str) -> Option<Self> {
        if raw.starts_with('[') {
            return serde_json::from_str(raw).ok().map(Self::Several);
        }
        raw.starts_with('{').then_some(Self::One(raw))
    }
}

/// Appends `message` to `messages`, as one or as several.
fn add_message(messages: &mut Vec<String>, message: &str, to: Revision) -> Result<(), Unaskable> {
    let malformed = || Unaskable::Malformed("a message of the request");
    let content = Members::parse(message).and_then(|members| members.get("content"));
    let content = content.ok_or_else(malformed)?;
    let mut push = |converted: &str| messages.push(object::replace_value(message, content, converted));
    match Content::read(content.get()).ok_or_else(malformed)? {
        Content::One(block) => push(&known(block, to)?),
        Content::Several(blocks) if to < SEVERAL_SINCE => {
            for block in blocks {
                push(&known(block.get(), to)?);
            }
        }
        Content::Several(blocks) => push(&several(content.get(), &blocks, to)?),
    }
    Ok(())
}

/// `blocks`, which `content` has, as a peer of revision `to` knows them.
fn several<'a>(content: &'a str, blocks: &[&'a RawValue], to: Revision) -> Result<Cow<'a, str>, Unaskable> {
    let known: Vec<_> = blocks
        .iter()
        .map(|block| known(block.get(), to))
        .collect::<Result<_, _>>()?;
    if known.iter().all(|block| matches!(block, Cow::Borrowed(_))) {
        return Ok(Cow::Borrowed(content));
    }
    Ok(Cow::Owned(format!("[{}]", known.join(","))))
}

/// One block in the place of `blocks`.
fn one_of(blocks: &[&RawValue], to: Revision) -> Result<String, Unaskable> {
    let known: Vec<_> = blocks
        .iter()
        .map(|block| known(block.get(), to))
        .collect::<Result<_, _>>()?;
    if let [only] = known.as_slice() {
        return Ok(only.clone().into_owned());
    }
    let texts: Option<Vec<_>> = known.iter().map(|block| content::text_of(block)).collect();
    let texts = texts.ok_or(Unaskable::Several(to))?;
    Ok(content::text_block(&texts.join("\n")))
}

/// `block` as a peer of revision `to` knows it; borrowed if it stays.
fn known(block: &str, to: Revision) -> Result<Cow<'_, str>, Unaskable> {
    let members = Members::parse(block).ok_or(Unaskable::Malformed("a block of content"))?;
    let converted = match members.string("type").as_deref() {
        Some("tool_use" | "tool_result") if to < SEVERAL_SINCE => return Err(Unaskable::Tools(to)),
        Some("tool_result") => content::tool_result(block, to),
        _ => content::block(block, to),
    };
    Ok(converted.map_or(Cow::Borrowed(block), Cow::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, to: Revision) -> String {
        params(text, to).unwrap_or_else(|error| error.reason().to_owned())
    }

    fn answered(content: &str, to: Revision) -> String {
        let text = format!(r#"{{"role":"assistant","content":{content},"model":"m","stopReason":"endTurn"}}"#);
        match result(&text, to) {
            Ok(answer) => answer
                .strip_prefix(r#"{"role":"assistant","content":"#)
                .unwrap()
                .strip_suffix(r#","model":"m","stopReason":"endTurn"}"#)
                .unwrap()
                .to_owned(),
            Err(error) => error.reason().to_owned(),
        }
    }

    const TEXT: &str = r#"{"type":"text","text":"a"}"#;
    const IMAGE: &str = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
    const AUDIO: &str = r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#;
    const NOTE: &str =
        r#"{"type":"text","text":"Audio (audio/wav) is left out: protocol revision 2024-11-05 has no audio."}"#;
    const USE: &str = r#"{"type":"tool_use","id":"1","name":"t","input":{}}"#;

    #[test]
    fn a_message_of_several_blocks_becomes_several_of_one() {
        let request = format!(
            r#"{{"maxTokens":9,"messages":[{{"role":"user","content":[{TEXT},{AUDIO}],"_meta":{{"k":1}}}},{{"role":"assistant","content":{TEXT}}},{{"role":"user","content":[]}}],"metadata":{{"x":1.0}}}}"#
        );
        let split = |audio: &str| {
            format!(
                r#"{{"maxTokens":9,"messages":[{{"role":"user","content":{TEXT},"_meta":{{"k":1}}}},{{"role":"user","content":{audio},"_meta":{{"k":1}}}},{{"role":"assistant","content":{TEXT}}}],"metadata":{{"x":1.0}}}}"#
            )
        };
        assert_eq!(asked(&request, Revision::V2024_11_05), split(NOTE));
        assert_eq!(asked(&request, Revision::V2025_03_26), split(AUDIO));
        assert_eq!(asked(&request, Revision::V2025_06_18), split(AUDIO));
        assert_eq!(asked(&request, Revision::V2025_11_25), request);
        assert_eq!(asked(&request, Revision::V2026_07_28), request);
    }

    #[test]
    fn tools_are_refused_where_models_use_none() {
        let tools = r#"{"messages":[],"maxTokens":1,"tools":[{"name":"t"}],"toolChoice":{"mode":"auto"}}"#;
        let none = r#"{"messages":[],"maxTokens":1,"tools":[],"toolChoice":{"mode":"none"}}"#;
        let used = format!(r#"{{"messages":[{{"role":"assistant","content":[{USE}]}}],"maxTokens":1}}"#);
        assert_eq!(asked(tools, Revision::V2025_06_18), "NoSamplingTools");
        assert_eq!(asked(&used, Revision::V2025_06_18), "NoSamplingTools");
        assert_eq!(asked(none, Revision::V2025_06_18), r#"{"messages":[],"maxTokens":1}"#);
        for request in [tools, none, &used] {
            assert_eq!(asked(request, Revision::V2025_11_25), request);
            assert_eq!(asked(request, Revision::V2026_07_28), request);
        }
    }

    #[test]
    fn results_of_tools_have_the_structure_that_the_revision_knows() {
        let message =
            |result: &str| format!(r#"{{"messages":[{{"role":"user","content":[{result}]}}],"maxTokens":1}}"#);
        let any = message(r#"{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":[1]}"#);
        let moved = message(r#"{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"[1]"}]}"#);
        let object = message(r#"{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":{"n":1}}"#);
        assert_eq!(asked(&any, Revision::V2026_07_28), any);
        assert_eq!(asked(&any, Revision::V2025_11_25), moved);
        assert_eq!(asked(&object, Revision::V2025_11_25), object);
    }

    #[test]
    fn an_answer_of_several_texts_becomes_one_and_of_other_kinds_is_refused() {
        let several = format!("[{TEXT},{TEXT}]");
        assert_eq!(
            answered(&several, Revision::V2025_06_18),
            r#"{"type":"text","text":"a\na"}"#
        );
        assert_eq!(answered("[]", Revision::V2025_06_18), r#"{"type":"text","text":""}"#);
        assert_eq!(answered(&format!("[{IMAGE}]"), Revision::V2024_11_05), IMAGE);
        assert_eq!(
            answered(&format!("[{TEXT},{IMAGE}]"), Revision::V2025_06_18),
            "SeveralBlocks"
        );
        assert_eq!(answered(&format!("[{USE}]"), Revision::V2025_06_18), "NoSamplingTools");
        assert_eq!(answered(USE, Revision::V2025_06_18), "NoSamplingTools");
        assert_eq!(answered(AUDIO, Revision::V2024_11_05), NOTE);
        for content in [several.as_str(), "[]", USE, TEXT] {
            assert_eq!(answered(content, Revision::V2025_11_25), content);
            assert_eq!(answered(content, Revision::V2026_07_28), content);
        }
    }

    #[test]
    fn what_is_of_one_hop_stays_there() {
        let own = r#"{"task":{},"_meta":{"k":1},"messages":[],"maxTokens":1}"#;
        assert_eq!(asked(own, Revision::V2026_07_28), r#"{"messages":[],"maxTokens":1}"#);
        assert_eq!(
            asked(own, Revision::V2025_06_18),
            r#"{"_meta":{"k":1},"messages":[],"maxTokens":1}"#
        );
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for odd in [
            "[]",
            r#"{"messages":1}"#,
            r#"{"messages":[1]}"#,
            r#"{"messages":[{"content":"a"}]}"#,
        ] {
            assert_eq!(asked(odd, Revision::V2025_06_18), "Malformed", "{odd}");
        }
        for odd in ["1", "[1]", r#""a""#] {
            assert_eq!(answered(odd, Revision::V2025_06_18), "Malformed", "{odd}");
        }
        assert_eq!(result("{}", Revision::LATEST), Err(Unaskable::Malformed("the answer")));
    }
}
