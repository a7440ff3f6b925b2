//! Changes of tasks, for whoever asked for them: where their server tells of them, by [a listen](super::task_listen), and
//! where it does not, by [looks](super::task_looks) now and then.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::at_work::AtWork;
use super::caller::Owner;
use super::inner::Inner;
use super::task_listen::{open, read};
use super::task_looks::{Looks, Until};
use super::task_news::{Accepted, TaskChange};
use crate::defaults;

/// Changes of some tasks, until it is dropped.
#[derive(Debug)]
pub struct TaskChanges {
    /// The tasks of which it tells.
    pub accepted: Vec<Accepted>,
    arriving: mpsc::Receiver<TaskChange>,
    _reading: AbortOnDropHandle<()>,
}

impl TaskChanges {
    /// Asks the server behind `inner` to tell of `tasks`, for as long as `limit`, and looks at those of which it does not,
    /// for as long again. Of those that it agrees to tell of, what happened before is looked at too. `known` are tasks that
    /// were told of before. `None` where none of them is there or, if they are `known`, while the server cannot be asked.
    pub(super) async fn of(
        inner: Arc<Inner>,
        owner: Owner,
        tasks: Vec<String>,
        known: bool,
        limit: Duration,
    ) -> Option<Self> {
        let (stop, at_work) = (inner.stop.clone(), inner.begin_work());
        let listening = async {
            match inner.standing().await {
                Ok(connection) => Some(open(&connection, &tasks).await),
                Err(_) => None,
            }
        };
        let listening = timeout(limit, listening).await.ok().flatten();
        if known && listening.is_none() {
            return None;
        }
        let (events, agreed) = listening.flatten().unzip();
        let agreed = agreed.unwrap_or_default();
        let others = tasks.into_iter().filter(|task| !agreed.contains(task)).collect();
        let looks = Looks::first(Arc::clone(&inner), owner.clone(), others, known, limit).await;
        let told = agreed.iter().map(|task| Accepted {
            task: task.clone(),
            created: None,
        });
        let accepted: Vec<_> = told.chain(looks.tasks()).collect();
        let reading = move |changes: mpsc::Sender<TaskChange>| async move {
            let missing = async {
                // That a server agrees to tell of a task does not say that it still has it, nor that it is not over yet.
                let missed = Looks::first(inner, owner, agreed, true, limit).await;
                missed.keep(Until::Seen, &changes).await;
            };
            let looking = async {
                looks.keep(Until::Over, &changes).await;
                // Nothing more becomes of them, and nothing more is told.
                pending().await
            };
            let listening = async {
                let Some(mut events) = events else {
                    return changes.closed().await;
                };
                tokio::pin!(missing);
                tokio::select! {
                    () = read(&mut events, &changes) => {
                        // A server that ends each stream at once is found out all the same.
                        timeout(limit, missing).await.ok();
                    }
                    () = &mut missing => read(&mut events, &changes).await,
                }
            };
            tokio::select! {
                () = listening => {}
                () = looking => {}
            }
        };
        (!accepted.is_empty()).then(|| Self::reading(accepted, stop, at_work, reading))
    }

    /// What there is to tell of one of the tasks next. `None` once the server is let go of, or tells nothing more: it has to
    /// be asked anew.
    pub async fn next(&mut self) -> Option<TaskChange> {
        self.arriving.recv().await
    }

    fn reading<F>(
        accepted: Vec<Accepted>,
        stop: CancellationToken,
        at_work: Option<AtWork>,
        read: impl FnOnce(mpsc::Sender<TaskChange>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, arriving) = mpsc::channel(defaults::TASK_CHANGES_QUEUE);
        let reading = read(sender);
        let reading = async move {
            let _at_work = at_work;
            tokio::select! {
                () = stop.cancelled() => {}
                () = reading => {}
            }
        };
        Self {
            accepted,
            arriving,
            _reading: AbortOnDropHandle::new(tokio::spawn(reading)),
        }
    }
}
