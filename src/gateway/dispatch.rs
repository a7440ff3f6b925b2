//! What each method does; the same for both eras, which differ only in the shape of the answer.

use serde_json::json;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::bridge;
use super::completion;
use super::lists;
use super::modern::{self, Refusal};
use super::request::Request;
use super::{extensions, meta_tools, reads, skills, subscribe, tasks, viewer};
use crate::fleet::Federation;
use crate::index::{Audience, Bare, List, MetaTool, Target};
use crate::mcp::LogLevel;
use crate::mcp::object::ObjectWriter;
use crate::mcp::{Era, Method, Revision, RpcError, meta};
use crate::upstream::Party;

/// Carries out `request` for a client of `federation`. What is rarely asked for is put apart, so that calls stay small.
pub async fn dispatch(federation: &Federation, request: Request<'_>) -> Answer {
    match request.method {
        Method::Initialize => initialize(federation, request),
        Method::Ping => Answer::ok(request, b"{}"),
        Method::Discover => Answer::ok(request, &discovered(federation, request.audience)),
        Method::ToolsList
        | Method::ResourcesList
        | Method::ResourceTemplatesList
        | Method::PromptsList
        | Method::SkillsList => list(federation, request),
        Method::ToolsCall => named(federation, request, List::Tools, "tool").await,
        Method::PromptsGet => named(federation, request, List::Prompts, "prompt").await,
        Method::ResourcesRead => Box::pin(reads::read(federation, request)).await,
        Method::SkillsGet => Box::pin(skills::get(federation, request)).await,
        Method::DirectoryRead => Box::pin(skills::directory(federation, request)).await,
        Method::Complete => Box::pin(completion::complete(federation, request)).await,
        Method::Subscribe | Method::Unsubscribe => Box::pin(subscribe::change(federation, request)).await,
        Method::SetLevel => set_level(federation, request),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
            Box::pin(tasks::carry(federation, request)).await
        }
        // Its answer is a stream, and no response; the other is only ever asked of servers.
        Method::Listen | Method::TasksResult => {
            Answer::refused(request, &RpcError::method_not_found(request.method.as_str()))
        }
    }
}

/// What is served to a client of `revision`: lists are always answered, and their changes told wherever there is a way
/// to tell them, as there is if the session `has_channel`. Over other ways the first revision is not offered it.
fn capabilities(federation: &Federation, revision: Revision, has_channel: bool) -> String {
    let hears = match revision {
        Revision::V2024_11_05 => has_channel,
        Revision::V2025_03_26 | Revision::V2025_06_18 | Revision::V2025_11_25 => {
            has_channel || federation.sessions.enabled
        }
        Revision::V2026_07_28 => true,
    };
    let offers = federation.offers;
    let mut out = Vec::new();
    let mut all = ObjectWriter::open(&mut out);
    // Where a session is needed to hear of anything, it is not offered without one.
    let may_tell = hears || revision == Revision::V2024_11_05 && federation.sessions.enabled;
    let lists: [&str; 2] = match (hears, offers.subscribe && may_tell) {
        (true, true) => [r#"{"listChanged":true}"#, r#"{"subscribe":true,"listChanged":true}"#],
        (true, false) => [r#"{"listChanged":true}"#, r#"{"subscribe":false,"listChanged":true}"#],
        (false, true) => ["{}", r#"{"subscribe":true}"#],
        (false, false) => ["{}", "{}"],
    };
    let [list, resources] = lists;
    for (name, value) in [("tools", list), ("resources", resources), ("prompts", list)] {
        all.member(name, value);
    }
    if offers.logging && may_tell {
        all.member("logging", "{}");
    }
    // The first revision has the method, and no word for it.
    if offers.completions && revision > Revision::V2024_11_05 {
        all.member("completions", "{}");
    }
    extensions::declare(&mut all, federation, revision);
    all.close();
    String::from_utf8_lossy(&out).into_owned()
}

/// A session says from which level on it wants to hear logs, if there are any.
fn set_level(federation: &Federation, request: Request<'_>) -> Answer {
    let Some(session) = request.session.filter(|_| federation.offers.logging) else {
        return Answer::refused(request, &RpcError::method_not_found(request.method.as_str()));
    };
    let level = request.params.string("level");
    let Some(level) = level.and_then(|level| LogLevel::parse(&level)) else {
        let text = format!("params.level must be one of {}", LogLevel::names());
        return Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, text));
    };
    let party = Party::of(&federation.name, request.principal.name());
    match request.conversations.wishes.set_level(session.id, &party, level) {
        Ok(()) => Answer::ok(request, b"{}"),
        Err(no_room) => Answer::failed(request, &no_room.to_string()),
    }
}

/// Who is in a session already has it on a channel; others are given one with the answer.
fn initialize(federation: &Federation, request: Request<'_>) -> Answer {
    let mut out = Vec::new();
    let mut result = ObjectWriter::open(&mut out);
    result.string("protocolVersion", request.revision.as_str());
    result.member(
        "capabilities",
        &capabilities(federation, request.revision, request.session.is_some()),
    );
    result.member("serverInfo", &federation.server_info);
    instruct(&mut result, federation, request.audience);
    result.close();
    Answer::ok(request, &out)
}

/// How to use it and, for those who are not listed everything, where the rest is.
fn instruct(result: &mut ObjectWriter<'_>, federation: &Federation, audience: Audience) {
    let own = &*federation.instructions_for(audience);
    if federation.index.view(audience).leads_to_unlisted {
        result.string("instructions", &MetaTool::hinted(own));
    } else if !own.is_empty() {
        result.string("instructions", own);
    }
}

fn discovered(federation: &Federation, audience: Audience) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = ObjectWriter::open(&mut out);
    result.string("resultType", "complete");
    result.member(
        "supportedVersions",
        &json!(
            federation
                .protocol
                .revisions()
                .iter()
                .map(|r| r.as_str())
                .collect::<Vec<_>>()
        )
        .to_string(),
    );
    result.member("capabilities", &capabilities(federation, Revision::LATEST, false));
    instruct(&mut result, federation, audience);
    result.member("ttlMs", "0");
    result.string("cacheScope", lists::cache_scope(federation, audience));
    let mut own = ObjectWriter::open(result.name("_meta"));
    own.member(meta::SERVER_INFO, &federation.server_info);
    own.close();
    result.close();
    out
}

fn list(federation: &Federation, request: Request<'_>) -> Answer {
    match List::of_method(request.method) {
        Some(list) => lists::answer(federation, request, list),
        None => Answer::refused(request, &RpcError::method_not_found(request.method.as_str())),
    }
}

/// A tool or prompt, addressed by the name that clients see.
async fn named(federation: &Federation, request: Request<'_>, list: List, what: &str) -> Answer {
    let Some(name) = request.params.string("name") else {
        return Answer::refused(
            request,
            &RpcError::new(RpcError::INVALID_PARAMS, "params.name must be a string"),
        );
    };
    match federation.index.target(list, &name, request.audience) {
        Some(target) => call(federation, request, target).await,
        None if list == List::Tools => Box::pin(unlisted(federation, request, &name)).await,
        None => unknown(federation, request, &name, format!("Unknown {what} {name:?}")),
    }
}

async fn call(federation: &Federation, request: Request<'_>, target: &Target) -> Answer {
    match checked_headers(request, target) {
        Ok(()) => bridge::carry(federation, request, target).await,
        Err(refusal) => Answer {
            status: refusal.status,
            ..Answer::refused(request, &refusal.error)
        },
    }
}

/// A tool of a name that no member lists: one of ours, that of a page, one that a member's own search may have told of,
/// or none.
async fn unlisted(federation: &Federation, request: Request<'_>, name: &str) -> Answer {
    if let Some(tool) = MetaTool::of_name(name) {
        return meta_tools::call(federation, request, tool).await;
    }
    let (index, audience) = (&federation.index, request.audience);
    match bare(federation, request, name) {
        Bare::Only(target) => return call(federation, request, target).await,
        Bare::Several(candidates) => {
            let names = candidates.join(" or ");
            let text = format!("Unknown tool {name:?}: that is ambiguous here, call {names}");
            let data = json!({"name": name, "candidates": candidates});
            let error = RpcError::new(RpcError::INVALID_PARAMS, text).with_data(data);
            return Answer::refused(request, &error);
        }
        Bare::Nothing => {}
    }
    if let Some(delegated) = index.delegated(name, audience) {
        let arguments = request.params.get("arguments").map(RawValue::get);
        let arguments = arguments.filter(|arguments| arguments.starts_with('{')).unwrap_or("{}");
        if let Some(answer) = meta_tools::delegate(federation, request, &delegated, arguments).await {
            return answer;
        }
    }
    let mut text = format!("Unknown tool {name:?}");
    if index.view(audience).leads_to_unlisted {
        text.push_str("; ");
        text.push_str(MetaTool::HINT);
    }
    unknown(federation, request, name, text)
}

/// What a name stands for that nobody lists. A page of an app calls the tools of its server by the names which that
/// gives them, and its host passes that on. Whoever shows no apps has no pages: a name that a model made up is not to
/// reach a server that nobody meant.
fn bare<'f>(federation: &'f Federation, request: Request<'_>, name: &str) -> Bare<'f> {
    if viewer::shows_apps(federation, request.session, request.meta) {
        federation.index.bare_tool(name, request.audience)
    } else {
        Bare::Nothing
    }
}

/// Nobody has it, or whoever may have it does not say so.
fn unknown(federation: &Federation, request: Request<'_>, name: &str, mut text: String) -> Answer {
    if let Some(absent) = federation.absent_owner(name) {
        return Answer::failed(request, &federation.of_member(&absent.member, &absent.why));
    }
    if !federation.absent.is_empty() {
        let names: Vec<&str> = federation.absent.iter().map(|absent| absent.member.as_str()).collect();
        text.push_str(&format!(
            "; it may be of a member that does not answer: {}",
            names.join(", ")
        ));
    }
    let error = RpcError::new(RpcError::INVALID_PARAMS, text);
    Answer::refused(request, &error.with_data(json!({"name": name})))
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
