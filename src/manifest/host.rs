//! The `mcp.json` that MCP hosts have: a map of servers, each a command on this machine or an address.
//!
//! Hosts write `mcpServers`, or `servers` with a `type` (VS Code). What a host keeps there for itself is ignored
//! with a warning.

use std::borrow::Cow;
use std::path::{Path as FilePath, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};

use super::collection::{Identity, Place, Source, Sourced};
use super::objects::{CommandServer, Secret};
use super::path::{Path, Segment};
use super::reader::Reader;
use super::variables;
use super::yaml::{Content, Entry, Node};
use crate::api::environment::ValueSource;
use crate::api::source::RESERVED_HEADERS;
use crate::api::{self, DEFAULT_NAMESPACE, MCPServer};

/// The members of an entry that mean something here.
const KNOWN: [&str; 8] = ["type", "command", "args", "env", "cwd", "url", "headers", "disabled"];
/// What hosts call a map of servers.
const MAPS: [&str; 2] = ["mcpServers", "servers"];

/// Whether a document is an `mcp.json`.
pub(super) fn recognises(document: &Node) -> bool {
    let foreign = ["apiVersion", "kind"].iter().any(|key| document.get(key).is_some());
    !foreign && MAPS.iter().any(|map| document.get(map).is_some())
}

/// Reads all servers of an `mcp.json`.
pub(super) fn read(reader: &mut Reader<'_>, document: &Node) {
    for map in MAPS {
        let Some(servers) = document.get(map) else { continue };
        if !matches!(servers.content, Content::Map(_)) {
            reader.problem(servers.line, Some(map), "must be a map of servers by name");
        }
        for entry in servers.entries() {
            Server {
                reader: &mut *reader,
                entry,
                path: Path::of_fields(map).field(&entry.key),
            }
            .read();
        }
    }
}

/// One entry being read.
struct Server<'r, 'a> {
    reader: &'r mut Reader<'a>,
    entry: &'r Entry,
    path: Path,
}

/// A problem was told; the entry yields nothing.
struct Refused;

impl Server<'_, '_> {
    fn read(&mut self) {
        // Whatever is wrong was told on the way.
        let _refused = self.try_read();
    }

    fn try_read(&mut self) -> Result<(), Refused> {
        let entry = &self.entry.value;
        if !matches!(entry.content, Content::Map(_)) {
            return Err(self.refuse(&self.path.clone(), "must be a map with command or url"));
        }
        if self.is_disabled()? {
            return Ok(());
        }
        let name = self.claim_name()?;
        self.warn_of_unknown();
        let transport = self.transport()?;
        match (entry.get("command"), entry.get("url")) {
            (Some(_), Some(_)) => Err(self.refuse(&self.path.clone(), "has both command and url; remove one of them")),
            (Some(_), None) if matches!(transport, Some(Transport::Http | Transport::Sse)) => {
                Err(self.refuse_field("type", "goes with url, and there is command; use stdio or remove it"))
            }
            (None, Some(_)) if transport == Some(Transport::Stdio) => {
                Err(self.refuse_field("type", "goes with command, and there is url; use http or remove it"))
            }
            (Some(_), None) => self.command(name),
            (None, Some(_)) => self.remote(&name, transport),
            (None, None) => {
                let other = ["serverUrl", "httpUrl", "uri"]
                    .into_iter()
                    .find(|other| entry.get(other).is_some());
                let fix = other.map_or_else(String::new, |other| format!("; write `{other}` as `url`"));
                Err(self.refuse(&self.path.clone(), &format!("has neither command nor url{fix}")))
            }
        }
    }

    fn is_disabled(&mut self) -> Result<bool, Refused> {
        match self.entry.value.get("disabled").map(|node| &node.content) {
            None | Some(Content::Scalar(Value::Null)) => Ok(false),
            Some(Content::Scalar(Value::Bool(disabled))) => Ok(*disabled),
            Some(_) => Err(self.refuse_field("disabled", "must be true or false")),
        }
    }

    fn claim_name(&mut self) -> Result<String, Refused> {
        let Some(name) = slug(&self.entry.key) else {
            return Err(self.refuse(
                &self.path.clone(),
                "the key has no letter or digit to make a name of; rename it",
            ));
        };
        let identity = Identity {
            kind: "MCPServer".into(),
            namespace: DEFAULT_NAMESPACE.into(),
            name: name.clone(),
        };
        let place = Place {
            file: self.reader.file.to_owned(),
            line: self.entry.line,
            key: Some(self.entry.key.clone()),
        };
        match self.reader.collection.claim(identity, place) {
            Ok(()) => Ok(name),
            Err(message) => Err(self.refuse(&self.path.clone(), &message)),
        }
    }

    fn warn_of_unknown(&mut self) {
        for member in self.entry.value.entries() {
            if !KNOWN.contains(&member.key.as_str()) {
                let field = self.path.field(&member.key).to_string();
                self.reader
                    .warning(member.line, Some(&field), "is not known here and is ignored");
            }
        }
    }

    fn transport(&mut self) -> Result<Option<Transport>, Refused> {
        let Some(node) = self.entry.value.get("type") else {
            return Ok(None);
        };
        match node.as_str() {
            Some("stdio") => Ok(Some(Transport::Stdio)),
            Some("http" | "streamable-http" | "streamableHttp" | "streamable_http") => Ok(Some(Transport::Http)),
            Some("sse") => Ok(Some(Transport::Sse)),
            _ => Err(self.refuse_field("type", "must be stdio, http or sse")),
        }
    }

    fn command(&mut self, name: String) -> Result<(), Refused> {
        let program = self.text("command")?;
        let written = self.entry.value.get("command").and_then(Node::as_str);
        let written = written.map_or_else(|| program.clone(), str::to_owned);
        let args = self.args();
        let env = self.texts("env");
        let cwd = self.entry.value.get("cwd").is_some().then(|| self.text("cwd"));
        let cwd = cwd.transpose()?.map(|cwd| beside(self.reader.file, &cwd));
        if program.is_empty() {
            return Err(self.refuse_field("command", "must not be empty"));
        }
        let server = CommandServer {
            name,
            program,
            written,
            args: args?,
            env: env?.into_iter().collect(),
            cwd,
        };
        self.reader.collection.commands.push(server);
        Ok(())
    }

    /// An address, as the manifest that says the same, so that one set of rules holds for both.
    fn remote(&mut self, name: &str, transport: Option<Transport>) -> Result<(), Refused> {
        let url = self.text("url");
        let (url, mut headers) = (url?, self.texts("headers")?);
        headers.retain(|(header, _)| {
            let lower = header.to_ascii_lowercase();
            let reserved = RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-param-");
            if reserved {
                let path = self.path.field("headers").field(header);
                let line = self.line(&path);
                self.reader.warning(
                    line,
                    Some(&path.to_string()),
                    "is set by the gateway itself and is ignored",
                );
            }
            !reserved
        });
        let listed: Vec<Value> = headers
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let mut remote = json!({"url": url, "headers": listed});
        if let (Some(Transport::Sse), Some(members)) = (transport, remote.as_object_mut()) {
            members.insert("transport".into(), json!({"type": "SSE"}));
        }
        let mut manifest = json!({
            "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
            "kind": "MCPServer",
            "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
            "spec": {"remote": remote},
        });
        let kinds = self.reader.kinds;
        let Some(kind) = kinds.find("MCPServer") else {
            return Err(Refused);
        };
        let findings = kinds.check(kind, &mut manifest);
        for finding in &findings {
            let path = self.path_here(&finding.path, &headers);
            self.refuse(&path, &in_words_of_hosts(&finding.message));
        }
        if !findings.is_empty() {
            return Err(Refused);
        }
        let server = serde_json::from_value(manifest)
            .map_err(|error| self.refuse(&self.path.clone(), &format!("cannot be taken as it is: {error}")))?;
        self.store(server, headers);
        Ok(())
    }

    /// Headers hold tokens more often than not, so their values go through a Secret, as they would in a cluster.
    fn store(&mut self, mut server: MCPServer, headers: Vec<(String, String)>) {
        let name = format!("mcp.json/{}", server.metadata.name.as_deref().unwrap_or_default()); // no file can name it
        if let Some(remote) = &mut server.spec.remote {
            for header in &mut remote.headers {
                header.value_from = Some(ValueSource::secret(&name, &header.name));
                header.value = None;
            }
        }
        if !headers.is_empty() {
            let data = headers
                .into_iter()
                .map(|(header, value)| (header, value.into_bytes()))
                .collect();
            self.reader.collection.secrets.push(Secret {
                namespace: DEFAULT_NAMESPACE.into(),
                name,
                data,
            });
        }
        let source = Rc::new(Source {
            file: self.reader.file.to_owned(),
            node: self.entry.value.clone(),
        });
        self.reader.collection.servers.push(Sourced { object: server, source });
    }

    /// Where a field of the manifest stands in the entry.
    fn path_here(&self, path: &Path, headers: &[(String, String)]) -> Path {
        let index = path.segments().iter().find_map(|segment| match segment {
            Segment::Index(index) => headers.get(*index),
            _ => None,
        });
        match index {
            Some((header, _)) => self.path.field("headers").field(header),
            None if path.to_string() == "spec.remote.url" => self.path.field("url"),
            None => self.path.clone(),
        }
    }

    fn args(&mut self) -> Result<Vec<String>, Refused> {
        let Some(node) = self.entry.value.get("args") else {
            return Ok(Vec::new());
        };
        let Content::List(items) = &node.content else {
            return Err(self.refuse_field("args", "must be a list of strings"));
        };
        let path = self.path.field("args");
        let args: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.expanded(item, &path.index(index)))
            .collect();
        args.into_iter().collect()
    }

    /// A map of strings, in the file's order. Null stands for a variable that a host leaves out.
    fn texts(&mut self, field: &str) -> Result<Vec<(String, String)>, Refused> {
        let Some(node) = self.entry.value.get(field) else {
            return Ok(Vec::new());
        };
        let Content::Map(entries) = &node.content else {
            return Err(self.refuse_field(field, "must be a map of strings"));
        };
        let path = self.path.field(field);
        let given = entries
            .iter()
            .filter(|entry| !matches!(entry.value.content, Content::Scalar(Value::Null)));
        let texts: Vec<_> = given
            .map(|entry| Ok((entry.key.clone(), self.expanded(&entry.value, &path.field(&entry.key))?)))
            .collect();
        texts.into_iter().collect()
    }

    fn text(&mut self, field: &str) -> Result<String, Refused> {
        match self.entry.value.get(field) {
            Some(node) => self.expanded(node, &self.path.field(field)),
            None => Err(self.refuse_field(field, "is required")),
        }
    }

    /// A string with its variables replaced; numbers and booleans are taken as they are written in JSON.
    fn expanded(&mut self, node: &Node, path: &Path) -> Result<String, Refused> {
        let text = match &node.content {
            Content::Scalar(Value::String(text)) => text,
            Content::Scalar(value @ (Value::Number(_) | Value::Bool(_))) => return Ok(value.to_string()),
            _ => return Err(self.refuse(path, "must be a string")),
        };
        variables::expand(text, &self.reader.options.environment).map_err(|unset| self.refuse(path, &unset.to_string()))
    }

    fn refuse_field(&mut self, field: &str, message: &str) -> Refused {
        self.refuse(&self.path.field(field), message)
    }

    fn refuse(&mut self, path: &Path, message: &str) -> Refused {
        let line = self.line(path);
        self.reader.problem(line, Some(&path.to_string()), message);
        Refused
    }

    /// The line of a path that starts at the document.
    fn line(&self, path: &Path) -> usize {
        let inside = path
            .segments()
            .iter()
            .skip(2)
            .fold(Path::default(), |path, segment| path.join(segment.clone()));
        if inside == Path::default() {
            self.entry.line
        } else {
            self.entry.value.line_of(&inside)
        }
    }
}

/// What a rule says, with the way out that an `mcp.json` has where the rule tells that of a manifest.
fn in_words_of_hosts(message: &str) -> Cow<'_, str> {
    match message {
        api::source::CREDENTIALS_IN_URL => {
            let what =
                "url must not hold a user name or password; send them in headers, with their value from a variable";
            format!("{what}: {HEADERS_EXAMPLE}").into()
        }
        other => other.into(),
    }
}

/// How an `mcp.json` sends a header with a value from a variable.
pub const HEADERS_EXAMPLE: &str = r#""headers": {"Authorization": "Bearer ${TOKEN}"}"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
    Sse,
}

/// A Kubernetes name made from a key: `GitHub (work)` becomes `github-work`. `None`: nothing of it can be used.
pub(super) fn slug(key: &str) -> Option<String> {
    let words: Vec<String> = key
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut name = words.join("-");
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert_str(0, "mcp-");
    }
    name.truncate(api::NAME_LENGTH_MAX);
    let name = name.trim_end_matches('-');
    (!name.is_empty()).then(|| name.to_owned())
}

/// A working directory as a path from the file's own place.
fn beside(file: &str, cwd: &str) -> PathBuf {
    FilePath::new(file).with_file_name(cwd)
}

#[cfg(test)]
mod tests;
