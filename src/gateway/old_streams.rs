//! Where clients of the transport of 2024-11-05 post to: one address for each of their streams that is open here.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::access::Principal;
use super::channel::{Incoming, Place};
use crate::defaults;
use crate::mcp::batch::{self, Batch};

/// All of them, by the names in their addresses.
#[derive(Default)]
pub struct OldStreams(Mutex<HashMap<String, Letterbox>>);

/// Takes what is posted for one stream.
#[derive(Clone)]
pub(super) struct Letterbox {
    federation: String,
    principal: Principal,
    taken: mpsc::Sender<Incoming>,
    places: Arc<Semaphore>,
    /// For what tells something: requests at work may be waiting for it.
    places_beside: Arc<Semaphore>,
}

impl OldStreams {
    /// Where goes what `principal` posts to `federation` at the address of this name; `None` where that is not its own.
    pub(super) fn find(&self, name: &str, federation: &str, principal: &Principal) -> Option<Letterbox> {
        let found = self.lock().get(name).cloned()?;
        let is_own = found.federation == federation && found.principal == *principal;
        is_own.then_some(found)
    }

    /// Lets `principal` post to `federation` under `name`, and gives what they will post.
    pub(super) fn open(&self, name: &str, federation: &str, principal: &Principal) -> mpsc::Receiver<Incoming> {
        let most = defaults::OLD_STREAM_MESSAGES_MAX;
        let (taken, incoming) = mpsc::channel(2 * most);
        let letterbox = Letterbox {
            federation: federation.to_owned(),
            principal: principal.clone(),
            taken,
            places: Arc::new(Semaphore::new(most)),
            places_beside: Arc::new(Semaphore::new(most)),
        };
        self.lock().insert(name.to_owned(), letterbox);
        incoming
    }

    /// Takes nothing more under `name`.
    pub(super) fn close(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Letterbox>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Letterbox {
    /// A place for `message`, if there is one. It is given back when the answer is on its way.
    pub(super) fn place(&self, message: &[u8]) -> Option<Place> {
        let of = |places: &Arc<Semaphore>, is_beside| {
            let permit = Arc::clone(places).try_acquire_owned().ok()?;
            Some(Place {
                _permit: permit,
                is_beside,
            })
        };
        of(&self.places, false).or_else(|| of(&self.places_beside, true).filter(|_| tells(message)))
    }

    /// Takes `message`. False where the stream has ended.
    pub(super) fn take(&self, message: Bytes, place: Place) -> bool {
        // There is room for as many as there are places.
        self.taken.try_send(Incoming::Message(message, Some(place))).is_ok()
    }
}

/// Whether there is an answer or a notification in `message`.
fn tells(message: &[u8]) -> bool {
    batch::tells(message) || Batch::parse(message).is_ok_and(|batch| batch.tells())
}

impl fmt::Debug for OldStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldStreams").field("open", &self.lock().len()).finish()
    }
}
