//! A server on the official Rust SDK, both eras, over Streamable HTTP with sessions, or over stdio.
//!
//! `rmcp-server [--port N | --stdio | --tasks | --skills DIRECTORY]`; port 0, the default, takes a free one, and the
//! address is printed. With `--tasks` it is another server, Modern only, whose tools become tasks, and with `--skills` one
//! of the skills in a directory.

mod skills;
mod tasks;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt, tool, tool_router};
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Clone, Debug)]
struct Server;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[tool_router(server_handler)]
impl Server {
    #[tool(description = "Echo")]
    fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> String {
        message
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--stdio"] => {
            Server.serve(stdio()).await?.waiting().await?;
            Ok(())
        }
        [] => serve(0, || Ok(Server)).await,
        ["--port", port] => serve(port.parse()?, || Ok(Server)).await,
        ["--tasks"] => {
            let worker = tasks::Worker::default();
            serve(0, move || Ok(worker.clone())).await
        }
        ["--skills", directory] => {
            let shelf = skills::Shelf::read(directory.into())?;
            serve(0, move || Ok(shelf.clone())).await
        }
        _ => anyhow::bail!("usage: rmcp-server [--port N | --stdio | --tasks | --skills DIRECTORY]"),
    }
}

async fn serve<S: ServerHandler>(
    port: u16,
    server: impl Fn() -> std::io::Result<S> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(true);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(server, sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let router = Router::new().nest_service("/mcp", service);
    axum::serve(listener, router).await.context("serving")
}
