//! Open connections to one server over HTTP/1.1, of one core. hyper-util's client finds its way among many servers; where there
//! is one, a list will do, and a call costs less.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, interval};
use tower_service::Service;

use crate::defaults;

/// Connections to one server, of which as many are opened as requests are under way.
#[derive(Debug)]
pub(super) struct HttpPool {
    connector: HttpsConnector<HttpConnector>,
    idle: Arc<Mutex<Idle>>,
    patience: Duration,
}

/// Where the requests of a pool go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The whole address, by which is connected.
    url: Uri,
    /// What the request line says of it (RFC 9112 section 3.2.1).
    path: Uri,
    host: Option<HeaderValue>,
}

/// Whether a request may reach the server twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// It may not: what it asks for may then be done twice.
    Once,
    /// It may: it is sent on a new connection where one breaks that was used before (RFC 9110 section 9.2.2).
    Twice,
}

/// Why there is no answer; the innermost cause says most.
#[derive(Debug)]
pub(super) enum SendError {
    /// There is no connection: the server has seen nothing of the request.
    Unreached(Cause),
    /// The connection broke, and the server may have taken the request.
    Broken(Cause),
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

type Body = Full<Bytes>;

/// The connections on which nothing is under way, the one used last at the end.
#[derive(Debug, Default)]
struct Idle {
    connections: Vec<(SendRequest<Body>, Instant)>,
    is_swept: bool,
}

/// Opens connections with `tls` where an address asks for it, and gives up after `timeout`.
pub(super) fn connector(tls: rustls::ClientConfig, timeout: Duration) -> HttpsConnector<HttpConnector> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(timeout));
    connector.set_keepalive(Some(Duration::from_secs(30)));
    HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector)
}

impl HttpPool {
    /// Connections that `connector` opens, each kept as long as nothing was under way on it for `patience`.
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, patience: Duration) -> Self {
        Self {
            connector,
            idle: Arc::default(),
            patience,
        }
    }

    /// Sends `request` to `target`, and gives its answer once its head is here. A connection that the server closed before it
    /// took the request is given up for another.
    ///
    /// # Errors
    /// The server cannot be reached, or the connection breaks.
    pub(super) async fn send(
        &self,
        target: &Target,
        mut request: Request<Body>,
        sending: Sending,
    ) -> Result<Response<Incoming>, SendError> {
        *request.uri_mut() = target.path.clone();
        if let Some(host) = &target.host {
            request.headers_mut().entry(HOST).or_insert_with(|| host.clone());
        }
        let copy = (sending == Sending::Twice).then(|| request.clone());
        while let Some(mut connection) = self.take() {
            let mut error = match connection.try_send_request(request).await {
                Ok(response) => {
                    self.keep(connection);
                    return Ok(response);
                }
                Err(error) => error,
            };
            if let Some(unsent) = error.take_message() {
                request = unsent;
                continue;
            }
            // Whatever befell this one has befallen the others too.
            locked(&self.idle).connections.clear();
            let Some(copy) = copy else {
                return Err(SendError::Broken(error.into_error().into()));
            };
            request = copy;
            break;
        }
        let mut connection = self.open(&target.url).await.map_err(SendError::Unreached)?;
        let response = connection.send_request(request).await;
        let response = response.map_err(|error| SendError::Broken(error.into()))?;
        self.keep(connection);
        Ok(response)
    }

    /// The idle connection used last, which the server is least likely to have closed.
    fn take(&self) -> Option<SendRequest<Body>> {
        let mut idle = locked(&self.idle);
        while let Some((connection, since)) = idle.connections.pop() {
            if connection.is_ready() && since.elapsed() < self.patience {
                return Some(connection);
            }
        }
        None
    }

    async fn open(&self, url: &Uri) -> Result<SendRequest<Body>, Cause> {
        let stream = self.connector.clone().call(url.clone()).await?;
        let (connection, driver) = http1::handshake(stream).await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to a server ended badly");
            }
        });
        Ok(connection)
    }

    /// Keeps a connection for the next request, as soon as the answer of the last one was read.
    fn keep(&self, mut connection: SendRequest<Body>) {
        if connection.is_ready() {
            return put(&self.idle, connection, self.patience);
        }
        let (idle, patience) = (Arc::downgrade(&self.idle), self.patience);
        tokio::spawn(async move {
            if connection.ready().await.is_ok()
                && let Some(idle) = idle.upgrade()
            {
                put(&idle, connection, patience);
            }
        });
    }
}

impl Target {
    /// The target at `url`, which is absolute.
    pub(super) fn of(url: &Uri) -> Self {
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        Self {
            url: url.clone(),
            path: path.parse().unwrap_or_default(),
            host: host(url),
        }
    }

    /// Its whole address.
    pub(super) fn url(&self) -> &Uri {
        &self.url
    }
}

/// How the server is called: with its port, unless that is understood (RFC 9110 section 7.2).
fn host(url: &Uri) -> Option<HeaderValue> {
    let name = url.host()?;
    let understood = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match url.port_u16() {
        Some(port) if port != understood => HeaderValue::from_str(&format!("{name}:{port}")),
        _ => HeaderValue::from_str(name),
    };
    host.ok()
}

fn put(idle: &Arc<Mutex<Idle>>, connection: SendRequest<Body>, patience: Duration) {
    let mut kept = locked(idle);
    if kept.connections.len() >= defaults::IDLE_CONNECTIONS_MAX {
        return;
    }
    kept.connections.push((connection, Instant::now()));
    if !std::mem::replace(&mut kept.is_swept, true) {
        tokio::spawn(sweep(Arc::downgrade(idle), patience));
    }
}

/// Closes connections that nobody used for `patience`, until there are none.
async fn sweep(idle: Weak<Mutex<Idle>>, patience: Duration) {
    let mut ticks = interval(patience);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = locked(&idle);
        let is_young = |since: &Instant| since.elapsed() < patience;
        idle.connections
            .retain(|(connection, since)| is_young(since) && !connection.is_closed());
        if idle.connections.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

fn locked(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
