//! One keep-alive connection to the endpoint.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::request::Builder;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

use crate::args::{Args, Era};

/// What the load generator calls itself.
const CLIENT: (&str, &str) = ("mcpload", env!("CARGO_PKG_VERSION"));

/// A connection, with the Legacy session that was opened on it.
pub(crate) struct Connection<'a> {
    args: &'a Args,
    http: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The JSON-RPC response, as text.
    pub(crate) message: Vec<u8>,
    session: Option<String>,
}

impl<'a> Connection<'a> {
    /// Connects, and opens a session where the era has such. Errors are for a person.
    pub(crate) async fn open(args: &'a Args) -> Result<Self, String> {
        let stream = TcpStream::connect(&args.url.authority)
            .await
            .map_err(|error| format!("connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("connect: {error}"))?;
        let (http, driver) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("connect: {error}"))?;
        tokio::task::spawn_local(async move { driver.await.unwrap_or_default() }); // its errors reach the requests
        let mut connection = Self {
            args,
            http,
            session: None,
        };
        if args.era == Era::Legacy && !args.get {
            connection.initialize().await?;
        }
        Ok(connection)
    }

    /// Gets what is at the address.
    pub(crate) async fn fetch(&mut self) -> Result<Vec<u8>, String> {
        let request = Request::get(&self.args.url.path).header("host", &self.args.url.authority);
        let response = self.exchange(request, Bytes::new()).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("get: {}", response.status()));
        }
        mcpfleet_load::read_body(response.into_body()).await
    }

    /// Sends one JSON-RPC request and reads its whole answer. `name` is what the request is about.
    pub(crate) async fn post(&mut self, method: &str, name: Option<&str>, body: Bytes) -> Result<Answer, String> {
        let response = self.send(method, name, body).await?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let session = header("mcp-session-id").map(String::from);
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let body = mcpfleet_load::read_body(response.into_body()).await?;
        let message = if is_stream { last_event(&body)? } else { body };
        Ok(Answer {
            status,
            message,
            session,
        })
    }

    /// Opens the stream on which the session hears.
    pub(crate) async fn get(&mut self) -> Result<Response<Incoming>, String> {
        let request = Request::get(&self.args.url.path)
            .header("host", &self.args.url.authority)
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", self.args.era.revision());
        self.exchange(request, Bytes::new()).await
    }

    /// Sends one JSON-RPC request; its answer is still to be read.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        name: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::post(&self.args.url.path)
            .header("host", &self.args.url.authority)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if method != "initialize" {
            request = request.header("mcp-protocol-version", self.args.era.revision());
        }
        if self.args.era == Era::Modern {
            request = request.header("mcp-method", method);
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        self.exchange(request, body).await
    }

    async fn exchange(&mut self, mut request: Builder, body: Bytes) -> Result<Response<Incoming>, String> {
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| format!("request: {error}"))?;
        self.http.ready().await.map_err(|error| format!("ready: {error}"))?;
        let response = self.http.send_request(request).await;
        response.map_err(|error| format!("send: {error}"))
    }

    async fn initialize(&mut self) -> Result<(), String> {
        let (name, version) = CLIENT;
        let params = json!({
            "protocolVersion": self.args.era.revision(),
            "capabilities": {},
            "clientInfo": {"name": name, "version": version},
        });
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.post("initialize", None, request.to_string().into()).await?;
        if answer.status != StatusCode::OK {
            return Err(format!(
                "initialize: {} {}",
                answer.status,
                String::from_utf8_lossy(&answer.message)
            ));
        }
        self.session = answer.session;
        let notification = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let answer = self.post("notifications/initialized", None, notification).await?;
        if !answer.status.is_success() {
            return Err(format!("notifications/initialized: {}", answer.status));
        }
        Ok(())
    }
}

/// The data of the last event of a stream: the response, after whatever came before it.
fn last_event(stream: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(stream)
        .map_err(|error| format!("stream: {error}"))?
        .replace("\r\n", "\n");
    let data = |event: &str| -> Option<String> {
        let lines: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    let last = text.rsplit("\n\n").find_map(data);
    last.map(String::into_bytes)
        .ok_or_else(|| "a stream without an event".into())
}
