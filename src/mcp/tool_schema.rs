//! Schemas of tools that no client could use: one of them makes clients refuse the whole list that it stands in.
//!
//! Looked for is what breaks readers, not everything that JSON Schema 2020-12 forbids: the root of another type, types
//! that do not exist, references into the schema that lead nowhere, and, where clients compile the schema, whatever they
//! cannot. Nothing is ever fetched.

mod nullable;
mod pattern;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

pub use self::nullable::without_idle_nullable;
use super::object::Members;
use super::printable::printable;

/// What is wrong with a tool's schemas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaDefect {
    /// It has none for its arguments.
    #[error("it has no inputSchema; the server must give it one, {{\"type\":\"object\"}} at least")]
    Missing,
    /// The schema of its arguments is of another type.
    #[error("the root of its inputSchema is not of type \"object\"; the server must mend it")]
    Root,
    /// A part is of a type that does not exist.
    #[error("{0} is of a type that JSON Schema does not know; the server must mend it")]
    Type(String),
    /// A reference into the schema leads nowhere.
    #[error("{0} refers to something that its schema does not have; the server must mend it")]
    Reference(String),
    /// A part is not what its place in a schema asks for.
    #[error("{path} must be {expected}; the server must mend it")]
    Part {
        /// Where it stands.
        path: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A pattern is none of JavaScript's, in which widespread clients compile it.
    #[error("{0} is no pattern that clients compile (ECMAScript with the flag u); the server must mend it")]
    Pattern(String),
    /// A list of required properties is no list of names.
    #[error("{0} must be a list of names; the server must mend it")]
    Required(String),
}

impl SchemaDefect {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "SchemaMissing",
            Self::Root => "SchemaNotAnObject",
            Self::Type(_) => "SchemaType",
            Self::Reference(_) => "SchemaReference",
            Self::Part { .. } => "SchemaPart",
            Self::Pattern(_) => "SchemaPattern",
            Self::Required(_) => "SchemaRequired",
        }
    }
}

/// The first thing that is wrong with the schemas of `tool`, a descriptor.
pub fn defect(tool: &str) -> Option<SchemaDefect> {
    let members = Members::parse(tool)?;
    let Some(input) = members.get("inputSchema") else {
        return Some(SchemaDefect::Missing);
    };
    let read = |raw: &str| serde_json::from_str::<Value>(raw).ok();
    let input = read(input.get());
    let Some(input) = input.filter(|input| input.get("type") == Some(&Value::from("object"))) else {
        return Some(SchemaDefect::Root);
    };
    let output = members.get("outputSchema").and_then(|raw| read(raw.get()));
    wrong_properties(&input, At::Root("inputSchema"))
        .or_else(|| Checked::of(&input, false).schema(&input, At::Root("inputSchema")))
        .or_else(|| output.and_then(|output| Checked::of(&output, true).schema(&output, At::Root("outputSchema"))))
}

/// What is wrong with the properties at the root of `schema`, which some readers look at alone.
fn wrong_properties(schema: &Value, at: At<'_>) -> Option<SchemaDefect> {
    let properties = schema.get("properties")?;
    let at = At::In(&at, "properties");
    let Some(properties) = properties.as_object() else {
        return Some(at.must_be("an object of schemas"));
    };
    let (name, _) = properties.iter().find(|(_, schema)| !is_schema(schema))?;
    Some(At::In(&at, name).must_be("a schema"))
}

/// Where a part of a schema stands; it is written out for what is wrong alone.
#[derive(Clone, Copy)]
enum At<'p> {
    Root(&'static str),
    In(&'p Self, &'p str),
}

impl At<'_> {
    fn must_be(self, expected: &'static str) -> SchemaDefect {
        let path = self.shown();
        SchemaDefect::Part { path, expected }
    }

    /// It in words that may stand in logs and status: the server chooses the names of properties.
    fn shown(self) -> String {
        printable(&self.to_string(), PATH_SHOWN)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::In(whole, name) => write!(f, "{whole}/{name}"),
        }
    }
}

/// A schema that is looked through.
struct Checked<'s> {
    root: &'s Value,
    /// Whether references can be followed here: parts that name themselves would have to be told apart.
    follows: bool,
    /// Whether clients make a validator of the schema when they list its tool, so that everything in it must be right.
    is_compiled: bool,
    /// What its parts are called for references.
    anchors: HashSet<&'s str>,
}

impl<'s> Checked<'s> {
    fn of(root: &'s Value, is_compiled: bool) -> Self {
        let mut anchors = HashSet::new();
        find_anchors(root, &mut anchors);
        Self {
            root,
            is_compiled,
            follows: !has_own_names(root, true),
            anchors,
        }
    }

    /// What is wrong with `schema`, which stands at `at`.
    fn schema(&self, schema: &Value, at: At<'_>) -> Option<SchemaDefect> {
        let members = schema.as_object()?;
        let wrong_type = match members.get("type") {
            None => false,
            Some(Value::Array(types)) => types.is_empty() || !types.iter().all(is_type),
            Some(one) => !is_type(one),
        };
        if wrong_type {
            return Some(SchemaDefect::Type(at.shown()));
        }
        if let Some(required) = members.get("required")
            && !required
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string))
        {
            return Some(SchemaDefect::Required(At::In(&at, "required").shown()));
        }
        if let Some(reference) = members.get("$ref").and_then(Value::as_str)
            && self.follows
            && !self.leads_somewhere(reference)
        {
            return Some(SchemaDefect::Reference(at.shown()));
        }
        if let Some(defect) = self
            .wrong_part(members, at)
            .or_else(|| self.broken_pattern(members, at))
        {
            return Some(defect);
        }
        members.iter().find_map(|(name, part)| {
            let at = At::In(&at, name);
            match name.as_str() {
                name if OF_SCHEMAS_BY_NAME.contains(&name) => {
                    let mut parts = part.as_object()?.iter();
                    parts.find_map(|(key, part)| self.schema(part, At::In(&at, key)))
                }
                name if OF_SCHEMAS.contains(&name) => match part {
                    Value::Array(parts) => parts.iter().find_map(|part| self.schema(part, at)),
                    part => self.schema(part, at),
                },
                _ => None,
            }
        })
    }

    /// The first keyword of a schema that is compiled whose value no validator takes.
    fn wrong_part(&self, members: &serde_json::Map<String, Value>, at: At<'_>) -> Option<SchemaDefect> {
        members.iter().filter(|_| self.is_compiled).find_map(|(name, part)| {
            let (is_right, expected) = value_of(name, part)?;
            (!is_right).then(|| At::In(&at, name).must_be(expected))
        })
    }

    /// The first pattern of a schema that is compiled which cannot be.
    fn broken_pattern(&self, members: &serde_json::Map<String, Value>, at: At<'_>) -> Option<SchemaDefect> {
        if !self.is_compiled {
            return None;
        }
        let own = members.get("pattern").and_then(Value::as_str);
        if own.is_some_and(pattern::is_broken) {
            return Some(SchemaDefect::Pattern(At::In(&at, "pattern").shown()));
        }
        let name = "patternProperties";
        let by_pattern = members.get(name).and_then(Value::as_object)?;
        let (broken, _) = by_pattern.iter().find(|(known, _)| pattern::is_broken(known))?;
        Some(SchemaDefect::Pattern(At::In(&At::In(&at, name), broken).shown()))
    }

    /// Whether a reference is one into this schema that leads to a part of it, or one to elsewhere.
    fn leads_somewhere(&self, reference: &str) -> bool {
        let Some(fragment) = reference.strip_prefix('#') else {
            // Nobody fetches schemas, so that no validator can be made.
            return !self.is_compiled || self.root.get("$id").is_some();
        };
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8();
        let fragment = fragment.unwrap_or(Cow::Borrowed(""));
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment).is_some()
        } else {
            self.anchors.contains(&*fragment)
        }
    }
}

/// So many characters of where something stands are told.
const PATH_SHOWN: usize = 256;
/// Members that hold schemas by name.
const OF_SCHEMAS_BY_NAME: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Members that are a schema, or a list of some.
const OF_SCHEMAS: [&str; 15] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];

/// Whether `part` is what the keyword `name` takes, and what that is. `None` for those that take anything.
fn value_of(name: &str, part: &Value) -> Option<(bool, &'static str)> {
    let are_schemas = |parts: &Value| parts.as_array().is_some_and(|parts| parts.iter().all(is_schema));
    let by_name = |parts: &Value| parts.as_object().is_some_and(|parts| parts.values().all(is_schema));
    Some(match name {
        "properties" | "patternProperties" | "dependentSchemas" => (by_name(part), "an object of schemas"),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => (are_schemas(part), "a list of schemas"),
        "items" => (is_schema(part) || are_schemas(part), "a schema"),
        name if OF_SCHEMAS.contains(&name) => (is_schema(part), "a schema"),
        "enum" => (
            part.as_array().is_some_and(|values| !values.is_empty()),
            "a list of values",
        ),
        "format" | "pattern" | "$id" | "$ref" => (part.is_string(), "a string"),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength"
        | "minItems" | "maxItems" | "minProperties" | "maxProperties" => (part.is_number(), "a number"),
        "uniqueItems" => (part.is_boolean(), "true or false"),
        _ => return None,
    })
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn is_type(value: &Value) -> bool {
    const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

/// Whether a part below the root has an `$id` of its own, from which references in it would begin.
fn has_own_names(schema: &Value, is_root: bool) -> bool {
    match schema {
        Value::Object(members) => {
            !is_root && members.get("$id").is_some_and(Value::is_string)
                || members.values().any(|part| has_own_names(part, false))
        }
        Value::Array(parts) => parts.iter().any(|part| has_own_names(part, false)),
        _ => false,
    }
}

fn find_anchors<'s>(schema: &'s Value, found: &mut HashSet<&'s str>) {
    match schema {
        Value::Object(members) => {
            let names = ["$anchor", "$dynamicAnchor"].map(|key| members.get(key).and_then(Value::as_str));
            found.extend(names.into_iter().flatten());
            members.values().for_each(|part| find_anchors(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| find_anchors(part, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(input: Value) -> Option<&'static str> {
        let defect = defect(&json!({"name": "t", "inputSchema": input}).to_string());
        defect.map(|defect| defect.reason())
    }

    #[test]
    fn what_breaks_readers_is_found_wherever_a_schema_may_stand() {
        let deep = |part: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "null"}, part]}}}});
        for (schema, expected) in [
            (json!({"type": "int"}), "SchemaNotAnObject"),
            (json!({}), "SchemaNotAnObject"),
            (json!({"type": ["object", "null"]}), "SchemaNotAnObject"),
            (json!(true), "SchemaNotAnObject"),
            (deep(json!({"type": "int"})), "SchemaType"),
            (deep(json!({"type": ["string", 7]})), "SchemaType"),
            (deep(json!({"type": []})), "SchemaType"),
            (deep(json!({"$ref": "#/$defs/gone"})), "SchemaReference"),
            (deep(json!({"$ref": "#gone"})), "SchemaReference"),
            (json!({"type": "object", "required": "a"}), "SchemaRequired"),
            (
                json!({"type": "object", "$defs": {"x": {"type": "strin"}}}),
                "SchemaType",
            ),
        ] {
            assert_eq!(of(schema.clone()), Some(expected), "{schema}");
        }
        assert_eq!(defect(r#"{"name":"t"}"#), Some(SchemaDefect::Missing));
        let output = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"$ref": "#/$defs/x"}});
        assert!(matches!(defect(&output.to_string()), Some(SchemaDefect::Reference(at)) if at == "outputSchema"));
    }

    #[test]
    fn properties_of_arguments_are_schemas_by_name() {
        for (properties, at) in [
            (json!(null), "inputSchema/properties"),
            (json!([]), "inputSchema/properties"),
            (json!({"a": {}, "b": "string"}), "inputSchema/properties/b"),
            (json!({"a": null}), "inputSchema/properties/a"),
        ] {
            let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}});
            let defect = defect(&tool.to_string()).unwrap();
            assert!(defect.to_string().starts_with(at), "{defect}");
            assert_eq!(defect.reason(), "SchemaPart");
        }
    }

    #[test]
    fn everything_must_be_right_in_a_schema_that_clients_compile() {
        let of = |schema: Value| {
            let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": schema}}});
            assert_eq!(
                defect(&tool.to_string()),
                None,
                "only looked at when the tool is called"
            );
            let mut tool = tool;
            tool["outputSchema"] = json!({"type": "object", "properties": {"a": schema}});
            defect(&tool.to_string()).map(|defect| defect.to_string())
        };
        for (schema, at) in [
            (json!({"items": null}), "items must be a schema"),
            (
                json!({"properties": {"b": null}}),
                "properties must be an object of schemas",
            ),
            (json!({"anyOf": {}}), "anyOf must be a list of schemas"),
            (json!({"allOf": [null]}), "allOf must be a list of schemas"),
            (
                json!({"additionalProperties": 5}),
                "additionalProperties must be a schema",
            ),
            (json!({"not": null}), "not must be a schema"),
            (json!({"enum": []}), "enum must be a list of values"),
            (json!({"exclusiveMinimum": true}), "exclusiveMinimum must be a number"),
            (json!({"pattern": 5}), "pattern must be a string"),
            (json!({"pattern": r"^[\w-.]+$"}), "properties/a/pattern is no pattern"),
            (
                json!({"patternProperties": {"^a$": {}, "(?i)b": {}}}),
                "patternProperties/(?i)b is no pattern",
            ),
            (json!({"uniqueItems": "x"}), "uniqueItems must be true or false"),
            (json!({"$ref": "https://a.example/b.json"}), "refers to something"),
        ] {
            let told = of(schema.clone());
            assert!(
                told.as_ref().is_some_and(|told| told.contains(at)),
                "{schema}: {told:?}"
            );
        }
        for schema in [
            json!(true),
            json!({"items": [{}, true], "const": null, "default": null, "enum": [null]}),
            json!({"pattern": r"^[\w.-]+$", "patternProperties": {"^x-": {}}}),
            json!({"minimum": 1.5, "format": "nobody-knows", "discriminator": null, "x": {"items": null}}),
        ] {
            assert_eq!(of(schema.clone()), None, "{schema}");
        }
    }

    #[test]
    fn names_of_properties_are_told_cut_and_without_what_acts_on_a_terminal() {
        for (name, told) in [
            (
                "\u{1b}[2J\n".to_owned(),
                r"inputSchema/properties/\u{1b}[2J\u{a}".to_owned(),
            ),
            (
                "n".repeat(100_000),
                format!("inputSchema/properties/{}", "n".repeat(233)),
            ),
        ] {
            let wrong = json!({"type": "int", "$ref": "#/gone", "required": 1});
            for part in ["type", "$ref", "required"] {
                let schema = json!({"type": "object", "properties": {&name: {part: wrong[part]}}});
                let tool = json!({"name": "t", "inputSchema": schema}).to_string();
                let defect = defect(&tool).unwrap().to_string();
                assert!(defect.starts_with(&told) && defect.len() < 512, "{defect}");
            }
        }
    }

    #[test]
    fn big_schemas_are_looked_through_in_little_time() {
        let many = |part: &Value| {
            let parts = (0..20_000).map(|number| (format!("p{number}"), part.clone()));
            Value::Object(parts.collect())
        };
        let anchored =
            json!({"type": "object", "properties": many(&json!({"$ref": "#last"})), "x": {"$anchor": "last"}});
        let long_name = "n".repeat(2_000_000);
        let nested = json!({"type": "object", "properties": {long_name: {"properties": many(&json!({}))}}});
        for schema in [anchored, nested] {
            let started = tokio::time::Instant::now();
            assert_eq!(of(schema), None);
            assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
        }
    }

    #[test]
    fn what_readers_can_use_is_left_alone() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"type": {"type": "string"}, "required": {"enum": [{"type": "int"}]}}}),
            json!({"type": "object", "properties": {"a": true, "b": {"const": {"$ref": "#/gone"}}}}),
            json!({"type": "object", "$defs": {"a/b": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a~1b"}}}),
            json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {}}}),
            json!({"type": "object", "properties": {"x": {"$ref": "#here", "y": 1}}, "$defs": {"h": {"$anchor": "here"}}}),
            json!({"type": "object", "properties": {"x": {"$ref": "#"}, "far": {"$ref": "https://a.example/s.json#/x"}}}),
            json!({"type": "object", "$defs": {"n": {"$id": "n", "$defs": {"m": {}}, "$ref": "#/$defs/m"}}}),
            json!({"type": "object", "properties": {"x": {"type": ["string", "null"]}}, "required": ["x"]}),
        ] {
            assert_eq!(of(schema.clone()), None, "{schema}");
        }
        let output = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}});
        assert_eq!(defect(&output.to_string()), None);
    }
}
