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
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fleet::OriginPlan;
use crate::gateway::origin;
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
            .fallback(async || (StatusCode::NOT_FOUND, "served here: /metrics, /livez and /readyz\n"))
            .with_state(Shared { metrics, ready });
        let loopback = self.address.ip().is_loopback();
        let guarded = router.layer(middleware::from_fn(move |request: Request, next: Next| {
            guard(loopback, request, next)
        }));
        let served = axum::serve(self.listener, guarded).with_graceful_shutdown(stop.clone().cancelled_owned());
        // A connection that never ends its request must not hold up the end of the process.
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_PATIENCE).await;
        };
        tokio::select! {
            ended = served.into_future() => if let Err(error) = ended {
                tracing::error!(%error, "the admin listener ended badly");
            },
            () = patience => {}
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
