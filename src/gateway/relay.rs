//! What a server says before its answer, on its way to the client that waits for it.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::defaults;
use crate::mcp::{Envelope, Members, meta, notice};
use crate::upstream::{Asked, Ear};

/// Takes the notifications of one request to its client's stream.
#[derive(Debug)]
pub(super) struct Relay {
    out: mpsc::Sender<Bytes>,
    progress_token: Option<String>,
    wants_log: bool,
}

impl Relay {
    /// The relay for a request with this `_meta`, if its client wants to hear anything before the answer.
    ///
    /// A Modern request names its log level itself; of Legacy clients none is known, and logs are not relayed.
    pub(super) fn wanted(meta: Option<&Members<'_>>, out: mpsc::Sender<Bytes>) -> Option<Self> {
        let progress_token = meta?.get(meta::PROGRESS_TOKEN).map(|raw| raw.get().to_owned());
        let wants_log = meta?.get(meta::LOG_LEVEL).is_some();
        (progress_token.is_some() || wants_log).then_some(Self {
            out,
            progress_token,
            wants_log,
        })
    }
}

impl Ear for Relay {
    fn heard(&self, notification: &[u8]) {
        let Ok(envelope) = Envelope::parse(notification, defaults::JSON_DEPTH_MAX) else {
            return;
        };
        let message = match (envelope.method.as_ref().map(|m| m.as_str()), &self.progress_token) {
            (Some(notice::PROGRESS), Some(token)) => {
                let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
                params.map(|params| Bytes::from(notice::with_progress_token(&params, token)))
            }
            (Some(notice::MESSAGE), _) if self.wants_log => Some(Bytes::copy_from_slice(notification)),
            _ => None,
        };
        if let Some(message) = message {
            // A client that reads too slowly misses hints, and holds up nobody.
            drop(self.out.try_send(message));
        }
    }

    fn asked(&self, asked: Asked) {
        drop(asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(meta: &str, notification: &str) -> Option<String> {
        let (out, mut heard) = mpsc::channel(4);
        Relay::wanted(Members::parse(meta).as_ref(), out)?.heard(notification.as_bytes());
        heard
            .try_recv()
            .ok()
            .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    const LOG: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    const PROGRESS: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}"#;

    #[test]
    fn progress_comes_under_the_clients_token_and_only_if_it_gave_one() {
        let expected = PROGRESS.replace(":3,", ":\"t\",");
        assert_eq!(heard(r#"{"progressToken":"t"}"#, PROGRESS), Some(expected));
        assert_eq!(heard("{}", PROGRESS), None);
    }

    #[test]
    fn log_messages_come_only_to_a_request_that_names_a_level() {
        let level = r#"{"io.modelcontextprotocol/logLevel":"info"}"#;
        assert_eq!(heard(level, LOG).as_deref(), Some(LOG));
        assert_eq!(heard(r#"{"progressToken":1}"#, LOG), None);
        let foreign = r#"{"jsonrpc":"2.0","method":"notifications/other","params":{}}"#;
        assert_eq!(heard(level, foreign), None);
    }
}
