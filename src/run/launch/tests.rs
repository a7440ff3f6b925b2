//! Containers of a stand-in engine: a script whose containers are local HTTP servers.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::*;
use crate::defaults;
use crate::fleet::ReferenceKind;

const ENGINE: &str = r#"#!/usr/bin/env python3
import json, os, signal, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
args = sys.argv[1:]
def end(name):
    try:
        with open(os.path.join(here, name + ".pid")) as f: os.killpg(int(f.read()), signal.SIGKILL)
        os.remove(os.path.join(here, name + ".pid"))
    except OSError: sys.exit(1)
if args[0] == "run":
    name, port = args[args.index("--name") + 1], args[args.index("--publish") + 1].split(":")[1]
    server = subprocess.Popen([sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1"],
        cwd=here, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(here, name + ".pid"), "w") as f: f.write(str(server.pid))
    with open(os.path.join(here, "runs"), "a") as f:
        f.write(json.dumps({"args": args, "token": os.environ.get("TOKEN")}) + "\n")
    sys.exit(server.wait() and 137)
if args[0] in ("stop", "rm"): end(args[-1])
"#;

const PATIENCE: Duration = Duration::from_secs(20);

/// A machine with an engine, or without.
struct Machine {
    folder: TempDir,
    launcher: Launcher,
}

impl Machine {
    fn with_engine(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("text"), folder.path().join("docker"));
        std::fs::write(&text, script).unwrap();
        // Written by a process of its own: a file that this one wrote may be open for writing in a fork of another
        // test, and cannot be executed then.
        let installed = std::process::Command::new("install")
            .args(["-m", "755"])
            .args([&text, &program])
            .status();
        assert!(installed.unwrap().success());
        let launcher = Launcher::with_engines(&["no-such-engine", program.to_str().unwrap()]);
        Self { folder, launcher }
    }

    async fn endpoints(&self, servers: &[MCPServer]) -> Vec<Result<Endpoint, Unresolved>> {
        let keys = Content::Found([("token".to_owned(), b"hidden".to_vec())].into());
        let objects = [(Reference::new(ReferenceKind::Secret, "default", "keys"), keys)].into();
        let inputs = self
            .launcher
            .launch(
                servers,
                &references(servers.iter().flat_map(named_references), &objects),
            )
            .await;
        inputs.into_iter().map(|input| input.endpoint).collect()
    }

    /// Launches one container and waits until it answers.
    async fn start(&self, server: &MCPServer) -> Endpoint {
        let endpoint = self.endpoints(std::slice::from_ref(server)).await.remove(0).unwrap();
        until("answers", || answers(&endpoint)).await;
        endpoint
    }

    fn runs(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("runs")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The process groups of the containers that run.
    fn containers(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "pid"));
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

async fn answers(endpoint: &Endpoint) -> bool {
    let Endpoint::Http(http) = endpoint else {
        panic!("not HTTP")
    };
    TcpStream::connect(http.url.authority().unwrap().as_str()).await.is_ok()
}

async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn server(name: &str, source: Value) -> MCPServer {
    let mut object = json!({"apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
                            "metadata": {"name": name, "namespace": "default"}});
    object["spec"] = source;
    serde_json::from_value(object).unwrap()
}

fn container(name: &str, image: &str) -> MCPServer {
    let token = json!({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}});
    server(
        name,
        json!({"container": {"image": image, "env": [token], "transport": {"type": "StreamableHTTP"}}}),
    )
}

#[tokio::test]
async fn a_container_is_reached_on_loopback_and_stopped_with_the_launcher() {
    let machine = Machine::with_engine(ENGINE);
    let endpoint = machine.start(&container("web", "web:1")).await;
    let runs = machine.runs();
    assert_eq!(runs[0]["token"], "hidden");
    assert!(!runs[0]["args"].to_string().contains("hidden"));
    machine.launcher.stop().await;
    assert!(!answers(&endpoint).await);
    assert_eq!((machine.containers().len(), machine.runs().len()), (0, 1));
}

#[tokio::test]
async fn a_container_that_ends_starts_again_at_the_same_address() {
    let machine = Machine::with_engine(ENGINE);
    let endpoint = machine.start(&container("web", "web:1")).await;
    let ended = Instant::now();
    std::process::Command::new("kill")
        .args(["-9", "--", &machine.containers()[0]])
        .status()
        .unwrap();
    until("started again", || async { machine.runs().len() == 2 }).await;
    assert!(ended.elapsed() >= defaults::RETRY_MIN);
    until("answers again", || answers(&endpoint)).await;
    machine.launcher.stop().await;
}

#[tokio::test]
async fn only_a_changed_container_is_replaced_and_one_named_no_more_is_stopped() {
    let machine = Machine::with_engine(ENGINE);
    let first = machine.start(&container("web", "web:1")).await;
    assert_eq!(machine.start(&container("web", "web:1")).await, first);
    assert_eq!(machine.runs().len(), 1);
    let second = machine.start(&container("web", "web:2")).await;
    assert_ne!(second, first);
    until("the old one is gone", || async { !answers(&first).await }).await;
    assert!(machine.endpoints(&[]).await.is_empty());
    until("the new one is gone", || async { !answers(&second).await }).await;
    assert_eq!(machine.runs().len(), 2);
}

#[test]
fn containers_go_with_the_runtime() {
    let machine = Machine::with_engine(ENGINE);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let endpoint = runtime.block_on(machine.start(&container("web", "web:1")));
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(until("gone", || async { !answers(&endpoint).await }));
}

#[tokio::test]
async fn without_an_engine_containers_are_refused_and_the_others_start() {
    let machine = Machine::with_engine("#!/bin/sh\nexit 1\n");
    let package = json!({"runner": "npm", "name": "tools", "version": "1.0.0"});
    let servers = [
        container("web", "web:1"),
        server("tools", json!({ "package": package })),
    ];
    let mut endpoints = machine.endpoints(&servers).await;
    assert!(matches!(endpoints.pop(), Some(Ok(Endpoint::Stdio(_)))));
    let refused = endpoints.pop().unwrap().unwrap_err();
    assert_eq!(refused.reason, "ContainerEngineMissing");
    assert!(
        refused.message.contains("install and start Docker or Podman"),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn an_engine_that_does_not_answer_is_given_up() {
    let machine = Machine::with_engine("#!/bin/sh\nexec sleep 1000\n");
    let started = Instant::now();
    let refused = machine
        .endpoints(&[container("web", "web:1")])
        .await
        .remove(0)
        .unwrap_err();
    assert_eq!(refused.reason, "ContainerEngineMissing");
    assert!(started.elapsed() < defaults::CONTAINER_ENGINE_TIMEOUT * 2);
}

#[tokio::test]
async fn a_disabled_server_starts_nothing_and_a_missing_secret_is_named() {
    let machine = Machine::with_engine(ENGINE);
    let mut disabled = container("off", "web:1");
    disabled.spec.disabled = true;
    let header = json!({"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}});
    let remote = server(
        "remote",
        json!({"remote": {"url": "https://example.com/mcp", "headers": [header]}}),
    );
    let endpoints = machine.endpoints(&[disabled, remote]).await;
    let reasons: Vec<_> = endpoints
        .into_iter()
        .map(|endpoint| endpoint.unwrap_err().reason)
        .collect();
    assert_eq!(reasons, ["Disabled", "RefNotFound"]);
    assert!(!Path::new(&machine.folder.path().join("runs")).exists());
}
