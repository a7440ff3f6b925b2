//! Reading a server's lists, all pages of them.

use std::collections::HashSet;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::capabilities::Offer;
use super::connection::Connection;
use super::endpoint::Timeouts;
use super::error::Error;
use super::handshake;
use super::request::{Body, error_code};
use crate::defaults;
use crate::index::{Catalog, Defect, Item, List, Withheld};
use crate::mcp::{Passed, RpcError, descriptor};

/// What was read of a server's lists.
#[derive(Debug)]
pub(crate) struct Read {
    /// What it offers.
    pub(crate) catalog: Catalog,
    /// The lists that it failed to give this time, for no reason that it gave.
    pub(crate) failed: Vec<Failed>,
}

/// A list that a server failed to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) list: List,
    /// How it failed.
    pub(crate) how: String,
}

/// How far a list was read.
enum Extent {
    Whole,
    /// It goes on after so much.
    Cut(String),
    /// The server answered with this error.
    Refused(String),
}

/// Reads every list that the server declares, but those in `left_alone`, which are missing still. One that it answers
/// with an error, or fails to give while it gives others, is left out, with what happened; but that of its tools: without
/// them there is no point in it.
///
/// # Errors
/// The server cannot be reached, or does not keep to the protocol.
pub(crate) async fn read_catalog(
    connection: &Connection,
    timeouts: Timeouts,
    left_alone: &[Failed],
) -> Result<Read, Error> {
    let mut catalog = Catalog::new(connection.peer().era());
    let mut room = Room(defaults::CATALOG_BYTES_MAX);
    let mut failed = Vec::new();
    let mut first = None;
    let mut gives_any = false;
    for list in List::ALL {
        if connection.peer().capabilities.offer(list) == Offer::None {
            continue;
        }
        if let Some(known) = left_alone.iter().find(|known| known.list == list) {
            failed.push(known.clone());
            continue;
        }
        match read_list(connection, list, timeouts, &mut catalog, &mut room).await {
            Ok(Extent::Whole) => gives_any = true,
            Ok(Extent::Cut(most)) => {
                gives_any = true;
                catalog.cut(list, most);
            }
            Ok(Extent::Refused(text)) => {
                gives_any = true;
                catalog.refuse(list, Defect::List(text), Instant::now());
            }
            Err(error) if list != List::Tools && error.is_of_one_answer() => {
                failed.push(Failed {
                    list,
                    how: error.to_string(),
                });
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = first.filter(|_| !gives_any) {
        return Err(error);
    }
    for Failed { list, how } in &failed {
        catalog.refuse(*list, Defect::Unread(how.clone()), Instant::now());
    }
    Ok(Read {
        catalog: catalog.sealed(),
        failed,
    })
}

/// Follows the pages of `list` into `catalog`.
async fn read_list(
    connection: &Connection,
    list: List,
    timeouts: Timeouts,
    catalog: &mut Catalog,
    room: &mut Room,
) -> Result<Extent, Error> {
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    let mut keys = HashSet::new();
    for _ in 0..defaults::LIST_PAGES_MAX {
        let reply = connection.list(list.method(), cursor.as_deref(), timeouts.list).await?;
        let page = match reply.body() {
            Body::Result(result) => Page::read(list, result)?,
            // Declared, yet not served: nothing is offered.
            Body::Error(error) if cursor.is_none() && error_code(error) == Some(RpcError::METHOD_NOT_FOUND) => {
                return Ok(Extent::Whole);
            }
            Body::Error(error) => match refused(error) {
                Error::Refused(text) if list == List::Tools => {
                    let method = list.method().as_str();
                    return Err(Error::Protocol(format!("{method} was answered with: {text}")));
                }
                Error::Refused(text) => return Ok(Extent::Refused(text)),
                other => return Err(other),
            },
        };
        for raw in page.items {
            if catalog.list(list).len() == defaults::LIST_ITEMS_MAX {
                return Ok(Extent::Cut(format!("{} entries", defaults::LIST_ITEMS_MAX)));
            }
            if !room.takes(raw.get()) {
                return Ok(too_large());
            }
            let Some(mut item) = Item::read(list, raw) else {
                catalog.leave_out_nameless(list);
                continue;
            };
            if let Some(passed) = &page.passed {
                item.passed = passed.of(&item.key);
            }
            match item.offered(list, connection.annotations()) {
                Ok(item) if !keys.insert(item.key.clone()) => {
                    catalog.withhold(Withheld::new(list, &item.key, Defect::Twice));
                }
                Ok(tool) if list == List::Tools => catalog.tools.push(Item {
                    needs_task: connection.peer().takes_task_calls() && descriptor::needs_task(tool.raw.get()),
                    ..tool
                }),
                Ok(item) => catalog.list_mut(list).push(item),
                Err(withheld) => catalog.withhold(withheld),
            }
        }
        match page.next {
            None => return Ok(Extent::Whole),
            Some(next) if !room.takes(&next) => return Ok(too_large()),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(Error::Protocol(format!(
                    "{} gave the same cursor twice",
                    list.method().as_str()
                )));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Ok(Extent::Cut(format!("{} pages", defaults::LIST_PAGES_MAX)))
}

fn too_large() -> Extent {
    Extent::Cut(format!("{} bytes of all lists", defaults::CATALOG_BYTES_MAX))
}

/// How many bytes of a server's lists may still be read.
struct Room(usize);

impl Room {
    /// Whether there is room for `text`, which takes it.
    fn takes(&mut self, text: &str) -> bool {
        let left = self.0.checked_sub(text.len());
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// What the error means that a list was answered with.
fn refused(error: &str) -> Error {
    serde_json::from_str::<&RawValue>(error).map_or_else(|_| Error::Refused("no text".into()), handshake::refusal)
}

struct Page {
    items: Vec<Box<RawValue>>,
    passed: Option<Passed>,
    next: Option<String>,
}

impl Page {
    /// Reads one page. An empty cursor is a cursor; only its absence ends the list (2025-06-18, pagination).
    fn read(list: List, result: &str) -> Result<Self, Error> {
        let malformed = || Error::Protocol(format!("the answer to {} is malformed", list.method().as_str()));
        let members = crate::mcp::Members::parse(result).ok_or_else(malformed)?;
        let items = members.get(list.member()).ok_or_else(malformed)?;
        let items = serde_json::from_str(items.get()).map_err(|_| malformed())?;
        let next = match members.get("nextCursor") {
            None => None,
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| malformed())?,
        };
        let passed = members.get("_meta").and_then(Passed::read);
        Ok(Self { items, passed, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cursor_is_a_cursor_and_null_is_none() {
        let page = |text: &str| Page::read(List::Tools, text).map(|page| (page.items.len(), page.next));
        assert_eq!(
            page(r#"{"tools":[{},{}],"nextCursor":""}"#),
            Ok((2, Some(String::new())))
        );
        assert_eq!(page(r#"{"tools":[],"nextCursor":null}"#), Ok((0, None)));
        assert_eq!(page(r#"{"tools":[]}"#), Ok((0, None)));
        for wrong in [
            r#"{"tools":null}"#,
            r#"{"resources":[]}"#,
            r#"{"tools":[],"nextCursor":1}"#,
            "[]",
        ] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
    }
}
