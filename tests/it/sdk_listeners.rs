//! Clients of other people that listen hear of an edit within two seconds, of a file and of an object in a cluster.

use std::process::Stdio;
use std::time::Duration;

use mcpfleet::api::{MCPFederation, MCPServer};
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};

use crate::support::gateway::{TestGateway, plan};
use crate::support::peers::Peers;
use crate::support::shelf::Shelf;
use crate::support::up::Up;
use crate::support::upstream::Upstream;
use crate::support::world::World;

/// Within what time everybody must have heard.
const SOON: Duration = Duration::from_secs(2);
const START: Duration = Duration::from_secs(60);

/// A client that tells the names of all tools, at first and whenever it hears that they have changed.
struct Listener {
    name: String,
    told: UnboundedReceiver<Vec<String>>,
    _client: Running,
}

/// Ends with the test.
enum Running {
    Node(#[expect(dead_code, reason = "kept until it is dropped")] Child),
    Rust(#[expect(dead_code, reason = "kept until it is dropped")] RunningService<RoleClient, Hearing>),
}

/// The part of a Rust client that hears.
struct Hearing(UnboundedSender<Vec<String>>);

impl ClientHandler for Hearing {
    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        tell(&context.peer, &self.0).await;
    }
}

async fn tell(peer: &Peer<RoleClient>, to: &UnboundedSender<Vec<String>>) {
    let tools = peer.list_all_tools().await.unwrap().into_iter();
    drop(to.send(tools.map(|tool| tool.name.into_owned()).collect()));
}

impl Listener {
    async fn rust(url: &str, era: ClientLifecycleMode) -> Self {
        // The HTTP client asks for one even where no TLS is spoken; a second installation changes nothing.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let name = format!("rmcp {era:?}");
        let listens = !matches!(era, ClientLifecycleMode::Initialize);
        let (sender, told) = unbounded_channel();
        let transport = StreamableHttpClientTransport::from_uri(url);
        let hearing = Hearing(sender.clone());
        let client = hearing.serve_with_lifecycle(transport, era).await.unwrap();
        if listens {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            let mut subscription = client.listen(wanted).await.unwrap();
            let (peer, sender) = (client.peer().clone(), sender.clone());
            tokio::spawn(async move {
                while let Ok(Some(_)) = subscription.next().await {
                    tell(&peer, &sender).await;
                }
            });
        }
        tell(client.peer(), &sender).await;
        Self {
            name,
            told,
            _client: Running::Rust(client),
        }
    }

    fn typescript(peers: &Peers, url: &str, mode: &str) -> Self {
        let mut client = peers
            .node("clients/listening.mjs")
            .args(["--url", url, "--mode", mode])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let (sender, told) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                drop(sender.send(serde_json::from_str(&line).unwrap()));
            }
        });
        Self {
            name: format!("TypeScript {mode}"),
            told,
            _client: Running::Node(client),
        }
    }

    /// Waits until it tells of these tools, for no longer than up to this moment.
    async fn tells(&mut self, expected: &[&str], until: Instant) {
        loop {
            let told = timeout(until - Instant::now().min(until), self.told.recv()).await;
            let told = told.unwrap_or_else(|_| panic!("{} does not tell of {expected:?}", self.name));
            if told.unwrap_or_else(|| panic!("{} has ended", self.name)) == expected {
                return;
            }
        }
    }
}

/// A listener of each kind at `url`, all of which see these tools.
async fn listeners(peers: Option<&Peers>, url: &str, tools: &[&str]) -> Vec<Listener> {
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let mut all = vec![
        Listener::rust(url, ClientLifecycleMode::Initialize).await,
        Listener::rust(url, modern).await,
    ];
    let modes = ["legacy", "modern"].into_iter();
    all.extend(
        peers
            .into_iter()
            .flat_map(|peers| modes.clone().map(|mode| Listener::typescript(peers, url, mode))),
    );
    for listener in &mut all {
        listener.tells(tools, Instant::now() + START).await;
    }
    // That they list says nothing of whether their streams are open yet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    all
}

async fn server() -> Upstream {
    let shelf = Shelf::empty().with_tool("logs", json!({})).with_tool("stop", json!({}));
    shelf.legacy().await
}

/// What a federation says that denies these tools of its member.
fn denying(tools: Value) -> Value {
    json!({
        "members": [{"name": "s", "server": {"name": "s"}, "tools": {"deny": tools}}], "access": {"anonymous": {}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_file_is_heard_by_clients_of_other_people() {
    let server = server().await;
    let files = TempDir::new().unwrap();
    let path = files.path().join("fleet.yaml");
    let write = |denied: Value| {
        let object = |kind: &str, name: &str, spec: Value| {
            let metadata = json!({"name": name});
            json!({"apiVersion": "mcpfleet.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
        };
        let remote = object(
            "MCPServer",
            "s",
            json!({"remote": {"url": format!("http://{}/mcp", server.address)}}),
        );
        let federation = object("MCPFederation", "fed", denying(denied));
        std::fs::write(&path, format!("{remote}\n---\n{federation}\n")).unwrap();
    };
    write(json!([]));
    let up = Up::start(&[&path], |_| ());
    let url = up.endpoint("fed").await;
    up.ready("s").await;
    let mut all = listeners(Peers::installed().as_ref(), &url, &["s__logs", "s__stop"]).await;
    for (denied, left) in [
        (json!(["stop"]), &["s__logs"][..]),
        (json!([]), &["s__logs", "s__stop"]),
    ] {
        write(denied);
        let until = Instant::now() + SOON;
        for listener in &mut all {
            listener.tells(left, until).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_an_object_in_a_cluster_is_heard_by_clients_of_other_people() {
    let Some(world) = World::start("listeners").await else {
        return;
    };
    let server = server().await;
    let spec = json!({"spec": {"remote": {"url": format!("http://{}/mcp", server.address)}}});
    world.apply::<MCPServer>("s", spec).await;
    world
        .apply::<MCPFederation>("fed", json!({"spec": denying(json!([]))}))
        .await;
    // A gateway for what the replica plans from the objects.
    let mut gateway = TestGateway::start(plan(&[])).await;
    let (mut inputs, served) = (world.replica.inputs(), gateway.input.clone());
    tokio::spawn(async move {
        loop {
            if let Some(input) = inputs.borrow_and_update().clone() {
                served.send_replace(input);
            }
            if inputs.changed().await.is_err() {
                return;
            }
        }
    });
    gateway
        .until(|o| o.federations.values().any(|fed| fed.index.tools == 2))
        .await;
    gateway.turn_to(&format!("{}/fed", world.namespace));
    let mut all = listeners(None, &gateway.url(), &["s__logs", "s__stop"]).await;
    for (denied, left) in [
        (json!(["stop"]), &["s__logs"][..]),
        (json!([]), &["s__logs", "s__stop"]),
    ] {
        world
            .apply::<MCPFederation>("fed", json!({"spec": denying(denied)}))
            .await;
        let until = Instant::now() + SOON;
        for listener in &mut all {
            listener.tells(left, until).await;
        }
    }
    world.replica.stop().await;
}
