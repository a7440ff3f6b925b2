//! The listener: connections in, with limits and time-outs, and a shutdown that lets running requests finish.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::conversations::Conversations;
use super::endpoint::Endpoint;
use super::hub::SessionHub;
use super::old_streams::OldStreams;
use super::session::Sessions;
use super::visit::Shared;
use super::wishes::Wishes;
use crate::cores::Cores;
use crate::defaults;
use crate::fleet::Fleet;

/// A listener that is bound and not yet served.
#[derive(Debug)]
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
    hub: Arc<SessionHub>,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another address with --listen")]
pub struct ServeError {
    address: SocketAddr,
    source: io::Error,
}

impl Gateway {
    /// Binds `address`; port 0 picks a free one.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            let hub = Arc::new(SessionHub::new());
            Ok(Self { listener, address, hub })
        };
        bound.await.map_err(|source| ServeError { address, source })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is going on of Legacy sessions here.
    pub fn hub(&self) -> Arc<SessionHub> {
        Arc::clone(&self.hub)
    }

    /// Serves `fleet` on `cores` to clients with `sessions` until `stop`; then no connection is taken any more, and
    /// requests in flight get `drain` to finish; streams that would go on for ever end at once.
    pub async fn serve(
        self,
        cores: Arc<Cores>,
        fleet: Arc<ArcSwap<Fleet>>,
        sessions: Arc<Sessions>,
        stop: CancellationToken,
        drain: Duration,
    ) {
        let shared = Shared {
            fleet,
            conversations: Arc::new(Conversations::new(
                Arc::clone(&sessions),
                Wishes::start(Arc::clone(&self.hub)),
            )),
            sessions,
            hub: self.hub,
            old_streams: OldStreams::default(),
            stop: stop.clone(),
            on_refusal: None,
        };
        let endpoint = Endpoint::new(shared, self.address.ip().is_loopback());
        let server = server();
        let room = Arc::new(Semaphore::new(defaults::CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        loop {
            let (stream, place) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.listener, &room) => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of descriptors, most often: others must finish first.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let stream = match stream.set_nodelay(true).and_then(|()| stream.into_std()) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%error, "the connection ended at once");
                    continue;
                }
            };
            let (endpoint, server, watcher) = (endpoint.clone(), server.clone(), graceful.watcher());
            cores.spawn(async move {
                if let Err(error) = connection(stream, endpoint, &server, watcher).await {
                    tracing::debug!(%error, "a connection ended badly");
                }
                drop(place);
            });
        }
        drop(self.listener);
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still running after {drain:?} and are cut off");
        }
    }
}

/// The next connection, once there is room for it.
pub(crate) async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Answers what comes on `stream` until its client leaves or `watcher` says that it is enough.
async fn connection(
    stream: std::net::TcpStream,
    endpoint: Endpoint,
    server: &http1::Builder,
    watcher: Watcher,
) -> io::Result<()> {
    let stream = TokioIo::new(TcpStream::from_std(stream)?);
    let service = service_fn(move |request| {
        let endpoint = endpoint.clone();
        async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
    });
    let served = watcher.watch(server.serve_connection(stream, service));
    served.await.map_err(io::Error::other)
}

/// How long to wait when a connection could not be accepted.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// HTTP/1.1 only: what a connection may take before its first request is bounded there.
pub(crate) fn server() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(defaults::HEADER_TIMEOUT)
        .max_headers(defaults::HEADER_COUNT_MAX)
        .max_buf_size(defaults::HEADER_BYTES_MAX);
    builder
}
