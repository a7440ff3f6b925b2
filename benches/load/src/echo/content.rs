//! What both eras answer alike: tools, resources and prompts.

use serde_json::json;

use crate::message::{Answer, Era, Refusal, Request};
use crate::server::Server;
use crate::tools;

/// The server's capabilities, as JSON.
pub(crate) const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true}}"#;

const RESOURCE: &str = "echo://static/hello";

/// The members that an era puts in front of its results, each as JSON with a comma behind.
#[derive(Debug)]
pub(crate) struct Front {
    /// Of every result.
    pub(crate) every: String,
    /// Of results that may be cached.
    pub(crate) cached: String,
}

/// Answers a request of either era; `None` for methods that are not known here.
pub(crate) async fn answer(
    server: &'static Server,
    era: Era,
    front: &Front,
    request: &Request<'_>,
) -> Option<Result<Answer, Refusal>> {
    let Front { every, cached } = front;
    let result = match request.method {
        "tools/list" => tools::list(server, request, cached),
        "tools/call" => return Some(tools::call(server, era, request, every).await),
        "resources/list" => Ok(format!(
            r#"{{{cached}"resources":[{{"uri":"{RESOURCE}","name":"hello","mimeType":"text/plain"}}]}}"#
        )),
        "resources/templates/list" => Ok(format!(r#"{{{cached}"resourceTemplates":[]}}"#)),
        "resources/read" => read(era, request, cached),
        "prompts/list" => Ok(format!(
            r#"{{{cached}"prompts":[{{"name":"greet","description":"A greeting","arguments":[{{"name":"who","required":true}}]}}]}}"#
        )),
        "prompts/get" => greet(request, every),
        _ => return None,
    };
    Some(result.map(Answer::Result))
}

fn read(era: Era, request: &Request<'_>, front: &str) -> Result<String, Refusal> {
    let uri = &request.params["uri"];
    if uri == RESOURCE {
        let content = format!(r#"{{"uri":"{RESOURCE}","mimeType":"text/plain","text":"hello"}}"#);
        return Ok(format!(r#"{{{front}"contents":[{content}]}}"#));
    }
    let code = match era {
        Era::Legacy => -32002,
        Era::Modern => -32602,
    };
    Err(Refusal::new(code, "Resource not found").with_data(json!({"uri": uri})))
}

fn greet(request: &Request<'_>, front: &str) -> Result<String, Refusal> {
    if request.params["name"] != "greet" {
        return Err(Refusal::new(-32602, "Unknown prompt"));
    }
    let who = request.argument("who").unwrap_or("nobody");
    let text = json!(format!("Greet {who}"));
    Ok(format!(
        r#"{{{front}"messages":[{{"role":"user","content":{{"type":"text","text":{text}}}}}]}}"#
    ))
}
