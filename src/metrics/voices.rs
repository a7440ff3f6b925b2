//! Who tells how a server is: one at a time, though an edit holds a server anew before what was held is let go of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All servers of which something is told.
#[derive(Debug, Default)]
pub(super) struct Voices {
    servers: Mutex<HashMap<String, Arc<Mutex<Heard>>>>,
}

/// One that may tell how its server is. The newest that has told anything is heard; until it does, those before it are.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    server: Arc<Mutex<Heard>>,
    /// Newer ones have higher numbers; none where nothing is to be told of the server as a whole.
    number: Option<u64>,
}

/// Of whom a server is heard.
#[derive(Debug, Default)]
struct Heard {
    /// The number of the newest.
    newest: u64,
    /// The number of the one that is heard, if one is.
    now: Option<u64>,
    /// Nothing is told any more.
    is_gone: bool,
}

impl Voices {
    /// The newest voice of `server`, once `resolve` has made its series.
    pub(super) fn newest<T>(&self, server: &str, resolve: impl FnOnce(Voice) -> T) -> T {
        let mut servers = locked(&self.servers);
        let server = Arc::clone(servers.entry(server.to_owned()).or_default());
        let mut heard = locked(&server);
        heard.newest += 1;
        let number = Some(heard.newest);
        drop(heard);
        resolve(Voice { server, number })
    }

    /// Hears nobody of `server` any more, and has `remove` take its series away.
    pub(super) fn forget(&self, server: &str, remove: impl FnOnce()) {
        let mut servers = locked(&self.servers);
        let known = servers.remove(server);
        // Until it is unlocked nobody writes what is being removed.
        let mut heard = known.as_deref().map(locked);
        if let Some(heard) = &mut heard {
            heard.is_gone = true;
        }
        remove();
    }
}

impl Voice {
    /// The same for one that serves some alone, so that it tells nothing of the server as a whole.
    pub(super) fn for_some(self) -> Self {
        Self { number: None, ..self }
    }

    /// Has `write` write, unless a newer one is heard; it is told whether this is the first word after another's.
    pub(super) fn tell(&self, write: impl FnOnce(bool)) {
        let mut heard = locked(&self.server);
        let Some(number) = self.number.filter(|_| !heard.is_gone) else {
            return;
        };
        let before = heard.now;
        if before.is_some_and(|now| now > number) {
            return;
        }
        heard.now = Some(number);
        write(before.is_some_and(|now| now != number));
    }

    /// The same, unless any other one is heard: whether newer or not, it has what this one has not.
    pub(super) fn tell_alone(&self, write: impl FnOnce()) {
        let mut heard = locked(&self.server);
        let is_heard = heard.now.is_none() || heard.now == self.number;
        if self.number.is_some() && is_heard && !heard.is_gone {
            heard.now = self.number;
            write();
        }
    }

    /// Has `write` write what is so without this one, if it was heard last, and hears others again.
    pub(super) fn fall_silent(&self, write: impl FnOnce()) {
        let mut heard = locked(&self.server);
        if self.number.is_some() && heard.now == self.number && !heard.is_gone {
            heard.now = None;
            write();
        }
    }

    /// Has `write` count something, whoever is heard, unless the server is gone.
    pub(super) fn count(&self, write: impl FnOnce()) {
        let heard = locked(&self.server);
        if !heard.is_gone {
            write();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voice(voices: &Voices) -> Voice {
        voices.newest("s", |voice| voice)
    }

    /// Whether `voice` is heard and, if so, whether after another one.
    fn told(voice: &Voice) -> Option<bool> {
        let mut after = None;
        voice.tell(|other| after = Some(other));
        after
    }

    fn falls_silent(voice: &Voice) -> bool {
        let mut wrote = false;
        voice.fall_silent(|| wrote = true);
        wrote
    }

    #[test]
    fn who_was_before_is_heard_until_the_newest_has_a_word() {
        let voices = Voices::default();
        let first = voice(&voices);
        assert_eq!([told(&first), told(&first)], [Some(false); 2]);
        let second = voice(&voices);
        assert_eq!(told(&first), Some(false));
        assert_eq!([told(&second), told(&second)], [Some(true), Some(false)]);
        assert_eq!(told(&first), None);
        assert!(!falls_silent(&first));
        assert_eq!(told(&second), Some(false));
        assert!(falls_silent(&second));
    }

    #[test]
    fn what_is_told_of_nobody_else_is_dropped_while_somebody_else_is_heard() {
        let voices = Voices::default();
        let [first, second] = [(); 2].map(|()| voice(&voices));
        let alone = |voice: &Voice| {
            let mut wrote = false;
            voice.tell_alone(|| wrote = true);
            wrote
        };
        assert_eq!([alone(&first), alone(&first), alone(&second)], [true, true, false]);
        assert!(falls_silent(&first));
        assert_eq!([alone(&second), alone(&first)], [true, false]);
        assert_eq!((told(&first), told(&second)), (None, Some(false)));
    }

    #[test]
    fn who_came_and_went_in_between_leaves_the_others_heard() {
        let voices = Voices::default();
        let [first, second, third] = [(); 3].map(|()| voice(&voices));
        assert_eq!(told(&first), Some(false));
        assert!(!falls_silent(&second), "it was never heard");
        let fourth = voice(&voices);
        assert_eq!((told(&third), told(&first)), (Some(true), None));
        assert!(falls_silent(&third));
        assert_eq!((told(&first), told(&fourth)), (Some(false), Some(true)));
    }

    #[test]
    fn who_serves_some_alone_is_not_heard_but_counts() {
        let voices = Voices::default();
        let some = voice(&voices).for_some();
        assert_eq!((told(&some), falls_silent(&some)), (None, false));
        let mut count = 0;
        some.count(|| count += 1);
        assert_eq!(count, 1);
    }

    #[test]
    fn nobody_is_heard_of_a_server_that_is_gone_and_one_that_comes_back_is() {
        let voices = Voices::default();
        let before = voice(&voices);
        assert_eq!(told(&before), Some(false));
        let mut removed = 0;
        voices.forget("s", || removed += 1);
        before.count(|| removed += 1);
        assert_eq!((told(&before), falls_silent(&before), removed), (None, false, 1));
        let after = voice(&voices);
        assert_eq!((told(&before), told(&after)), (None, Some(false)));
        voices.forget("other", || removed += 1);
        assert_eq!((told(&after), removed), (Some(false), 2));
    }
}
