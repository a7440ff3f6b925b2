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
    /// The last bytes of an event that was larger than allowed; of its data only the first ones are there then.
    pub tail: Option<Vec<u8>>,
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
    skips: bool,
    skipped: Option<Skipped>,
}

/// An event that is passed over.
#[derive(Debug, Default)]
struct Skipped {
    tail: Vec<u8>,
    /// Whether anything stands in its line so far.
    has_line: bool,
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
            skips: false,
            skipped: None,
        }
    }

    /// From now on an event that is too large is no error: only its beginning and its end are kept.
    pub fn skip_too_large(&mut self) {
        self.skips = true;
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
            self.end_line(events)?;
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
        self.end_line(events)?;
        self.end_line(events)
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        let Some(skipped) = &mut self.skipped else {
            let line = std::mem::take(&mut self.line);
            return self.take_line(&line, events);
        };
        if !std::mem::take(&mut skipped.has_line) {
            let mut event = std::mem::take(&mut self.event);
            event.tail = self.skipped.take().map(|skipped| skipped.tail);
            self.has_data = false;
            events.push(event);
        }
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if let Some(skipped) = &mut self.skipped {
            skipped.push(bytes);
            return Ok(());
        }
        if self.line.len() + self.event.data.len() + bytes.len() > self.limit {
            return self.overflow(bytes);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The event is too large by these bytes of its line.
    fn overflow(&mut self, more: &[u8]) -> Result<(), EventTooLarge> {
        if !self.skips {
            return Err(EventTooLarge(self.limit));
        }
        let line = std::mem::take(&mut self.line);
        let mut skipped = Skipped::default();
        skipped.push(&line);
        skipped.push(more);
        self.skipped = Some(skipped);
        let data = &mut self.event.data;
        if data.is_empty() {
            let start: Vec<u8> = line.iter().chain(more).take(KEPT + b"data: ".len()).copied().collect();
            let value = start.strip_prefix(b"data:").unwrap_or_default();
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        }
        data.truncate(KEPT);
        data.shrink_to_fit();
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
                    self.overflow(value)?;
                    // Its line is over.
                    self.skipped.iter_mut().for_each(|skipped| skipped.has_line = false);
                    return Ok(());
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

impl Skipped {
    fn push(&mut self, bytes: &[u8]) {
        self.has_line |= !bytes.is_empty();
        let last = bytes.get(bytes.len().saturating_sub(KEPT)..).unwrap_or_default();
        let surplus = (self.tail.len() + last.len()).saturating_sub(KEPT);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }
}

/// As many bytes of the beginning, and of the end, of an event that is too large are kept.
const KEPT: usize = 512;

/// One event that carries `message`; line ends in it become lines of data. `id` is what to resume from.
pub fn encode(message: &[u8], id: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    open(&mut out, id);
    write_data(&mut out, message);
    close(&mut out);
    out
}

/// Opens an event that carries a message, of which parts follow. `id` is what to resume from.
pub fn open(out: &mut Vec<u8>, id: Option<&str>) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: message\ndata: ");
}

/// Writes a part of the message in an open event; line ends in it become lines of data. One that has none may be sent as
/// it is.
pub fn write_data(out: &mut Vec<u8>, part: &[u8]) {
    let mut lines = part.split(is_line_end);
    out.extend_from_slice(lines.next().unwrap_or_default());
    for line in lines {
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(line);
    }
}

/// Closes an event.
pub fn close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}

/// Whether a line of an event ends with this byte.
pub fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
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

    #[test]
    fn an_event_that_is_too_large_is_passed_over_and_the_next_one_comes() {
        let long = "x".repeat(5_000);
        let stream = format!(
            "data: a\n\nevent: message\nid: 7\ndata: {{\"id\":1,\"r\":\"{long}\"}}\n\ndata: first\ndata: {long}\n\ndata: b\n\n"
        );
        for size in [1, 7, 300, 20_000] {
            let mut decoder = Decoder::new(1_000);
            decoder.skip_too_large();
            let mut events = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                decoder.push(chunk, &mut events).unwrap();
            }
            let [a, large, lines, b] = &*events else {
                panic!("{} events", events.len())
            };
            assert_eq!((&*a.data, &*b.data), (&b"a"[..], &b"b"[..]));
            assert!(a.tail.is_none() && b.tail.is_none());
            assert!(large.data.starts_with(b"{\"id\":1,\"r\":\"x") && large.data.len() <= KEPT);
            assert!(large.tail.as_ref().unwrap().ends_with(b"x\"}"));
            assert_eq!((&*large.kind, large.id.as_deref()), ("message", Some("7")));
            assert!(lines.data.starts_with(b"first") && lines.tail.is_some());
        }
        let mut strict = Decoder::new(1_000);
        assert!(strict.push(stream.as_bytes(), &mut Vec::new()).is_err());
    }
}
