//! The admin listener: metrics and health, apart from clients.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// An admin listener that is bound and not yet served.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    address: SocketAddr,
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
        Ok(Self { listener, address })
    }

    /// The address that is listened on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`. `ready` tells whether clients should be sent here.
    pub(crate) async fn serve(self, metrics: Arc<Metrics>, ready: watch::Receiver<bool>, stop: CancellationToken) {
        let router = Router::new()
            .route("/metrics", get(page))
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .with_state(Shared { metrics, ready });
        let served = axum::serve(self.listener, router).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::error!(%error, "the admin listener ended badly");
        }
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
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}
