//! A server of skills, as the tests want it to be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mcpfleet::mcp::Era;
use serde_json::{Value, json};

use super::{EXTENSION, proof};
use crate::support::upstream::{Answer, Seen, Upstream};

/// The files of a server of skills, by their URIs, and what it says falsely.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// What is given for some files instead.
    pub(super) forged: BTreeMap<String, Vec<u8>>,
    /// Skills that are not listed.
    pub(super) unlisted: Vec<String>,
    /// Entries that are listed beside those of the files.
    pub(super) odd: Vec<Value>,
    pub(super) no_directories: bool,
    /// Skills cannot be listed at the moment, and this is said.
    pub(super) list_fails: Option<Unlisted>,
    /// Where it tells of changes.
    pub(super) hearers: Vec<tokio::sync::mpsc::UnboundedSender<Value>>,
}

/// How a list is not given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unlisted {
    /// By an HTTP status.
    Status,
    /// By an error.
    Error,
}

/// A server of skills of one era that lists two at a time.
pub(super) struct Server {
    pub(super) upstream: Upstream,
    pub(super) shelf: Arc<Mutex<Shelf>>,
}

impl Server {
    pub(super) async fn start(era: Era, shelf: Shelf) -> Self {
        let shelf = Arc::new(Mutex::new(shelf));
        let own = Arc::clone(&shelf);
        let upstream = Upstream::start(move |seen| answer(era, seen, &mut own.lock().unwrap())).await;
        Self { upstream, shelf }
    }

    pub(super) fn asked(&self, method: &str) -> Vec<String> {
        let seen = self.upstream.seen_of(method);
        let uris = seen
            .iter()
            .map(|seen| seen.body["params"]["uri"].as_str().unwrap_or_default().to_owned());
        uris.collect()
    }
}

/// A skill of this path with a script and a picture.
pub(super) fn skill(path: &str, text: &str) -> Shelf {
    let name = path.rsplit('/').next().unwrap();
    let manifest = format!("---\nname: {name}\ndescription: About {name}\nversion: 2.0.1\n---\r\n\n{text}\n");
    let files = [
        ("SKILL.md", manifest.into_bytes()),
        (
            "scripts/run.sh",
            format!("#!/bin/sh\necho '{text} \u{e4}'\r\n").into_bytes(),
        ),
        ("picture", vec![0xff, 0, 0xd8, b'\n']),
    ];
    Shelf {
        files: files
            .map(|(file, bytes)| (format!("skill://{path}/{file}"), bytes))
            .into(),
        ..Shelf::default()
    }
}

pub(super) fn skills(paths: &[&str], text: &str) -> Shelf {
    let all = paths.iter().flat_map(|path| skill(path, text).files);
    Shelf {
        files: all.collect(),
        ..Shelf::default()
    }
}

impl Shelf {
    fn entries(&self) -> Vec<Value> {
        let manifests = self.files.keys().filter_map(|uri| uri.strip_suffix("/SKILL.md"));
        manifests.filter_map(|directory| self.entry(directory)).collect()
    }

    pub(super) fn entry(&self, directory: &str) -> Option<Value> {
        let manifest = format!("{directory}/SKILL.md");
        self.files.get(&manifest)?;
        let name = directory.rsplit('/').next()?;
        let files = self
            .files
            .iter()
            .filter(|(uri, _)| uri.starts_with(&format!("{directory}/")));
        let resources = files.map(|(uri, bytes)| json!({"uri": uri, "digest": proof(bytes), "size": bytes.len()}));
        Some(json!({
            "uri": manifest,
            "frontmatter": {"name": name, "description": format!("About {name}"), "version": "2.0.1"},
            "resources": resources.collect::<Vec<_>>(),
        }))
    }
}

fn content(uri: &str, bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"uri": uri, "mimeType": "text/plain", "text": text}),
        Err(_) => json!({"uri": uri, "blob": BASE64.encode(bytes)}),
    }
}

fn answer(era: Era, seen: &Seen, shelf: &mut Shelf) -> Answer {
    let ended = |mut result: Value, cached: bool| {
        if era == Era::Modern {
            result["resultType"] = json!("complete");
            if cached {
                result["ttlMs"] = json!(1_000);
                result["cacheScope"] = json!("private");
            }
        }
        seen.result(result)
    };
    let unknown = || seen.error(200, -32602, "not found");
    let uri = seen.body["params"]["uri"].as_str().unwrap_or_default();
    let settings = if shelf.no_directories {
        json!({})
    } else {
        json!({"directoryRead": true})
    };
    let capabilities = json!({
        "tools": {}, "completions": {}, "resources": {"subscribe": true, "listChanged": true},
        "extensions": {EXTENSION: settings},
    });
    match seen.method() {
        "server/discover" if era == Era::Modern => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private",
        })),
        "initialize" if era == Era::Legacy => seen.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "skills", "version": "1"},
        })),
        "resources/subscribe" => seen.result(json!({})),
        "subscriptions/listen" => {
            let (hearer, stream) = Answer::live();
            let id = seen.body["id"].clone();
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            let acknowledged = json!({"notifications": seen.body["params"]["notifications"], "_meta": meta});
            let method = "notifications/subscriptions/acknowledged";
            hearer
                .send(json!({"jsonrpc": "2.0", "method": method, "params": acknowledged}))
                .unwrap();
            shelf.hearers.push(hearer);
            stream
        }
        _ if seen.http == Method::GET => {
            let (hearer, stream) = Answer::live();
            shelf.hearers.push(hearer);
            stream
        }
        "tools/list" => ended(
            json!({"tools": [{"name": "find", "inputSchema": {"type": "object"}}]}),
            true,
        ),
        "tools/call" => {
            let link = json!({"type": "resource_link", "uri": "skill://a/x", "name": "x"});
            let within = json!({"type": "resource", "resource": {"uri": "skill://a/y", "text": "see skill://a/y"}});
            ended(
                json!({"content": [link, within, {"type": "text", "text": "skill://a"}]}),
                false,
            )
        }
        "resources/list" => {
            let listed = shelf.files.keys().map(|uri| json!({"uri": uri, "name": uri}));
            let others = [json!({"uri": "https://example.com/skill:", "name": "other"})];
            ended(json!({"resources": listed.chain(others).collect::<Vec<_>>()}), true)
        }
        "resources/templates/list" => ended(
            json!({"resourceTemplates": [{"uriTemplate": "skill://a/{name}", "name": "of a"}]}),
            true,
        ),
        "completion/complete" => {
            let of = &seen.body["params"]["ref"]["uri"];
            ended(json!({"completion": {"values": [of], "hasMore": false}}), false)
        }
        "skills/list" if shelf.list_fails.is_some() => match shelf.list_fails {
            Some(Unlisted::Status) => Answer::status(503),
            _ => seen.error(200, -32603, "no shelf"),
        },
        "skills/list" => {
            let entries: Vec<_> = shelf.odd.iter().cloned().chain(shelf.entries()).collect();
            let listed: Vec<_> = entries
                .into_iter()
                .filter(|entry| !shelf.unlisted.iter().any(|uri| entry["uri"] == **uri))
                .collect();
            let from: usize = seen.body["params"]["cursor"]
                .as_str()
                .map_or(0, |cursor| cursor.parse().unwrap());
            let mut page = json!({"skills": listed.iter().skip(from).take(2).collect::<Vec<_>>()});
            if from + 2 < listed.len() {
                page["nextCursor"] = json!((from + 2).to_string());
            }
            ended(page, true)
        }
        "skills/get" => match uri
            .strip_suffix("/SKILL.md")
            .and_then(|directory| shelf.entry(directory))
        {
            Some(entry) => ended(json!({"skill": entry}), true),
            None => unknown(),
        },
        "resources/directory/read" => {
            let start = format!("{uri}/");
            let inside = shelf
                .files
                .keys()
                .filter(|file| file.strip_prefix(&start).is_some_and(|rest| !rest.contains('/')));
            ended(
                json!({"resources": inside.map(|uri| json!({"uri": uri, "name": "n"})).collect::<Vec<_>>()}),
                false,
            )
        }
        "resources/read" => match shelf.forged.get(uri).or_else(|| shelf.files.get(uri)) {
            Some(bytes) => ended(json!({"contents": [content(uri, bytes)]}), true),
            None => unknown(),
        },
        method if method.starts_with("notifications/") => Answer::status(202),
        _ => seen.error(if era == Era::Modern { 404 } else { 200 }, -32601, "unknown method"),
    }
}
