//! Values that know their lines.

use serde_json::{Map, Value};

use crate::manifest::path::{Path, Segment};

/// A value and the line it starts on.
#[derive(Clone, Debug)]
pub(in crate::manifest) struct Node {
    pub(in crate::manifest) line: usize,
    pub(in crate::manifest) content: Content,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(in crate::manifest) enum Content {
    /// Null, a boolean, a number or a string.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(in crate::manifest) struct Entry {
    pub(in crate::manifest) key: String,
    pub(in crate::manifest) line: usize,
    pub(in crate::manifest) value: Node,
}

/// What is wrong with the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manifest) struct Fault {
    pub(in crate::manifest) line: usize,
    pub(in crate::manifest) message: String,
    /// True: the text is not YAML at all, and its document was left out.
    pub(in crate::manifest) syntax: bool,
}

impl Node {
    /// The value under a key, if this is a map that has it.
    pub(in crate::manifest) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// Takes the value under a key out of a map.
    pub(in crate::manifest) fn take(&mut self, key: &str) -> Option<Self> {
        let Content::Map(entries) = &mut self.content else {
            return None;
        };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.swap_remove(index).value)
    }

    /// The entries of a map; of anything else, none.
    pub(in crate::manifest) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text of a string.
    pub(in crate::manifest) fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The value without its lines.
    pub(in crate::manifest) fn to_json(&self) -> Value {
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
    pub(in crate::manifest) fn line_of(&self, path: &Path) -> usize {
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
