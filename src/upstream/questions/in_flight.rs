//! A call while it is carried: who can be asked about it, and how long it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{Questions, response};
use crate::upstream::caller::Owner;
use crate::upstream::ear::Ear;

/// A call that is carried now.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Later calls have higher ones.
    pub(super) number: u64,
    /// For whom it is made.
    pub(super) owner: Owner,
    /// Who can be asked.
    pub(super) ear: Option<Arc<dyn Ear>>,
    open: AtomicUsize,
    lost: AtomicBool,
    changed: Notify,
}

/// A call from its beginning until this is dropped; its questions end with it.
#[derive(Debug)]
pub(crate) struct Begun {
    questions: Arc<Questions>,
    call: Arc<InFlight>,
}

/// Why a call is not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its time is over.
    TimedOut,
    /// The server does not take the answer to a question of this call: it does not know the session any more.
    Lost,
}

impl InFlight {
    pub(super) fn new(number: u64, owner: Owner, ear: Option<Arc<dyn Ear>>) -> Self {
        Self {
            number,
            owner,
            ear,
            open: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    pub(super) fn question_opened(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn question_closed(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

impl Begun {
    pub(super) fn new(questions: Arc<Questions>, call: Arc<InFlight>) -> Self {
        Self { questions, call }
    }

    pub(super) fn in_flight(&self) -> &Arc<InFlight> {
        &self.call
    }

    /// Who hears of this call.
    pub(crate) fn ear(&self) -> Option<&Arc<dyn Ear>> {
        self.call.ear.as_ref()
    }

    /// Withdraws what is still asked about this call, and gives the whole messages that refuse it: a server that is not
    /// told waits for ever.
    pub(crate) fn refuse_questions(&self) -> Vec<Bytes> {
        let closed = self.questions.close(|open| Arc::ptr_eq(&open.call, &self.call));
        let refusals = closed
            .into_iter()
            .map(|(id, kind)| Bytes::from(response(&id, kind.refusal())));
        refusals.collect()
    }

    /// Waits for `answer`, at most for `limit`. The time stands still while the server waits for an answer of the
    /// client, and begins anew with it: people take as long as they do.
    pub(crate) async fn wait_for<T>(
        &self,
        limit: Option<Duration>,
        answer: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let call = &*self.call;
        tokio::pin!(answer);
        let mut deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                () = call.changed.notified() => {
                    if call.lost.load(Ordering::Acquire) {
                        return Err(Ended::Lost);
                    }
                    deadline = limit.map(|limit| Instant::now() + limit);
                }
                () = over => {
                    if call.open.load(Ordering::Acquire) == 0 {
                        return Err(Ended::TimedOut);
                    }
                    // Until the question is closed, which begins the time anew.
                    deadline = None;
                }
            }
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.questions.end(&self.call);
    }
}
