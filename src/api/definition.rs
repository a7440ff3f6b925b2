//! The custom resource definitions as the API server takes them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::{MCPFederation, MCPServer};

/// The custom resource definitions, in the order they are installed.
///
/// Take them from here and not from the types: only here is the schema what the rules are written for.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![MCPServer::crd(), MCPFederation::crd()];
    let versions = definitions
        .iter_mut()
        .flat_map(|definition| &mut definition.spec.versions);
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        settle(schema);
    }
    definitions
}

/// Takes out what the derives write and the API server does not want.
fn settle(schema: &mut JSONSchemaProps) {
    // Doc comments are wrapped; `kubectl explain` wraps them again.
    if let Some(text) = &mut schema.description {
        let paragraphs: Vec<_> = text
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *text = paragraphs.join("\n\n");
    }
    // An optional field is left out, never null: `has()` in a rule must not hold for a field without a value.
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    // Kubernetes knows no unsigned formats and warns of them; minimum and maximum say the same.
    if schema
        .format
        .as_deref()
        .is_some_and(|format| format.starts_with("uint"))
    {
        schema.format = None;
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        settle(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        settle(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        settle(values);
    }
}
