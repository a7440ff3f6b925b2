//! JSON text as a tree whose numbers are as they were written.

use std::borrow::Cow;

use super::error::ToonError;
use crate::defaults::{JSON_DEPTH_MAX, TOON_VALUES_MAX};

/// A JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    /// `null`, `true` or `false`.
    Word(&'a str),
    /// As it was written.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Map(Vec<(Cow<'a, str>, Self)>),
}

impl Node<'_> {
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Map(_))
    }
}

/// Reads the one value of `json`.
///
/// # Errors
/// The text is no JSON, or goes beyond a limit.
pub(super) fn parse(json: &str) -> Result<Node<'_>, ToonError> {
    let mut reader = Reader { json, at: 0, values: 0 };
    let node = reader.value(0)?;
    reader.skip_space();
    if reader.at < json.len() {
        return Err(ToonError::NotJson);
    }
    Ok(node)
}

struct Reader<'a> {
    json: &'a str,
    /// The next byte.
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn skip_while(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn skip_space(&mut self) {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    /// Takes the next byte that is no space if it is `byte`.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, ToonError> {
        self.values += 1;
        if self.values > TOON_VALUES_MAX {
            return Err(ToonError::TooMany);
        }
        self.skip_space();
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => Err(ToonError::TooDeep),
            Some(b'{') => self.map(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => self.text().map(Node::Text),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Node<'a>, ToonError> {
        self.at += 1;
        let mut fields: Vec<(Cow<'a, str>, Node<'a>)> = Vec::new();
        while !self.takes(b'}') {
            if !fields.is_empty() && !self.takes(b',') {
                return Err(ToonError::NotJson);
            }
            self.skip_space();
            let name = self.text()?;
            if !self.takes(b':') {
                return Err(ToonError::NotJson);
            }
            fields.push((name, self.value(depth)?));
        }
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(ToonError::Ambiguous);
        }
        Ok(Node::Map(fields))
    }

    fn list(&mut self, depth: usize) -> Result<Node<'a>, ToonError> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.takes(b']') {
            if !items.is_empty() && !self.takes(b',') {
                return Err(ToonError::NotJson);
            }
            items.push(self.value(depth)?);
        }
        Ok(Node::List(items))
    }

    /// Strings and numbers are only found here; what is between their ends is read by the one JSON reader there is.
    fn text(&mut self) -> Result<Cow<'a, str>, ToonError> {
        #[derive(serde::Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(ToonError::NotJson);
        }
        self.at += 1;
        loop {
            self.skip_while(|byte| byte != b'"' && byte != b'\\');
            match self.peek() {
                Some(b'\\') => self.at += 2,
                Some(_) => break,
                None => return Err(ToonError::NotJson),
            }
        }
        self.at += 1;
        let written = self.json.get(start..self.at).ok_or(ToonError::NotJson)?;
        let Text(text) = serde_json::from_str(written).map_err(|_| ToonError::NotJson)?;
        Ok(text)
    }

    fn word(&mut self, word: &'static str) -> Result<Node<'a>, ToonError> {
        let end = self.at + word.len();
        if self.json.get(self.at..end) != Some(word) {
            return Err(ToonError::NotJson);
        }
        self.at = end;
        Ok(Node::Word(word))
    }

    fn number(&mut self) -> Result<Node<'a>, ToonError> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
        let written = self.json.get(start..self.at).ok_or(ToonError::NotJson)?;
        // Too large a number for a float is one all the same.
        let is_number = serde_json::from_str::<&serde_json::value::RawValue>(written).is_ok();
        if is_number {
            Ok(Node::Number(written))
        } else {
            Err(ToonError::NotJson)
        }
    }
}
