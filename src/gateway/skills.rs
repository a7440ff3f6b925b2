//! Skills (Skills extension): what is asked of them goes to whoever owns them and to nobody else, and no file reaches a
//! client that is not what its skill's entry says.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::bridge;
use super::request::Request;
use crate::defaults;
use crate::fleet::Federation;
use crate::index::skills::{Entry, Mismatch, Proof, uri};
use crate::index::{SkillPrefix, Target};
use crate::mcp::{Envelope, Era, Members, Method, RpcError, object};
use crate::metrics::Outcome;
use crate::upstream::Skills;

/// Carries out `skills/get`: the owner answers, whether it lists the skill or not.
pub(super) async fn get(federation: &Federation, request: Request<'_>) -> Answer {
    let Some(uri) = request.params.string("uri").filter(|uri| !uri.is_empty()) else {
        return without_uri(request);
    };
    let manifest = uri::manifest(&uri);
    let index = &federation.index;
    let Some(target) = index.skill(&manifest, request.audience) else {
        return unknown(request, &uri);
    };
    if index.is_own(&target) {
        return match index.own_skills().and_then(|own| own.get(&target.original)) {
            Some(package) => Answer::result(
                request,
                &format!(r#"{{"skill":{}}}"#, package.entry()),
                &federation.server_info,
            ),
            None => unknown(request, &uri),
        };
    }
    let is_prefix_alone = uri::is_skill(&target.original) && uri::prefix_of(&target.original).is_none();
    if is_prefix_alone || !serves_skills(federation, &target) {
        return unknown(request, &uri);
    }
    bridge::carry(federation, request, &target).await
}

/// Carries out `resources/directory/read`.
pub(super) async fn directory(federation: &Federation, request: Request<'_>) -> Answer {
    if federation.offers.skills != Skills::WithDirectories {
        return Answer::not_served(request);
    }
    let Some(uri) = request.params.string("uri").filter(|uri| !uri.is_empty()) else {
        return without_uri(request);
    };
    let index = &federation.index;
    let Some(target) = index.skill(&uri, request.audience) else {
        return unknown(request, &uri);
    };
    if index.is_own(&target) {
        return match index.own_skills().and_then(|own| own.list_directory(&target.original)) {
            Some(children) => Answer::result(
                request,
                &format!(r#"{{"resources":{children}}}"#),
                &federation.server_info,
            ),
            None => unknown(request, &uri),
        };
    }
    if !serves_skills(federation, &target) {
        return unknown(request, &uri);
    }
    bridge::carry(federation, request, &target).await
}

/// Carries out `resources/read` of what `target` owns. What is a file of a skill is looked at before it is passed on:
/// one that is not what the entry says is looked up again in an entry from the owner, once, and is not passed on if it
/// is not what that says either.
pub(super) async fn read(federation: &Federation, request: Request<'_>, target: &Target) -> Answer {
    let index = &federation.index;
    if index.is_own(target) {
        let contents = index.own_skills().and_then(|own| own.read(&target.original));
        return match contents {
            Some(contents) => Answer::result(
                request,
                &format!(r#"{{"contents":{contents}}}"#),
                &federation.server_info,
            ),
            None => unknown(request, &target.original),
        };
    }
    let skills = index.skills_around(target.member, &target.original);
    let answer = bridge::carry(federation, request, target).await;
    if skills.is_empty() {
        return answer;
    }
    let asked = Asked {
        federation,
        request,
        target,
    };
    for skill in &skills {
        let Err(mismatch) = asked.check(&answer, skill) else {
            continue;
        };
        let name = &federation.members.get(target.member).map_or("", |member| &member.name);
        tracing::warn!(
            federation = federation.name,
            member = name,
            uri = target.original,
            reason = mismatch.reason(),
            "a file of a skill is not what is known of it: {mismatch}"
        );
        if let Some(upstream) = federation
            .members
            .get(target.member)
            .and_then(|member| member.upstream.as_ref())
        {
            upstream.refresh();
        }
        let renewed = asked.renewed(skill).await;
        if let Err(mismatch) = renewed
            .ok_or(mismatch)
            .and_then(|renewed| asked.check(&answer, &renewed))
        {
            let why = format_args!("{mismatch}; the file is not passed on");
            return Answer::failed(request, &federation.of_member(name, &why));
        }
    }
    answer
}

/// A file that a client asks for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    federation: &'a Federation,
    request: Request<'a>,
    target: &'a Target,
}

impl Asked<'_> {
    /// Compares the contents in `answer`, if it has any, with what `skill` says of the file.
    fn check(&self, answer: &Answer, skill: &Entry) -> Result<(), Mismatch> {
        let Some(asked) = skill.proof(&self.target.original) else {
            return Ok(());
        };
        for (uri, content) in contents(&answer.body.joined()) {
            self.proof(skill, &uri).unwrap_or(asked).check_content(content)?;
        }
        Ok(())
    }

    /// What `skill` says of the file that clients call `uri`.
    fn proof(&self, skill: &Entry, uri: &str) -> Option<Proof> {
        match self.prefix() {
            Some(prefix) if uri::is_skill(uri) => skill.proof(&prefix.to_member(uri)?),
            _ => skill.proof(uri),
        }
    }

    fn prefix(&self) -> Option<&SkillPrefix> {
        self.federation.members.get(self.target.member)?.skills.as_ref()
    }

    /// The entry of the skill as its owner gives it now.
    async fn renewed(&self, skill: &Entry) -> Option<Entry> {
        let params = json!({"uri": skill.uri}).to_string();
        let params = Members::parse(&params)?;
        let request = Request {
            method: Method::SkillsGet,
            params: &params,
            intermediate: None,
            ..self.request
        };
        let target = Target {
            original: skill.uri.clone(),
            ..self.target.clone()
        };
        let answer = Box::pin(bridge::carry(self.federation, request, &target)).await;
        if answer.outcome != Outcome::Ok {
            return None;
        }
        let body = answer.body.joined();
        let envelope = Envelope::parse(&body, defaults::JSON_DEPTH_MAX).ok()?;
        let result = Members::parse(envelope.result?.get())?;
        let entry = Entry::read(result.get("skill")?.get()).ok()?;
        match self.prefix() {
            Some(prefix) => entry.for_member(prefix),
            None => Some(entry),
        }
    }
}

/// The contents in a response to `resources/read`, each with its URI.
fn contents(response: &[u8]) -> Vec<(Cow<'_, str>, &str)> {
    let read = || {
        let envelope = Envelope::parse(response, defaults::JSON_DEPTH_MAX).ok()?;
        let contents = Members::parse(envelope.result?.get())?.get("contents")?;
        serde_json::from_str::<Vec<&RawValue>>(contents.get()).ok()
    };
    let each = read().unwrap_or_default().into_iter();
    each.map(|raw| {
        let uri = Members::parse(raw.get()).and_then(|content| content.get("uri"));
        (uri.and_then(object::string).unwrap_or_default(), raw.get())
    })
    .collect()
}

/// Whether the member is known to serve skills at all: others are not asked.
fn serves_skills(federation: &Federation, target: &Target) -> bool {
    let upstream = federation
        .members
        .get(target.member)
        .and_then(|member| member.upstream.as_ref());
    upstream.is_some_and(|upstream| upstream.capabilities().skills != Skills::None)
}

fn without_uri(request: Request<'_>) -> Answer {
    let error = RpcError::new(RpcError::INVALID_PARAMS, "params.uri must be a non-empty string");
    Answer::refused(request, &error)
}

fn unknown(request: Request<'_>, uri: &str) -> Answer {
    let what = match request.method {
        Method::SkillsGet => "Skill",
        Method::DirectoryRead => "Directory",
        _ => "Resource",
    };
    let code = match (request.method, request.revision.era()) {
        (Method::ResourcesRead, Era::Legacy) => RpcError::RESOURCE_NOT_FOUND,
        _ => RpcError::INVALID_PARAMS,
    };
    let error = RpcError::new(code, format!("{what} {uri:?} not found"));
    Answer::refused(request, &error.with_data(json!({"uri": uri})))
}
