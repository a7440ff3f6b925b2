//! Files of skills are what their entries say, or they are not served.

use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::server::{Server, skill};
use super::{CLIENTS, ERAS, bytes_of, listed, proof};
use crate::support::gateway::TestGateway;

#[tokio::test]
async fn a_file_that_is_not_what_its_entry_says_is_never_served() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let file = json!({"uri": "skill://m/a/scripts/run.sh"});
        let whole = server.shelf.lock().unwrap().files["skill://a/scripts/run.sh"].clone();
        let mut longer = whole.clone();
        longer.push(b'x');
        let mut other = whole.clone();
        other[3] ^= 1;
        for client in CLIENTS {
            for forged in [&longer, &other] {
                let forged = [("skill://a/scripts/run.sh".to_owned(), forged.clone())];
                server.shelf.lock().unwrap().forged = forged.into();
                let asked = server.asked("skills/get").len();
                let refused = gateway.ask(client, "resources/read", file.clone()).await;
                let text = refused["error"]["message"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{refused}"));
                assert!(text.contains("entry") && text.contains("not passed on"), "{text}");
                assert_eq!(
                    server.asked("skills/get").len(),
                    asked + 1,
                    "the entry is looked up once"
                );
            }
            server.shelf.lock().unwrap().forged.clear();
            let read = gateway.ask(client, "resources/read", file.clone()).await;
            assert_eq!(bytes_of(&read), whole);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_has_changed_with_its_entry_is_served_as_it_is_now() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let uri = "skill://a/scripts/run.sh".to_owned();
        for (client, text) in CLIENTS.into_iter().zip([b"first".to_vec(), b"second".to_vec()]) {
            server.shelf.lock().unwrap().files.insert(uri.clone(), text.clone());
            let read = gateway
                .ask(client, "resources/read", json!({"uri": "skill://m/a/scripts/run.sh"}))
                .await;
            assert_eq!(bytes_of(&read), text);
            // What is listed follows, though nothing was announced.
            let follows = async {
                loop {
                    let listed = listed(&gateway, client).await;
                    let files = listed[0]["resources"].as_array().unwrap();
                    if files.iter().any(|file| file["digest"] == proof(&text)) {
                        return;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(Duration::from_secs(5), follows)
                .await
                .expect("the list is still the old one");
        }
        gateway.stop().await;
    }
}
