//! What each method does; the same for both eras, which differ only in the shape of the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;

use super::modern::{self, Refusal};
use super::relay::Relay;
use super::session::Session;

use crate::fleet::Federation;
use crate::index::{List, Target};
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::{Era, Features, Id, Method, Revision, RpcError, message, meta, shape};
use crate::metrics::Outcome;
use crate::upstream::{Body, Call, Error, Owner};

/// A request that passed the rules of its era.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// To be echoed.
    pub id: Id<'a>,
    /// What is asked for.
    pub method: Method,
    /// With which parameters, if there are any.
    pub params: Option<&'a Members<'a>>,
    /// The `_meta` in them, if it is an object.
    pub meta: Option<&'a Members<'a>>,
    /// The revision that the client speaks.
    pub revision: Revision,
    /// The session of a Legacy client, where it has one.
    pub session: Option<&'a Session>,
    /// Where goes what is said before the answer, if the client can hear it.
    pub intermediate: Option<&'a mpsc::Sender<Bytes>>,
    /// The headers that came with it, if the transport has any.
    pub headers: Option<&'a HeaderMap>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The whole response, as JSON.
    pub body: Vec<u8>,
    /// How it is counted.
    pub outcome: Outcome,
}

/// Carries out `request` for a client of `federation`.
pub async fn dispatch(federation: &Federation, request: Request<'_>) -> Answer {
    match request.method {
        Method::Initialize => initialize(federation, request),
        Method::Ping => ok(request, b"{}"),
        Method::Discover => ok(request, &discovered(federation)),
        Method::ToolsList | Method::ResourcesList | Method::ResourceTemplatesList | Method::PromptsList => {
            list(federation, request)
        }
        Method::ToolsCall => named(federation, request, List::Tools, "tool").await,
        Method::PromptsGet => named(federation, request, List::Prompts, "prompt").await,
        Method::ResourcesRead => read(federation, request).await,
    }
}

/// What is served, in every revision: lists are always answered, and changes are not announced.
const CAPABILITIES: &str = r#"{"tools":{},"resources":{},"prompts":{}}"#;

fn initialize(federation: &Federation, request: Request<'_>) -> Answer {
    let mut out = Vec::new();
    let mut result = ObjectWriter::open(&mut out);
    result.string("protocolVersion", request.revision.as_str());
    result.member("capabilities", CAPABILITIES);
    result.member("serverInfo", &federation.server_info);
    result.close();
    ok(request, &out)
}

fn discovered(federation: &Federation) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = ObjectWriter::open(&mut out);
    result.string("resultType", "complete");
    result.member(
        "supportedVersions",
        &json!(Revision::ALL.map(Revision::as_str)).to_string(),
    );
    result.member("capabilities", CAPABILITIES);
    result.member("ttlMs", "0");
    result.string("cacheScope", "public");
    let mut own = ObjectWriter::open(result.name("_meta"));
    own.member(meta::SERVER_INFO, &federation.server_info);
    own.close();
    result.close();
    out
}

fn list(federation: &Federation, request: Request<'_>) -> Answer {
    if request
        .params
        .is_some_and(|p| p.get("cursor").is_some_and(|cursor| cursor.get() != "null"))
    {
        return refused(
            request,
            &RpcError::new(RpcError::INVALID_PARAMS, "params.cursor is not one of ours"),
        );
    }
    match List::of_method(request.method) {
        Some(list) => ok(request, federation.index.list(list).result(request.revision)),
        None => refused(request, &RpcError::method_not_found(request.method.as_str())),
    }
}

/// A tool or prompt, addressed by the name that clients see.
async fn named(federation: &Federation, request: Request<'_>, list: List, what: &str) -> Answer {
    let Some(name) = request.params.and_then(|p| p.string("name")) else {
        return refused(
            request,
            &RpcError::new(RpcError::INVALID_PARAMS, "params.name must be a string"),
        );
    };
    match federation.index.list(list).target(&name) {
        Some(target) => match checked_headers(request, target) {
            Ok(()) => forward(federation, request, target).await,
            Err(refusal) => Answer {
                status: refusal.status,
                ..refused(request, &refusal.error)
            },
        },
        None => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, format!("Unknown {what} {name:?}"));
            refused(request, &error.with_data(json!({"name": name})))
        }
    }
}

/// Modern clients repeat arguments as headers where the tool wants it, whoever owns the tool.
fn checked_headers(request: Request<'_>, target: &Target) -> Result<(), Refusal> {
    match (request.revision.era(), &target.param_headers, request.headers) {
        (Era::Modern, Some(annotated), Some(headers)) => {
            modern::check_param_headers(annotated, request.params, headers)
        }
        _ => Ok(()),
    }
}

async fn read(federation: &Federation, request: Request<'_>) -> Answer {
    let Some(uri) = request
        .params
        .and_then(|p| p.string("uri"))
        .filter(|uri| !uri.is_empty())
    else {
        return refused(
            request,
            &RpcError::new(RpcError::INVALID_PARAMS, "params.uri must be a non-empty string"),
        );
    };
    match federation.index.resource(&uri) {
        Some(target) => forward(federation, request, &target).await,
        None => {
            let code = match request.revision.era() {
                Era::Legacy => RpcError::RESOURCE_NOT_FOUND,
                Era::Modern => RpcError::INVALID_PARAMS,
            };
            let error = RpcError::new(code, format!("Resource {uri:?} not found"));
            refused(request, &error.with_data(json!({"uri": uri})))
        }
    }
}

/// Lets the member that owns `target` answer.
async fn forward(federation: &Federation, request: Request<'_>, target: &Target) -> Answer {
    let member = federation.members.get(target.member);
    let (Some(member), Some(params)) = (member, request.params) else {
        return failed(request, "the member is gone");
    };
    let Some(upstream) = &member.upstream else {
        return failed(request, &format!("member {:?} is not connected", member.name));
    };
    let call = Call {
        method: request.method,
        target: &target.original,
        params,
        meta: request.meta,
        param_headers: target.param_headers.as_deref(),
        owner: Owner::Nobody,
        features: &Features::default(),
        answers: None,
        ear: request
            .intermediate
            .and_then(|out| Relay::wanted(request.meta, out.clone()))
            .map(|relay| Arc::new(relay) as _),
    };
    let reply = match upstream.call(call).await {
        Ok(reply) => reply,
        Err(Error::Arguments(error)) => {
            return refused(request, &RpcError::new(RpcError::INVALID_PARAMS, error.to_string()));
        }
        Err(error) => return failed(request, &format!("member {:?}: {error}", member.name)),
    };
    match reply.body() {
        Body::Result(result) => {
            match shape::response(
                request.id,
                request.method,
                result,
                reply.era,
                request.revision,
                &federation.server_info,
            ) {
                Ok(body) => Answer {
                    status: StatusCode::OK,
                    body,
                    outcome: Outcome::Ok,
                },
                Err(error) => failed(request, &format!("member {:?}: {error}", member.name)),
            }
        }
        Body::Error(error) => {
            let error = shape::error(error, request.method, request.revision.era());
            Answer {
                status: StatusCode::OK,
                body: message::error_response(Some(request.id.as_json()), &error),
                outcome: Outcome::UpstreamError,
            }
        }
    }
}

fn ok(request: Request<'_>, result: &[u8]) -> Answer {
    Answer {
        status: StatusCode::OK,
        body: message::response(request.id.as_json(), result),
        outcome: Outcome::Ok,
    }
}

fn refused(request: Request<'_>, error: &RpcError) -> Answer {
    Answer {
        status: StatusCode::OK,
        body: message::error_response(Some(request.id.as_json()), &error.to_json()),
        outcome: Outcome::Refused,
    }
}

fn failed(request: Request<'_>, text: &str) -> Answer {
    let error = RpcError::new(
        RpcError::INTERNAL,
        format!("{} failed: {text}", request.method.as_str()),
    );
    Answer {
        status: StatusCode::OK,
        body: message::error_response(Some(request.id.as_json()), &error.to_json()),
        outcome: Outcome::Failed,
    }
}
