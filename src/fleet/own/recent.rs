//! A table that forgets what was used least recently. No IO, no waiting.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by their keys, in the order of their last use, each with a weight.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    slots: HashMap<K, Slot<V>>,
    order: BTreeMap<u64, K>,
    clock: u64,
    weight: usize,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What all weigh together.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// All values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.values().map(|slot| &slot.value)
    }

    /// All values with what each weighs, in no order.
    pub(super) fn weighed(&self) -> impl Iterator<Item = (&V, usize)> {
        self.slots.values().map(|slot| (&slot.value, slot.weight))
    }

    /// The value of `key`, which is used by this.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let slot = self.slots.get_mut(key)?;
        if let Some(key) = self.order.remove(&slot.used) {
            self.clock += 1;
            slot.used = self.clock;
            self.order.insert(self.clock, key);
        }
        Some(&slot.value)
    }

    /// The value of `key`, which is not used by this.
    pub(super) fn peek(&self, key: &K) -> Option<&V> {
        self.slots.get(key).map(|slot| &slot.value)
    }

    /// Puts `value` in as the one that was used last, and gives what was there.
    pub(super) fn insert(&mut self, key: K, value: V, weight: usize) -> Option<V> {
        let before = self.remove(&key);
        self.clock += 1;
        self.weight = self.weight.saturating_add(weight);
        self.order.insert(self.clock, key.clone());
        let used = self.clock;
        self.slots.insert(key, Slot { value, weight, used });
        before
    }

    /// The value of `key` weighs this from now on.
    pub(super) fn reweigh(&mut self, key: &K, weight: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            self.weight = self.weight.saturating_sub(slot.weight).saturating_add(weight);
            slot.weight = weight;
        }
    }

    /// Takes the value of `key` out.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.order.remove(&slot.used);
        self.weight = self.weight.saturating_sub(slot.weight);
        Some(slot.value)
    }

    /// Takes out what was used least recently, of what is of the least `worth`; what is of none stays.
    pub(super) fn remove_oldest<W: Ord>(&mut self, worth: impl Fn(&V) -> Option<W>) -> Option<V> {
        let oldest = {
            let known = self.order.values().filter_map(|key| {
                let slot = self.slots.get(key)?;
                Some((worth(&slot.value)?, key))
            });
            // Of several that are worth the same the first.
            let (_, oldest) = known.min_by(|(a, _), (b, _)| a.cmp(b))?;
            oldest.clone()
        };
        self.remove(&oldest)
    }

    /// Takes out all that are not `kept`.
    pub(super) fn remove_unless(&mut self, kept: impl Fn(&K, &V) -> bool) -> Vec<V> {
        let slots = self.slots.iter().filter(|(key, slot)| !kept(key, &slot.value));
        let gone: Vec<K> = slots.map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.remove(key)).collect()
    }
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            slots: HashMap::new(),
            order: BTreeMap::new(),
            clock: 0,
            weight: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abc() -> Recent<&'static str, u8> {
        let mut recent = Recent::default();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(recent.insert(key, value, 10), None);
        }
        recent
    }

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let mut recent = abc();
        assert_eq!(recent.get(&"a"), Some(&1));
        assert_eq!(recent.peek(&"b"), Some(&2));
        let order: Vec<u8> = std::iter::from_fn(|| recent.remove_oldest(|_| Some(0))).collect();
        assert_eq!(order, [2, 3, 1]);
        assert_eq!((recent.len(), recent.weight()), (0, 0));
    }

    #[test]
    fn what_is_worth_more_is_spared_as_long_as_there_is_anything_else_and_what_may_not_go_for_good() {
        let mut recent = abc();
        let worth = |value: &u8| Some(*value < 3);
        assert_eq!(recent.remove_oldest(worth), Some(3));
        assert_eq!(recent.remove_oldest(|value| (*value > 1).then_some(0)), Some(2));
        assert_eq!(recent.remove_oldest(|value| (*value > 1).then_some(0)), None);
    }

    #[test]
    fn weights_are_those_of_what_is_there() {
        let mut recent = abc();
        recent.reweigh(&"a", 1);
        assert_eq!(recent.weight(), 21);
        assert_eq!(recent.insert("a", 9, 4), Some(1));
        assert_eq!((recent.len(), recent.weight()), (3, 24));
        assert_eq!(recent.remove_unless(|key, _| *key == "a").len(), 2);
        assert_eq!((recent.len(), recent.weight()), (1, 4));
        assert_eq!(recent.values().collect::<Vec<_>>(), [&9]);
        recent.reweigh(&"gone", 7);
        assert_eq!(recent.remove(&"gone"), None);
        assert_eq!(recent.weight(), 4);
    }
}
