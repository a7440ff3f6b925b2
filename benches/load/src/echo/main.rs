//! echo-upstream: a small, fast MCP server of both eras, to put behind a gateway under load.

mod args;
mod content;
mod face;
mod legacy;
mod message;
mod modern;
mod server;
mod stream;
mod tools;

use anyhow::{Context, ensure};
use clap::Parser;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use args::Args;
use server::Server;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let is_local = args.listen.ip().is_loopback();
    ensure!(
        is_local || args.any_host,
        "{} is not a loopback address; that takes --any-host",
        args.listen
    );
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if args.threads > 0 {
        runtime.worker_threads(args.threads);
    }
    runtime.enable_all().build()?.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    // Every connection uses it until the process ends.
    let tools = tools::list_as_json(args.tools, 0);
    let server: &'static Server = Box::leak(Box::new(Server::new(args, tools)));
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        let accepted = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let Ok((connection, _)) = accepted else {
            continue; // the client gave up before we took it
        };
        connection.set_nodelay(true)?;
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(connection), service_fn(|request| server.handle(request)));
            connection.await.unwrap_or_default(); // an error: the client broke the connection
        });
    }
}
