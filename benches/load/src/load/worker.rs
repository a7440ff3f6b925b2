//! The closed loop of one connection.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use mcpfleet_load::{CAPABILITIES_KEY, VERSION_KEY};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::args::{Args, Era};
use crate::connection::Connection;
use crate::expected::Expected;
use crate::tally::Tally;

/// How long to wait after a connection failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends requests until the measurement, begun at `start`, is over; only those after the warm-up count.
pub(crate) async fn work(args: &Args, start: Instant, tally: &RefCell<Tally>) {
    let measured = start + args.warm_up;
    let end = measured + args.duration;
    let is_call = args.method == "tools/call";
    let name = is_call.then_some(args.tool.as_str());
    let params = params(args, is_call);
    let mut id = 0u64;
    let mut expected = Expected::of(args);
    'connected: while Instant::now() < end {
        let opening = timeout(args.timeout, Connection::open(args)).await;
        let mut connection = match opening.unwrap_or_else(|_| Err("connect: timeout".into())) {
            Ok(connection) => connection,
            Err(error) => {
                tally.borrow_mut().fail(error);
                sleep(PAUSE).await;
                continue;
            }
        };
        loop {
            let sent = Instant::now();
            if sent >= end {
                return;
            }
            id += 1;
            let asking = async {
                if args.get {
                    let content = connection.fetch().await?;
                    return Ok((content.len(), expected.same(&content)));
                }
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{params}}}"#,
                    args.method
                );
                let answer = connection.post(&args.method, name, Bytes::from(body)).await?;
                Ok((answer.message.len(), expected.check(&answer, id)))
            };
            let answer = timeout(args.timeout, asking).await;
            let (length, checked) = match answer.unwrap_or_else(|_| Err("timeout".into())) {
                Ok(answer) => answer,
                Err(error) => {
                    tally.borrow_mut().fail(error);
                    continue 'connected;
                }
            };
            let latency = sent.elapsed();
            match checked {
                Err(error) => tally.borrow_mut().fail(error),
                Ok(()) if sent >= measured => tally.borrow_mut().succeed(latency, length),
                Ok(()) => {}
            }
        }
    }
}

fn params(args: &Args, is_call: bool) -> String {
    let mut params = Map::new();
    if is_call {
        params.insert("name".into(), args.tool.as_str().into());
        params.insert("arguments".into(), args.arguments.clone());
    }
    if args.era == Era::Modern {
        let meta = json!({
            VERSION_KEY: args.era.revision(),
            "io.modelcontextprotocol/clientInfo": {"name": "mcpload", "version": env!("CARGO_PKG_VERSION")},
            CAPABILITIES_KEY: {},
        });
        params.insert("_meta".into(), meta);
    }
    Value::Object(params).to_string()
}
