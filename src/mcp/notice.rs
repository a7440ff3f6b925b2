//! Notifications of servers: which kind, and for whom.

use super::message::Envelope;
use super::meta;
use super::object::{Members, ObjectWriter};

/// Progress of one request.
pub const PROGRESS: &str = "notifications/progress";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
/// A page that a client was asked to open was visited (2025-11-25, elicitation).
pub const PAGE_VISITED: &str = "notifications/elicitation/complete";
/// Whoever asked something wants no answer any more.
pub const CANCELLED: &str = "notifications/cancelled";

/// A resource that was subscribed to, or a part of it, changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// A server begins to tell what was asked for by `subscriptions/listen` (2026-07-28, subscriptions).
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A client works on other directories now.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";

/// Whether `method` tells that a list changed. One library writes `listChanged`; the specification never did.
pub fn is_list_changed(method: &str) -> bool {
    let kind = method.strip_prefix("notifications/").unwrap_or_default();
    matches!(
        kind.split_once('/'),
        Some(("tools" | "prompts" | "resources", "list_changed" | "listChanged"))
    )
}

/// Whether `method` tells the client of a call something, beside its progress, which has a token.
pub fn is_for_client(method: &str) -> bool {
    matches!(method, MESSAGE | PAGE_VISITED)
}

/// The notification that the page called `id` was visited (2025-11-25, elicitation).
pub fn page_visited(id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut message = ObjectWriter::open(&mut out);
    message.string("jsonrpc", "2.0");
    message.string("method", PAGE_VISITED);
    let mut params = ObjectWriter::open(message.name("params"));
    params.string("elicitationId", id);
    params.close();
    message.close();
    out
}

/// The token of a progress notification, if it is a number of ours.
pub fn progress_token(notification: &Envelope<'_>) -> Option<u64> {
    let params = Members::parse(notification.params?.get())?;
    params.get(meta::PROGRESS_TOKEN)?.get().parse().ok()
}

/// The resource that the params of [`RESOURCE_UPDATED`] name, and the params without what names the subscription, which
/// is of one hop.
pub fn updated(params: &str) -> Option<(String, String)> {
    let members = Members::parse(params)?;
    let uri = members.string("uri")?.into_owned();
    let own = members.get("_meta").and_then(|raw| Members::parse(raw.get()));
    let Some(own) = own.filter(|own| own.get(meta::SUBSCRIPTION_ID).is_some()) else {
        return Some((uri, params.to_owned()));
    };
    let mut out = Vec::with_capacity(params.len());
    let mut object = ObjectWriter::open(&mut out);
    let kept = || own.iter().filter(|(name, _)| *name != meta::SUBSCRIPTION_ID);
    for (name, value) in members.iter() {
        if name != "_meta" {
            object.member(name, value.get());
        } else if kept().next().is_some() {
            let mut own = ObjectWriter::open(object.name(name));
            for (name, value) in kept() {
                own.member(name, value.get());
            }
            own.close();
        }
    }
    object.close();
    Some((uri, String::from_utf8(out).ok()?))
}

/// A progress notification under the client's own `token`, which is JSON; the rest as the server wrote it.
pub fn with_progress_token(params: &Members<'_>, token: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#);
    let mut object = ObjectWriter::open(&mut out);
    object.member(meta::PROGRESS_TOKEN, token);
    for (name, value) in params.iter().filter(|(name, _)| *name != meta::PROGRESS_TOKEN) {
        object.member(name, value.get());
    }
    object.close();
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_changes_are_known_in_both_spellings_and_nothing_else_is_one() {
        for method in [
            "notifications/tools/list_changed",
            "notifications/resources/listChanged",
        ] {
            assert!(is_list_changed(method), "{method}");
        }
        for method in [
            "tools/list_changed",
            "notifications/roots/list_changed",
            "notifications/tools/changed",
            "",
        ] {
            assert!(!is_list_changed(method), "{method}");
        }
    }

    #[test]
    fn a_progress_token_is_exchanged_and_the_rest_stays_as_written() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":17,"progress":0.50,"x":{ }}}"#;
        let envelope = Envelope::parse(text.as_bytes(), 8).unwrap();
        assert_eq!(progress_token(&envelope), Some(17));
        let params = Members::parse(envelope.params.unwrap().get()).unwrap();
        let changed = String::from_utf8(with_progress_token(&params, "\"mine\"")).unwrap();
        assert_eq!(
            changed,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":0.50,"x":{ }}}"#
        );
    }
}
