//! A stream that is held open, on which the endpoint tells of changes.

use std::cell::RefCell;

use bytes::Bytes;
use http_body_util::BodyExt;
use mcpfleet_load::CAPABILITIES_KEY;
use mcpfleet_load::VERSION_KEY;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::args::{Args, Era};
use crate::connection::Connection;
use crate::tally::Tally;

/// Listens from `start` until the measurement is over, and counts what comes.
pub(crate) async fn listen(args: &Args, start: Instant, tally: &RefCell<Tally>) {
    let end = start + args.warm_up + args.duration;
    match timeout_at(end, hear(args, tally)).await {
        Err(_) => {}
        Ok(Ok(())) => tally.borrow_mut().fail("a stream ended".into()),
        Ok(Err(error)) => tally.borrow_mut().fail(error),
    }
}

/// Opens a stream and hears what comes on it, until it ends.
async fn hear(args: &Args, tally: &RefCell<Tally>) -> Result<(), String> {
    let mut connection = Connection::open(args).await?;
    let response = match args.era {
        Era::Legacy => connection.get().await?,
        Era::Modern => {
            connection
                .send("subscriptions/listen", None, subscription(args))
                .await?
        }
    };
    if !response.status().is_success() {
        return Err(format!("listening: {}", response.status()));
    }
    tally.borrow_mut().listeners += 1;
    let mut body = response.into_body();
    // Events are sent whole; what matters is how many lines of data there are.
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("stream: {error}"))?;
        let data = frame.into_data().unwrap_or_default();
        let lines = data.split(|byte| *byte == b'\n');
        let events = lines.filter(|line| line.starts_with(b"data: {")).count();
        tally.borrow_mut().hear(events);
    }
    Ok(())
}

fn subscription(args: &Args) -> Bytes {
    let wanted = json!({"toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true});
    let meta = json!({
        VERSION_KEY: args.era.revision(),
        "io.modelcontextprotocol/clientInfo": {"name": "mcpload", "version": env!("CARGO_PKG_VERSION")},
        CAPABILITIES_KEY: {},
    });
    let params = json!({"notifications": wanted, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    request.to_string().into()
}
