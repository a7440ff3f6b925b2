//! A caller of an upstream, as the gateway is one for each of its clients.

use std::sync::Arc;
use std::time::Duration;

use mcpfleet::mcp::LogLevel;
use mcpfleet::mcp::asking::Said;
use mcpfleet::mcp::{Features, Members, Method};
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{
    Asked, Body, Call, Ear, Endpoint, Error, Fanout, Health, Owner, TaskCall, Terms, Timeouts, Upstream,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A client as the upstream sees it.
pub(super) struct Client {
    owner: Owner,
    features: Features,
    log_level: Option<LogLevel>,
    ear: Arc<TestEar>,
    asked: tokio::sync::Mutex<mpsc::UnboundedReceiver<Asked>>,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
}

#[derive(Debug)]
struct TestEar {
    asked: mpsc::UnboundedSender<Asked>,
    heard: mpsc::UnboundedSender<Value>,
}

impl Ear for TestEar {
    fn heard(&self, notification: &[u8]) {
        drop(self.heard.send(serde_json::from_slice(notification).unwrap()));
    }

    fn asked(&self, asked: Asked) {
        drop(self.asked.send(asked));
    }
}

impl Client {
    /// Nobody can ask it anything.
    pub(super) fn silent(owner: Owner) -> Self {
        let (asked, asked_receiver) = mpsc::unbounded_channel();
        let (heard, heard_receiver) = mpsc::unbounded_channel();
        Self {
            owner,
            features: Features::default(),
            log_level: None,
            ear: Arc::new(TestEar { asked, heard }),
            asked: asked_receiver.into(),
            heard: heard_receiver.into(),
        }
    }

    /// It can be asked for forms and roots.
    pub(super) fn asking(owner: Owner) -> Self {
        Self {
            features: Features {
                roots: true,
                forms: true,
                ..Features::default()
            },
            ..Self::silent(owner)
        }
    }

    /// It can fill forms and has no roots.
    pub(super) fn form_filler(owner: Owner) -> Self {
        Self {
            features: Features {
                forms: true,
                ..Features::default()
            },
            ..Self::silent(owner)
        }
    }

    /// It has roots and fills no forms.
    pub(super) fn rooted(owner: Owner) -> Self {
        Self {
            features: Features {
                roots: true,
                ..Features::default()
            },
            ..Self::silent(owner)
        }
    }

    /// Nobody can ask it anything, and it wants to hear logs of this level and above.
    pub(super) fn hearing_logs(owner: Owner, level: LogLevel) -> Self {
        Self {
            log_level: Some(level),
            ..Self::silent(owner)
        }
    }

    pub(super) async fn call(&self, upstream: &Upstream, tool: &str) -> Result<Value, Error> {
        let text = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": 1}}).to_string();
        let params = Members::parse(&text).unwrap();
        let meta = Members::parse(params.get("_meta").unwrap().get());
        let call = Call {
            method: Method::ToolsCall,
            target: tool,
            params: &params,
            meta: meta.as_ref(),
            param_headers: None,
            owner: self.owner.clone(),
            features: &self.features,
            answers: None,
            task: TaskCall::No,
            log_level: self.log_level,
            ear: Some(Arc::clone(&self.ear) as _),
            fanout: Fanout::No,
        };
        let reply = upstream.call(call).await?;
        match reply.body() {
            Body::Result(result) => Ok(serde_json::from_str(result).unwrap()),
            Body::Error(error) => panic!("{error}"),
        }
    }

    /// The text of a call's result.
    pub(super) async fn text(&self, upstream: &Upstream, tool: &str) -> String {
        let result = timeout(PATIENCE, self.call(upstream, tool)).await;
        let result = result.expect("no answer").unwrap();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(super) async fn asked(&self) -> Asked {
        let mut asked = self.asked.lock().await;
        timeout(PATIENCE, asked.recv())
            .await
            .expect("nothing is asked")
            .unwrap()
    }

    pub(super) async fn heard(&self) -> Value {
        let mut heard = self.heard.lock().await;
        timeout(PATIENCE, heard.recv())
            .await
            .expect("nothing is heard")
            .unwrap()
    }

    pub(super) fn has_heard(&self) -> bool {
        self.heard.try_lock().unwrap().try_recv().is_ok()
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked.try_lock().unwrap().try_recv().is_ok()
    }
}

pub(super) fn session(name: &str) -> Owner {
    Owner::Session(name.into())
}

pub(super) fn principal(name: &str) -> Owner {
    Owner::Principal(name.into())
}

pub(super) fn accept(name: &str) -> Said {
    Said::Result(json!({"action": "accept", "content": {"name": name}}).to_string())
}

/// An upstream whose catalog has been read.
pub(super) async fn ready(endpoint: Endpoint, timeouts: Timeouts) -> Upstream {
    let metrics = Metrics::new().unwrap().server("default/s");
    let terms = Terms {
        timeouts,
        ..Terms::default()
    };
    let upstream = Upstream::start("default/s".into(), endpoint, terms, metrics);
    let mut state = upstream.state();
    let is_ready = state.wait_for(|state| state.health == Health::Ready);
    timeout(PATIENCE, is_ready).await.expect("it never got ready").unwrap();
    upstream
}

pub(super) async fn withdrawn(asked: &Asked) {
    timeout(PATIENCE, asked.withdrawn().cancelled())
        .await
        .expect("it still waits");
}

pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
