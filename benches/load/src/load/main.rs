//! mcpload: a closed-loop MCP load generator.

mod args;
mod bump;
mod connection;
mod expected;
mod listener;
mod process;
mod tally;
mod worker;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use serde::Serialize;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use args::Args;
use process::Usage;
use tally::Tally;

/// What is printed.
#[derive(Serialize)]
struct Report {
    connections: u16,
    /// Streams that were held open.
    listeners: usize,
    /// Messages that came on them.
    events: usize,
    /// How often a stream told of a change that was made here, and how long it took.
    told: usize,
    told_p50_ms: f64,
    told_p99_ms: f64,
    told_max_ms: f64,
    /// How long was measured.
    seconds: f64,
    /// Right answers in that time.
    calls: usize,
    calls_per_second: f64,
    /// The length of the last answer.
    bytes: usize,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// CPU time of the watched process.
    cpu_micros_per_call: Option<f64>,
    /// Resident memory of the watched process at the end.
    rss_kib: Option<u64>,
    /// Wrong and missing answers, those of the warm-up included.
    errors: u64,
    first_error: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let report = LocalSet::new().run_until(measure(Args::parse().into())).await;
    println!("{}", serde_json::to_string(&report)?);
    Ok(if report.errors > 0 || (report.connections > 0 && report.calls == 0) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn measure(args: Rc<Args>) -> Report {
    let tally = Rc::new(RefCell::new(Tally::default()));
    let start = Instant::now();
    let other = Rc::new(args.of_other_era());
    let listeners = (0..args.listeners).map(|number| {
        let is_other = args.mixed && number % 2 == 1;
        let (args, tally) = (if is_other { other.clone() } else { args.clone() }, tally.clone());
        tokio::task::spawn_local(async move { listener::listen(&args, start, &tally).await })
    });
    let listeners: Vec<_> = listeners.collect();
    let workers: Vec<_> = (0..args.connections)
        .map(|_| {
            let (args, tally) = (args.clone(), tally.clone());
            tokio::task::spawn_local(async move { worker::work(&args, start, &tally).await })
        })
        .collect();
    let bumper = {
        let (args, tally) = (args.clone(), tally.clone());
        tokio::task::spawn_local(async move { bump::bump(&args, start, &tally).await })
    };
    let usage = || args.pid.map(Usage::of);
    sleep_until(start + args.warm_up).await;
    let (measured, before) = (Instant::now(), usage());
    for worker in workers.into_iter().chain(listeners).chain([bumper]) {
        worker.await.unwrap_or_default(); // an error: it panicked, and said so
    }
    let (seconds, after) = (measured.elapsed().as_secs_f64(), usage());
    let mut tally = tally.borrow_mut();
    let calls = tally.calls();
    let [p50_ms, p90_ms, p99_ms, p999_ms] = tally.quantiles([500, 900, 990, 999]);
    let [told_p50_ms, told_p99_ms, told_max_ms] = tally.told_quantiles([500, 990, 1000]);
    Report {
        connections: args.connections,
        listeners: tally.listeners,
        events: tally.events,
        told: tally.times_told(),
        told_p50_ms,
        told_p99_ms,
        told_max_ms,
        seconds,
        calls,
        calls_per_second: calls as f64 / seconds,
        bytes: tally.bytes,
        p50_ms,
        p90_ms,
        p99_ms,
        p999_ms,
        cpu_micros_per_call: before
            .zip(after)
            .map(|(before, after)| after.cpu_micros_since(before) / calls as f64),
        rss_kib: after.map(|usage| usage.rss_kib),
        errors: tally.errors,
        first_error: tally.first_error.clone(),
    }
}
