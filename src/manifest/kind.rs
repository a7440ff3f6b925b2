//! The kinds of object that manifests may hold, each with its schema and its rules.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, JSONSchemaPropsOrBool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::cel::{CompiledSchema, ValidationError, Validator, compile_schema};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::path::Path;
use super::schema::{self, Finding};
use crate::api;

/// What is accepted, for messages.
pub(super) const ACCEPTED: &str = "MCPServer and MCPFederation (apiVersion mcpfleet.dev/v1alpha1), \
    Secret and ConfigMap (apiVersion v1)";

/// The kinds that are taken. Building them compiles the rules, so one is kept for a whole reading.
pub(super) struct Kinds {
    kinds: Vec<Kind>,
    validator: Validator,
}

/// One kind.
pub(super) struct Kind {
    pub(super) api_version: String,
    pub(super) name: String,
    schema: JSONSchemaProps,
    /// The rules that the schema carries, where it carries any.
    rules: Option<CompiledSchema>,
}

impl Kinds {
    pub(super) fn new() -> Self {
        let mut kinds = vec![
            Kind::built_in::<Secret>("Secret"),
            Kind::built_in::<ConfigMap>("ConfigMap"),
        ];
        for definition in api::definitions() {
            let versions = definition.spec.versions.into_iter();
            let schemas = versions.filter_map(|version| Some((version.name, version.schema?.open_api_v3_schema?)));
            kinds.extend(schemas.map(|(version, schema)| Kind {
                api_version: format!("{}/{version}", definition.spec.group),
                name: definition.spec.names.kind.clone(),
                rules: serde_json::to_value(&schema).ok().map(|schema| compile_schema(&schema)),
                schema: with_metadata(schema),
            }));
        }
        Self {
            kinds,
            validator: Validator::new(),
        }
    }

    /// The kind of that name.
    pub(super) fn find(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// The names of all kinds.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|kind| kind.name.as_str())
    }

    /// All that is wrong with `object`, which leaves here without nulls.
    ///
    /// Rules are asked only where the object is whole, as by the API server: on anything else they would
    /// complain of consequences.
    pub(super) fn check(&self, kind: &Kind, object: &mut Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        schema::check(&kind.schema, object, &Path::default(), &mut findings);
        schema::prune_nulls(object);
        if let Some(rules) = &kind.rules
            && !findings.iter().any(|finding| finding.breaks)
            && let Err(errors) = self.validator.validate_compiled(rules, object, None)
        {
            findings.extend(errors.into_iter().map(|error| kind.finding(error)));
        }
        findings
    }
}

impl Kind {
    /// Whether this is one of our own kinds.
    pub(super) fn is_own(&self) -> bool {
        self.rules.is_some()
    }

    fn built_in<T: JsonSchema>(name: &str) -> Self {
        Self {
            api_version: "v1".into(),
            name: name.into(),
            schema: with_metadata(schema_of::<T>()),
            rules: None,
        }
    }

    fn finding(&self, error: ValidationError) -> Finding {
        Finding {
            path: self.rule_path(&error.field_path, &error.message),
            message: error.message,
            breaks: true,
        }
    }

    /// The path that a rule failed at, told apart into fields, keys and places by walking the schema.
    fn rule_path(&self, written: &str, message: &str) -> Path {
        if written.is_empty() {
            // A rule over the whole object cannot name a field of the metadata by itself; its message does.
            let named = message.split(' ').next().unwrap_or_default();
            return if named.starts_with("metadata.") {
                Path::of_fields(named)
            } else {
                Path::default()
            };
        }
        let mut path = Path::default();
        let mut schema = Some(&self.schema);
        let mut rest = written;
        while !rest.is_empty() {
            if let Some(Some((index, after))) = rest.strip_prefix('[').map(|rest| rest.split_once(']')) {
                path = path.index(index.parse().unwrap_or_default());
                schema = schema.and_then(items);
                rest = after.strip_prefix('.').unwrap_or(after);
            } else if let Some(values) = schema.and_then(values) {
                path = path.key(rest);
                schema = Some(values);
                rest = "";
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                path = path.field(name);
                schema = schema.and_then(|schema| schema.properties.as_ref()?.get(name));
                rest = after.strip_prefix('.').unwrap_or(after);
            }
        }
        path
    }
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray::Schema;
    match schema.items.as_ref()? {
        Schema(items) => Some(items),
        _ => None,
    }
}

fn values(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.additional_properties.as_ref()? {
        JSONSchemaPropsOrBool::Schema(values) => Some(values),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

/// The schema with what every object has.
fn with_metadata(mut schema: JSONSchemaProps) -> JSONSchemaProps {
    let mut metadata = schema_of::<ObjectMeta>();
    metadata.required = Some(vec!["name".into()]);
    let free = JSONSchemaProps {
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    // Exported objects have it, its shape is the API server's own matter.
    metadata
        .properties
        .get_or_insert_default()
        .insert("managedFields".into(), free);
    let text = JSONSchemaProps {
        type_: Some("string".into()),
        ..JSONSchemaProps::default()
    };
    let properties = schema.properties.get_or_insert_default();
    properties.insert("apiVersion".into(), text.clone());
    properties.insert("kind".into(), text);
    properties.insert("metadata".into(), metadata);
    schema.required.get_or_insert_default().push("metadata".into());
    schema
}

fn schema_of<T: JsonSchema>() -> JSONSchemaProps {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::from_value(schema.to_value()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
