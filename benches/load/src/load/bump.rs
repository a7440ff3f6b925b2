//! Something is changed every other second, so that the streams have something to say.

use std::cell::RefCell;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::args::{Args, Target};
use crate::tally::Tally;

/// How often. A gateway may read the lists of a server that tells of changes more often only once a second.
const EVERY: Duration = Duration::from_secs(2);

/// Changes what `args` name while it is measured, but not so late that nobody hears of it any more.
pub(crate) async fn bump(args: &Args, start: Instant, tally: &RefCell<Tally>) {
    let Some(target) = &args.bump else { return };
    let measured = start + args.warm_up;
    let mut next = measured;
    while next + EVERY <= measured + args.duration {
        sleep_until(next).await;
        tally.borrow_mut().bumped = Some(Instant::now());
        match timeout(EVERY, post(target)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tally.borrow_mut().fail(format!("bump: {error}")),
            Err(_) => tally.borrow_mut().fail("bump: timeout".into()),
        }
        next += EVERY;
    }
}

async fn post(target: &Target) -> Result<(), String> {
    let Target { authority, path } = target;
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let exchange = async {
        let mut stream = TcpStream::connect(authority).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(answer)
    };
    let answer = exchange.await.map_err(|error: std::io::Error| error.to_string())?;
    if answer.starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&answer).into_owned())
}
