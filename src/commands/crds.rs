//! `mcpfleet crds`: the custom resource definitions as YAML.

use std::io::{self, Write};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::api;

/// One definition as a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFile {
    /// Its name under `crds/`, made from the resource: `mcpservers.yaml`.
    pub name: String,
    /// What it holds.
    pub yaml: String,
}

/// Each definition as a file, in the order they are installed.
///
/// # Errors
/// None in practice: a definition that is no YAML would be a mistake in our own types, and is told rather than hidden.
pub fn files() -> Result<Vec<CrdFile>, serde_yaml::Error> {
    let file = |definition: CustomResourceDefinition| {
        Ok(CrdFile {
            name: format!("{}.yaml", definition.spec.names.plural),
            yaml: serde_yaml::to_string(&definition)?,
        })
    };
    api::definitions().into_iter().map(file).collect()
}

/// Writes all definitions as one stream of documents, for `kubectl apply -f -`.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write) -> io::Result<()> {
    for file in files().map_err(io::Error::other)? {
        writeln!(out, "---")?;
        out.write_all(file.yaml.as_bytes())?;
    }
    Ok(())
}
