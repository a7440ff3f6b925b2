//! URIs of a member's skills in what it says, rewritten to those that clients know. Everything else stays as it is.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::entry::{Entry, EntryError};
use super::uri::{self, SkillPrefix};
use crate::mcp::edits::Edits;
use crate::mcp::object::{self, Members};

/// The result of `resources/read`: the URIs of its contents.
pub fn contents<'r>(result: &'r str, prefix: &SkillPrefix) -> Cow<'r, str> {
    listed(result, "contents", prefix)
}

/// The result of `resources/directory/read`: the URIs of what is in the directory.
pub fn directory<'r>(result: &'r str, prefix: &SkillPrefix) -> Cow<'r, str> {
    listed(result, "resources", prefix)
}

/// The result of `skills/get`: the URIs of its entry.
///
/// # Errors
/// Hosts could not use the entry, or there is none.
pub fn entry<'r>(result: &'r str, prefix: Option<&SkillPrefix>) -> Result<Cow<'r, str>, EntryError> {
    let members = Members::parse(result).ok_or(EntryError::Unreadable)?;
    let raw = members.get("skill").ok_or(EntryError::Unreadable)?;
    let entry = Entry::read(raw.get())?;
    let Some(prefix) = prefix else {
        return Ok(Cow::Borrowed(result));
    };
    let mut edits = Edits::of(result);
    edits.replace(raw, entry.for_client(prefix));
    Ok(edits.finish())
}

/// The descriptor of a resource, or of a template: its URI. So of the params of a notification that one has changed.
pub fn descriptor<'r>(descriptor: &'r str, prefix: &SkillPrefix) -> Cow<'r, str> {
    rewritten(descriptor, prefix, |rewriter| {
        rewriter.members(descriptor, |rewriter, members| {
            rewriter.uri(members, "uri");
            rewriter.uri(members, "uriTemplate");
        });
    })
}

/// The result of a tool or a prompt: links to resources, and resources within it.
pub fn links<'r>(result: &'r str, prefix: &SkillPrefix) -> Cow<'r, str> {
    rewritten(result, prefix, |rewriter| {
        rewriter.members(result, |rewriter, members| {
            rewriter.blocks(members.get("content"));
            rewriter.each(members.get("messages"), |rewriter, message| {
                rewriter.blocks(message.get("content"))
            });
        });
    })
}

fn listed<'r>(result: &'r str, member: &str, prefix: &SkillPrefix) -> Cow<'r, str> {
    rewritten(result, prefix, |rewriter| {
        rewriter.members(result, |rewriter, members| {
            rewriter.each(members.get(member), |rewriter, item| rewriter.uri(item, "uri"));
        });
    })
}

/// The task that has the result of a tool: the same in it.
pub fn task<'r>(task: &'r str, prefix: &SkillPrefix) -> Cow<'r, str> {
    rewritten(task, prefix, |rewriter| {
        rewriter.members(task, |rewriter, members| {
            if let Some(result) = members.get("result") {
                rewriter.members(result.get(), |rewriter, result| rewriter.blocks(result.get("content")));
            }
        });
    })
}

/// Most texts have no such URI, which a look for the scheme's name tells, in whatever case.
fn rewritten<'r>(text: &'r str, prefix: &SkillPrefix, find: impl FnOnce(&mut Rewriter<'r, '_>)) -> Cow<'r, str> {
    let is_scheme = |second: usize| {
        let found = second
            .checked_sub(1)
            .and_then(|first| text.as_bytes().get(first..)?.first_chunk::<6>());
        found.is_some_and(|found| found.eq_ignore_ascii_case(SCHEME))
    };
    if !memchr::memchr2_iter(b'k', b'K', text.as_bytes()).any(is_scheme) {
        return Cow::Borrowed(text);
    }
    let mut rewriter = Rewriter {
        edits: Edits::of(text),
        prefix,
    };
    find(&mut rewriter);
    rewriter.edits.finish()
}

const SCHEME: &[u8; 6] = b"skill:";

struct Rewriter<'r, 'p> {
    edits: Edits<'r>,
    prefix: &'p SkillPrefix,
}

impl<'r> Rewriter<'r, '_> {
    fn members(&mut self, text: &'r str, found: impl FnOnce(&mut Self, &Members<'r>)) {
        if let Some(members) = Members::parse(text) {
            found(self, &members);
        }
    }

    fn each(&mut self, list: Option<&'r RawValue>, found: impl Fn(&mut Self, &Members<'r>)) {
        let items: Vec<&'r RawValue> = list
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        for item in items {
            self.members(item.get(), &found);
        }
    }

    /// One block or a list of them.
    fn blocks(&mut self, content: Option<&'r RawValue>) {
        match content {
            Some(one) if one.get().starts_with('{') => self.members(one.get(), Self::block),
            list => self.each(list, Self::block),
        }
    }

    /// A link has its URI itself, in the old shape one level further down, where a resource has it always.
    fn block(&mut self, block: &Members<'r>) {
        let kind = block.string("type");
        let kind = kind.as_deref();
        if kind == Some("resource_link") {
            self.uri(block, "uri");
        }
        if let Some(resource) = block
            .get("resource")
            .filter(|_| matches!(kind, Some("resource_link" | "resource")))
        {
            self.members(resource.get(), |rewriter, resource| rewriter.uri(resource, "uri"));
        }
    }

    fn uri(&mut self, of: &Members<'r>, member: &str) {
        let Some(raw) = of.get(member) else { return };
        if let Some(uri) = object::string(raw).filter(|uri| uri::is_skill(uri)) {
            let mut json = Vec::new();
            object::write_string(&mut json, &self.prefix.to_client(&uri));
            self.edits.replace(raw, String::from_utf8_lossy(&json).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops() -> SkillPrefix {
        SkillPrefix::new("ops").unwrap()
    }

    #[test]
    fn contents_and_directories_get_the_prefix_and_keep_every_other_byte() {
        let result = r#"{ "contents":[{"uri":"skill://a/b.txt","text":"see skill://a/c.txt","_meta":{"uri":"skill://a"}}, {"uri" : "file:///x","blob":""}],"x":1.0 }"#;
        assert_eq!(
            contents(result, &ops()),
            result.replacen("skill://a/b", "skill://ops/a/b", 1)
        );
        let result = r#"{"resources":[{"uri":"skill://a/b","name":"skill://n","mimeType":"inode/directory"}],"nextCursor":"skill://c"}"#;
        assert_eq!(
            directory(result, &ops()),
            result.replacen("skill://a", "skill://ops/a", 1)
        );
    }

    #[test]
    fn descriptors_of_resources_and_templates_get_it() {
        for (before, after) in [
            (
                r#"{"uri":"skill://a/b","name":"n"}"#,
                r#"{"uri":"skill://ops/a/b","name":"n"}"#,
            ),
            (
                r#"{"uriTemplate":"skill://{a}/b"}"#,
                r#"{"uriTemplate":"skill://ops/{a}/b"}"#,
            ),
        ] {
            assert_eq!(descriptor(before, &ops()), after);
        }
    }

    #[test]
    fn links_and_resources_in_results_of_tools_and_prompts_get_it() {
        let result = r#"{"content":[{"type":"resource_link","uri":"skill://a","name":"n"},{"type":"resource","resource":{"uri":"skill://b","text":"skill://t"}},{"type":"resource_link","resource":{"uri":"skill://c"}},{"type":"text","text":"skill://d","uri":"skill://e"},7],"structuredContent":{"uri":"skill://f"}}"#;
        let mut expected = result.to_owned();
        for uri in ["a", "b", "c"] {
            expected = expected.replace(&format!("skill://{uri}"), &format!("skill://ops/{uri}"));
        }
        assert_eq!(links(result, &ops()), expected);
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"SKILL://a"}}},{"content":[{"type":"resource_link","uri":"skill:\/\/b"}]}]}"#;
        let expected = r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"SKILL://ops/a"}}},{"content":[{"type":"resource_link","uri":"skill://ops/b"}]}]}"#;
        assert_eq!(links(prompt, &ops()), expected);
    }

    #[test]
    fn what_has_no_such_uri_or_cannot_be_read_is_borrowed() {
        for text in [
            "{}",
            "[]",
            "",
            r#"{"contents":[{"uri":"file:///a"}]}"#,
            r#"{"contents":"skill://a"}"#,
            r#"{"contents":[{"uri":7,"text":"skill:"}]}"#,
            r#"{"contents":[],"contents":[{"uri":"skill://a"}]}"#,
        ] {
            assert!(matches!(contents(text, &ops()), Cow::Borrowed(_)), "{text}");
        }
    }
}
