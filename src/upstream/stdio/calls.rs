//! The calls that wait for a child's answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{ExitCause, StdioError};
use crate::upstream::ear::Ear;

/// Every call that waits, by the id of its request. A message that was not written yet lies here, not in the
/// queue, so that nothing of a call is left when it is given up.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<State>);

/// Where a call's answer arrives.
pub(super) type Answer = oneshot::Receiver<Result<Bytes, StdioError>>;

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, Call>,
    ended: Option<ExitCause>,
}

#[derive(Debug)]
struct Call {
    unwritten: Option<Bytes>,
    ear: Option<Arc<dyn Ear>>,
    answer: oneshot::Sender<Result<Bytes, StdioError>>,
}

impl Calls {
    /// Adds a call. Refused when its id is waited for already, or when the process has ended.
    pub(super) fn add(&self, id: u64, message: Bytes, ear: Option<Arc<dyn Ear>>) -> Result<Answer, StdioError> {
        let mut state = self.lock();
        if let Some(cause) = &state.ended {
            return Err(StdioError::Ended(cause.clone()));
        }
        if state.waiting.contains_key(&id) {
            return Err(StdioError::IdInUse(id));
        }
        let (sender, answer) = oneshot::channel();
        state.waiting.insert(
            id,
            Call {
                unwritten: Some(message),
                ear,
                answer: sender,
            },
        );
        Ok(answer)
    }

    /// The message of call `id`, to be written now; `None` if the call was given up.
    pub(super) fn take_message(&self, id: u64) -> Option<Bytes> {
        self.lock().waiting.get_mut(&id)?.unwritten.take()
    }

    /// Hands progress of call `id` to whoever hears it. False if nobody does.
    pub(super) fn progress(&self, id: u64, notification: &[u8]) -> bool {
        let ear = self.lock().waiting.get(&id).and_then(|call| call.ear.clone());
        ear.is_some_and(|ear| {
            ear.heard(notification);
            true
        })
    }

    /// Hands `message` to the call that waits for `id`. False if none does.
    pub(super) fn answer(&self, id: u64, message: Bytes) -> bool {
        let Some(call) = self.lock().waiting.remove(&id) else {
            return false;
        };
        // A caller that is gone by now needs no answer.
        drop(call.answer.send(Ok(message)));
        true
    }

    /// Fails the call that waits for `id`, if one does.
    pub(super) fn fail(&self, id: u64, error: StdioError) {
        if let Some(call) = self.lock().waiting.remove(&id) {
            drop(call.answer.send(Err(error)));
        }
    }

    /// Forgets a call. True if it still waited and the child has its request, or a part of it.
    pub(super) fn give_up(&self, id: u64) -> bool {
        self.lock()
            .waiting
            .remove(&id)
            .is_some_and(|call| call.unwritten.is_none())
    }

    /// Fails every call, now and from now on. The first cause stands.
    pub(super) fn end(&self, cause: &ExitCause) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| cause.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for call in waiting.into_values() {
            drop(call.answer.send(Err(StdioError::Ended(cause.clone()))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::process::Ending;

    const MESSAGE: Bytes = Bytes::from_static(b"{}");

    #[test]
    fn an_answer_reaches_its_call_once() {
        let calls = Calls::default();
        let mut answer = calls.add(1, MESSAGE, None).unwrap();
        assert_eq!(calls.take_message(1), Some(MESSAGE));
        assert!(calls.answer(1, "a".into()));
        assert!(!calls.answer(1, "b".into()));
        assert_eq!(answer.try_recv().unwrap().unwrap(), "a");
    }

    #[test]
    fn a_call_given_up_is_told_to_the_child_only_if_it_was_written_and_not_answered() {
        let calls = Calls::default();
        let _first = calls.add(1, MESSAGE, None).unwrap();
        assert!(!calls.give_up(1));
        assert_eq!(calls.take_message(1), None);
        let _second = calls.add(2, MESSAGE, None).unwrap();
        calls.take_message(2);
        assert!(calls.give_up(2));
        let _third = calls.add(3, MESSAGE, None).unwrap();
        calls.take_message(3);
        calls.answer(3, MESSAGE);
        assert!(!calls.give_up(3));
    }

    #[test]
    fn an_id_waits_for_one_answer_at_a_time() {
        let calls = Calls::default();
        let _first = calls.add(1, MESSAGE, None).unwrap();
        assert_eq!(calls.add(1, MESSAGE, None).unwrap_err(), StdioError::IdInUse(1));
    }

    #[test]
    fn the_end_fails_every_call_with_the_first_cause() {
        let calls = Calls::default();
        let mut answer = calls.add(1, MESSAGE, None).unwrap();
        let cause = |code| ExitCause::new(Ending::Code(code), vec![]);
        calls.end(&cause(3));
        calls.end(&cause(4));
        assert_eq!(answer.try_recv().unwrap().unwrap_err(), StdioError::Ended(cause(3)));
        assert_eq!(calls.add(2, MESSAGE, None).unwrap_err(), StdioError::Ended(cause(3)));
    }
}
