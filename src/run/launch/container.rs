//! How a container server runs on this machine: the command line for its engine.

use http::{HeaderMap, Uri};

use super::environment::Environment;
use crate::api::source::{ContainerSource, ImagePullPolicy};
use crate::fleet::{References, Unresolved};
use crate::upstream::{Endpoint, HttpEndpoint, StdioCommand};

/// What is run, compared to see whether a container must be replaced.
///
/// `resources` and `imagePullSecrets` speak of a cluster: here the machine's own limits and the engine's own sign-in
/// hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRun {
    image: String,
    pull: Option<ImagePullPolicy>,
    entrypoint: Option<String>,
    args: Vec<String>,
    working_dir: Option<String>,
    environment: Environment,
    port: u16,
    path: String,
}

impl ContainerRun {
    /// What `container` says.
    ///
    /// # Errors
    /// Says which reference is missing, or which part cannot be used here.
    pub(crate) fn new(
        container: &ContainerSource,
        namespace: &str,
        references: &References,
    ) -> Result<Self, Unresolved> {
        if container.image.starts_with('-') {
            return Err(Unresolved {
                reason: "InvalidImage",
                message: format!(
                    "spec.container.image {:?} is not the name of an image; it starts with '-'",
                    container.image
                ),
            });
        }
        let environment = Environment::resolve(namespace, &container.env, &container.env_from, references)?;
        if let Some(name) = environment
            .values()
            .keys()
            .find(|name| read_by_engine(name) && environment.is_secret(name))
        {
            return Err(Unresolved {
                reason: "InvalidValue",
                message: format!(
                    "the container's variable {name} cannot come from a Secret here: it would have to stand on the \
                     engine's command line; give it a literal value or another name"
                ),
            });
        }
        let mut command = environment.expand_all(&container.command).into_iter();
        let entrypoint = command.next();
        let run = Self {
            image: container.image.clone(),
            pull: container.image_pull_policy,
            entrypoint,
            args: command.chain(environment.expand_all(&container.args)).collect(),
            working_dir: container.working_dir.clone(),
            environment,
            port: container.transport.port,
            path: container.transport.path.clone(),
        };
        // The port does not matter for what may be wrong with the path.
        run.endpoint(run.port).map(|_| run)
    }

    /// Where the server is reached once it is published at `host_port`.
    pub(crate) fn endpoint(&self, host_port: u16) -> Result<Endpoint, Unresolved> {
        let url: Uri = format!("http://127.0.0.1:{host_port}{}", self.path)
            .parse()
            .map_err(|_| Unresolved {
                reason: "InvalidURL",
                message:
                    "spec.container.transport.path has characters that an address cannot carry; percent-encode them"
                        .into(),
            })?;
        Ok(Endpoint::Http(HttpEndpoint {
            url,
            headers: HeaderMap::new(),
        }))
    }

    /// The command that runs it in the foreground as `name`, published at `host_port` of the loopback address, and
    /// removed when it ends. Values of variables go through the engine's own environment, since everybody on the
    /// machine can read a command line.
    pub(crate) fn command(&self, engine: &str, name: &str, host_port: u16) -> StdioCommand {
        let mut args: Vec<String> = ["run", "--rm", "--name", name].map(Into::into).into();
        args.extend(["--publish".into(), format!("127.0.0.1:{host_port}:{}", self.port)]);
        if let Some(pull) = self.pull {
            args.extend(["--pull".into(), pull_word(pull).into()]);
        }
        if let Some(folder) = &self.working_dir {
            args.extend(["--workdir".into(), folder.clone()]);
        }
        if let Some(entrypoint) = &self.entrypoint {
            args.extend(["--entrypoint".into(), entrypoint.clone()]);
        }
        let mut env = self.environment.values().clone();
        env.retain(|name, value| {
            let shown = read_by_engine(name);
            let variable = if shown { format!("{name}={value}") } else { name.clone() };
            args.extend(["--env".into(), variable]);
            !shown
        });
        args.push(self.image.clone());
        args.extend(self.args.iter().cloned());
        StdioCommand {
            program: engine.into(),
            args,
            env,
            cwd: None,
        }
    }
}

/// Whether the engine's own program acts on the variable, so that it cannot carry the container's value.
fn read_by_engine(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | "TMPDIR" | "USER")
        || ["DOCKER_", "CONTAINER_", "CONTAINERS_", "PODMAN_", "XDG_", "LD_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

fn pull_word(policy: ImagePullPolicy) -> &'static str {
    match policy {
        ImagePullPolicy::Always => "always",
        ImagePullPolicy::IfNotPresent => "missing",
        ImagePullPolicy::Never => "never",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::{Content, Reference, ReferenceKind};

    fn run(container: Value) -> Result<ContainerRun, Unresolved> {
        let container: ContainerSource = serde_json::from_value(container).unwrap();
        let keys = Content::Found([("token".to_owned(), b"hidden".to_vec())].into());
        let references = [(Reference::new(ReferenceKind::Secret, "default", "keys"), keys)];
        ContainerRun::new(&container, "default", &references.into_iter().collect())
    }

    fn secret(name: &str) -> Value {
        json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}})
    }

    #[test]
    fn a_plain_image_is_published_on_loopback_and_removed_at_its_end() {
        let run = run(json!({"image": "web:1", "transport": {"type": "StreamableHTTP"}})).unwrap();
        let command = run.command("docker", "mcpfleet-web", 40000);
        let expected = "run --rm --name mcpfleet-web --publish 127.0.0.1:40000:8080 web:1";
        assert_eq!(
            (command.program.path(), command.args.join(" ").as_str()),
            ("docker", expected)
        );
        let Ok(Endpoint::Http(http)) = run.endpoint(40000) else {
            panic!("not HTTP")
        };
        assert_eq!(http.url, "http://127.0.0.1:40000/mcp");
    }

    #[test]
    fn everything_that_acts_here_is_passed_on() {
        let run = run(json!({
            "image": "web:1", "command": ["/serve", "--port=$(PORT)"], "args": ["-v"], "workingDir": "/data",
            "imagePullPolicy": "IfNotPresent", "env": [{"name": "PORT", "value": "9000"}],
            "transport": {"type": "StreamableHTTP", "port": 9000, "path": "/"}
        }));
        let command = run.unwrap().command("podman", "n", 1);
        let expected = "run --rm --name n --publish 127.0.0.1:1:9000 --pull missing --workdir /data \
                        --entrypoint /serve --env PORT web:1 --port=9000 -v";
        assert_eq!(command.args.join(" "), expected);
    }

    #[test]
    fn values_go_through_the_environment_and_not_over_what_the_engine_reads() {
        let run = run(json!({
            "image": "web:1", "transport": {"type": "StreamableHTTP"},
            "env": [secret("TOKEN"), {"name": "HOME", "value": "/tmp"}, {"name": "DOCKER_HOST", "value": "x"}]
        }));
        let command = run.unwrap().command("docker", "n", 1);
        assert!(
            command
                .args
                .join(" ")
                .ends_with("--env DOCKER_HOST=x --env HOME=/tmp --env TOKEN web:1")
        );
        assert_eq!(command.env, [("TOKEN".to_owned(), "hidden".to_owned())].into());
    }

    #[test]
    fn a_secret_that_would_show_on_the_command_line_is_refused() {
        let error = run(json!({"image": "web:1", "transport": {"type": "StreamableHTTP"}, "env": [secret("HOME")]}));
        let error = error.unwrap_err();
        assert_eq!(error.reason, "InvalidValue");
        assert!(error.message.contains("HOME") && !error.message.contains("hidden"));
    }

    #[test]
    fn what_is_no_image_or_no_path_is_refused() {
        let error = |image: &str, path: &str| {
            run(json!({"image": image, "transport": {"type": "StreamableHTTP", "path": path}}))
                .unwrap_err()
                .reason
        };
        assert_eq!(error("--privileged", "/mcp"), "InvalidImage");
        assert_eq!(error("web:1", "/m cp"), "InvalidURL");
    }
}
