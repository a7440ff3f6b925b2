//! The clients of other people.

use futures::{StreamExt, stream};
use serde_json::json;

use super::host::fleet;
use crate::support::client::{Call, Client};
use crate::support::peers::Peers;
use crate::support::remote::Remote;

/// Clients that visit at a time.
const AT_A_TIME: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_other_people_start_it_and_use_it() {
    let Some(peers) = Peers::installed() else { return };
    let files = fleet();
    let file = files.path().join("mcp.json").display().to_string();
    every_client_uses(&peers, &["up", "--stdio", &file], "s__echo", "text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_other_people_use_a_remote_server_by_it() {
    let Some(peers) = Peers::installed() else { return };
    // One of each era: Legacy with sessions, and both.
    for remote in [Remote::PythonV1, Remote::TypescriptV2] {
        let running = remote.start(&peers).await;
        every_client_uses(&peers, &["connect", &running.url], "echo", "message").await;
    }
}

/// Lets every client start this command of ours, list the tools, and call the one that answers with what it is told.
async fn every_client_uses(peers: &Peers, arguments: &[&str], tool: &str, argument: &str) {
    let words: Vec<_> = [env!("CARGO_BIN_EXE_mcpfleet")].iter().chain(arguments).collect();
    let target = format!("stdio:{}", json!(words));
    let call = Call {
        tool: tool.to_owned(),
        arguments: json!({argument: "hello"}).as_object().unwrap().clone(),
    };
    let visits = stream::iter(Client::ALL).map(async |client| {
        let visit = client.visit(peers, &target, std::slice::from_ref(&call)).await;
        let visit = visit.unwrap_or_else(|error| panic!("{client:?} and {words:?}: {error}"));
        assert_eq!(visit.protocol_version, client.revision(), "{client:?}");
        assert!(visit.tools.contains(&tool.to_owned()), "{client:?}: {:?}", visit.tools);
        assert!(visit.calls[0].text.contains("hello"), "{client:?}: {:?}", visit.calls);
    });
    visits.buffer_unordered(AT_A_TIME).for_each(async |()| ()).await;
}
