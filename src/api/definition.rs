//! The custom resource definitions as the API server takes them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{MCPFederation, MCPServer};

/// The custom resource definitions, in the order they are installed.
///
/// Take them from here and not from the types: only here is the schema what the rules are written for.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![definition::<MCPServer>(), definition::<MCPFederation>()]
}

fn definition<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut definition = K::crd();
    let whole = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let whole = whole.into_generator().into_root_schema_for::<K>().to_value();
    let versions = definition.spec.versions.iter_mut();
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        explain(schema, &whole);
        settle(schema);
    }
    definition
}

/// Says of each enumeration what its field is, and what each of its values means: of what the types say in `whole`, the
/// derives leave out the one or the other.
fn explain(schema: &mut JSONSchemaProps, whole: &Value) {
    // What may be left out stands beside null.
    let choices = whole.get("anyOf").and_then(Value::as_array);
    let some = choices.and_then(|choices| choices.iter().find(|choice| choice.get("type") != Some(&"null".into())));
    let some = some.unwrap_or(whole);
    if let Some(values) = &schema.enum_ {
        let field = text(whole).or_else(|| text(some));
        let values = values.iter().filter_map(|value| meaning(some, value.0.as_str()?));
        let told: Vec<String> = field.map(str::to_owned).into_iter().chain(values).collect();
        schema.description = Some(told.join(" "));
    }
    for (name, property) in schema.properties.iter_mut().flatten() {
        if let Some(whole) = some.get("properties").and_then(|properties| properties.get(name)) {
            explain(property, whole);
        }
    }
    if let (Some(JSONSchemaPropsOrArray::Schema(items)), Some(whole)) = (&mut schema.items, some.get("items")) {
        explain(items, whole);
    }
    if let (Some(JSONSchemaPropsOrBool::Schema(values)), Some(whole)) =
        (&mut schema.additional_properties, some.get("additionalProperties"))
    {
        explain(values, whole);
    }
}

/// What one value of an enumeration means, after the value itself.
fn meaning(enumeration: &Value, value: &str) -> Option<String> {
    let variants = enumeration.get("oneOf")?.as_array()?;
    let variant = variants
        .iter()
        .find(|variant| variant.get("const") == Some(&value.into()))?;
    Some(format!("{value}: {}", text(variant)?))
}

fn text(schema: &Value) -> Option<&str> {
    schema.get("description")?.as_str()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `look` with each schema in this one, by its path.
    fn walk(path: &str, schema: &JSONSchemaProps, look: &mut impl FnMut(&str, &JSONSchemaProps)) {
        look(path, schema);
        for (name, property) in schema.properties.iter().flatten() {
            walk(&format!("{path}.{name}"), property, look);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            walk(&format!("{path}[]"), items, look);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            walk(&format!("{path}.*"), values, look);
        }
    }

    #[test]
    fn every_enumeration_tells_what_its_field_is_and_what_each_value_means() {
        let mut told = Vec::new();
        for definition in definitions() {
            let schema = definition.spec.versions[0].schema.as_ref().unwrap();
            walk("", schema.open_api_v3_schema.as_ref().unwrap(), &mut |path, schema| {
                let Some(values) = &schema.enum_ else { return };
                let text = schema.description.clone().unwrap_or_default();
                let mut rest = text.as_str();
                for value in values {
                    let value = format!(" {}: ", value.0.as_str().unwrap());
                    let (before, after) = rest
                        .split_once(&value)
                        .unwrap_or_else(|| panic!("{path} {value} in {text}"));
                    assert!(before.ends_with('.'), "{path}: {text}");
                    rest = after;
                }
                assert!(rest.ends_with('.'), "{path}: {text}");
                told.push((path.to_owned(), text));
            });
        }
        let of = |path: &str| told.iter().find(|told| told.0 == path).map(|told| told.1.as_str());
        assert_eq!(
            of(".spec.naming.prefix"),
            Some(
                "Which names get their member's prefix. Default Always. Always: All of them. OnConflict: Those that \
                 several members have, for everybody, also for those whom `access.rules` show only one of them, so that \
                 names are the same for all. Never: None; of equal names that of the first member stands, and the others \
                 are left out."
            )
        );
        assert!(
            of(".spec.members[].tools.overrides[].visibility").is_some_and(|told| told.starts_with("Whether it is"))
        );
    }
}
