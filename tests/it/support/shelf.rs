//! Servers with resources, and tools that have user interfaces.

use serde_json::{Map, Value, json};

use super::upstream::{Answer, Seen, Upstream};

/// What a server offers: what it lists, and what it answers to reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) tools: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    /// The content of each resource that it has, listed or not, without its URI.
    pub(crate) contents: Map<String, Value>,
    /// How a resource is missed.
    pub(crate) missing: i64,
}

/// The extension of MCP Apps.
pub(crate) const UI: &str = "io.modelcontextprotocol/ui";
/// The type of their pages.
pub(crate) const PAGE: &str = "text/html;profile=mcp-app";

impl Shelf {
    /// One that has nothing.
    pub(crate) fn empty() -> Self {
        Self {
            missing: -32602,
            ..Self::default()
        }
    }

    /// The same with a resource that holds this text, and that nobody lists.
    pub(crate) fn with(mut self, uri: &str, text: &str) -> Self {
        self.contents.insert(uri.into(), json!({"text": text}));
        self
    }

    /// The same with a tool that these members describe.
    pub(crate) fn with_tool(mut self, name: &str, more: Value) -> Self {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
        for (member, value) in more.as_object().unwrap() {
            tool[member] = value.clone();
        }
        self.tools.push(tool);
        self
    }

    /// The same with a tool that this page shows.
    pub(crate) fn with_app(self, name: &str, page: &str) -> Self {
        self.with_tool(name, json!({"_meta": {"ui": {"resourceUri": page}}}))
    }

    /// Starts a Legacy server that has it.
    pub(crate) async fn legacy(self) -> Upstream {
        Upstream::start(move |seen| self.answer_legacy(seen)).await
    }

    /// Starts a Modern server that has it.
    pub(crate) async fn modern(self) -> Upstream {
        Upstream::start(move |seen| self.answer_modern(seen)).await
    }

    /// Answers as a Legacy server that keeps nothing for its clients.
    pub(crate) fn answer_legacy(&self, seen: &Seen) -> Answer {
        match seen.method() {
            "initialize" => seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "legacy", "version": "1"},
            })),
            "ping" => seen.result(json!({})),
            method if method.starts_with("notifications/") => Answer::status(202),
            _ if seen.http != http::Method::POST => Answer::status(405),
            _ => self
                .answer(seen)
                .unwrap_or_else(|(code, text)| seen.error(200, code, &text)),
        }
    }

    /// Answers as a Modern server.
    pub(crate) fn answer_modern(&self, seen: &Seen) -> Answer {
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {}}, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}},
            })),
            _ => match self.result(seen) {
                Ok(mut result) => {
                    result["resultType"] = json!("complete");
                    if seen.method() != "tools/call" {
                        (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
                    }
                    seen.result(result)
                }
                Err((-32601, text)) => seen.error(404, -32601, &text),
                Err((code, text)) => seen.error(200, code, &text),
            },
        }
    }

    fn answer(&self, seen: &Seen) -> Result<Answer, (i64, String)> {
        self.result(seen).map(|result| seen.result(result))
    }

    fn result(&self, seen: &Seen) -> Result<Value, (i64, String)> {
        let params = &seen.body["params"];
        Ok(match seen.method() {
            "tools/list" => json!({"tools": self.tools}),
            "resources/list" => json!({"resources": self.resources}),
            "resources/templates/list" => json!({"resourceTemplates": self.templates}),
            "prompts/list" => json!({"prompts": []}),
            "tools/call" => json!({"content": [{"type": "text", "text": params["name"]}]}),
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                let content = self.contents.get(uri);
                let mut content = content
                    .cloned()
                    .ok_or_else(|| (self.missing, "no such thing at https://inner.example".to_owned()))?;
                content["uri"] = json!(uri);
                json!({"contents": [content]})
            }
            method => return Err((-32601, format!("no {method}"))),
        })
    }
}
