//! Which listens hold what is wanted: few, and none made anew for one resource more or less while it holds many others.
//! So a client that subscribes to one resource after the other makes us send about as much as if it had named them all
//! at once, times the logarithm of their number.

use crate::defaults;
use crate::upstream::listen_filter::Filter;

/// What is to be done next so that what is wanted is held.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Is to be asked for by one more listen, unless it is empty.
    pub(super) filter: Filter,
    /// The listens, by their ids, that are to be let go then.
    pub(super) instead_of: Vec<u64>,
}

/// A listen that is held.
struct Held<'f> {
    id: u64,
    filter: &'f Filter,
    /// The resources that are still wanted of it.
    live: Vec<&'f String>,
}

impl Held<'_> {
    /// Whether so little of it is wanted any more that it is not worth to be held.
    fn is_spent(&self) -> bool {
        let dead = self.filter.resource_subscriptions.len() - self.live.len();
        2 * dead > self.live.len()
    }
}

/// What is to be done so that `wanted` is held, where these are.
pub(super) fn next<'f>(held: impl Iterator<Item = (u64, &'f Filter)>, wanted: &Filter) -> Step {
    let held = held.map(|(id, filter)| {
        let resources = filter.resource_subscriptions.iter();
        let live = resources.filter(|uri| wanted.has(uri)).collect();
        Held { id, filter, live }
    });
    let (mut taken, mut left): (Vec<_>, Vec<_>) = held.partition(Held::is_spent);
    let is_held = |uri: &String| taken.iter().chain(&left).any(|held: &Held<'_>| held.filter.has(uri));
    let missing: Vec<&String> = wanted
        .resource_subscriptions
        .iter()
        .filter(|uri| !is_held(uri))
        .collect();
    let has_lists = |held: &Held<'_>| held.filter.has_lists();
    let lacks_lists = wanted.has_lists() && !left.iter().any(has_lists);
    let mut count = missing.len() + taken.iter().map(|held| held.live.len()).sum::<usize>();
    if count > 0 || lacks_lists {
        // What is not much larger goes into it, and so does the rest where there would be too many.
        left.sort_by_key(|held| usize::MAX - held.live.len());
        while left.len() + 1 > defaults::LISTENS_HELD_MAX
            || left.last().is_some_and(|smallest| smallest.live.len() <= 2 * count)
        {
            let Some(smallest) = left.pop() else { break };
            count += smallest.live.len();
            taken.push(smallest);
        }
    }
    let mut filter = if lacks_lists || wanted.has_lists() && taken.iter().any(has_lists) {
        wanted.of_lists()
    } else {
        Filter::default()
    };
    let live = taken.iter().flat_map(|held| &held.live).copied();
    filter.resource_subscriptions = missing.into_iter().chain(live).cloned().collect();
    filter.resource_subscriptions.sort_unstable();
    filter.resource_subscriptions.dedup();
    Step {
        filter,
        instead_of: taken.iter().map(|held| held.id).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::capabilities::{Capabilities, Offer};

    fn wanted(resources: impl IntoIterator<Item = usize>) -> Filter {
        let capabilities = Capabilities {
            tools: Offer::Announced,
            ..Capabilities::default()
        };
        let mut resources: Vec<_> = resources.into_iter().map(|number| number.to_string()).collect();
        resources.sort();
        Filter::of(&capabilities, resources)
    }

    /// Listens of a server that agrees to everything.
    #[derive(Default)]
    struct Listens {
        held: Vec<(u64, Filter)>,
        begun: u64,
        sent: usize,
    }

    impl Listens {
        fn want(&mut self, wanted: &Filter) {
            loop {
                let step = next(self.held.iter().map(|(id, filter)| (*id, filter)), wanted);
                if step == Step::default() {
                    break;
                }
                self.held.retain(|(id, _)| !step.instead_of.contains(id));
                if !step.filter.is_empty() {
                    self.begun += 1;
                    self.sent += step.filter.resource_subscriptions.len();
                    self.held.push((self.begun, step.filter));
                }
            }
            assert!(self.held.len() <= defaults::LISTENS_HELD_MAX);
            assert_eq!(self.held.iter().filter(|(_, filter)| filter.has_lists()).count(), 1);
            let holds = |uri: &String| self.held.iter().any(|(_, filter)| filter.has(uri));
            assert!(wanted.resource_subscriptions.iter().all(holds));
        }
    }

    #[test]
    fn many_resources_one_after_the_other_cost_little_more_than_at_once() {
        let mut listens = Listens::default();
        listens.want(&wanted([]));
        assert_eq!((listens.held.len(), listens.begun), (1, 1));
        for number in 1..=1024 {
            listens.want(&wanted(0..number));
        }
        assert!(listens.sent < 1024 * 20, "{}", listens.sent);
        for number in (0..1024).rev() {
            listens.want(&wanted(0..number));
        }
        assert!(listens.sent < 1024 * 30, "{}", listens.sent);
        assert_eq!(listens.held.len(), 1);
        assert!(listens.held[0].1.resource_subscriptions.is_empty());
    }

    #[test]
    fn a_resource_that_comes_and_goes_does_not_move_the_others() {
        let mut listens = Listens::default();
        listens.want(&wanted(0..500));
        let before = listens.sent;
        for _ in 0..100 {
            listens.want(&wanted(0..501));
            listens.want(&wanted(0..500));
        }
        assert!(listens.sent - before <= 100);
    }

    #[test]
    fn few_resources_are_in_the_listen_for_lists_and_only_they() {
        let mut listens = Listens::default();
        listens.want(&wanted([1]));
        listens.want(&wanted([1, 2]));
        assert_eq!(listens.held, [(2, wanted([1, 2]))]);
        listens.want(&wanted([2]));
        assert_eq!(listens.held, [(3, wanted([2]))]);
    }
}
