//! Where the objects of a fleet on this machine come from.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::watch::FileWatch;
use crate::args::{Connect, Header};
use crate::manifest::{self, File, Options, Problem, Reading, Sources};

/// Where objects come from.
pub(crate) enum Source {
    /// Files, which may change.
    Files {
        sources: Sources,
        watch: FileWatch,
        /// The directories of skills that were named when the files were read last.
        skills: Option<FileWatch>,
    },
    /// One server at an address, which does not.
    Address { file: File },
}

impl Source {
    /// The manifests at `paths`.
    pub(crate) fn files(paths: Vec<PathBuf>) -> Self {
        Self::Files {
            sources: Sources::new(paths.clone()),
            watch: FileWatch::new(paths),
            skills: None,
        }
    }

    /// The one server that is connected to.
    pub(crate) fn address(connect: &Connect) -> Self {
        let mut headers: Map<String, Value> = connect.headers.iter().map(member).collect();
        if connect.show_all {
            headers.insert(SHOW_ALL.into(), "true".into());
        }
        let text = json!({"mcpServers": {REMOTE: {"url": connect.url, "headers": headers}}});
        Self::Address {
            file: File {
                name: "mcpfleet connect".into(),
                text: text.to_string(),
            },
        }
    }

    /// Reads the objects, of which an address has one server, [`REMOTE`], in one federation.
    pub(crate) fn read(&mut self, options: &Options) -> Reading {
        match self {
            Self::Files { sources, skills, .. } => {
                let reading = manifest::load(sources, options);
                let Ok(manifests) = &reading.manifests else {
                    return reading;
                };
                let named = manifest::skill_directories(manifests);
                if skills.as_ref().map_or(&[][..], FileWatch::paths) == named {
                    return reading;
                }
                *skills = (!named.is_empty()).then(|| FileWatch::deep(named));
                // What changed before they were watched is in what is read after.
                manifest::load(sources, options)
            }
            Self::Address { file } => {
                let mut reading = manifest::read(std::slice::from_ref(file), options);
                reading.warnings.iter_mut().for_each(as_of_arguments);
                if let Err(problems) = &mut reading.manifests {
                    problems.0.iter_mut().for_each(as_of_arguments);
                }
                reading
            }
        }
    }

    /// Waits until there may be something new to read.
    pub(crate) async fn changed(&mut self) {
        match self {
            Self::Files { watch, skills, .. } => {
                let skills = async {
                    match skills {
                        Some(skills) => skills.changed().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = watch.changed() => {}
                    () = skills => {}
                }
            }
            Self::Address { .. } => std::future::pending().await,
        }
    }
}

/// The words of `problem` for whoever gave arguments and no file.
fn as_of_arguments(problem: &mut Problem) {
    problem.line = None;
    let field = problem.field.take();
    let field = field
        .as_deref()
        .and_then(|field| field.strip_prefix("mcpServers.remote."));
    problem.field = field.map(|field| match field.strip_prefix("headers") {
        Some(header) => format!("--header {}", header.trim_matches(['.', '[', ']', '"'])),
        None => field.to_uppercase(),
    });
    let example = "--header 'Authorization=Bearer ${TOKEN}'";
    problem.message = problem.message.replace(manifest::HEADERS_EXAMPLE, example);
}

/// The member that is served of an address.
pub(crate) const REMOTE: &str = "remote";

/// Asks a server of ours for everything, past what it filters.
const SHOW_ALL: &str = "X-MCP-Show-All";

fn member(header: &Header) -> (String, Value) {
    (header.name.clone(), header.value.clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(headers: &[(&str, &str)]) -> Connect {
        Connect {
            url: "https://mcp.example.com/mcp".into(),
            headers: headers
                .iter()
                .map(|(name, value)| Header {
                    name: (*name).into(),
                    value: (*value).into(),
                })
                .collect(),
            show_all: true,
        }
    }

    fn read(connect: &Connect) -> Reading {
        let options = Options {
            loopback: true,
            had_federation: false,
            environment: [("TOKEN".to_owned(), "s3cret".to_owned())].into(),
        };
        Source::address(connect).read(&options)
    }

    #[test]
    fn an_address_is_one_server_with_headers_from_the_environment() {
        let manifests = read(&connect(&[("Authorization", "Bearer ${TOKEN}")]))
            .manifests
            .unwrap();
        let remote = manifests.servers[0].spec.remote.as_ref().unwrap();
        assert_eq!(remote.url, "https://mcp.example.com/mcp");
        let names: Vec<_> = remote.headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(names, ["Authorization", "X-MCP-Show-All"]);
        let values = manifests.secrets.iter().flat_map(|secret| secret.data.values());
        assert!(values.into_iter().any(|value| value == b"Bearer s3cret"));
        assert_eq!(manifests.federations[0].spec.members.len(), 1);
        assert_eq!(manifests.servers[0].metadata.name.as_deref(), Some(REMOTE));
    }

    #[test]
    fn what_is_wrong_is_told_of_the_argument() {
        let problems = read(&connect(&[("A", "${UNSET}")])).manifests.unwrap_err();
        assert!(problems.to_string().contains("UNSET is not set"), "{problems}");
        assert!(
            problems.to_string().starts_with("mcpfleet connect: --header A: "),
            "{problems}"
        );
        let wrong = Connect {
            url: "127.0.0.1:8080/mcp".into(),
            ..connect(&[])
        };
        let problems = read(&wrong).manifests.unwrap_err().to_string();
        assert!(
            problems.starts_with("mcpfleet connect: URL: url must be an absolute http"),
            "{problems}"
        );
        let secret = Connect {
            url: "https://me:word@mcp.example.com/mcp".into(),
            ..connect(&[])
        };
        let problems = read(&secret).manifests.unwrap_err().to_string();
        assert!(
            problems.ends_with("from a variable: --header 'Authorization=Bearer ${TOKEN}'"),
            "{problems}"
        );
        let warnings = read(&connect(&[("Content-Type", "x")])).warnings;
        let warning = warnings.first().unwrap().to_string();
        assert!(
            warning.starts_with("mcpfleet connect: --header Content-Type: is set by the gateway"),
            "{warning}"
        );
    }
}
