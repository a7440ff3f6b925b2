//! Event streams: an incremental reader with a size limit (WHATWG HTML, server-sent events).

/// One event. Priming events have empty data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type; empty means `message`.
    pub kind: String,
    /// Its data, lines joined by line feeds.
    pub data: Vec<u8>,
    /// The id to resume from, if the stream set one.
    pub id: Option<String>,
    /// The pause before reconnecting that the server asks for, in milliseconds.
    pub retry: Option<u64>,
}

/// Reads events from chunks cut anywhere.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_cr: bool,
    at_start: bool,
}

/// An event or a line was larger than allowed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {0} bytes")]
pub struct EventTooLarge(usize);

impl Decoder {
    /// A reader of events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_cr: false,
            at_start: true,
        }
    }

    /// Takes the next bytes of the stream and appends the events they complete to `events`.
    pub fn push(&mut self, mut chunk: &[u8], events: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        if self.after_cr {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (head, rest) = chunk.split_at(end);
            self.extend(head)?;
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, events)?;
            chunk = match rest {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.extend(chunk)
    }

    /// Ends the stream: an event that lacks its closing blank line is delivered all the same.
    pub fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, events)?;
        self.take_line(b"", events)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.event.data.len() + bytes.len() > self.limit {
            return Err(EventTooLarge(self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) || event.id.is_some() || event.retry.is_some() {
                events.push(event);
            }
            return Ok(());
        }
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                if self.event.data.len() + value.len() > self.limit {
                    return Err(EventTooLarge(self.limit));
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.event.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => self.event.retry = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()),
            _ => {}
        }
        Ok(())
    }
}

/// One event that carries `message`; line ends in it become lines of data. `id` is what to resume from.
pub fn encode(message: &[u8], id: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: message\n");
    for line in message.split(|b| matches!(b, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out
}

/// An event that carries nothing but an id to resume from (2025-11-25, transports).
pub fn priming(id: &str) -> Vec<u8> {
    format!("id: {id}\ndata:\n\n").into_bytes()
}

impl Event {
    /// The JSON-RPC message it carries, if it carries one.
    pub fn message(&self) -> Option<&[u8]> {
        let is_message = self.kind.is_empty() || self.kind == "message";
        (is_message && !self.data.is_empty()).then_some(self.data.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> Vec<Event> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, &mut events).unwrap();
        }
        decoder.finish(&mut events).unwrap();
        events
    }

    fn data(events: &[Event]) -> Vec<String> {
        events
            .iter()
            .filter_map(Event::message)
            .map(|d| String::from_utf8_lossy(d).into_owned())
            .collect()
    }

    #[test]
    fn comments_priming_and_foreign_events_carry_no_message() {
        let events = decode(&[b"\xef\xbb\xbf: hi\nid: a-0\ndata:\n\nevent: ping\ndata: x\n\ndata: {}\n\n"]);
        assert_eq!(data(&events), ["{}"]);
        assert_eq!(events.first().unwrap().id.as_deref(), Some("a-0"));
    }

    #[test]
    fn lines_of_data_are_joined_and_an_unfinished_event_counts() {
        assert_eq!(data(&decode(&[b"data: a\r\ndata:b\rdata\ndata:  c"])), ["a\nb\n\n c"]);
    }

    #[test]
    fn an_oversized_event_is_refused_whether_in_one_line_or_many() {
        for text in ["data: 0123456789".repeat(2), "data: 0123\n".repeat(5)] {
            let mut decoder = Decoder::new(16);
            assert_eq!(decoder.push(text.as_bytes(), &mut Vec::new()), Err(EventTooLarge(16)));
        }
    }

    proptest! {
        #[test]
        fn cuts_between_chunks_do_not_matter(
            text in "(data: [a-z]{0,4}|id: [0-9]|: c|event: message)?(\r\n|\r|\n){1,2}(data: [a-z]{0,9}(\r\n|\r|\n)){0,6}",
            cut in 0usize..80,
        ) {
            let bytes = text.as_bytes();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(decode(&[bytes]), decode(&[head, tail]));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&[bytes]), decode(&single));
        }
    }
}
