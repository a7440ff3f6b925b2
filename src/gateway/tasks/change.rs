//! One thing that a subscription is told of a task.

use std::borrow::Cow;
use std::sync::Arc;

use super::errand::encoded;
use super::kept::detail_of;
use super::lost::Lost;
use crate::gateway::conversations::kept::Told as KeptTold;
use crate::gateway::task_name::Found;
use crate::gateway::viewer::Standing;
use crate::index::SkillPrefix;
use crate::index::skills::rewrite;
use crate::mcp::task::{self, Detail, Kind, Task};
use crate::upstream::{Body, Reply, TaskNews};

/// A task has changed.
pub(in crate::gateway) struct Change {
    /// What the client calls it.
    pub(super) name: String,
    /// Where it is, and of which tool.
    pub(super) found: Arc<Found>,
    /// What clients see before the URIs of the member's skills.
    pub(super) skills: Option<SkillPrefix>,
    pub(super) what: What,
}

/// What there is to tell of a task.
pub(super) enum What {
    /// What its server does.
    Told(TaskNews),
    /// It is lost.
    Lost(Lost),
    /// What there is to tell of one that is kept here.
    Kept(KeptTold),
}

impl Change {
    /// The whole notification, as a message of the subscription `id`. `None` if it tells nothing that is known, or
    /// nothing that is for whoever has this `standing` any more.
    pub(in crate::gateway) fn message(&self, id: &str, standing: &Standing) -> Option<Vec<u8>> {
        let (federation, audience) = standing.now()?;
        // That a task is lost says nothing that whoever asks for the task would not hear too.
        if !matches!(self.what, What::Lost(_)) {
            self.found.member(&federation, audience)?;
        }
        let (told, kind, detail) = match &self.what {
            What::Lost(lost) => {
                let (kind, detail) = lost.outcome();
                (&lost.task, kind, detail)
            }
            What::Told(news) => (&news.task, news.kind, outcome_of(news)),
            What::Kept(told) => (&told.task, Kind::Core, detail_of(&told.detail)),
        };
        let (told, result) = match (&self.skills, detail) {
            (None, _) => (Cow::Borrowed(told.as_str()), None),
            (Some(prefix), Detail::Result(result)) => {
                (Cow::Borrowed(told.as_str()), Some(rewrite::links(result, prefix)))
            }
            (Some(prefix), _) => (rewrite::task(told, prefix), None),
        };
        let detail = result.as_deref().map_or(detail, Detail::Result);
        let task = Task::read(&told, kind)?;
        let changed = |detail: Detail<'_>| task::changed(&task, detail, &self.name, id);
        Some(encoded(federation.encoding, &task, detail, changed))
    }
}

/// What a task of 2025-11-25 came to.
fn outcome_of(news: &TaskNews) -> Detail<'_> {
    match news.outcome.as_ref().map(Reply::body) {
        None => Detail::Own,
        Some(Body::Result(result)) => Detail::Result(result),
        Some(Body::Error(error)) => Detail::Error(error),
    }
}
