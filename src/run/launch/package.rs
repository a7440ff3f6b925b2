//! How a package server starts on this machine: `npx` or `uvx`, which fetch it when it is not there yet.

use super::environment::Environment;
use crate::api::source::{PackageRunner, PackageSource};
use crate::fleet::{References, Unresolved};
use crate::upstream::StdioCommand;

/// The command that runs `package`.
///
/// # Errors
/// Says which Secret or ConfigMap of its environment is missing.
pub(crate) fn command(
    package: &PackageSource,
    namespace: &str,
    references: &References,
) -> Result<StdioCommand, Unresolved> {
    let environment = Environment::resolve(namespace, &package.env, &package.env_from, references)?;
    let (program, mut args) = match package.runner {
        PackageRunner::Npm => ("npx", npx_args(package)),
        PackageRunner::Pypi => ("uvx", uvx_args(package)),
    };
    args.extend(environment.expand_all(&package.args));
    Ok(StdioCommand {
        program: program.into(),
        args,
        env: environment.values().clone(),
        cwd: None,
    })
}

/// `npx` takes everything behind the first word that is no option of its own as the package's.
fn npx_args(package: &PackageSource) -> Vec<String> {
    let exact = format!("{}@{}", package.name, package.version);
    match &package.bin {
        None => vec!["-y".into(), exact],
        Some(bin) => vec!["-y".into(), format!("--package={exact}"), bin.clone()],
    }
}

fn uvx_args(package: &PackageSource) -> Vec<String> {
    let bin = package.bin.as_ref().unwrap_or(&package.name);
    vec![
        "--from".into(),
        format!("{}=={}", package.name, package.version),
        bin.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line(package: Value) -> String {
        let package: PackageSource = serde_json::from_value(package).unwrap();
        let command = command(&package, "default", &References::default()).unwrap();
        format!("{} {}", command.program, command.args.join(" "))
    }

    #[test]
    fn npm_packages_run_by_npx() {
        let everything = "@modelcontextprotocol/server-everything";
        assert_eq!(
            line(json!({"runner": "npm", "name": everything, "version": "2026.8.31", "args": ["--flag", "stdio"]})),
            "npx -y @modelcontextprotocol/server-everything@2026.8.31 --flag stdio"
        );
        assert_eq!(
            line(json!({"runner": "npm", "name": "tools", "version": "1.0.0", "bin": "serve", "args": ["-x"]})),
            "npx -y --package=tools@1.0.0 serve -x"
        );
    }

    #[test]
    fn pypi_packages_run_by_uvx() {
        assert_eq!(
            line(json!({"runner": "pypi", "name": "mcp-server-time", "version": "1.2.3", "args": ["--utc"]})),
            "uvx --from mcp-server-time==1.2.3 mcp-server-time --utc"
        );
        assert_eq!(
            line(json!({"runner": "pypi", "name": "tools", "version": "1.0", "bin": "serve"})),
            "uvx --from tools==1.0 serve"
        );
    }

    #[test]
    fn arguments_see_the_environment_which_goes_to_the_process() {
        let package = json!({"runner": "npm", "name": "a", "version": "1.0.0", "args": ["$(ROOT)/data"],
                             "env": [{"name": "ROOT", "value": "/srv"}]});
        assert_eq!(line(package.clone()), "npx -y a@1.0.0 /srv/data");
        let package: PackageSource = serde_json::from_value(package).unwrap();
        let command = command(&package, "default", &References::default()).unwrap();
        assert_eq!(command.env.get("ROOT").map(String::as_str), Some("/srv"));
    }
}
