//! The reference of the custom resources, `docs/resources.md`, made from their schemas.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::api;

const HEADER: &str = "# Custom resources

Every field of `MCPServer` and `MCPFederation`: its type and bounds, its default, and the rules that it obeys. A field
in bold is required. `kubectl explain mcpserver.spec` and `kubectl explain mcpfederation.spec` show the same.

This page is generated from the definitions in `crds/`; do not edit it.
";

/// The whole page, as Markdown.
pub fn page() -> String {
    let mut text = HEADER.to_owned();
    for definition in api::definitions() {
        let mut page = Page::default();
        page.kind(&definition);
        text.push_str(&page.text);
    }
    text
}

/// The part of the page that one kind has.
#[derive(Default)]
struct Page {
    text: String,
    /// Where each object's fields stand already, by its schema.
    told: BTreeMap<String, String>,
}

impl Page {
    fn kind(&mut self, definition: &CustomResourceDefinition) {
        let names = &definition.spec.names;
        let short = names.short_names.iter().flatten().map(|name| format!("`{name}`"));
        let short = short.collect::<Vec<_>>().join(", ");
        for version in &definition.spec.versions {
            let Some(schema) = version
                .schema
                .as_ref()
                .and_then(|schema| schema.open_api_v3_schema.as_ref())
            else {
                continue;
            };
            self.line(&format!("\n## {}\n\n{}\n", names.kind, description(schema)));
            self.line(&format!(
                "`apiVersion: {}/{}`, `kind: {}`, short name {short}.",
                definition.spec.group, version.name, names.kind
            ));
            self.rules(schema);
            for (name, part) in schema.properties.iter().flatten() {
                self.object(name, part);
            }
        }
    }

    /// A section for an object, and after it one for each object in it that has not had one.
    fn object(&mut self, path: &str, schema: &JSONSchemaProps) {
        self.line(&format!("\n### `{path}`\n\n{}", description(schema)));
        self.rules(schema);
        let properties = schema.properties.iter().flatten();
        if properties.clone().next().is_none() {
            self.line("\nIt has no fields: write `{}`.");
            return;
        }
        let mut deeper = Vec::new();
        self.line("\n| field | type | default | meaning |\n|---|---|---|---|");
        for (name, property) in properties {
            let mut meaning = vec![by_value(description(property), property)];
            if let Some((suffix, object)) = inner(property) {
                let path = format!("{path}.{name}{suffix}");
                match self.told.get(&identity(object)) {
                    Some(first) => meaning.push(format!("Its fields are those of `{first}`.")),
                    None => {
                        self.told.insert(identity(object), path.clone());
                        deeper.push((path, object));
                    }
                }
            }
            if property.type_.as_deref() != Some("object") {
                meaning.extend(messages(property)); // an object's stand in its own section
            }
            let required = schema.required.iter().flatten().any(|required| required == name);
            let name = if required {
                format!("**`{name}`**")
            } else {
                format!("`{name}`")
            };
            let default = property
                .default
                .as_ref()
                .map(|value| format!("`{}`", value.0))
                .unwrap_or_default();
            let meaning = meaning.join("<br>").replace('|', "\\|");
            self.line(&format!("| {name} | {} | {default} | {meaning} |", type_of(property)));
        }
        for (path, object) in deeper {
            self.object(&path, object);
        }
    }

    fn rules(&mut self, schema: &JSONSchemaProps) {
        for (index, message) in messages(schema).enumerate() {
            self.line(&format!("{}- {message}", if index == 0 { "\n" } else { "" }));
        }
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }
}

/// The object that a field holds, directly or in a list.
fn inner(schema: &JSONSchemaProps) -> Option<(&'static str, &JSONSchemaProps)> {
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) if items.properties.is_some() => Some(("[]", items)),
        _ if schema.type_.as_deref() == Some("object") && schema.additional_properties.is_none() => Some(("", schema)),
        _ => None,
    }
}

/// What tells an object from others: its fields, whatever is said of it where it is used.
fn identity(schema: &JSONSchemaProps) -> String {
    serde_json::to_string(&schema.properties).unwrap_or_default()
}

fn type_of(schema: &JSONSchemaProps) -> String {
    if let Some(values) = &schema.enum_ {
        let values = values
            .iter()
            .filter_map(|value| value.0.as_str())
            .map(|value| format!("`{value}`"));
        return values.collect::<Vec<_>>().join(", ");
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "string or whole number".into();
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        return format!("map{}; each: {}", at_most(schema.max_properties), type_of(values));
    }
    match (schema.type_.as_deref().unwrap_or("any"), &schema.items) {
        ("array", Some(JSONSchemaPropsOrArray::Schema(items))) => {
            let keys = schema.x_kubernetes_list_map_keys.as_ref();
            let keys = keys.map(|keys| format!(" by {}", keys.join(", "))).unwrap_or_default();
            format!("list{keys}{}; each: {}", at_most(schema.max_items), type_of(items))
        }
        ("string", _) if schema.format.as_deref() == Some("date-time") => "time".into(),
        ("string", _) => match (schema.min_length, schema.max_length) {
            (None, Some(most)) => format!("string, at most {most} characters"),
            (Some(least), Some(most)) => format!("string, {least} to {most} characters"),
            _ => "string".into(),
        },
        ("integer", _) => match (schema.minimum, schema.maximum) {
            (Some(least), Some(most)) => format!("whole number, {least} to {most}"),
            _ => "whole number".into(),
        },
        ("boolean", _) => "true or false".into(),
        (other, _) => other.into(),
    }
}

fn at_most(most: Option<i64>) -> String {
    most.map(|most| format!(", at most {most}")).unwrap_or_default()
}

/// What the rules of a value say when they are broken, and so what they ask for.
fn messages(schema: &JSONSchemaProps) -> impl Iterator<Item = String> {
    let rules = schema.x_kubernetes_validations.iter().flatten();
    rules.filter_map(|rule| {
        let message = rule.message.as_ref()?;
        Some(match &rule.field_path {
            Some(field) => format!("Rule for `{}`: {message}.", field.trim_start_matches('.')),
            None => format!("Rule: {message}."),
        })
    })
}

/// What is said of an enumeration, each of its values on a line of its own.
fn by_value(said: String, schema: &JSONSchemaProps) -> String {
    let values = schema.enum_.iter().flatten().filter_map(|value| value.0.as_str());
    values.fold(said, |said, value| {
        said.replace(&format!(". {value}: "), &format!(".<br>`{value}`: "))
    })
}

fn description(schema: &JSONSchemaProps) -> String {
    schema.description.clone().unwrap_or_default().replace('\n', " ")
}
