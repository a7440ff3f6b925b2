//! Reading a server's lists, all pages of them.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

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
    /// It goes on, and there is no room for more of it.
    NoRoom,
    /// The server answered with this error.
    Refused(String),
    /// The server failed to give it.
    Failed(Error),
}

/// A list as far as it was read.
struct Part {
    list: List,
    entries: Catalog,
    extent: Extent,
}

/// Why lists that are read beside each other are not read to their ends.
enum Stopped {
    Failed(Error),
    /// Together they are too large.
    NoRoom,
}

/// Reads every list that the server declares, but those in `left_alone`, which are missing still. One that it answers
/// with an error, or fails to give while it gives others, is left out, with what happened; but that of its tools: without
/// them there is no point in it.
///
/// All lists but that of its tools are read beside each other, so that those that it does not give are waited for once.
///
/// # Errors
/// The server cannot be reached, or does not keep to the protocol.
pub(crate) async fn read_catalog(
    connection: &Connection,
    timeouts: Timeouts,
    left_alone: &[Failed],
) -> Result<Read, Error> {
    let reading = Reading {
        connection,
        pace: Pace::new(timeouts.list),
        room: Room::new(defaults::CATALOG_BYTES_MAX),
    };
    let is_missing = |list: List| left_alone.iter().any(|known| known.list == list);
    let is_offered = |list: List| connection.peer().capabilities.offer(list) != Offer::None;
    let mut parts = Vec::with_capacity(List::ALL.len());
    if is_offered(List::Tools) {
        parts.push(reading.part(List::Tools).await?);
    }
    let others = List::ALL.into_iter().filter(|list| *list != List::Tools);
    let others: Vec<List> = others.filter(|list| is_offered(*list) && !is_missing(*list)).collect();
    parts.extend(reading.parts(&others).await?);

    let mut catalog = Catalog::new(connection.peer().era());
    let mut failed: Vec<Failed> = left_alone
        .iter()
        .filter(|known| is_offered(known.list))
        .cloned()
        .collect();
    let mut first = None;
    let mut gives_any = false;
    for Part { list, entries, extent } in parts {
        catalog.take(list, entries);
        gives_any |= !matches!(extent, Extent::Failed(_));
        match extent {
            Extent::Whole => {}
            Extent::Cut(most) => catalog.cut(list, most),
            Extent::NoRoom => catalog.cut(list, format!("{} bytes of all lists", defaults::CATALOG_BYTES_MAX)),
            Extent::Refused(text) => catalog.refuse(list, Defect::List(text), Instant::now()),
            Extent::Failed(error) => {
                failed.push(Failed {
                    list,
                    how: error.to_string(),
                });
                first.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first.filter(|_| !gives_any) {
        return Err(error);
    }
    failed.sort_by_key(|failed| List::ALL.iter().position(|list| *list == failed.list));
    for Failed { list, how } in &failed {
        catalog.refuse(*list, Defect::Unread(how.clone()), Instant::now());
    }
    Ok(Read {
        catalog: catalog.sealed(),
        failed,
    })
}

/// One reading of a server's lists.
struct Reading<'a> {
    connection: &'a Connection,
    pace: Pace,
    room: Room,
}

impl Reading<'_> {
    /// Reads `lists`, beside each other if there is room for all of them: what is cut must not depend on which is answered
    /// first.
    async fn parts(&self, lists: &[List]) -> Result<Vec<Part>, Error> {
        let left = self.room.left();
        if lists.len() > 1 {
            match try_join_all(lists.iter().map(|list| self.part_beside_others(*list))).await {
                Ok(parts) => return Ok(parts),
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::NoRoom) => self.room.set(left),
            }
        }
        let mut parts = Vec::with_capacity(lists.len());
        for list in lists {
            parts.push(self.part(*list).await?);
        }
        Ok(parts)
    }

    async fn part_beside_others(&self, list: List) -> Result<Part, Stopped> {
        match self.part(list).await {
            Ok(part) if matches!(part.extent, Extent::NoRoom) => Err(Stopped::NoRoom),
            Ok(part) => Ok(part),
            Err(error) => Err(Stopped::Failed(error)),
        }
    }

    /// Reads `list`.
    async fn part(&self, list: List) -> Result<Part, Error> {
        let mut entries = Catalog::new(self.connection.peer().era());
        let extent = match self.follow(list, &mut entries).await {
            Err(error) if list != List::Tools && error.is_of_one_answer() => Extent::Failed(error),
            read => read?,
        };
        Ok(Part { list, entries, extent })
    }

    /// Follows the pages of `list` into `catalog`.
    async fn follow(&self, list: List, catalog: &mut Catalog) -> Result<Extent, Error> {
        let connection = self.connection;
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        let mut keys = HashSet::new();
        for _ in 0..defaults::LIST_PAGES_MAX {
            let asked = connection.list(list.method(), cursor.as_deref(), None);
            let reply = self.pace.wait_for(list.method().as_str(), asked).await?;
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
                if !self.room.takes(raw.get()) {
                    return Ok(Extent::NoRoom);
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
                Some(next) if !self.room.takes(&next) => return Ok(Extent::NoRoom),
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
}

/// How long pages are waited for. A server that answers one thing after the other has the whole time for each, which begins
/// anew with whatever it answers.
struct Pace {
    limit: Option<Duration>,
    answered: Mutex<Instant>,
}

impl Pace {
    fn new(limit: Option<Duration>) -> Self {
        Self {
            limit,
            answered: Mutex::new(Instant::now()),
        }
    }

    /// What comes of `asked`, which `operation` asks for.
    async fn wait_for<T>(
        &self,
        operation: &'static str,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(after) = self.limit else {
            return asked.await;
        };
        let begun = Instant::now();
        let deadline = || begun.max(*locked(&self.answered)) + after;
        let mut asked = pin!(asked);
        loop {
            let latest = deadline();
            if let Ok(answer) = timeout_at(latest, asked.as_mut()).await {
                *locked(&self.answered) = Instant::now();
                return answer;
            }
            if deadline() <= latest {
                return Err(Error::Timeout { operation, after });
            }
        }
    }
}

/// How many bytes of a server's lists may still be read.
struct Room(AtomicUsize);

impl Room {
    const fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Whether there is room for `text`, which takes it; if not, there is none for anything.
    fn takes(&self, text: &str) -> bool {
        let left = self.left().checked_sub(text.len());
        self.set(left.unwrap_or(0));
        left.is_some()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    use futures::future::{join, join_all};
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn who_answers_one_thing_after_the_other_has_time_for_each() {
        let ms = Duration::from_millis;
        let pace = Pace::new(Some(ms(400)));
        let answers = |delays: [u64; 3]| {
            let pace = &pace;
            join_all(delays.map(|delay| {
                pace.wait_for("prompts/list", async move {
                    sleep(ms(delay)).await;
                    Ok(delay)
                })
            }))
        };
        assert_eq!(answers([200, 400, 600]).await, [Ok(200), Ok(400), Ok(600)]);
        let timeout = || {
            Err(Error::Timeout {
                operation: "prompts/list",
                after: ms(400),
            })
        };
        let begun = Instant::now();
        assert_eq!(
            answers([10, 60_000, 60_000]).await,
            [Ok(10), timeout(), timeout()],
            "all at once"
        );
        assert!(begun.elapsed() < ms(800), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn without_a_limit_answers_are_waited_for() {
        let pace = Pace::new(None);
        let late = pace.wait_for("tools/list", async {
            sleep(Duration::from_millis(50)).await;
            Ok(1)
        });
        let failed = pace.wait_for("tools/list", async { Err::<u8, _>(Error::CutOff) });
        assert_eq!(join(late, failed).await, (Ok(1), Err(Error::CutOff)));
    }

    #[test]
    fn what_is_too_large_leaves_no_room_for_anything() {
        let room = Room::new(5);
        assert!(room.takes("abc"));
        assert_eq!(room.left(), 2);
        assert!(!room.takes("abc"));
        assert!(!room.takes("a"));
        room.set(2);
        assert!(room.takes("ab") && room.takes(""));
    }

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
