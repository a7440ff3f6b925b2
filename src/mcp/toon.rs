//! TOON, a notation that says the same as JSON in fewer tokens (TOON specification, version 3 and later: its commas and
//! its forms for objects, lists and tables).
//!
//! It is written from JSON text, not from parsed values, so that members keep their order and numbers every digit.

mod error;
mod json;
mod number;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::edits::Edits;
use super::object::{self, Members};
use crate::defaults::{JSON_DEPTH_MAX, TOON_DIGITS_MAX, TOON_GROWTH_MAX};
pub use error::ToonError;
use json::Node;

/// `json` as TOON.
///
/// # Errors
/// The text is no JSON, or goes beyond a limit.
pub fn encode(json: &str) -> Result<String, ToonError> {
    let mut toon = Writer {
        out: String::with_capacity(json.len()),
        most: json
            .len()
            .saturating_mul(TOON_GROWTH_MAX)
            .saturating_add(TOON_DIGITS_MAX)
            // The indentation of one way down.
            .saturating_add(JSON_DEPTH_MAX * JSON_DEPTH_MAX),
    };
    match json::parse(json)? {
        Node::Map(fields) => toon.fields(&fields, 0, false)?,
        Node::List(items) => toon.list(&items, 0, true)?,
        scalar => toon.scalar(&scalar)?,
    }
    Ok(toon.out)
}

/// `result`, that of a tool, with TOON in place of each text block that is a JSON object or array as a whole.
/// Everything else stays as it is, structured content too, and so does what cannot be written as TOON.
pub fn in_tool_result(result: &str) -> Cow<'_, str> {
    let mut edits = Edits::of(result);
    let content = Members::parse(result).and_then(|result| result.get("content"));
    let blocks: Vec<&RawValue> = content
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    for block in blocks.into_iter().filter_map(|block| Members::parse(block.get())) {
        if block.string("type").as_deref() != Some("text") {
            continue;
        }
        let Some(raw) = block.get("text") else { continue };
        let Some(toon) = object::string(raw)
            .filter(|text| text.trim_start().starts_with(['{', '[']))
            .and_then(|text| encode(&text).ok())
        else {
            continue;
        };
        let mut json = Vec::with_capacity(toon.len() + 16);
        object::write_string(&mut json, &toon);
        edits.replace(raw, String::from_utf8_lossy(&json).into_owned());
    }
    edits.finish()
}

struct Writer {
    out: String,
    /// Most bytes of it.
    most: usize,
}

/// Members of an object, in their order.
type Fields<'a> = [(Cow<'a, str>, Node<'a>)];

impl Writer {
    /// Begins a line. Only its indentation and [`scalar`](Self::scalar) can make the text much longer than its JSON.
    fn line(&mut self, depth: usize) -> Result<(), ToonError> {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        for _ in 0..depth {
            self.out.push_str("  ");
        }
        self.within_growth()
    }

    fn within_growth(&self) -> Result<(), ToonError> {
        if self.out.len() > self.most {
            return Err(ToonError::Grown);
        }
        Ok(())
    }

    /// One line a member, and what is nested below it. The first stands on a line that is begun already where
    /// `continues`: behind the hyphen of an item.
    fn fields(&mut self, fields: &Fields<'_>, depth: usize, continues: bool) -> Result<(), ToonError> {
        for (place, (name, value)) in fields.iter().enumerate() {
            if place > 0 || !continues {
                self.line(depth)?;
            }
            self.name(name);
            match value {
                Node::Map(own) => {
                    self.out.push(':');
                    self.fields(own, depth + 1, false)?;
                }
                Node::List(items) => self.list(items, depth, true)?,
                scalar => {
                    self.out.push_str(": ");
                    self.scalar(scalar)?;
                }
            }
        }
        Ok(())
    }

    /// The head of a list, with its items: on the same line where all are scalars, as a table where all are objects of
    /// the same scalar members, and else each behind a hyphen.
    fn list(&mut self, items: &[Node<'_>], depth: usize, may_be_table: bool) -> Result<(), ToonError> {
        self.head(items.len());
        if items.iter().all(Node::is_scalar) {
            self.out.push(':');
            if !items.is_empty() {
                self.out.push(' ');
            }
            return self.row(items.iter());
        }
        if let Some(table) = Table::of(items).filter(|_| may_be_table) {
            self.out.push('{');
            for (place, (name, _)) in table.names.iter().enumerate() {
                if place > 0 {
                    self.out.push(',');
                }
                self.name(name);
            }
            self.out.push_str("}:");
            for row in table.rows {
                self.line(depth + 1)?;
                self.row(row.into_iter())?;
            }
            return Ok(());
        }
        self.out.push(':');
        items.iter().try_for_each(|item| self.item(item, depth + 1))
    }

    fn item(&mut self, item: &Node<'_>, depth: usize) -> Result<(), ToonError> {
        self.line(depth)?;
        self.out.push('-');
        match item {
            Node::Map(fields) if fields.is_empty() => Ok(()),
            Node::Map(fields) => {
                self.out.push(' ');
                self.fields(fields, depth + 1, true)
            }
            Node::List(items) => {
                self.out.push(' ');
                self.list(items, depth, false)
            }
            scalar => {
                self.out.push(' ');
                self.scalar(scalar)
            }
        }
    }

    fn head(&mut self, length: usize) {
        // Writing to a string never fails.
        let _written = write!(self.out, "[{length}]");
    }

    fn row<'n, 'a: 'n>(&mut self, values: impl Iterator<Item = &'n Node<'a>>) -> Result<(), ToonError> {
        for (place, value) in values.enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            self.scalar(value)?;
        }
        Ok(())
    }

    /// A value without parts; an object or list never comes here.
    fn scalar(&mut self, value: &Node<'_>) -> Result<(), ToonError> {
        match value {
            Node::Word(word) => self.out.push_str(word),
            Node::Number(written) => number::write_plain(&mut self.out, written)?,
            Node::Text(text) if needs_quotes(text) => self.quoted(text),
            Node::Text(text) => self.out.push_str(text),
            Node::List(_) | Node::Map(_) => {}
        }
        self.within_growth()
    }

    fn name(&mut self, name: &str) {
        let mut chars = name.chars();
        let is_plain = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if is_plain {
            self.out.push_str(name);
        } else {
            self.quoted(name);
        }
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Objects of the same scalar members.
struct Table<'n, 'a> {
    names: &'n Fields<'a>,
    /// The values of each, in the order of the first one's members.
    rows: Vec<Vec<&'n Node<'a>>>,
}

impl<'n, 'a> Table<'n, 'a> {
    fn of(items: &'n [Node<'a>]) -> Option<Self> {
        let Some(Node::Map(names)) = items.first() else {
            return None;
        };
        let rows = items.iter().map(|item| row_of(item, names)).collect::<Option<_>>()?;
        (!names.is_empty()).then_some(Self { names, rows })
    }
}

/// The values of `item` in the order of `names`, if it has these members and no others, and all are scalars.
fn row_of<'n, 'a>(item: &'n Node<'a>, names: &Fields<'_>) -> Option<Vec<&'n Node<'a>>> {
    let Node::Map(fields) = item else { return None };
    if fields.len() != names.len() || !fields.iter().all(|(_, value)| value.is_scalar()) {
        return None;
    }
    if fields.iter().zip(names).all(|((own, _), (name, _))| own == name) {
        return Some(fields.iter().map(|(_, value)| value).collect());
    }
    let by_name: HashMap<&str, &Node<'a>> = fields.iter().map(|(own, value)| (own.as_ref(), value)).collect();
    names
        .iter()
        .map(|(name, _)| by_name.get(name.as_ref()).copied())
        .collect()
}

/// Whether a text would be read as something else, or not whole, without quotes.
fn needs_quotes(text: &str) -> bool {
    text.is_empty()
        || matches!(text, "true" | "false" | "null")
        || text.starts_with('-')
        || text.starts_with(char::is_whitespace)
        || text.ends_with(char::is_whitespace)
        || text.contains(|c: char| c.is_control() || matches!(c, ':' | '"' | '\\' | '[' | ']' | '{' | '}' | ','))
        || number::is_like(text)
}

#[cfg(test)]
mod tests;
