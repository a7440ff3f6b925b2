//! The admin listener: metrics and health, apart from clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::defaults;
use crate::fleet::OriginPlan;
use crate::gateway::{origin, serve};
use crate::metrics::Metrics;

/// An admin listener that is bound and not yet served.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    address: SocketAddr,
    /// How long a connection lasts at most.
    patience: Duration,
}

#[derive(Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    ready: watch::Receiver<bool>,
}

impl Admin {
    /// Binds `address`; port 0 picks a free one.
    pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let hint = || format!("cannot listen on {address}; choose another address with --admin-listen");
        let listener = TcpListener::bind(address).await.with_context(hint)?;
        let address = listener.local_addr().with_context(hint)?;
        Ok(Self {
            listener,
            address,
            patience: defaults::HEADER_TIMEOUT,
        })
    }

    /// The address that is listened on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, one request a connection. `ready` tells whether clients should be sent here.
    pub(crate) async fn serve(self, metrics: Arc<Metrics>, ready: watch::Receiver<bool>, stop: CancellationToken) {
        let router = Router::new()
            .route("/metrics", get(page))
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .fallback(async || (StatusCode::NOT_FOUND, "served here: /metrics, /livez and /readyz\n"))
            .with_state(Shared { metrics, ready });
        let loopback = self.address.ip().is_loopback();
        let guarded = router.layer(middleware::from_fn(move |request: Request, next: Next| {
            guard(loopback, request, next)
        }));
        let mut server = serve::server();
        server.keep_alive(false);
        let room = Arc::new(Semaphore::new(defaults::ADMIN_CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        loop {
            let (stream, place) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = serve::accept(&self.listener, &room) => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "a connection to the admin listener could not be accepted");
                        tokio::time::sleep(serve::ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let service = TowerToHyperService::new(guarded.clone());
            let served = graceful.watch(server.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                // The whole of it: a client that does not read its answer must not stay either.
                if let Ok(Err(error)) = tokio::time::timeout(self.patience, served).await {
                    tracing::debug!(%error, "a connection to the admin listener ended badly");
                }
                drop(place);
            });
        }
        drop(self.listener);
        // A connection that never ends its request must not hold up the end of the process.
        if tokio::time::timeout(STOP_PATIENCE, graceful.shutdown()).await.is_err() {
            tracing::debug!("connections to the admin listener are cut off");
        }
    }
}

const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// The same guard against pages and foreign names that the gateway has.
async fn guard(loopback: bool, request: Request, next: Next) -> Response {
    match origin::check(request.uri(), request.headers(), loopback, &OriginPlan::default()) {
        Ok(()) => next.run(request).await,
        Err(_) => (
            StatusCode::FORBIDDEN,
            "this listener answers to loopback names only, and not to web pages\n",
        )
            .into_response(),
    }
}

async fn page(State(shared): State<Shared>) -> Response {
    match shared.metrics.page() {
        Ok((page, content_type)) => ([(header::CONTENT_TYPE, content_type)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if *shared.ready.borrow() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: servers are still being connected\n",
        )
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn clients_that_send_nothing_do_not_keep_others_out_for_long() {
        let mut admin = Admin::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        admin.patience = Duration::from_secs(1);
        let address = admin.address();
        let (_ready, readiness) = watch::channel(true);
        let stop = CancellationToken::new();
        let served = tokio::spawn(admin.serve(Arc::new(Metrics::new().unwrap()), readiness, stop.clone()));
        let mut silent = Vec::new();
        for _ in 0..defaults::ADMIN_CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe
            .write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        let early = tokio::time::timeout(Duration::from_millis(200), probe.read_to_string(&mut answer)).await;
        assert!(early.is_err(), "there is no room: {answer}");
        probe.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        stop.cancel();
        served.await.unwrap();
    }
}
