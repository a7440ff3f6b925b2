//! `tool_search` and `execute_tool`: how clients come to tools that they are not listed.
//!
//! Both are called like any tool. What `execute_tool` runs is carried like a call of that tool itself, and what a
//! member's own search found is run by that member's own `execute_tool`.

use std::borrow::Cow;

use bytes::Bytes;
use futures::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::bridge::{self, remote_search};
use super::message::Message;
use super::request::Request;
use crate::defaults;
use crate::fleet::Federation;
use crate::index::search::Query;
use crate::index::{Delegated, MetaTool, Target, findings};
use crate::mcp::object::{self, ObjectWriter};
use crate::mcp::printable::printable;
use crate::mcp::{Envelope, Members, message, meta, passed};
use crate::metrics::Outcome;

/// Answers a call of one of the two.
pub(super) async fn call(federation: &Federation, request: Request<'_>, tool: MetaTool) -> Answer {
    let arguments = match request.params.get("arguments").filter(is_given) {
        None => Some(Members::default()),
        Some(arguments) => Members::parse(arguments.get()),
    };
    let answered = match (arguments, tool) {
        (None, _) => Err(Mistake::TwiceNamed),
        (Some(arguments), MetaTool::Search) => search(federation, request, &arguments).await,
        (Some(arguments), MetaTool::Execute) => execute(federation, request, &arguments).await,
    };
    answered.unwrap_or_else(|mistake| Answer {
        outcome: Outcome::ToolError,
        ..tell(federation, request, &mistake.to_string(), true, &[])
    })
}

/// Lets the member run the tool that its own search tells of and that no list has. `arguments` is a JSON object. `None`
/// where the member does not tell of it.
pub(super) async fn delegate(
    federation: &Federation,
    request: Request<'_>,
    delegated: &Delegated,
    arguments: &str,
) -> Option<Answer> {
    let Some(hops) = remote_search::next_hop(request.meta) else {
        let text = "gateways hand it round in circles; look at members with remoteSearch";
        return Some(Answer::failed(request, text));
    };
    match remote_search::has(federation, delegated, hops).await {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => {
            let member = federation.members.get(delegated.member);
            let member = member.map_or("", |member| member.name.as_str());
            let text = format!(
                "{} does not say whether it has the tool: {}",
                federation.called(member),
                error.outline()
            );
            return Some(Answer::failed(request, &text));
        }
    }
    let mut own = Vec::new();
    let mut call = ObjectWriter::open(&mut own);
    call.string("name", &delegated.original);
    call.member("parameters", arguments);
    call.close();
    let target = Target {
        member: delegated.member,
        original: MetaTool::Execute.name().to_owned(),
        param_headers: None,
        needs_task: false,
    };
    let arguments = String::from_utf8_lossy(&own);
    Some(carry(federation, request, &target, &arguments, Some(hops)).await)
}

/// What a model did wrong, in words for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Mistake {
    #[error("The arguments name a member twice")]
    TwiceNamed,
    #[error("query must be a string: words that say what the tool should do")]
    NoQuery,
    #[error("max_results must be a whole number")]
    NoNumber,
    #[error("name is required: the name of the tool to call, as tool_search tells it")]
    NoName,
    #[error("{0} is called itself, not by execute_tool")]
    MetaTool(&'static str),
    #[error("parameters must be an object: the tool's arguments by their names")]
    NoParameters,
    #[error("Unknown tool {0:?}; tool_search tells which there are")]
    Unknown(String),
}

async fn search(federation: &Federation, request: Request<'_>, arguments: &Members<'_>) -> Result<Answer, Mistake> {
    let query = match arguments.get("query").filter(is_given) {
        None => Cow::Borrowed(""),
        Some(query) => object::string(query).ok_or(Mistake::NoQuery)?,
    };
    let asked = match arguments.get("max_results").filter(is_given) {
        None => None,
        Some(number) => Some(whole(number.get()).ok_or(Mistake::NoNumber)?),
    };
    let limit = federation.discovery.limits.of(asked);
    let (index, audience) = (&federation.index, request.audience);
    let mut passed = passed::by_search(request.meta);
    if passed.contains(&federation.mark) {
        // It comes back from a member that asks this federation itself, which told all that it found already.
        return Ok(tell(federation, request, &findings::told(&[]), false, &[]));
    }
    passed.push(federation.mark);
    let asking = remote_search::next_hop(request.meta).map(|hops| {
        let question = remote_search::Question::new(&query, limit, hops, &passed);
        index
            .searching_members(audience)
            .map(move |member| question.clone().ask(federation, request, member))
    });
    let remote = join_all(asking.into_iter().flatten()).await;
    let own = index.find(&Query::parse(&query), limit, audience, request.revision);
    let mut found = own;
    let mut absent: Vec<&str> = federation.absent.iter().map(|absent| absent.member.as_str()).collect();
    let mut failed = Vec::new();
    for answered in remote {
        match answered {
            Ok(remote) => found.extend(remote),
            Err(remote_search::Absent(member)) => failed.push(member),
        }
    }
    absent.extend(failed.iter().map(String::as_str));
    absent.sort_unstable();
    absent.dedup();
    let found = findings::merged(found, limit);
    Ok(tell(federation, request, &findings::told(&found), false, &absent))
}

async fn execute(federation: &Federation, request: Request<'_>, arguments: &Members<'_>) -> Result<Answer, Mistake> {
    let name = arguments.string("name").filter(|name| !name.trim().is_empty());
    let name = name.ok_or(Mistake::NoName)?;
    let mut parameters = ["parameters", "arguments"].into_iter();
    let parameters = parameters.find_map(|member| arguments.get(member).filter(is_given));
    let parameters = parameters.map_or("{}", RawValue::get);
    if !parameters.starts_with('{') {
        return Err(Mistake::NoParameters);
    }
    let (index, audience) = (&federation.index, request.audience);
    if let Some(target) = index.target_for_models(&name, audience) {
        return Ok(carry(federation, request, target, parameters, None).await);
    }
    if let Some(delegated) = index.delegated(&name, audience)
        && let Some(answer) = delegate(federation, request, &delegated, parameters).await
    {
        return Ok(answer);
    }
    if let Some(absent) = federation.absent_owner(&name) {
        let text = federation.of_member(&absent.member, &absent.why);
        return Ok(Answer::failed(request, &text));
    }
    Err(match MetaTool::of_name(&name) {
        Some(own) => Mistake::MetaTool(own.name()),
        None => Mistake::Unknown(printable(&name, NAME_SHOWN_MAX)),
    })
}

/// Carries `request` as if it had called `target` with these `arguments`, a JSON object, after so many `hops`.
async fn carry(
    federation: &Federation,
    request: Request<'_>,
    target: &Target,
    arguments: &str,
    hops: Option<u32>,
) -> Answer {
    let body = Bytes::from(rewritten(request, &target.original, arguments, hops));
    let read = Envelope::parse(&body, defaults::JSON_DEPTH_MAX);
    let envelope = match &read {
        Ok(envelope) => envelope,
        Err(error) => return Answer::failed(request, &error.to_string()),
    };
    let message = match Message::of(envelope, &body) {
        Ok(message) => message,
        Err(error) => return Answer::failed(request, &error.to_string()),
    };
    let none = Members::default();
    let request = Request {
        params: message.params().unwrap_or(&none),
        meta: message.meta(),
        body: &body,
        ..request
    };
    bridge::carry(federation, request, target).await
}

/// The message of `request` with another tool and other arguments in it.
fn rewritten(request: Request<'_>, tool: &str, arguments: &str, hops: Option<u32>) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.body.len());
    let mut params = ObjectWriter::open(&mut out);
    params.string("name", tool);
    params.member("arguments", arguments);
    let is_anew = |name: &str| matches!(name, "name" | "arguments") || (name == "_meta" && hops.is_some());
    for (name, value) in request.params.iter().filter(|(name, _)| !is_anew(name)) {
        params.member(name, value.get());
    }
    if let Some(hops) = hops {
        let mut own = ObjectWriter::open(params.name("_meta"));
        let kept = request.meta.into_iter().flat_map(Members::iter);
        for (name, value) in kept.filter(|(name, _)| *name != meta::SEARCH_HOPS) {
            own.member(name, value.get());
        }
        own.member(meta::SEARCH_HOPS, &hops.to_string());
        own.close();
    }
    params.close();
    message::request_with(request.id.as_json(), request.method.as_str(), &out)
}

/// A result that is one text, which lacks what these members have.
fn tell(federation: &Federation, request: Request<'_>, text: &str, is_error: bool, absent: &[&str]) -> Answer {
    let mut out = Vec::new();
    let mut result = ObjectWriter::open(&mut out);
    result.member("content", &json!([{"type": "text", "text": text}]).to_string());
    if is_error {
        result.member("isError", "true");
    }
    if !absent.is_empty() {
        result.member("_meta", &json!({meta::ABSENT_MEMBERS: absent}).to_string());
    }
    result.close();
    Answer::result(request, &String::from_utf8_lossy(&out), &federation.server_info)
}

/// A number without a fraction, written in any way.
fn whole(json: &str) -> Option<i64> {
    if let Ok(number) = json.parse() {
        return Some(number);
    }
    let number: f64 = json.parse().ok().filter(|number: &f64| number.fract() == 0.0)?;
    #[allow(clippy::cast_possible_truncation, reason = "more than there is counts as the most")]
    Some(number as i64)
}

/// Most characters of a wrong name that are repeated.
const NAME_SHOWN_MAX: usize = 128;

/// Null is as good as nothing.
fn is_given(value: &&RawValue) -> bool {
    value.get() != "null"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_however_they_are_written() {
        for (json, expected) in [
            ("7", Some(7)),
            ("-4", Some(-4)),
            ("5.0", Some(5)),
            ("1e2", Some(100)),
            ("1e99", Some(i64::MAX)),
            ("5.5", None),
            ("\"5\"", None),
            ("true", None),
            ("[]", None),
        ] {
            assert_eq!(whole(json), expected, "{json}");
        }
    }
}
