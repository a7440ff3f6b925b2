//! One file: its documents, and which kind of object each of them is.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::collection::{Identity, Place, Source, Sourced};
use super::kind::{ACCEPTED, Kind, Kinds};
use super::nearest::did_you_mean;
use super::objects::{ConfigMap, Secret};
use super::path::Path;
use super::problem::Problem;
use super::reader::Reader;
use super::yaml::{self, Content, Node};
use super::{comments, host, metadata};

/// Reads the text of the reader's file.
pub(super) fn read(reader: &mut Reader<'_>, text: &str) {
    let json = reader.file.ends_with(".json") || (reader.file == "-" && text.trim_start().starts_with(['{', '/']));
    let blanked = json.then(|| comments::blank(text));
    let (documents, faults) = yaml::documents(blanked.as_deref().unwrap_or(text));
    for fault in faults {
        reader.collection.unread = true;
        let message = match (fault.syntax, json) {
            (true, true) => format!("not valid JSON: {}", fault.message),
            (true, false) => format!("not valid YAML: {}", fault.message),
            (false, _) => fault.message,
        };
        reader.problem(fault.line, None, message);
    }
    for document in documents {
        reader.document(document);
    }
}

impl Reader<'_> {
    fn document(&mut self, mut document: Node) {
        if host::recognises(&document) {
            return host::read(self, &document);
        }
        if document.get("kind").and_then(Node::as_str) != Some("List") {
            return self.object(document);
        }
        match document.take("items").map(|items| items.content) {
            Some(Content::List(items)) => items.into_iter().for_each(|item| self.object(item)),
            _ => self.problem(
                document.line,
                Some("items"),
                "a List has its objects here; add them or remove the List",
            ),
        }
    }

    fn object(&mut self, node: Node) {
        let kinds = self.kinds;
        let kind = match kind_of(kinds, &node) {
            Ok(kind) => kind,
            Err((field, message)) => {
                self.collection.unread = true;
                return self.problem(node.line_of(&Path::of_fields(field)), Some(field), message);
            }
        };
        let mut value = node.to_json();
        if let Value::Object(members) = &mut value {
            members.shift_remove("status"); // the controller's to write, nobody's to read from a file
        }
        if self.options.loopback && kind.name == "MCPFederation" {
            open_on_loopback(&mut value);
        }
        let mut findings = kinds.check(kind, &mut value);
        findings.extend(metadata::check(&value, kind.is_own()));
        let source = Rc::new(Source {
            file: self.file.to_owned(),
            node,
        });
        let claimed = self.claim(kind, &source, &mut value);
        if findings.is_empty() && claimed {
            return self.store(kind, source, value);
        }
        let problems = findings
            .into_iter()
            .map(|finding| source.problem(&finding.path, finding.message));
        self.collection.problems.extend(problems);
    }

    /// Notes where an object stands, and writes its namespace down. False: it may not stand here.
    fn claim(&mut self, kind: &Kind, source: &Source, value: &mut Value) -> bool {
        let Some((namespace, name)) = metadata::settle(value) else {
            return false;
        };
        let path = Path::of_fields("metadata.name");
        let identity = Identity {
            kind: kind.name.clone(),
            namespace,
            name,
        };
        let place = Place {
            file: self.file.to_owned(),
            line: source.node.line_of(&path),
            key: None,
        };
        match self.collection.claim(identity, place) {
            Ok(()) => true,
            Err(message) => {
                self.collection.problems.push(source.problem(&path, message));
                false
            }
        }
    }

    fn store(&mut self, kind: &Kind, source: Rc<Source>, value: Value) {
        let collection = &mut *self.collection;
        let at = source.clone();
        let stored = match kind.name.as_str() {
            "MCPServer" => typed(value, &at).map(|object| collection.servers.push(Sourced { object, source })),
            "MCPFederation" => typed(value, &at).map(|object| collection.federations.push(Sourced { object, source })),
            "Secret" => typed(value, &at)
                .and_then(|object| Secret::decode(object).map_err(|finding| at.problem(&finding.path, finding.message)))
                .map(|secret| collection.secrets.push(secret)),
            _ => typed(value, &at)
                .and_then(|object| {
                    ConfigMap::decode(object).map_err(|finding| at.problem(&finding.path, finding.message))
                })
                .map(|config_map| collection.config_maps.push(config_map)),
        };
        collection.problems.extend(stored.err());
    }
}

/// The kind that a document says it is of, or the field that is wrong with that, and how.
fn kind_of<'k>(kinds: &'k Kinds, node: &Node) -> Result<&'k Kind, (&'static str, String)> {
    let Some(name) = node.get("kind").and_then(Node::as_str) else {
        return Err(("kind", format!("is required; accepted are {ACCEPTED}, and an mcp.json")));
    };
    let Some(kind) = kinds.find(name) else {
        let question = did_you_mean(name, kinds.names());
        return Err((
            "kind",
            format!("`{name}` is not taken here{question}; accepted are {ACCEPTED}"),
        ));
    };
    if node.get("apiVersion").and_then(Node::as_str) != Some(&kind.api_version) {
        return Err(("apiVersion", format!("must be {} for {name}", kind.api_version)));
    }
    Ok(kind)
}

fn open_on_loopback(federation: &mut Value) {
    if let Some(Value::Object(spec)) = federation.get_mut("spec")
        && spec.get("access").is_none_or(Value::is_null)
    {
        spec.insert("access".into(), json!({"anonymous": {}}));
    }
}

/// The object as its type. The schema has been checked, so that only what it cannot say is left to go wrong.
fn typed<T: DeserializeOwned>(value: Value, source: &Source) -> Result<T, Problem> {
    serde_json::from_value(value).map_err(|error| Problem {
        field: None,
        ..source.problem(&Path::default(), format!("cannot be taken as it is: {error}"))
    })
}
