//! How the rest of a stream that broke is asked for, from a Legacy server that numbers its events (2025-03-26,
//! transports: resumability).

use std::time::Duration;

use http::HeaderValue;

use crate::defaults;
use crate::mcp::sse::Event;

/// What is known of a stream, and how often it was asked for again.
#[derive(Debug, Default)]
pub(crate) struct Resumption {
    last_id: Option<HeaderValue>,
    pause: Option<Duration>,
    in_vain: usize,
    tries: usize,
}

impl Resumption {
    /// Takes note of an event.
    pub(crate) fn saw(&mut self, event: &Event) {
        self.in_vain = 0;
        if let Some(milliseconds) = event.retry {
            self.pause = Some(Duration::from_millis(milliseconds).max(defaults::STREAM_RETRY_MIN));
        }
        if let Some(id) = &event.id {
            // An empty id means that there is none any more (WHATWG HTML, server-sent events).
            self.last_id = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
    }

    /// The id of the last event, if events have any.
    pub(crate) fn last_id(&self) -> Option<&HeaderValue> {
        self.last_id.as_ref()
    }

    /// How long to wait before the next try, and after which event to go on. `None`: there is nothing to go on from, or
    /// it was tried often enough.
    pub(crate) fn next(&mut self) -> Option<(Duration, HeaderValue)> {
        let id = self.last_id.clone()?;
        if self.in_vain >= defaults::RESUMPTIONS_IN_VAIN || self.tries >= defaults::RESUMPTIONS_MAX {
            return None;
        }
        self.in_vain += 1;
        self.tries += 1;
        Some((self.pause.unwrap_or(defaults::RETRY_MIN), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, retry: Option<u64>) -> Event {
        Event {
            id: id.map(str::to_owned),
            retry,
            ..Event::default()
        }
    }

    #[test]
    fn a_stream_without_ids_is_not_asked_for_again() {
        let mut resumption = Resumption::default();
        resumption.saw(&event(None, Some(5)));
        assert_eq!(resumption.next(), None);
        resumption.saw(&event(Some("7"), None));
        resumption.saw(&event(Some(""), None));
        assert_eq!(resumption.next(), None);
    }

    #[test]
    fn pauses_are_what_the_server_asks_for_within_reason() {
        let mut resumption = Resumption::default();
        resumption.saw(&event(Some("7"), None));
        let id = HeaderValue::from_static("7");
        assert_eq!(resumption.next(), Some((Duration::from_secs(1), id.clone())));
        resumption.saw(&event(None, Some(5)));
        assert_eq!(resumption.next(), Some((Duration::from_millis(100), id.clone())));
        resumption.saw(&event(None, Some(2500)));
        assert_eq!(resumption.next(), Some((Duration::from_millis(2500), id)));
    }

    #[test]
    fn tries_without_an_event_are_few_and_all_of_them_bounded() {
        let mut resumption = Resumption::default();
        resumption.saw(&event(Some("7"), None));
        let tries = std::iter::from_fn(|| resumption.next()).count();
        assert_eq!(tries, defaults::RESUMPTIONS_IN_VAIN);
        let mut tries = 0;
        resumption = Resumption::default();
        resumption.saw(&event(Some("7"), None));
        while resumption.next().is_some() {
            tries += 1;
            resumption.saw(&event(None, None));
        }
        assert_eq!(tries, defaults::RESUMPTIONS_MAX);
    }
}
