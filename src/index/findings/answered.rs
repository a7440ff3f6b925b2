//! The rows of what a member's own `tool_search` answered, in every form that leaves no doubt which they are.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::mcp::object::{self, Members};

/// Why an answer tells of no tools, not even that there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It has nothing that is read.
    #[error("its answer has neither structuredContent nor text")]
    Empty,
    /// What it has is no list.
    #[error(
        "its answer is no list of tools: a JSON array is read, and an object with one in `tools` or `results`, as \
         structuredContent or as text"
    )]
    NoList,
    /// Nothing in its list can be called.
    #[error("its answer is a list in which no entry has a `name`")]
    Nameless,
    /// Several of its lists have tools.
    #[error("its answer has several lists of tools, and does not say which one counts")]
    Ambiguous,
}

/// The result of a search, as far as its rows can be in it.
pub(super) struct Answered<'r> {
    structured: Option<&'r RawValue>,
    texts: Vec<Cow<'r, str>>,
    /// It has blocks that are no text.
    has_others: bool,
}

/// What of a list can be read.
enum List<'r> {
    Rows(Vec<&'r RawValue>),
    Empty,
    Nameless,
    /// It is none.
    Not,
}

impl<'r> Answered<'r> {
    /// Takes the result of a call apart.
    ///
    /// # Errors
    /// It has nothing in which rows could be.
    pub(super) fn parse(result: &'r str) -> Result<Self, Unreadable> {
        let result = Members::parse(result).ok_or(Unreadable::Empty)?;
        let structured = result.get("structuredContent").filter(|value| value.get() != "null");
        let content = result.get("content");
        let blocks: Option<Vec<&RawValue>> = content.and_then(|blocks| serde_json::from_str(blocks.get()).ok());
        if structured.is_none() && blocks.is_none() {
            return Err(Unreadable::Empty);
        }
        let blocks = blocks.unwrap_or_default();
        let text = |block: &&'r RawValue| {
            let text = Members::parse(block.get())?.get("text")?;
            object::string(text)
        };
        let texts: Vec<Cow<'r, str>> = blocks.iter().filter_map(text).collect();
        Ok(Self {
            structured,
            has_others: texts.len() < blocks.len(),
            texts,
        })
    }

    /// The rows, of which at least one has a name; none where nothing was found. What the server gives to programs goes
    /// before what it gives to people, and a list before texts of which each is a row, as older libraries write them.
    ///
    /// # Errors
    /// It cannot be told which they are.
    pub(super) fn rows(&self) -> Result<Vec<&RawValue>, Unreadable> {
        let texts = self.texts.iter().map(AsRef::as_ref);
        let mut why = None;
        for json in self.structured.map(RawValue::get).into_iter().chain(texts.clone()) {
            match rows_in(json) {
                Ok(rows) => return Ok(rows),
                Err(error) => why = why.or(Some(error)),
            }
        }
        let row = |text| serde_json::from_str::<&RawValue>(text).ok().filter(|row| is_row(row));
        let each: Option<Vec<&RawValue>> = texts.clone().map(row).collect();
        match each {
            Some(rows) if !rows.is_empty() || (self.structured.is_none() && !self.has_others) => return Ok(rows),
            _ => {}
        }
        match texts.clone().next() {
            Some(first) if says_nothing_was_found(first) => Ok(Vec::new()),
            _ => Err(why.unwrap_or(Unreadable::Empty)),
        }
    }
}

/// The rows of the one list that is, or is in, this value.
fn rows_in(json: &str) -> Result<Vec<&RawValue>, Unreadable> {
    let json = json.trim();
    if json.starts_with('[') {
        return list(json).rows();
    }
    if json == "null" {
        return Ok(Vec::new());
    }
    let object = Members::parse(json).ok_or(Unreadable::NoList)?;
    let (mut found, mut other) = (None, List::Not);
    for wrapped in WRAPPINGS.iter().filter_map(|name| object.get(name)) {
        match list(wrapped.get()) {
            List::Rows(_) if found.is_some() => return Err(Unreadable::Ambiguous),
            List::Rows(rows) => found = Some(rows),
            List::Nameless => other = List::Nameless,
            List::Empty if matches!(other, List::Not) => other = List::Empty,
            List::Empty | List::Not => {}
        }
    }
    match found {
        Some(rows) => Ok(rows),
        // Something empty of a row says nothing of the answer.
        None if object.string("name").is_some() => Err(Unreadable::NoList),
        None => other.rows(),
    }
}

/// Reads a list, which where there is nothing in it may be null, as some libraries write it.
fn list(json: &str) -> List<'_> {
    if json == "null" {
        return List::Empty;
    }
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(json) else {
        return List::Not;
    };
    if entries.is_empty() {
        List::Empty
    } else if entries.iter().any(|entry| is_row(entry)) {
        List::Rows(entries)
    } else {
        List::Nameless
    }
}

impl<'r> List<'r> {
    fn rows(self) -> Result<Vec<&'r RawValue>, Unreadable> {
        match self {
            Self::Rows(rows) => Ok(rows),
            Self::Empty => Ok(Vec::new()),
            Self::Nameless => Err(Unreadable::Nameless),
            Self::Not => Err(Unreadable::NoList),
        }
    }
}

/// Whether it tells of a tool.
fn is_row(json: &RawValue) -> bool {
    let row = Members::parse(json.get());
    row.is_some_and(|row| row.string("name").is_some_and(|name| !name.is_empty()))
}

/// Whether a text begins as such sentences do: `No tools found …`, `No matching …`, `Nothing …`.
fn says_nothing_was_found(text: &str) -> bool {
    let text = text.trim_start();
    NOTHING_FOUND.iter().any(|beginning| {
        let said = text.get(..beginning.len());
        said.is_some_and(|said| said.eq_ignore_ascii_case(beginning))
    })
}

/// What an object calls the list of tools in it.
const WRAPPINGS: [&str; 7] = ["tools", "results", "result", "matches", "items", "hits", "data"];
/// How sentences begin that say that nothing was found.
const NOTHING_FOUND: [&str; 4] = ["no tool", "no match", "no result", "nothing"];

impl Unreadable {
    /// One CamelCase word for metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::NoList => "NoList",
            Self::Nameless => "NoNames",
            Self::Ambiguous => "Ambiguous",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The names in what this result tells.
    fn names(result: &Value) -> Result<Vec<String>, Unreadable> {
        let result = result.to_string();
        let answered = Answered::parse(&result)?;
        let rows = answered.rows()?;
        let name = |row: &RawValue| Some(Members::parse(row.get())?.string("name")?.into_owned());
        Ok(rows.into_iter().filter_map(name).collect())
    }

    fn text(text: impl ToString) -> Value {
        json!({"content": [{"type": "text", "text": text.to_string()}]})
    }

    fn structured(value: Value) -> Value {
        json!({"content": [], "structuredContent": value})
    }

    #[test]
    fn every_form_of_a_list_gives_its_rows() {
        let rows = json!([{"name": "a", "score": 1}, {"name": "b"}]);
        let forms = [
            text(&rows),
            text(format!("\n {rows}\n")),
            text(json!({"tools": rows})),
            text(json!({"query": "q", "total": 2, "results": rows, "tools": null})),
            text(json!({"matches": rows, "items": [], "hits": ["q"]})),
            structured(rows.clone()),
            structured(json!({"result": rows})),
            structured(json!({"data": rows})),
            json!({"structuredContent": {"tools": rows}}),
            json!({"structuredContent": {"tools": rows}, "content": [{"type": "text", "text": "Two tools fit."}]}),
            json!({"structuredContent": {"result": rows.to_string()}, "content": text(&rows)["content"]}),
            json!({"structuredContent": null, "content": text(&rows)["content"]}),
            json!({"content": [
                {"type": "image", "data": "", "mimeType": "image/png"}, {"type": "text", "text": "Two tools fit:"},
                {"type": "text", "text": rows.to_string()},
            ]}),
            json!({"content": [
                {"type": "text", "text": rows[0].to_string()}, {"type": "text", "text": rows[1].to_string()},
            ]}),
        ];
        for form in forms {
            assert_eq!(names(&form), Ok(vec!["a".into(), "b".into()]), "{form}");
        }
        let both = json!({"structuredContent": [{"name": "a"}], "content": text(json!([{"name": "b"}]))["content"]});
        assert_eq!(names(&both), Ok(vec!["a".into()]), "what is for programs goes first");
        let alone = text(json!({"name": "a", "items": [], "tools": []}));
        assert_eq!(names(&alone), Ok(vec!["a".into()]));
    }

    #[test]
    fn that_nothing_was_found_is_no_failure() {
        for nothing in [
            text("[]"),
            text("null"),
            text(r#"{"tools": []}"#),
            text(r#"{"results": null}"#),
            structured(json!([])),
            structured(json!({"result": []})),
            json!({"content": []}),
            text(super::super::NOTHING),
            text("No tools found matching your query. Try others."),
            text("no matching tools"),
            text("Nothing."),
            json!({"structuredContent": {"result": "No results"}, "content": text("No results")["content"]}),
        ] {
            assert_eq!(names(&nothing), Ok(Vec::new()), "{nothing}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (answer, expected) in [
            (json!({}), Unreadable::Empty),
            (json!({"content": null}), Unreadable::Empty),
            (json!({"content": "[]"}), Unreadable::Empty),
            (
                json!({"content": [{"type": "image", "data": "AAAA"}]}),
                Unreadable::Empty,
            ),
            (text(""), Unreadable::NoList),
            (text("I found open_pr for you."), Unreadable::NoList),
            (text("Notable tools: open_pr"), Unreadable::NoList),
            (text("{}"), Unreadable::NoList),
            (text("7"), Unreadable::NoList),
            (text(r#"[{"name": "a"}"#), Unreadable::NoList),
            (text("[".repeat(100_000)), Unreadable::NoList),
            (text(r#"{"tools": {"a": {}}}"#), Unreadable::NoList),
            (text(r#"{"tools": [], "tools": [{"name": "a"}]}"#), Unreadable::NoList),
            (text(r#"{"found": [{"name": "a"}]}"#), Unreadable::NoList),
            (structured(json!({"result": 7})), Unreadable::NoList),
            (structured(json!({"error": "busy"})), Unreadable::NoList),
            (text(r#"["open_pr", "close_pr"]"#), Unreadable::Nameless),
            (
                text(r#"{"tools": [{"title": "a"}, {"name": 7}, {"name": ""}]}"#),
                Unreadable::Nameless,
            ),
            (
                text(r#"{"tools": [{"name": "a"}], "results": [{"name": "b"}]}"#),
                Unreadable::Ambiguous,
            ),
        ] {
            assert_eq!(names(&answer), Err(expected), "{answer}");
        }
    }
}
