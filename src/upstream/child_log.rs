//! What a child process logs: told line by line at debug level, the last lines kept to explain its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, BufReader};
use tracing::debug;

use super::lines::{Line, Lines, printable};
use crate::defaults;

/// The log of one process.
#[derive(Debug)]
pub(crate) struct ChildLog {
    server: Arc<str>,
    last: Mutex<VecDeque<String>>,
}

impl ChildLog {
    /// An empty log of a process of `server`.
    pub(crate) fn new(server: Arc<str>) -> Self {
        Self {
            server,
            last: Mutex::default(),
        }
    }

    /// Logs the lines of `pipe` until its end. Long lines are cut.
    pub(crate) async fn follow(&self, pipe: impl AsyncRead + Unpin) {
        let mut lines = Lines::new(BufReader::new(pipe), defaults::CHILD_LOG_LINE_MAX);
        while let Ok(Some(line)) = lines.next().await {
            match line {
                Line::Whole(line) => self.add(&line),
                Line::Cut(line) => {
                    self.add(&line);
                    if lines.skip_rest().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn add(&self, line: &[u8]) {
        let line = printable(line);
        debug!(server = %self.server, "{line}");
        let mut last = self.lock();
        if last.len() == defaults::CHILD_LOG_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
