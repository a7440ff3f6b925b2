//! Any bytes as an event stream: wherever they are cut, the same events come of them, and none larger than allowed.
//!
//! The first byte says where the rest is cut.

use mcpfleet::mcp::sse::{Decoder, Event, encode};

const LIMIT: usize = 256;

pub fn check(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let (events, ended) = decode([stream]);
    for size in [1, 2, usize::from(cut) + 1] {
        assert_eq!(
            decode(stream.chunks(size)),
            (events.clone(), ended),
            "in chunks of {size}"
        );
    }
    for event in &events {
        assert!(event.data.len() <= LIMIT);
        let Some(message) = event.message() else {
            continue;
        };
        let (again, ended) = decode([encode(message, None).as_slice()]);
        // The encoding of a message that just fits need not fit.
        if ended {
            assert_eq!(again.iter().map(Event::message).collect::<Vec<_>>(), [Some(message)]);
        }
    }
}

/// The events, and whether all of the stream was taken.
fn decode<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> (Vec<Event>, bool) {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    let ended = chunks
        .into_iter()
        .try_for_each(|chunk| decoder.push(chunk, &mut events))
        .and_then(|()| decoder.finish(&mut events))
        .is_ok();
    (events, ended)
}
