//! The parser's events put together into values, within bounds.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, ScalarStyle, ScanError, Tag};
use serde_json::Value;

use super::node::{Content, Entry, Fault, Node};
use crate::defaults::{JSON_DEPTH_MAX, MANIFEST_TEXT_MAX, MANIFEST_VALUES_MAX};
use crate::manifest::scalar;

/// What to do about the mistakes that are made most, by words of the parser's own message.
const FIXES: [(&str, &str); 6] = [
    ("tabs", "indent with spaces"),
    ("mapping values are not allowed", "put text that holds `: ` in quotes"),
    ("unexpected character", "put the text in quotes"),
    ("expected key", "check the indentation of this line"),
    ("expected '-'", "check the indentation of this line"),
    ("unknown anchor", "put text that starts with `*` in quotes"),
];

/// Builds nodes from the parser's events.
#[derive(Default)]
pub(super) struct Composer {
    pub(super) documents: Vec<Node>,
    pub(super) faults: Vec<Fault>,
    open: Vec<Open>,
    anchors: HashMap<usize, Built>,
    held: Size,
}

/// What nodes take up.
#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    /// Bytes of their texts and keys.
    text: usize,
}

/// A finished node, with what its copies cost.
#[derive(Clone)]
struct Built {
    node: Node,
    size: Size,
    depth: usize,
}

/// A list or map whose end has not come yet.
struct Open {
    line: usize,
    anchor: usize,
    size: Size,
    depth: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        keys: HashSet<String>,
        pending: Option<Key>,
        merged: Vec<Node>,
    },
}

/// A key whose value has not come yet.
enum Key {
    Name {
        text: String,
        line: usize,
    },
    /// `<<`, which takes over the entries of another map.
    Merge,
    /// One that was refused; its value is dropped.
    Refused,
    /// A list or map, refused too; first its own end must come.
    RefusedAndOpen,
}

/// The text asks for too much and is read no further.
pub(super) struct TooMuch;

impl Composer {
    /// Takes the next event of the parser.
    pub(super) fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), TooMuch> {
        match event {
            Event::Scalar(text, style, _, _) if self.takes_key() => {
                self.key(&text, style, line);
                let size = Size::of(&text);
                if let Some(open) = self.open.last_mut() {
                    open.size.text += size.text;
                }
                self.count(size, line)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let size = Size::of(&text);
                self.count(size, line)?;
                let value = self.scalar(&text, style, tag.as_deref(), line);
                self.finish(anchor, Built::scalar(line, value, size))
            }
            Event::Alias(id) => self.alias(id, line),
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(line, anchor, tag.as_deref(), "seq", OpenKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => self.begin(line, anchor, tag.as_deref(), "map", OpenKind::map()),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, line: usize, message: impl Into<String>) {
        self.faults.push(Fault {
            line,
            message: message.into(),
            syntax: false,
        });
    }

    /// A fault of syntax: what was being built is dropped.
    pub(super) fn syntax(&mut self, error: &ScanError) {
        self.open.clear();
        self.anchors.clear();
        let info = error.info();
        let known = FIXES.iter().find(|(part, _)| info.contains(part));
        let fix = known.map_or_else(String::new, |(_, fix)| format!("; {fix}"));
        self.faults.push(Fault {
            line: error.marker().line(),
            message: format!("{info}{fix}"),
            syntax: true,
        });
    }

    fn takes_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open {
                kind: OpenKind::Map { pending: None, .. },
                ..
            })
        )
    }

    fn key(&mut self, text: &str, style: ScalarStyle, line: usize) {
        let plain = style == ScalarStyle::Plain;
        let odd = plain && scalar::resolve(text).is_some_and(|value| value.is_boolean() || value.is_null());
        let Some(Open {
            kind: OpenKind::Map { keys, pending, .. },
            ..
        }) = self.open.last_mut()
        else {
            return;
        };
        if plain && text == "<<" {
            *pending = Some(Key::Merge);
        } else if odd {
            *pending = Some(Key::Refused);
            self.fault(line, format!("the key `{text}` is not read as text; put it in quotes"));
        } else if keys.insert(text.to_owned()) {
            *pending = Some(Key::Name {
                text: text.to_owned(),
                line,
            });
        } else {
            *pending = Some(Key::Refused);
            self.fault(
                line,
                format!("the key `{text}` stands twice in one map; remove one of them"),
            );
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Value {
        match tag.map(Tag::core_suffix) {
            Some(Some("str")) => return Value::String(text.to_owned()),
            None | Some(Some("null" | "bool" | "int" | "float")) => {}
            Some(_) => self.foreign_tag(line),
        }
        let plain = if style == ScalarStyle::Plain {
            scalar::resolve(text)
        } else {
            None
        };
        plain.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    fn foreign_tag(&mut self, line: usize) {
        self.fault(
            line,
            "tags other than YAML's own are not taken; remove it and write the value out",
        );
    }

    fn alias(&mut self, id: usize, line: usize) -> Result<(), TooMuch> {
        if self.takes_key() {
            self.refuse_key(line, Key::Refused);
            return Ok(());
        }
        let Some(built) = self.anchors.get(&id) else {
            self.fault(
                line,
                "an alias refers to the value that it stands in; write the value out",
            );
            return self.finish(0, Built::scalar(line, Value::Null, Size::of("")));
        };
        let copy = built.clone();
        self.count(copy.size, line)?;
        self.finish(0, copy)
    }

    fn refuse_key(&mut self, line: usize, refused: Key) {
        self.fault(
            line,
            "a key must be plain text; write it out, and render templates such as {{ … }} before",
        );
        if let Some(Open {
            kind: OpenKind::Map { pending, .. },
            ..
        }) = self.open.last_mut()
        {
            *pending = Some(refused);
        }
    }

    fn begin(
        &mut self,
        line: usize,
        anchor: usize,
        tag: Option<&Tag>,
        own: &str,
        kind: OpenKind,
    ) -> Result<(), TooMuch> {
        if tag.is_some_and(|tag| tag.core_suffix() != Some(own)) {
            self.foreign_tag(line);
        }
        if self.takes_key() {
            self.refuse_key(line, Key::RefusedAndOpen);
        }
        self.count(Size::of(""), line)?;
        self.within_depth(line, 1)?;
        self.open.push(Open {
            line,
            anchor,
            size: Size::of(""),
            depth: 1,
            kind,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), TooMuch> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let content = match open.kind {
            OpenKind::List(items) => Content::List(items),
            OpenKind::Map {
                mut entries,
                mut keys,
                merged,
                ..
            } => {
                for entry in merged.into_iter().flat_map(|node| match node.content {
                    Content::Map(entries) => entries,
                    _ => Vec::new(),
                }) {
                    if keys.insert(entry.key.clone()) {
                        entries.push(entry);
                    }
                }
                Content::Map(entries)
            }
        };
        let node = Node {
            line: open.line,
            content,
        };
        self.finish(
            open.anchor,
            Built {
                node,
                size: open.size,
                depth: open.depth,
            },
        )
    }

    /// Hands a finished node to what it stands in.
    fn finish(&mut self, anchor: usize, built: Built) -> Result<(), TooMuch> {
        let line = built.node.line;
        self.within_depth(line, built.depth)?;
        if anchor != 0 {
            self.count(built.size, line)?;
            self.anchors.insert(anchor, built.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.anchors.clear();
            self.documents.push(built.node);
            return Ok(());
        };
        open.size.add(built.size);
        open.depth = open.depth.max(built.depth + 1);
        let mut bad_merge = false;
        match &mut open.kind {
            OpenKind::List(items) => items.push(built.node),
            OpenKind::Map {
                entries,
                pending,
                merged,
                ..
            } => match pending.take() {
                Some(Key::Name { text, line }) => entries.push(Entry {
                    key: text,
                    line,
                    value: built.node,
                }),
                Some(Key::Merge) => match built.node.content {
                    Content::Map(_) => merged.push(built.node),
                    Content::List(items) if items.iter().all(|item| matches!(item.content, Content::Map(_))) => {
                        merged.extend(items);
                    }
                    _ => bad_merge = true,
                },
                Some(Key::RefusedAndOpen) => *pending = Some(Key::Refused),
                Some(Key::Refused) | None => {}
            },
        }
        if bad_merge {
            self.fault(line, "`<<` takes a map, or a list of maps");
        }
        Ok(())
    }

    /// Counts what is held; copies of what is aliased too, so that a short file cannot become a large one.
    fn count(&mut self, size: Size, line: usize) -> Result<(), TooMuch> {
        self.held.add(size);
        let too_much = if self.held.values > MANIFEST_VALUES_MAX {
            format!("{MANIFEST_VALUES_MAX} values")
        } else if self.held.text > MANIFEST_TEXT_MAX {
            format!("{MANIFEST_TEXT_MAX} bytes of text")
        } else {
            return Ok(());
        };
        self.fault(
            line,
            format!("the file has more than {too_much}, aliases counted; split it"),
        );
        Err(TooMuch)
    }

    fn within_depth(&mut self, line: usize, deeper: usize) -> Result<(), TooMuch> {
        if self.open.len() + deeper <= JSON_DEPTH_MAX {
            return Ok(());
        }
        self.fault(line, format!("nested deeper than {JSON_DEPTH_MAX} levels"));
        Err(TooMuch)
    }
}

impl OpenKind {
    fn map() -> Self {
        Self::Map {
            entries: Vec::new(),
            keys: HashSet::new(),
            pending: None,
            merged: Vec::new(),
        }
    }
}

impl Size {
    /// That of one value with this text of its own.
    fn of(text: &str) -> Self {
        Self {
            values: 1,
            text: text.len(),
        }
    }

    fn add(&mut self, other: Self) {
        self.values += other.values;
        self.text += other.text;
    }
}

impl Built {
    fn scalar(line: usize, value: Value, size: Size) -> Self {
        let node = Node {
            line,
            content: Content::Scalar(value),
        };
        Self { node, size, depth: 0 }
    }
}
