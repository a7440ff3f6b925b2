//! Descriptors as readers can take them.

use serde_json::value::RawValue;

use super::list::List;
use crate::mcp::descriptor_types::{self, Kind};
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::tool_schema;

/// What descriptors of `list` are by the protocol. `None` for those of skills, which have rules of their own.
pub(super) const fn kind(list: List) -> Option<Kind> {
    match list {
        List::Tools => Some(descriptor_types::TOOL),
        List::Resources => Some(descriptor_types::RESOURCE),
        List::Templates => Some(descriptor_types::TEMPLATE),
        List::Prompts => Some(descriptor_types::PROMPT),
        List::Skills => None,
    }
}

/// `descriptor`, an entry of `list`, without what may be absent and is null instead, with its URI for the name that a
/// resource or a template lacks, and without a `nullable` that says nothing: many servers write so, and readers refuse the
/// whole list for it. What the protocol does not know stays.
pub(super) fn mended(list: List, descriptor: Box<RawValue>) -> Box<RawValue> {
    // Frontmatter of skills is passed as it is.
    let Some(kind) = kind(list) else { return descriptor };
    let descriptor = or_as_it_is(kind.mended(descriptor.get()), descriptor);
    match list {
        List::Tools => or_as_it_is(tool_schema::without_idle_nullable(descriptor.get()), descriptor),
        List::Resources | List::Templates => or_as_it_is(named_by_uri(list, descriptor.get()), descriptor),
        List::Prompts | List::Skills => descriptor,
    }
}

fn or_as_it_is(mended: Option<String>, descriptor: Box<RawValue>) -> Box<RawValue> {
    match mended.map(RawValue::from_string) {
        Some(Ok(mended)) => mended,
        Some(Err(_)) | None => descriptor,
    }
}

fn named_by_uri(list: List, descriptor: &str) -> Option<String> {
    let members = Members::parse(descriptor)?;
    if members.get("name").is_some_and(|name| name.get() != "null") {
        return None;
    }
    let uri = members.get(list.key())?;
    let mut out = Vec::with_capacity(descriptor.len() + uri.get().len() + 8);
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter().filter(|(name, _)| *name != "name") {
        object.member(name, value.get());
    }
    object.member("name", uri.get());
    object.close();
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: List, descriptor: &str) -> String {
        mended(list, serde_json::from_str(descriptor).unwrap()).get().to_owned()
    }

    #[test]
    fn a_resource_without_a_name_is_called_by_its_uri() {
        for name in ["", r#""name":null,"#] {
            let bare = format!(r#"{{"uri":"a:\u0062",{name}"k":1.0}}"#);
            assert_eq!(
                of(List::Resources, &bare),
                r#"{"uri":"a:\u0062","k":1.0,"name":"a:\u0062"}"#
            );
        }
        assert_eq!(
            of(List::Templates, r#"{"uriTemplate":"a:{b}","title":null}"#),
            r#"{"uriTemplate":"a:{b}","name":"a:{b}"}"#
        );
        for untouched in [r#"{ "uri":"a:b", "name":"" }"#, r#"{ "uri":"a:b", "name":7 }"#] {
            assert_eq!(of(List::Resources, untouched), untouched);
        }
    }

    #[test]
    fn skills_are_left_as_they_are() {
        let skill = r#"{"uri":"skill://a/SKILL.md","description":null}"#;
        assert_eq!(of(List::Skills, skill), skill);
    }
}
