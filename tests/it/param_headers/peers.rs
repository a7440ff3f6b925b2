//! The clients and servers of other people agree on the headers.

use serde_json::json;

use crate::support::client::{Call, Client};
use crate::support::gateway::TestGateway;
use crate::support::peers::Peers;
use crate::support::remote::Remote;

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_servers_of_other_people_agree_on_the_headers() {
    let Some(peers) = Peers::installed() else {
        return;
    };
    let typescript = Remote::TypescriptV2.start(&peers).await;
    let python = Remote::PythonV2.start(&peers).await;
    let address = |url: &str| {
        url.parse::<http::Uri>()
            .unwrap()
            .authority()
            .unwrap()
            .as_str()
            .parse()
            .unwrap()
    };
    let gateway = TestGateway::ready(&[
        ("typescript", address(&typescript.url)),
        ("python", address(&python.url)),
    ])
    .await;
    let url = format!("http://{}/default/fed/mcp", gateway.address);
    let calls: Vec<Call> = ["us", "Grüße", " x ", ""]
        .iter()
        .flat_map(|region| {
            ["typescript", "python"].map(|member| Call {
                tool: format!("{member}__execute_sql"),
                arguments: [("region", *region), ("query", "q")]
                    .map(|(name, value)| (name.to_owned(), json!(value)))
                    .into_iter()
                    .collect(),
            })
        })
        .collect();
    for client in Client::ALL {
        let visit = client
            .visit(&peers, &url, &calls)
            .await
            .unwrap_or_else(|problem| panic!("{client:?}: {problem}"));
        for (call, outcome) in calls.iter().zip(&visit.calls) {
            let expected = format!("{}: q", call.arguments["region"].as_str().unwrap());
            assert_eq!(
                (outcome.is_error, outcome.text.as_str()),
                (false, expected.as_str()),
                "{client:?} {call:?}"
            );
        }
        assert_eq!(visit.calls.len(), calls.len(), "{client:?}");
    }
}
