//! YAML (and so JSON) text into values that know their lines.

mod composer;
mod node;

use granit_parser::{Parser, options};
use serde_json::Value;

use self::composer::Composer;
pub(super) use self::node::{Content, Entry, Fault, Node};

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

#[cfg(test)]
mod tests;
