//! What this process tells of a task that it keeps, to one subscription.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, unfold};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use super::change::{Change, What};
use super::lost::Lost;
use super::telling::{Named, absence};
use crate::defaults;
use crate::gateway::conversations::kept::Kept;
use crate::gateway::viewer::Standing;
use crate::index::SkillPrefix;
use crate::mcp::task::{Kind, Task};

/// What a client calls a task, where it is, and what clients see before the URIs of its member's skills.
pub(super) type Known = (Named, Option<SkillPrefix>);

/// What becomes of a task that is kept here for whoever has this `standing`, and what it is already if it does not just go
/// on.
pub(super) fn kept_here(
    tasks: Arc<Kept>,
    mut changes: watch::Receiver<()>,
    known: Known,
    standing: Standing,
) -> BoxStream<'static, Change> {
    changes.mark_changed();
    let absence = absence(&standing, &known.0.1.server);
    let telling = TellingKept {
        tasks,
        changes,
        known,
        standing,
        absence: Some(absence),
        is_begun: false,
        is_withheld: false,
        since: Timestamp::now(),
    };
    let next = async |mut telling: TellingKept| Some((telling.next().await?, telling));
    unfold(telling, next).boxed()
}

/// The same for one that is kept here.
struct TellingKept {
    tasks: Arc<Kept>,
    changes: watch::Receiver<()>,
    known: Known,
    standing: Standing,
    /// Resolves once its server is no member; `None` once there is nothing more to tell.
    absence: Option<BoxFuture<'static, ()>>,
    /// Whether something was told already, or is not worth it.
    is_begun: bool,
    /// Whether the client may not hear of it for the moment.
    is_withheld: bool,
    /// When the subscription began.
    since: Timestamp,
}

impl TellingKept {
    async fn next(&mut self) -> Option<Change> {
        loop {
            let ((_, found), _) = &self.known;
            tokio::select! {
                biased;
                () = self.absence.as_mut()? => {
                    self.absence = None;
                    let lost = Lost::new(&found.task, &self.since.to_string(), true, Timestamp::now());
                    return Some(self.change(What::Lost(lost)));
                }
                changed = self.changes.changed() => changed.ok()?,
                () = sleep(defaults::TASK_POLL_MAX), if self.is_withheld => {}
            }
            let told = self.tasks.told(&found.task)?;
            self.is_withheld = !found.is_offered(&self.standing);
            let is_news = self.is_begun || !told.is_at_work();
            self.is_begun = true;
            if self.is_withheld || !is_news {
                continue;
            }
            if Task::read(&told.task, Kind::Core).is_none_or(|task| task.status.is_final()) {
                self.absence = None;
            }
            return Some(self.change(What::Kept(told)));
        }
    }

    fn change(&self, what: What) -> Change {
        let ((name, found), skills) = &self.known;
        Change {
            name: name.clone(),
            found: Arc::clone(found),
            skills: skills.clone(),
            what,
        }
    }
}
