//! The reference of the custom resources, `docs/resources.md`, made from their schemas.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::api;

/// The whole page, as Markdown.
pub fn page() -> String {
    let mut out = String::from(
        "# Custom resources\n\n\
         Every field of `MCPServer` and `MCPFederation`: its type and bounds, its default, whether it is required \
         (in bold), and the rules that it obeys.\n\
         This page is generated from the definitions in `crds/`; do not edit it. `kubectl explain mcpserver.spec` and \
         `kubectl explain mcpfederation.spec` show the same.\n",
    );
    for definition in api::definitions() {
        kind(&definition, &mut out);
    }
    out
}

fn kind(definition: &CustomResourceDefinition, out: &mut String) {
    let names = &definition.spec.names;
    let short = names
        .short_names
        .iter()
        .flatten()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    for version in &definition.spec.versions {
        let Some(schema) = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref())
        else {
            continue;
        };
        line(out, &format!("\n## {}\n", names.kind));
        line(out, &format!("{}\n", text(schema)));
        line(
            out,
            &format!(
                "`apiVersion: {}/{}`, `kind: {}`, short name {short}.",
                definition.spec.group, version.name, names.kind
            ),
        );
        rules(schema, out);
        for part in ["spec", "status"] {
            if let Some(schema) = schema.properties.as_ref().and_then(|properties| properties.get(part)) {
                object(part, schema, out);
            }
        }
    }
}

/// A section for an object, and after it one for each object in it.
fn object(path: &str, schema: &JSONSchemaProps, out: &mut String) {
    line(out, &format!("\n### `{path}`\n"));
    line(out, &text(schema));
    rules(schema, out);
    let properties = schema.properties.iter().flatten();
    if properties.clone().next().is_none() {
        line(out, "\nIt has no fields: write `{}`.");
        return;
    }
    line(out, "\n| field | type | default | meaning |\n|---|---|---|---|");
    for (name, property) in properties.clone() {
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
        let meaning = [text(property)]
            .into_iter()
            .chain(messages(property))
            .collect::<Vec<_>>()
            .join("<br>");
        line(
            out,
            &format!("| {name} | {} | {default} | {} |", type_of(property), cell(&meaning)),
        );
    }
    for (name, property) in properties {
        if let Some((suffix, schema)) = inner(property) {
            object(&format!("{path}.{name}{suffix}"), schema, out);
        }
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
        return format!("map of {}{}", type_of(values), at_most(schema.max_properties));
    }
    match (schema.type_.as_deref(), &schema.items) {
        (Some("array"), Some(JSONSchemaPropsOrArray::Schema(items))) => {
            let keys = schema
                .x_kubernetes_list_map_keys
                .as_ref()
                .map(|keys| format!(" by {}", keys.join(", ")));
            format!(
                "list of {}{}{}",
                type_of(items),
                keys.unwrap_or_default(),
                at_most(schema.max_items)
            )
        }
        (Some("string"), _) => match (schema.format.as_deref(), schema.max_length) {
            (Some("date-time"), _) => "time".into(),
            (_, Some(most)) => format!("string, {}–{most} characters", schema.min_length.unwrap_or(0)),
            _ => "string".into(),
        },
        (Some("integer"), _) => match (schema.minimum, schema.maximum) {
            (Some(least), Some(most)) => format!("whole number, {least}–{most}"),
            _ => "whole number".into(),
        },
        (Some("boolean"), _) => "true or false".into(),
        (Some(other), _) => other.into(),
        (None, _) => "any".into(),
    }
}

fn at_most(most: Option<i64>) -> String {
    most.map(|most| format!(", at most {most}")).unwrap_or_default()
}

fn rules(schema: &JSONSchemaProps, out: &mut String) {
    let mut messages = messages(schema).peekable();
    if messages.peek().is_some() {
        line(out, "");
    }
    messages.for_each(|message| line(out, &format!("- {message}")));
}

/// What the rules of a value say when they are broken, and so what they ask for; `<br>` and lists keep them apart.
fn messages(schema: &JSONSchemaProps) -> impl Iterator<Item = String> {
    // An object's rules stand in its own section.
    let own = if inner(schema).is_some() {
        None
    } else {
        schema.x_kubernetes_validations.as_ref()
    };
    own.into_iter()
        .flatten()
        .filter_map(|rule| Some(format!("Rule: {}.", rule.message.as_ref()?)))
}

fn text(schema: &JSONSchemaProps) -> String {
    schema.description.clone().unwrap_or_default()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn line(out: &mut String, text: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{text}");
}
