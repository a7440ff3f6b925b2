//! Events about our own objects: told when something changed, and at no other time.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tracing::debug;

use crate::api::condition::{
    ACCEPTED, AVAILABLE, Condition, ConditionStatus, DEGRADED, READY, RESOLVED_REFS, VERIFIED, find,
};

/// Longest note that the API takes, in bytes.
const NOTE_MAX: usize = 1024;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// True: somebody should look.
    pub warning: bool,
    /// One CamelCase word.
    pub reason: String,
    /// For a person.
    pub note: String,
}

/// Writes events.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    /// Writes as the replica named `instance`.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let controller = "mcpfleet".to_owned();
        Self(Recorder::new(client, Reporter { controller, instance }))
    }

    /// Writes `notices` about `object`. An event that cannot be written is no reason to fail.
    pub async fn publish(&self, object: &ObjectReference, notices: impl IntoIterator<Item = Notice>) {
        for notice in notices {
            let event = Event {
                type_: if notice.warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: notice.reason,
                note: Some(cut(notice.note)),
                action: "Reconcile".into(),
                secondary: None,
            };
            if let Err(error) = self.0.publish(&event, object).await {
                debug!(%error, "an event was not written");
            }
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

/// Reasons of what is normal on the way up.
const UNEVENTFUL: [&str; 2] = ["Progressing", "RefPending"];
/// Reasons of what somebody asked for.
const ASKED_FOR: [&str; 2] = ["Disabled", "ScaledToZero"];
/// What can be bad about an object, each with the status that is bad, causes before what follows from them.
const BY_CAUSE: [(&str, ConditionStatus); 6] = [
    (ACCEPTED, ConditionStatus::False),
    (RESOLVED_REFS, ConditionStatus::False),
    (AVAILABLE, ConditionStatus::False),
    (VERIFIED, ConditionStatus::False),
    (READY, ConditionStatus::False),
    (DEGRADED, ConditionStatus::True),
];

/// What the step from the `old` conditions to the `new` ones is worth telling: one thing that got worse and does not
/// follow from what was told before, or that the object became ready.
pub fn notices(old: &[Condition], new: &[Condition]) -> Vec<Notice> {
    let is_ready =
        |conditions: &[Condition]| find(conditions, READY).is_some_and(|c| c.status == ConditionStatus::True);
    let bad = BY_CAUSE
        .into_iter()
        .filter_map(|(type_, bad)| find(new, type_).filter(|new| new.status == bad));
    let mut has_cause = false;
    let mut worse = None;
    for condition in bad {
        let told = find(old, &condition.type_).is_some_and(|old| is_same(old, condition));
        let follows = has_cause && !(condition.type_ == READY && is_ready(old));
        if !told && !follows && !UNEVENTFUL.contains(&condition.reason.as_str()) {
            worse = Some(notice(!ASKED_FOR.contains(&condition.reason.as_str()), condition));
            break;
        }
        has_cause = true;
    }
    let became_ready = (is_ready(new) && !is_ready(old)).then(|| Notice {
        warning: false,
        reason: READY.into(),
        note: "it can be called".into(),
    });
    worse.into_iter().chain(became_ready).collect()
}

fn is_same(old: &Condition, new: &Condition) -> bool {
    old.status == new.status && old.reason == new.reason
}

fn notice(warning: bool, condition: &Condition) -> Notice {
    Notice {
        warning,
        reason: condition.reason.clone(),
        note: condition.message.clone(),
    }
}

fn cut(mut note: String) -> String {
    note.truncate(note.floor_char_boundary(NOTE_MAX));
    note
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::operator::conditions::Conditions;

    fn conditions(told: &[(&str, bool, &str)]) -> Vec<Condition> {
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        for (type_, status, reason) in told {
            conditions.put(type_, *status, reason, "words");
        }
        conditions.finish()
    }

    fn reasons(old: &[Condition], new: &[Condition]) -> Vec<(bool, String)> {
        notices(old, new).into_iter().map(|n| (n.warning, n.reason)).collect()
    }

    #[test]
    fn one_cause_is_one_event() {
        let new = conditions(&[(VERIFIED, false, "Timeout"), (READY, false, "Timeout")]);
        assert_eq!(reasons(&[], &new), [(true, "Timeout".to_owned())]);
        assert_eq!(reasons(&new, &new), []);
    }

    #[test]
    fn what_follows_from_a_cause_is_not_told_then_or_later() {
        let cause = conditions(&[(RESOLVED_REFS, false, "NotFound")]);
        let all = conditions(&[
            (RESOLVED_REFS, false, "NotFound"),
            (READY, false, "NoReadyMembers"),
            (DEGRADED, true, "MembersNotReady"),
        ]);
        assert_eq!(reasons(&[], &all), [(true, "NotFound".to_owned())]);
        assert_eq!(reasons(&cause, &all), []);
        let starting = conditions(&[(AVAILABLE, false, "Progressing"), (VERIFIED, false, "ConnectFailed")]);
        assert_eq!(reasons(&[], &starting), [], "no pod is there yet to connect to");
    }

    #[test]
    fn losing_readiness_is_always_told() {
        let before = conditions(&[(RESOLVED_REFS, false, "NotFound"), (READY, true, "Serving")]);
        let after = conditions(&[(RESOLVED_REFS, false, "NotFound"), (READY, false, "NoReadyMembers")]);
        assert_eq!(reasons(&before, &after), [(true, "NoReadyMembers".to_owned())]);
    }

    #[test]
    fn coming_up_is_told_once_and_quietly() {
        let progressing = conditions(&[(AVAILABLE, false, "Progressing"), (READY, false, "Progressing")]);
        let ready = conditions(&[(AVAILABLE, true, "PodsAvailable"), (READY, true, "Callable")]);
        assert_eq!(reasons(&[], &progressing), []);
        assert_eq!(reasons(&progressing, &ready), [(false, "Ready".to_owned())]);
        assert_eq!(reasons(&ready, &ready), []);
    }

    #[test]
    fn what_was_asked_for_is_no_warning() {
        let disabled = conditions(&[(READY, false, "Disabled")]);
        assert_eq!(reasons(&[], &disabled), [(false, "Disabled".to_owned())]);
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(cut("ä".repeat(2000)).len(), NOTE_MAX);
    }
}
