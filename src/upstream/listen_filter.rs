//! What a Modern server is asked to tell of, and what of it it agrees to (2026-07-28, subscriptions).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::capabilities::{Capabilities, Offer};
use super::state::Peer;
use crate::mcp::meta::{self, Hop};
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::{Era, Features};

/// The kinds of changes of one listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    /// URIs, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_subscriptions: Vec<String>,
}

impl Filter {
    /// Everything that a server with these capabilities tells of, and these resources.
    pub(super) fn of(capabilities: &Capabilities, resources: Vec<String>) -> Self {
        Self {
            tools_list_changed: capabilities.tools == Offer::Announced,
            prompts_list_changed: capabilities.prompts == Offer::Announced,
            resources_list_changed: capabilities.resources == Offer::Announced,
            resource_subscriptions: resources,
        }
    }

    /// The same without resources.
    pub(super) fn of_lists(&self) -> Self {
        Self {
            resource_subscriptions: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether it asks for changes of lists.
    pub(super) fn has_lists(&self) -> bool {
        self.tools_list_changed || self.prompts_list_changed || self.resources_list_changed
    }

    /// Whether it asks for this resource.
    pub(super) fn has(&self, uri: &str) -> bool {
        let own = &self.resource_subscriptions;
        own.binary_search_by(|own| own.as_str().cmp(uri)).is_ok()
    }

    /// Whether it asks for nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The params of the listen.
    pub(super) fn params(&self, peer: &Peer) -> Vec<u8> {
        let mut out = Vec::new();
        let mut params = ObjectWriter::open(&mut out);
        params.member("notifications", &serde_json::to_string(self).unwrap_or_default());
        let everything = Features::everything().to_json(Era::Modern);
        let hop = Hop::declaring(Era::Modern, &peer.revision_name, &everything);
        meta::write_for_upstream(&mut params, None, hop);
        params.close();
        out
    }

    /// The listen that an acknowledgement with these params is of, and what it agrees to; `None` where it does not say
    /// what.
    pub(super) fn acknowledged(params: Option<&RawValue>) -> Option<(u64, Option<Self>)> {
        let members = Members::parse(params?.get())?;
        let own = Members::parse(members.get("_meta")?.get())?;
        let id = own.get(meta::SUBSCRIPTION_ID)?.get().parse().ok()?;
        let honoured = members.get("notifications");
        Some((id, honoured.and_then(|raw| serde_json::from_str(raw.get()).ok())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_tells_of_is_asked_for() {
        let capabilities = Capabilities {
            tools: Offer::Announced,
            resources: Offer::Silent,
            ..Capabilities::default()
        };
        let filter = Filter::of(&capabilities, vec!["a".into()]);
        let params = String::from_utf8(filter.params(&Peer::taken_for("2026-07-28"))).unwrap();
        assert!(
            params.starts_with(
                r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28""#
            ),
            "{params}"
        );
        assert!(Filter::of(&Capabilities::UNKNOWN, Vec::new()).is_empty());
    }

    #[test]
    fn an_acknowledgement_says_which_listen_and_what_it_agrees_to() {
        let read = |text: &str| {
            let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
            Filter::acknowledged(Some(&raw))
        };
        let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
        let agreed = read(&format!(
            r#"{{{tag},"notifications":{{"promptsListChanged":true,"new":1}}}}"#
        ));
        let expected = Filter {
            prompts_list_changed: true,
            ..Filter::default()
        };
        assert_eq!(agreed, Some((7, Some(expected))));
        assert_eq!(read(&format!("{{{tag}}}")), Some((7, None)));
        for wrong in [
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}"#,
            r#"{"notifications":{}}"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
