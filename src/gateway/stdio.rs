//! A federation over the pipes of this process, for hosts that start their servers (2025-11-25, transports; 2026-07-28,
//! transports): one message a line in, one message a line out, and nothing else.

use std::future::pending;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::access::Principal;
use super::channel::{Channel, Incoming};
use super::conversations::Conversations;
use super::hub::SessionHub;
use super::old_streams::OldStreams;
use super::outgoing::Outgoing;
use super::reach::Reach;
use super::session::Sessions;
use super::talk::Talk;
use super::visit::Shared;
use super::wishes::Wishes;
use crate::defaults;
use crate::fleet::Fleet;
use crate::upstream::cut::Cut;
use crate::upstream::lines::{Line, Lines, one_line};

/// What is served to the client at the other end of the pipes.
#[derive(Debug)]
pub struct Pipes {
    /// What is served now.
    pub fleet: Arc<ArcSwap<Fleet>>,
    /// Gives the keys that states are sealed with.
    pub sessions: Arc<Sessions>,
    /// The one federation of the fleet that is served, as `namespace/name`.
    pub federation: String,
    /// Whether the client is listed everything, past what is only found by search.
    pub shows_all: bool,
    /// Where the federation is a member alone, without whose server there is nothing to serve: what to do where that
    /// wants credentials.
    pub on_refusal: Option<&'static str>,
    /// Cancelled when the process is asked to stop.
    pub stop: CancellationToken,
}

impl Pipes {
    /// Serves the client that writes `input` and reads `output`, from when `served` is there, until `input` ends, `output`
    /// is closed, or the process is asked to stop. Requests that are at work then get a short time to finish; what came
    /// before the end of `input` is answered, however early that was.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub async fn serve(
        self,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
        served: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (taken, mut incoming) = mpsc::channel(1);
        let mut reading = AbortOnDropHandle::new(tokio::spawn(read(input, taken)));
        let left_silently = async {
            drop((&mut reading).await);
            if !incoming.is_empty() {
                pending().await
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(()),
            () = served => {}
            () = left_silently => return Ok(()),
        }
        let (out, outgoing) = mpsc::channel(defaults::CHANNEL_QUEUE);
        let passing = self.on_refusal.map(|on_refusal| {
            let reach = Reach {
                fleet: Arc::clone(&self.fleet),
                federation: self.federation.clone(),
                on_refusal,
            };
            let (passed, rest) = mpsc::channel(1);
            let all = std::mem::replace(&mut incoming, rest);
            AbortOnDropHandle::new(tokio::spawn(reach.pass(all, passed, out.clone())))
        });
        let hub = Arc::new(SessionHub::new());
        let shared = Shared {
            fleet: self.fleet,
            conversations: Arc::new(Conversations::new(
                Arc::clone(&self.sessions),
                Wishes::start(Arc::clone(&hub)),
            )),
            sessions: self.sessions,
            hub,
            old_streams: OldStreams::default(),
            stop: self.stop.clone(),
            on_refusal: self.on_refusal,
        };
        let channel = Channel::new(out, true, self.shows_all, self.stop.child_token());
        let channel = channel.ok_or_else(|| io::Error::other("the system gives no random bytes"))?;
        let talk = Talk::new(
            Arc::new(shared),
            self.federation,
            Principal::Anonymous,
            HeaderMap::new(),
            Arc::new(channel),
        );
        let writing = AbortOnDropHandle::new(tokio::spawn(write(outgoing, output)));
        talk.go_on(incoming, defaults::CHANNEL_GRACE).await;
        drop((reading, passing));
        // A client that does not read holds up nothing.
        if timeout(defaults::CHANNEL_GRACE, writing).await.is_err() {
            tracing::debug!("the client does not read; what was left to say is lost");
        }
        Ok(())
    }
}

async fn read(input: impl AsyncRead + Unpin, taken: mpsc::Sender<Incoming>) {
    let mut lines = Lines::new(BufReader::new(input), defaults::REQUEST_BODY_MAX);
    let mut is_first = true;
    loop {
        let incoming = match lines.next().await {
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
            Ok(Some(Line::Whole(mut line))) => {
                // Some shells begin what they write with a byte order mark.
                if std::mem::take(&mut is_first) && line.starts_with(BYTE_ORDER_MARK) {
                    line.drain(..BYTE_ORDER_MARK.len());
                }
                Incoming::Message(Bytes::from(line), None)
            }
            Ok(Some(Line::Cut(line))) => {
                let mut cut = Cut::new(&line);
                drop(line);
                match lines.pass_rest(|part| cut.push(part)).await {
                    Ok(()) => Incoming::TooLarge(cut.asks()),
                    Err(error) => return tracing::debug!(%error, "the client's messages cannot be read any more"),
                }
            }
            Ok(None) => return,
            Err(error) => return tracing::debug!(%error, "the client's messages cannot be read any more"),
        };
        if taken.send(incoming).await.is_err() {
            return;
        }
    }
}

/// In UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes each message as a line. When that fails, nobody can be told anything any more, and the talk ends.
async fn write(mut outgoing: mpsc::Receiver<Outgoing>, output: impl AsyncWrite + Unpin) {
    let mut output = BufWriter::new(output);
    while let Some(message) = outgoing.recv().await {
        let written = async || {
            for part in message.into_parts() {
                output.write_all(&one_line(part)).await?;
            }
            output.write_all(b"\n").await?;
            if outgoing.is_empty() {
                output.flush().await?;
            }
            io::Result::Ok(())
        };
        if let Err(error) = written().await {
            return tracing::debug!(%error, "the client does not read any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_message_is_one_line_however_it_is_cut() {
        let (out, outgoing) = mpsc::channel(3);
        let page = Bytes::from(vec![b'\n'; 2 * defaults::SHARED_MIN]);
        for message in [
            Outgoing::from(b"{\r\n}".to_vec()),
            Outgoing::around(b"[]\n".to_vec(), 1, page),
            Outgoing::from(b"{}".to_vec()),
        ] {
            out.send(message).await.unwrap();
        }
        drop(out);
        let mut written = Vec::new();
        write(outgoing, &mut written).await;
        let spaces = " ".repeat(2 * defaults::SHARED_MIN);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            format!("{{  }}\n[{spaces}] \n{{}}\n")
        );
    }
}
