//! What a server says before its answer, on its way to the client that waits for it.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::line::Line;
use crate::defaults;
use crate::mcp::LogLevel;
use crate::mcp::{Envelope, Members, meta, notice};
use crate::upstream::{Asked, Ear};

/// Takes the notifications of one request to its client's stream.
#[derive(Debug)]
pub(super) struct Relay {
    out: Line,
    progress_token: Option<String>,
    logs: Logs,
    progress: Mutex<Progress>,
    /// Whether several servers tell of their progress at a time.
    is_of_several: bool,
}

/// Which log messages a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logs {
    /// None.
    Silent,
    /// Those of this level and above, and those whose level nobody knows.
    From(LogLevel),
}

/// How far a request has come, over all rounds of a server.
#[derive(Debug, Default)]
struct Progress {
    told: f64,
    before_this_round: Option<f64>,
}

impl Logs {
    /// Those that a Modern request with this `_meta` wants: none, unless it names a level.
    pub(super) fn of_request(meta: Option<&Members<'_>>) -> Self {
        match meta.and_then(|own| own.string(meta::LOG_LEVEL)) {
            None => Self::Silent,
            Some(level) => LogLevel::parse(&level).map_or(Self::Silent, Self::From),
        }
    }

    /// The level, if any are wanted.
    pub(super) const fn level(self) -> Option<LogLevel> {
        match self {
            Self::Silent => None,
            Self::From(level) => Some(level),
        }
    }

    fn want(self, params: Option<&Members<'_>>) -> bool {
        match self {
            Self::Silent => false,
            Self::From(least) => {
                let level = params.and_then(|params| params.string("level"));
                level
                    .and_then(|level| LogLevel::parse(&level))
                    .is_none_or(|level| level >= least)
            }
        }
    }
}

impl Relay {
    /// The relay to `out` for a request with this `_meta`.
    pub(super) fn new(meta: Option<&Members<'_>>, logs: Logs, out: Line) -> Self {
        Self {
            out,
            progress_token: meta.and_then(meta::progress_token).map(str::to_owned),
            logs,
            progress: Mutex::default(),
            is_of_several: false,
        }
    }

    /// The same for a request that several servers carry out at a time: of their progress that is told which goes beyond
    /// what was told before.
    pub(super) fn of_several(meta: Option<&Members<'_>>, logs: Logs, out: Line) -> Self {
        Self {
            is_of_several: true,
            ..Self::new(meta, logs, out)
        }
    }

    /// Whether its client wants to hear anything before the answer.
    pub(super) fn wants_any(&self) -> bool {
        self.progress_token.is_some() || self.logs != Logs::Silent
    }

    /// Passes a notification on, if the client wants it.
    pub(super) fn pass(&self, notification: &[u8]) {
        let Ok(envelope) = Envelope::parse(notification, defaults::JSON_DEPTH_MAX) else {
            return;
        };
        let params = || envelope.params.and_then(|raw| Members::parse(raw.get()));
        let message = match (envelope.method.as_ref().map(|m| m.as_str()), &self.progress_token) {
            (Some(notice::PROGRESS), Some(token)) => params()
                .filter(|params| self.advances(params))
                .map(|params| Bytes::from(notice::with_progress_token(&params, token))),
            (Some(notice::MESSAGE), _) if self.logs.want(params().as_ref()) => {
                Some(Bytes::copy_from_slice(notification))
            }
            _ => None,
        };
        if let Some(message) = message {
            // A client that reads too slowly misses hints, and holds up nobody.
            self.out.send(message);
        }
    }

    /// The server begins again, and with it its progress, which for the client only grows.
    pub(super) fn next_round(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.before_this_round = Some(progress.told);
    }

    /// Whether a notification with these params tells the client of progress.
    fn advances(&self, params: &Members<'_>) -> bool {
        let Some(now) = params.get("progress").and_then(|raw| raw.get().parse::<f64>().ok()) else {
            return true;
        };
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if self.is_of_several {
            Some(progress.told)
        } else {
            progress.before_this_round
        };
        if before.is_some_and(|before| now <= before) {
            return false;
        }
        progress.told = progress.told.max(now);
        true
    }
}

impl Ear for Relay {
    fn heard(&self, notification: &[u8]) {
        self.pass(notification);
    }

    fn begins_again(&self) {
        self.next_round();
    }

    fn asked(&self, asked: Asked) {
        // A client that only listens cannot be asked.
        drop(asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(meta: &str) -> (Relay, Line) {
        let line = Line::new();
        let meta = Members::parse(meta);
        let relay = Relay::new(meta.as_ref(), Logs::of_request(meta.as_ref()), line.clone());
        (relay, line)
    }

    fn heard(meta: &str, notification: &str) -> Option<String> {
        let (relay, line) = relay(meta);
        relay.pass(notification.as_bytes());
        let message = line.unread().into_iter().next();
        message.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
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
    fn what_is_no_token_is_not_echoed() {
        for token in ["7", "-7", "\"\"", "123456789012345678901234567890", "1.0", "1e3"] {
            let expected = PROGRESS.replace(":3,", &format!(":{token},"));
            assert_eq!(
                heard(&format!(r#"{{"progressToken":{token}}}"#), PROGRESS),
                Some(expected)
            );
        }
        for token in ["1.5", "null", "true", "{}", "[1]", "1e400", "1e-3"] {
            assert_eq!(
                heard(&format!(r#"{{"progressToken":{token}}}"#), PROGRESS),
                None,
                "{token}"
            );
        }
    }

    #[test]
    fn log_messages_come_only_to_a_request_that_names_their_level_or_a_lower_one() {
        let level = |level: &str| format!(r#"{{"io.modelcontextprotocol/logLevel":"{level}"}}"#);
        for wanted in ["debug", "info"] {
            assert_eq!(heard(&level(wanted), LOG).as_deref(), Some(LOG), "{wanted}");
        }
        assert_eq!(heard(&level("warning"), LOG), None);
        assert_eq!(heard(r#"{"progressToken":1}"#, LOG), None);
        let foreign = r#"{"jsonrpc":"2.0","method":"notifications/other","params":{}}"#;
        assert_eq!(heard(&level("debug"), foreign), None);
        let unknown = LOG.replace("\"info\"", "\"chatty\"");
        assert_eq!(heard(&level("emergency"), &unknown), Some(unknown));
    }

    #[test]
    fn progress_only_grows_over_the_rounds_of_a_server() {
        let (relay, line) = relay(r#"{"progressToken":"t"}"#);
        let told = |value: &str| relay.pass(PROGRESS.replace(":1}", &format!(":{value}}}")).as_bytes());
        for value in ["1", "2.5"] {
            told(value);
        }
        relay.next_round();
        for value in ["1", "2.5", "2.6"] {
            told(value);
        }
        let values: Vec<f64> = line
            .unread()
            .iter()
            .map(|message| serde_json::from_slice::<serde_json::Value>(message).unwrap())
            .map(|message| message["params"]["progress"].as_f64().unwrap())
            .collect();
        assert_eq!(values, [1.0, 2.5, 2.6]);
    }
}
