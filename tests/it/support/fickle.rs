//! A way to a server whose connections break when they are used again, without a word before.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, sleep};

/// What becomes of the second request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// The server never sees it.
    Lost,
    /// The server takes it, and its answer is lost.
    Unanswered,
}

/// Leads to the server at `to` by the address given back. Requests have to come whole, in one piece.
pub(crate) async fn way_to(to: SocketAddr, second: Second) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, to, second));
        }
    });
    address
}

async fn carry(mut client: TcpStream, to: SocketAddr, second: Second) {
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut requests = 0;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                requests += 1;
                if requests == 1 || second == Second::Unanswered {
                    drop(server.write_all(&from_client[..length]).await);
                }
                if requests == 2 {
                    // The server shall have read it.
                    return sleep(Duration::from_millis(20)).await;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
