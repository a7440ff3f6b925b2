//! A reader of TOON, as the specification tells decoders to work, for what our writer writes.

use serde_json::{Map, Value};

struct Lines<'t> {
    /// Each with its depth.
    lines: Vec<(usize, &'t str)>,
    at: usize,
}

pub(super) fn read(toon: &str) -> Value {
    let lines = toon.split('\n').filter(|line| !line.is_empty()).map(|line| {
        let text = line.trim_start_matches(' ');
        ((line.len() - text.len()) / 2, text)
    });
    let mut lines = Lines {
        lines: lines.collect(),
        at: 0,
    };
    let Some((_, first)) = lines.lines.first().copied() else {
        return Value::Object(Map::new());
    };
    if first.starts_with('[') {
        lines.at = 1;
        return lines.list(first, 0);
    }
    if lines.lines.len() == 1 && split_name(first).is_none() {
        return scalar(first);
    }
    Value::Object(lines.fields(0, None))
}

/// A member's name and the rest of its line, if the line is one's.
fn split_name(line: &str) -> Option<(&str, &str)> {
    let end = if line.starts_with('"') {
        quoted_length(line)
    } else {
        line.find([':', '['])?
    };
    let (name, rest) = line.split_at(end);
    rest.starts_with([':', '[']).then_some((name, rest))
}

/// The length of the quoted text at the beginning.
fn quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at + 1
}

fn scalar(text: &str) -> Value {
    if text.starts_with('"') {
        assert_eq!(quoted_length(text), text.len(), "{text}");
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn name(text: &str) -> String {
    match scalar(text) {
        Value::String(name) => name,
        _ => text.to_owned(),
    }
}

/// What stands between commas.
fn cells(text: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let quoted = if rest.starts_with('"') { quoted_length(rest) } else { 0 };
        let Some(length) = rest.split_at(quoted).1.find(',') else {
            found.push(rest);
            return found;
        };
        let (cell, after) = rest.split_at(quoted + length);
        found.push(cell);
        rest = after.strip_prefix(',').unwrap();
    }
}

impl<'t> Lines<'t> {
    fn next_at(&mut self, depth: usize) -> Option<&'t str> {
        let (found, text) = *self.lines.get(self.at)?;
        if found != depth {
            return None;
        }
        self.at += 1;
        Some(text)
    }

    fn fields(&mut self, depth: usize, first: Option<&'t str>) -> Map<String, Value> {
        let mut map = Map::new();
        let mut line = first.or_else(|| self.next_at(depth));
        while let Some(text) = line {
            let (own, rest) = split_name(text).unwrap();
            let value = if rest.starts_with('[') {
                self.list(rest, depth)
            } else if rest == ":" {
                Value::Object(self.fields(depth + 1, None))
            } else {
                scalar(rest.strip_prefix(": ").unwrap())
            };
            assert!(map.insert(name(own), value).is_none());
            line = self.next_at(depth);
        }
        map
    }

    fn list(&mut self, head: &str, depth: usize) -> Value {
        let (length, rest) = head.strip_prefix('[').unwrap().split_once(']').unwrap();
        let length: usize = length.parse().unwrap();
        let items: Vec<Value> = if let Some(inline) = rest.strip_prefix(": ") {
            cells(inline).into_iter().map(scalar).collect()
        } else if let Some(names) = rest.strip_prefix('{') {
            let names = cells(names.strip_suffix("}:").unwrap());
            let row = |row: &str| {
                let values = cells(row);
                assert_eq!(values.len(), names.len());
                let values = values.into_iter().map(scalar);
                Value::Object(names.iter().map(|own| name(own)).zip(values).collect())
            };
            (0..length).map(|_| row(self.next_at(depth + 1).unwrap())).collect()
        } else {
            assert_eq!(rest, ":");
            (0..length).map(|_| self.item(depth + 1)).collect()
        };
        assert_eq!(items.len(), length);
        Value::from(items)
    }

    fn item(&mut self, depth: usize) -> Value {
        let line = self.next_at(depth).unwrap();
        let Some(rest) = line.strip_prefix("- ") else {
            assert_eq!(line, "-");
            return Value::Object(Map::new());
        };
        if rest.starts_with('[') {
            self.list(rest, depth)
        } else if split_name(rest).is_some() {
            Value::Object(self.fields(depth + 1, Some(rest)))
        } else {
            scalar(rest)
        }
    }
}
