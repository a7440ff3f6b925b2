//! HTTP/1.1 connections to one server. Each is driven by the request that uses it, so that an answer wakes one task, and
//! none is spawned for a call.

mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use self::wire::{Sent, Wire};

pub(super) use self::wire::AnswerBody;

/// The connections to one origin, those that nobody uses among them.
#[derive(Clone, Debug)]
pub(super) struct Wires(Arc<Shared>);

/// Why a request could not be sent, or its answer not be read. Its innermost cause says most.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// There is no connection.
    #[error("no connection")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It broke.
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
}

#[derive(Debug)]
struct Shared {
    connector: HttpsConnector<HttpConnector>,
    /// Where to connect to.
    origin: Uri,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The one that was used last is at the end, and is used next.
    wires: Vec<(Box<Wire>, Instant)>,
    /// Whether a task closes those that were idle for long.
    is_swept: bool,
}

impl Wires {
    /// No connection yet to the server at `origin`, whose path does not matter.
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, origin: Uri) -> Self {
        Self(Arc::new(Shared {
            connector,
            origin,
            idle: Mutex::default(),
        }))
    }

    /// Sends `request`, whose URI is the path alone, over an idle connection or a new one. It is sent again only if
    /// nothing of it was written. Dropping the future, or the unread answer, closes the connection.
    pub(super) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<AnswerBody>, WireError> {
        while let Some(wire) = self.0.take() {
            match wire.exchange(request).await {
                Sent::Answered(response, wire) => return Ok(self.answered(response, wire)),
                Sent::Unsent(again, _) => request = again,
                Sent::Broken(error) => return Err(error.into()),
            }
        }
        // Its future is large, and seldom needed.
        let wire = Box::pin(self.0.connect()).await?;
        match wire.exchange(request).await {
            Sent::Answered(response, wire) => Ok(self.answered(response, wire)),
            Sent::Unsent(_, error) | Sent::Broken(error) => Err(error.into()),
        }
    }

    fn answered(&self, response: Response<hyper::body::Incoming>, wire: Box<Wire>) -> Response<AnswerBody> {
        response.map(|body| AnswerBody::new(body, wire, self.clone()))
    }

    /// Takes back a connection whose answer was read.
    fn put_back(&self, wire: Box<Wire>) {
        let mut idle = self.0.idle();
        if idle.wires.len() >= IDLE_MAX {
            return;
        }
        idle.wires.push((wire, Instant::now()));
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl Shared {
    async fn connect(&self) -> Result<Box<Wire>, WireError> {
        let mut connector = self.connector.clone();
        let stream = connector.call(self.origin.clone()).await.map_err(WireError::Connect)?;
        Ok(Wire::over(stream).await?)
    }

    fn take(&self) -> Option<Box<Wire>> {
        loop {
            let (mut wire, _) = self.idle().wires.pop()?;
            if wire.is_usable() {
                return Some(wire);
            }
        }
    }

    /// Closes what was idle for long, and what the server closed. False once there is nothing more to look after.
    fn sweep(&self) -> bool {
        let mut idle = self.idle();
        idle.wires
            .retain_mut(|(wire, since)| since.elapsed() < IDLE_TIMEOUT && wire.is_usable());
        idle.is_swept = !idle.wires.is_empty();
        idle.is_swept
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after idle connections for as long as there are any.
async fn sweep(shared: Weak<Shared>) {
    loop {
        sleep(SWEEP).await;
        match shared.upgrade() {
            Some(shared) if shared.sweep() => {}
            _ => return,
        }
    }
}

/// What a request to `url` names as its host (RFC 9112, section 3.2): the port only where it is not the scheme's own.
pub(super) fn host_of(url: &Uri) -> Option<HeaderValue> {
    let host = url.host()?;
    let is_default = matches!(
        (url.scheme_str(), url.port_u16()),
        (_, None) | (Some("http"), Some(80)) | (Some("https"), Some(443))
    );
    let text = match url.port_u16().filter(|_| !is_default) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::from_str(&text).ok()
}

/// Most connections that are kept while nobody uses them.
const IDLE_MAX: usize = 256;
/// How long they are kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often is looked for those that are not worth keeping.
const SWEEP: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
