//! Values against a schema of the API server's kind: unknown fields, types, bounds.

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

use super::nearest::did_you_mean;
use super::path::Path;

/// Something that is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: Path,
    pub(super) message: String,
    /// False: the object is whole enough for its rules to be asked too.
    pub(super) breaks: bool,
}

/// All that is wrong with `value`. As for the API server, null under a key is the same as nothing.
pub(super) fn check(schema: &JSONSchemaProps, value: &Value, path: &Path, findings: &mut Vec<Finding>) {
    if schema.x_kubernetes_int_or_string == Some(true) {
        if !value.is_string() && !is_integer(value) {
            findings.push(broken(
                path,
                format!("must be a string or a whole number, not {}", kind_of(value)),
            ));
        }
    } else if let Some(wanted) = schema.type_.as_deref()
        && !is_of_type(wanted, value)
    {
        findings.push(broken(path, wrong_type(wanted, value)));
        return;
    }
    match value {
        Value::Object(members) => check_object(schema, members, path, findings),
        Value::Array(items) => check_list(schema, items, path, findings),
        Value::String(text) => check_text(schema, text, path, findings),
        Value::Number(_) => check_number(schema, value, path, findings),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Leaves out what is null under a key, as the API server does.
pub(super) fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

fn check_object(schema: &JSONSchemaProps, members: &Map<String, Value>, path: &Path, findings: &mut Vec<Finding>) {
    let known = schema.properties.iter().flatten();
    let open = schema.additional_properties.is_some() || schema.x_kubernetes_preserve_unknown_fields == Some(true);
    let count = members.values().filter(|member| !member.is_null()).count();
    check_count(schema.max_properties, count, path, findings);
    for required in schema.required.iter().flatten() {
        if members.get(required).is_none_or(Value::is_null) {
            findings.push(broken(&path.field(required), "is required".into()));
        }
    }
    for (name, member) in members {
        if let Some(property) = schema.properties.as_ref().and_then(|properties| properties.get(name)) {
            if !member.is_null() {
                check(property, member, &path.field(name), findings);
            }
        } else if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            if !member.is_null() {
                check(values, member, &path.key(name), findings);
            }
        } else if !open {
            findings.push(broken(
                &path.field(name),
                unknown(name, known.clone().map(|(name, _)| name.as_str())),
            ));
        }
    }
}

fn check_list(schema: &JSONSchemaProps, items: &[Value], path: &Path, findings: &mut Vec<Finding>) {
    check_count(schema.max_items, items.len(), path, findings);
    if let Some(JSONSchemaPropsOrArray::Schema(each)) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            check(each, item, &path.index(index), findings);
        }
    }
    let Some(keys) = &schema.x_kubernetes_list_map_keys else {
        return;
    };
    let identity = |item: &Value| {
        keys.iter()
            .map(|key| item.get(key).cloned())
            .collect::<Option<Vec<_>>>()
    };
    let mut seen = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(identity) = identity(item) else { continue };
        if seen.contains(&identity) {
            findings.push(Finding {
                path: path.index(index),
                message: format!(
                    "an entry above has the same {}; remove one or rename it",
                    keys.join(" and ")
                ),
                breaks: false,
            });
        } else {
            seen.push(identity);
        }
    }
}

fn check_text(schema: &JSONSchemaProps, text: &str, path: &Path, findings: &mut Vec<Finding>) {
    if let Some(allowed) = &schema.enum_ {
        let allowed: Vec<&str> = allowed.iter().filter_map(|value| value.0.as_str()).collect();
        if !allowed.contains(&text) {
            let question = did_you_mean(text, allowed.iter().copied());
            findings.push(broken(path, format!("must be one of {}{question}", allowed.join(", "))));
        }
    }
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if schema.min_length.is_some_and(|least| length < least) {
        findings.push(broken(path, "must not be empty; give it a value or remove it".into()));
    }
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        findings.push(broken(
            path,
            format!("must be at most {most} characters long, and has {length}"),
        ));
    }
    if schema.format.as_deref() == Some("byte") && serde_json::from_value::<ByteString>(text.into()).is_err() {
        findings.push(broken(
            path,
            "must be base64; or put the text as it is under stringData".into(),
        ));
    }
}

fn check_number(schema: &JSONSchemaProps, value: &Value, path: &Path, findings: &mut Vec<Finding>) {
    let Some(number) = value.as_f64() else { return };
    let mut refuse = |message: String| {
        findings.push(Finding {
            path: path.clone(),
            message,
            breaks: false,
        });
    };
    let (least, most) = match schema.format.as_deref() {
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let least = schema.minimum.unwrap_or(f64::NEG_INFINITY).max(least);
    let most = schema.maximum.unwrap_or(f64::INFINITY).min(most);
    if number < least {
        refuse(format!("must be at least {least}"));
    }
    if number > most {
        refuse(format!("must be at most {most}"));
    }
}

fn check_count(most: Option<i64>, count: usize, path: &Path, findings: &mut Vec<Finding>) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(most) = most.filter(|most| count > *most) {
        findings.push(broken(
            path,
            format!("must have at most {most} entries, and has {count}"),
        ));
    }
}

fn broken(path: &Path, message: String) -> Finding {
    Finding {
        path: path.clone(),
        message,
        breaks: true,
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let question = did_you_mean(name, known.clone());
    if !question.is_empty() {
        return format!("unknown field{question}");
    }
    match known.collect::<Vec<_>>().join(", ") {
        known if known.is_empty() => "unknown field; none is known here, remove it".into(),
        known => format!("unknown field; known here are {known}"),
    }
}

fn is_of_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => false,
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn wrong_type(wanted: &str, value: &Value) -> String {
    let (wanted, fix) = match wanted {
        "object" => ("a map", ""),
        "array" => ("a list", ""),
        "string" if value.is_boolean() || value.is_number() => ("a string", "; put it in quotes"),
        "string" => ("a string", ""),
        "boolean" if value.is_string() => ("true or false", " (without quotes)"),
        "boolean" => ("true or false", ""),
        "integer" if value.is_string() => ("a whole number", " (without quotes)"),
        "integer" => ("a whole number", ""),
        other => (other, ""),
    };
    format!("must be {wanted}, not {}{fix}", kind_of(value))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests;
