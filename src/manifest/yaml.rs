//! YAML (and so JSON) text into values that know their lines.

mod composer;

use granit_parser::{Parser, options};
use serde_json::{Map, Value};

use self::composer::Composer;
use super::path::{Path, Segment};

/// A value and the line it starts on.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) content: Content,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Null, a boolean, a number or a string.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

/// What is wrong with the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) message: String,
    /// True: the text is not YAML at all, and its document was left out.
    pub(super) syntax: bool,
}

/// The documents of a text, empty ones left out, and all that is wrong with it.
///
/// A document with a fault in its syntax is left out whole; those after it are read all the same.
pub(super) fn documents(text: &str) -> (Vec<Node>, Vec<Fault>) {
    let mut composer = Composer::default();
    let mut parser = Parser::new_from_str_with_options(text, options! { emit_comments: false });
    loop {
        match parser.next_event() {
            None => break,
            Some(Ok((event, span))) => {
                if composer.take(event, span.start.line()).is_err() {
                    break;
                }
            }
            Some(Err(error)) => {
                composer.syntax(&error);
                if !parser.proceed_next_document().unwrap_or(false) {
                    break;
                }
            }
        }
    }
    let is_empty = |node: &Node| matches!(node.content, Content::Scalar(Value::Null));
    composer.documents.retain(|document| !is_empty(document));
    composer.faults.sort_by_key(|fault| fault.line);
    (composer.documents, composer.faults)
}

impl Node {
    /// The value under a key, if this is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// Takes the value under a key out of a map.
    pub(super) fn take(&mut self, key: &str) -> Option<Self> {
        let Content::Map(entries) = &mut self.content else {
            return None;
        };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.swap_remove(index).value)
    }

    /// The entries of a map; of anything else, none.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text of a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The value without its lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Map(entries) => {
                let members = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// The line of the value at `path`, or of the nearest one around it that exists.
    pub(super) fn line_of(&self, path: &Path) -> usize {
        let mut node = self;
        let mut line = self.line;
        for segment in path.segments() {
            let next = match (segment, &node.content) {
                (Segment::Field(name) | Segment::Key(name), Content::Map(entries)) => {
                    entries.iter().find(|e| e.key == *name).map(|e| (e.line, &e.value))
                }
                (Segment::Index(index), Content::List(items)) => items.get(*index).map(|item| (item.line, item)),
                _ => None,
            };
            let Some(found) = next else { break };
            (line, node) = found;
        }
        line
    }
}

#[cfg(test)]
mod tests;
