//! The events of an HTTP response, one after the other.

use std::collections::VecDeque;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::error::{Error, cause};
use crate::defaults;
use crate::mcp::sse::{Decoder, Event};

/// Events of at most [`defaults::EVENT_MAX`] bytes each.
#[derive(Debug)]
pub(crate) struct EventStream {
    body: Incoming,
    decoder: Decoder,
    read: VecDeque<Event>,
    has_ended: bool,
}

impl EventStream {
    /// The events in `body`.
    pub(crate) fn new(body: Incoming) -> Self {
        Self {
            body,
            decoder: Decoder::new(defaults::EVENT_MAX),
            read: VecDeque::new(),
            has_ended: false,
        }
    }

    /// From now on an event that is too large is passed over, and only its beginning and its end are given.
    pub(crate) fn skip_too_large(&mut self) {
        self.decoder.skip_too_large();
    }

    /// The next event, or `None` at the end. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// [`Error::Connect`] where the stream broke, [`Error::TooLarge`] where an event is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(Some(event));
            }
            if self.has_ended {
                return Ok(None);
            }
            let mut events = Vec::new();
            let decoded = match self.body.frame().await {
                Some(Ok(frame)) => match frame.data_ref() {
                    Some(data) => self.decoder.push(data, &mut events),
                    None => Ok(()),
                },
                Some(Err(e)) => return Err(Error::Connect(cause(&e))),
                None => {
                    self.has_ended = true;
                    self.decoder.finish(&mut events)
                }
            };
            decoded.map_err(|_| Error::TooLarge(defaults::EVENT_MAX))?;
            self.read.extend(events);
        }
    }
}
