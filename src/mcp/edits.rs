//! Several values of a JSON text replaced at once, every other byte kept.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Replacements that are gathered while a text is read, and then made in one go.
#[derive(Debug)]
pub struct Edits<'a> {
    text: &'a str,
    /// From where to where, and what stands there instead; they never overlap.
    made: Vec<(usize, usize, String)>,
}

impl<'a> Edits<'a> {
    /// None yet, of `text`.
    pub const fn of(text: &'a str) -> Self {
        Self { text, made: Vec::new() }
    }

    /// Replaces `value`, a value read from the text, by `json`. What is no part of the text is left alone.
    pub fn replace(&mut self, value: &RawValue, json: String) {
        let start = (value.get().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let end = start.saturating_add(value.get().len());
        if self.text.get(start..end) == Some(value.get()) {
            self.made.push((start, end, json));
        }
    }

    /// The text with all of them; borrowed if there are none.
    pub fn finish(mut self) -> Cow<'a, str> {
        if self.made.is_empty() {
            return Cow::Borrowed(self.text);
        }
        self.made.sort_by_key(|(start, ..)| *start);
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut done = 0;
        for (start, end, json) in &self.made {
            out.push_str(self.text.get(done..*start).unwrap_or_default());
            out.push_str(json);
            done = *end;
        }
        out.push_str(self.text.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Members;

    #[test]
    fn values_are_replaced_in_whatever_order_and_all_else_stays() {
        let text = r#"{ "a":1 , "b" : [ "x" ], "c":null}"#;
        let members = Members::parse(text).unwrap();
        let mut edits = Edits::of(text);
        edits.replace(members.get("c").unwrap(), "\"longer\"".into());
        edits.replace(members.get("a").unwrap(), String::new());
        assert_eq!(edits.finish(), r#"{ "a": , "b" : [ "x" ], "c":"longer"}"#);
    }

    #[test]
    fn without_any_the_text_is_borrowed_and_strange_values_are_left_alone() {
        let (text, other) = ("[1]", String::from("{\"a\":1}"));
        let mut edits = Edits::of(text);
        edits.replace(Members::parse(&other).unwrap().get("a").unwrap(), "2".into());
        assert!(matches!(edits.finish(), Cow::Borrowed("[1]")));
    }
}
