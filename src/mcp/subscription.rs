//! What clients hear of changes: bare notifications in Legacy sessions, and subscriptions of Modern clients, whose every
//! message names the request that opened them (2026-07-28, subscriptions).

use serde_json::value::RawValue;

use super::message;
use super::object::{self, Members, ObjectWriter};
use super::rpc_error::RpcError;
use super::{meta, notice};

/// A list whose changes are told; templates count as resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Resources,
    Prompts,
}

/// What a subscription is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the lists of resources and templates.
    pub resources: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Updates of these resources.
    pub uris: Vec<String>,
    /// Changes of these tasks, as the client knows them.
    pub tasks: Vec<String>,
}

impl ListKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The notification that the list has changed.
    pub const fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }

    /// The member of a filter that asks for it.
    const fn wish(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Resources => "resourcesListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }
}

impl Filter {
    /// Reads `params.notifications` of a request that opens a subscription. What is unknown is left out.
    ///
    /// # Errors
    /// It is missing, or a known member is of the wrong type.
    pub fn read(params: Option<&Members<'_>>) -> Result<Self, RpcError> {
        let wrong = |what: &str| RpcError::new(RpcError::INVALID_PARAMS, format!("params.notifications{what}"));
        let filter = params
            .and_then(|params| Members::parse(params.get("notifications")?.get()))
            .ok_or_else(|| wrong(" must be an object"))?;
        let wants = |kind: ListKind| match filter.get(kind.wish()).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(wrong(&format!(".{} must be true or false", kind.wish()))),
        };
        let strings = |name: &str| {
            filter.get(name).map_or(Ok(Vec::new()), |list| {
                serde_json::from_str(list.get()).map_err(|_| wrong(&format!(".{name} must be a list of strings")))
            })
        };
        Ok(Self {
            tools: wants(ListKind::Tools)?,
            resources: wants(ListKind::Resources)?,
            prompts: wants(ListKind::Prompts)?,
            uris: strings(RESOURCES)?,
            tasks: strings(TASKS)?,
        })
    }

    /// Whether changes of this list are wanted.
    pub fn wants(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Resources => self.resources,
            ListKind::Prompts => self.prompts,
        }
    }

    /// Whether changes of any list are wanted.
    pub fn wants_lists(&self) -> bool {
        ListKind::ALL.into_iter().any(|kind| self.wants(kind))
    }

    /// The same without any list.
    #[must_use]
    pub fn without_lists(self) -> Self {
        Self {
            uris: self.uris,
            tasks: self.tasks,
            ..Self::default()
        }
    }

    /// The first message of the subscription `id`: what of it is honoured, though not for the members `unheard`.
    pub fn acknowledgement(&self, id: &str, unheard: &[String]) -> Vec<u8> {
        notification(notice::ACKNOWLEDGED, |params| {
            let mut own = ObjectWriter::open(params.name("_meta"));
            own.member(meta::SUBSCRIPTION_ID, id);
            if !unheard.is_empty() {
                own.member(meta::ABSENT_MEMBERS, &serde_json::json!(unheard).to_string());
            }
            own.close();
            let mut honoured = ObjectWriter::open(params.name("notifications"));
            for kind in ListKind::ALL.into_iter().filter(|kind| self.wants(*kind)) {
                honoured.member(kind.wish(), "true");
            }
            for (name, list) in [(RESOURCES, &self.uris), (TASKS, &self.tasks)] {
                if !list.is_empty() {
                    honoured.member(name, &serde_json::json!(list).to_string());
                }
            }
            honoured.close();
        })
    }
}

/// That a list has changed: as a message of the subscription `id`, or without one for a Legacy client.
pub fn list_changed(kind: ListKind, id: Option<&str>) -> Vec<u8> {
    match id {
        None => format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, kind.notification()).into_bytes(),
        Some(id) => notification(kind.notification(), |params| tag(params, id)),
    }
}

/// That a list has changed, for Legacy clients of a library that knows this by a name of its own alone.
pub fn list_changed_of_old(kind: ListKind) -> Vec<u8> {
    let method = kind.notification().replace("list_changed", "listChanged");
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).into_bytes()
}

/// That a resource has changed, with these params, a JSON object: as a message of the subscription `id`, or without one
/// for a Legacy client.
pub fn updated(params: &str, id: Option<&str>) -> Vec<u8> {
    notification(notice::RESOURCE_UPDATED, |object| {
        let members = Members::parse(params).unwrap_or_default();
        let own = members
            .get("_meta")
            .and_then(|raw| Members::parse(raw.get()))
            .unwrap_or_default();
        for (name, value) in members.iter().filter(|(name, _)| *name != "_meta") {
            object.member(name, value.get());
        }
        let kept = || own.iter().filter(|(name, _)| *name != meta::SUBSCRIPTION_ID);
        if id.is_none() && kept().next().is_none() {
            return;
        }
        let mut out = ObjectWriter::open(object.name("_meta"));
        for (name, value) in kept() {
            out.member(name, value.get());
        }
        if let Some(id) = id {
            out.member(meta::SUBSCRIPTION_ID, id);
        }
        out.close();
    })
}

/// The response that ends the subscription `id`, from a server that says this of itself.
pub fn ended(id: &str, server_info: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(160);
    let mut object = ObjectWriter::open(&mut result);
    object.string("resultType", "complete");
    let mut own = ObjectWriter::open(object.name("_meta"));
    own.member(meta::SUBSCRIPTION_ID, id);
    own.member(meta::SERVER_INFO, server_info);
    own.close();
    object.close();
    message::response(id, &result)
}

const RESOURCES: &str = "resourceSubscriptions";
/// Of the tasks extension.
const TASKS: &str = "taskIds";

fn notification(method: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    object::write_string(&mut out, method);
    out.extend_from_slice(br#","params":"#);
    let mut params = ObjectWriter::open(&mut out);
    write(&mut params);
    params.close();
    out.push(b'}');
    out
}

fn tag(params: &mut ObjectWriter<'_>, id: &str) {
    let mut own = ObjectWriter::open(params.name("_meta"));
    own.member(meta::SUBSCRIPTION_ID, id);
    own.close();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(params: &str) -> Result<Filter, i64> {
        Filter::read(Members::parse(params).as_ref()).map_err(|error| error.code)
    }

    fn json_of(message: &[u8]) -> Value {
        serde_json::from_slice(message).unwrap()
    }

    #[test]
    fn what_is_not_wanted_or_not_known_is_left_out() {
        let all = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"odd":7,"resourceSubscriptions":["a:b"],"taskIds":["t"]}}"#;
        let filter = Filter {
            tools: true,
            uris: vec!["a:b".into()],
            tasks: vec!["t".into()],
            ..Filter::default()
        };
        assert_eq!(read(all), Ok(filter));
        assert_eq!(read(r#"{"notifications":{}}"#), Ok(Filter::default()));
    }

    #[test]
    fn wrong_types_are_refused() {
        for params in [
            "{}",
            r#"{"notifications":"all"}"#,
            r#"{"notifications":null}"#,
            r#"{"notifications":["toolsListChanged"]}"#,
            r#"{"notifications":{"toolsListChanged":"true"}}"#,
            r#"{"notifications":{"toolsListChanged":1}}"#,
            r#"{"notifications":{"resourceSubscriptions":"a:b"}}"#,
            r#"{"notifications":{"resourceSubscriptions":[1]}}"#,
            r#"{"notifications":{"taskIds":[{}]}}"#,
            r#"{"notifications":{"toolsListChanged":true,"toolsListChanged":false}}"#,
        ] {
            assert_eq!(read(params), Err(-32602), "{params}");
        }
    }

    #[test]
    fn every_message_names_the_subscription_as_it_was_written() {
        let filter = Filter {
            prompts: true,
            uris: vec!["a:b".into()],
            tasks: vec!["t".into()],
            ..Filter::default()
        };
        for id in ["7", "\"7\""] {
            let tag = json!({"io.modelcontextprotocol/subscriptionId": json_of(id.as_bytes())});
            let acknowledged = json_of(&filter.acknowledgement(id, &[]));
            assert_eq!(
                acknowledged["params"],
                json!({"_meta": tag, "notifications": {
                    "promptsListChanged": true, "resourceSubscriptions": ["a:b"], "taskIds": ["t"],
                }})
            );
            let updated = json_of(&updated(r#"{"uri":"a:b","_meta":{"k":1}}"#, Some(id)));
            let mut own = tag.clone();
            own["k"] = json!(1);
            assert_eq!(updated["params"], json!({"uri": "a:b", "_meta": own}));
            let changed = json_of(&list_changed(ListKind::Tools, Some(id)));
            assert_eq!(changed["params"], json!({"_meta": tag}));
            let ended = json_of(&ended(id, r#"{"name":"f","version":"1"}"#));
            assert_eq!(ended["id"], json_of(id.as_bytes()));
            assert_eq!(
                ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
                ended["id"]
            );
        }
    }

    #[test]
    fn legacy_clients_get_the_bare_notification() {
        let changed = json_of(&list_changed(ListKind::Resources, None));
        assert_eq!(
            changed,
            json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})
        );
        let tagged = r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/subscriptionId":1}}"#;
        assert_eq!(
            json_of(&updated(tagged, None)),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}})
        );
    }
}
