//! The calls that wait for their answer on the stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::upstream::ear::Ear;
use crate::upstream::error::Error;

/// Every call that waits, by the id of its request.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, Call>,
    has_ended: bool,
}

#[derive(Debug)]
struct Call {
    ear: Option<Arc<dyn Ear>>,
    answer: oneshot::Sender<Result<Bytes, Error>>,
}

/// One call that waits; to drop it is to forget it.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    calls: &'a Calls,
    id: u64,
    answer: oneshot::Receiver<Result<Bytes, Error>>,
}

impl Calls {
    /// Adds a call whose id nobody else has.
    ///
    /// # Errors
    /// Where the stream has ended: nothing was sent.
    pub(super) fn add(&self, id: u64, ear: Option<Arc<dyn Ear>>) -> Result<Waiting<'_>, Error> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.has_ended {
            return Err(Error::SessionLost);
        }
        state.waiting.insert(id, Call { ear, answer: sender });
        drop(state);
        Ok(Waiting {
            calls: self,
            id,
            answer,
        })
    }

    /// Hands `message` to the call that waits for `id`, if one does.
    pub(super) fn answer(&self, id: u64, message: Bytes) {
        self.settle(id, Ok(message));
    }

    /// Ends the call that waits for `id`, if one does.
    pub(super) fn fail(&self, id: u64, error: Error) {
        self.settle(id, Err(error));
    }

    fn settle(&self, id: u64, answer: Result<Bytes, Error>) {
        let call = self.lock().waiting.remove(&id);
        if let Some(call) = call {
            // It may be gone by now.
            drop(call.answer.send(answer));
        }
    }

    /// Hands progress of call `id` to whoever hears it.
    pub(super) fn progress(&self, id: u64, notification: &[u8]) {
        let ear = self.lock().waiting.get(&id).and_then(|call| call.ear.clone());
        if let Some(ear) = ear {
            ear.heard(notification);
        }
    }

    /// No call is answered any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.waiting.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    /// Waits for the answer. Nothing is lost when the future is dropped.
    pub(super) async fn answer(&mut self) -> Result<Bytes, Error> {
        (&mut self.answer).await.map_err(|_| Error::CutOff)?
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_reaches_its_call_and_the_end_reaches_all() {
        let calls = Calls::default();
        let mut first = calls.add(1, None).unwrap();
        let mut second = calls.add(2, None).unwrap();
        calls.answer(1, "a".into());
        calls.answer(1, "b".into());
        calls.answer(7, "c".into());
        assert_eq!(first.answer().await, Ok("a".into()));
        let mut large = calls.add(9, None).unwrap();
        calls.fail(9, Error::TooLarge(1));
        assert_eq!(large.answer().await, Err(Error::TooLarge(1)));
        calls.end();
        assert_eq!(second.answer().await, Err(Error::CutOff));
        assert_eq!(calls.add(3, None).unwrap_err(), Error::SessionLost);
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_forgotten() {
        let calls = Calls::default();
        drop(calls.add(1, None).unwrap());
        assert!(calls.lock().waiting.is_empty());
    }
}
