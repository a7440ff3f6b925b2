//! The conditions of one object while its next status is put together.

use jiff::Timestamp;

use crate::api::condition::{self, Condition, ConditionStatus};

/// Collects the next conditions of an object; what is not put or kept is gone.
#[derive(Debug)]
pub struct Conditions<'a> {
    old: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    next: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    /// Starts from the `old` ones of an object whose spec has this `generation`.
    pub fn new(old: &'a [Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            old,
            generation,
            now: Timestamp::from_second(now.as_second()).unwrap_or(now),
            next: Vec::new(),
        }
    }

    /// Tells `type_` anew, for the current generation.
    pub fn put(&mut self, type_: &str, status: impl Into<ConditionStatus>, reason: &str, message: impl Into<String>) {
        let status = status.into();
        let unchanged = self.old(type_).filter(|old| old.status == status);
        self.next.push(Condition {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            last_transition_time: unchanged.map_or(self.now, |old| old.last_transition_time),
            observed_generation: self.generation,
        });
    }

    /// Leaves `type_` as it was told before, with the generation that it was told for. False: it never was.
    pub fn keep(&mut self, type_: &str) -> bool {
        let old = self.old(type_).cloned();
        let kept = old.is_some();
        self.next.extend(old);
        kept
    }

    /// What was told before of `type_`.
    pub fn old(&self, type_: &str) -> Option<&'a Condition> {
        condition::find(self.old, type_)
    }

    /// What is told now of `type_`.
    pub fn next(&self, type_: &str) -> Option<&Condition> {
        condition::find(&self.next, type_)
    }

    /// Whether `type_` was told before for the current generation.
    pub fn told_for_this_generation(&self, type_: &str) -> bool {
        self.old(type_)
            .is_some_and(|old| old.observed_generation == self.generation)
    }

    /// The next conditions, by type.
    pub fn finish(mut self) -> Vec<Condition> {
        self.next.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::condition::{AVAILABLE, READY, VERIFIED};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn old() -> Vec<Condition> {
        let mut conditions = Conditions::new(&[], Some(1), at(1));
        conditions.put(READY, true, "A", "");
        conditions.put(VERIFIED, true, "A", "");
        conditions.finish()
    }

    #[test]
    fn transition_times_move_only_with_the_status() {
        let old = old();
        let mut conditions = Conditions::new(&old, Some(2), at(5));
        conditions.put(READY, true, "B", "other words");
        conditions.put(VERIFIED, false, "B", "");
        let next = conditions.finish();
        assert_eq!(next[0].last_transition_time, at(1));
        assert_eq!(next[1].last_transition_time, at(5));
        assert!(next.iter().all(|c| c.observed_generation == Some(2)));
    }

    #[test]
    fn what_is_kept_keeps_its_generation_and_the_rest_goes() {
        let old = old();
        let mut conditions = Conditions::new(&old, Some(2), at(5));
        assert!(conditions.keep(READY));
        assert!(!conditions.keep(AVAILABLE));
        assert_eq!(
            conditions.finish(),
            old.iter().filter(|c| c.type_ == READY).cloned().collect::<Vec<_>>()
        );
    }
}
