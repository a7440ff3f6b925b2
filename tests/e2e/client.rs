//! An MCP client of other people: the official Rust SDK.

use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// The two ways to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The names of all tools at `url`, in order.
pub(crate) fn tools(url: &str, era: Era) -> Vec<String> {
    visit(url, era, None).0
}

/// The text that calling `tool` gives.
pub(crate) fn call(url: &str, era: Era, tool: &str, arguments: Value) -> String {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    visit(
        url,
        era,
        Some(CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)),
    )
    .1
}

fn visit(url: &str, era: Era, call: Option<CallToolRequestParams>) -> (Vec<String>, String) {
    // The HTTP client asks for one even where no TLS is spoken; a second installation changes nothing.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let lifecycle = match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    let visit = async {
        let transport = StreamableHttpClientTransport::from_uri(url);
        let client = ().serve_with_lifecycle(transport, lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        let mut text = String::new();
        if let Some(call) = call {
            let result = client.call_tool(call).await.unwrap();
            text.extend(
                result
                    .content
                    .iter()
                    .filter_map(|block| block.as_text())
                    .map(|block| &*block.text),
            );
        }
        client.cancel().await.unwrap();
        (tools.into_iter().map(|tool| tool.name.into_owned()).collect(), text)
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, visit)
            .await
            .unwrap_or_else(|_| panic!("no answer from {url}"))
    })
}
