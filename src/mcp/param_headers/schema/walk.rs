//! One pass through a schema, however deep and large it is.

use std::collections::HashSet;
use std::fmt;

use http::HeaderName;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::InvalidAnnotation;
use crate::defaults;
use crate::mcp::object::{self, Text};
use crate::mcp::param_headers::{Annotation, ArgumentType, Property};

/// The keyword that is an annotation.
pub(super) const KEYWORD: &str = "x-mcp-header";

/// Walks through a schema; gives the properties that matter, and what else was found.
pub(super) fn walk(text: &str) -> Result<(Vec<Property>, Findings<'_>), serde_json::Error> {
    let mut findings = Findings::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let root = Walk {
        findings: &mut findings,
        at: At::Schema(Reach::Root),
    };
    let found = root.deserialize(&mut json)?;
    Ok((found.inside, findings))
}

/// What a walk through a schema finds.
#[derive(Default)]
pub(super) struct Findings<'a> {
    /// The value of every annotation, in order.
    pub(super) annotations: Vec<&'a RawValue>,
    /// The first reason why the annotations are invalid.
    pub(super) fault: Option<InvalidAnnotation>,
    /// On the way to a property a member occurs twice.
    pub(super) ambiguous: bool,
    headers: HashSet<HeaderName>,
}

/// Walks through one value.
struct Walk<'f, 'a> {
    findings: &'f mut Findings<'a>,
    at: At,
}

/// What a value is.
#[derive(Clone, Copy)]
enum At {
    /// A schema: its members are keywords.
    Schema(Reach),
    /// Schemas by name: its members are no keywords.
    Named(Reach),
}

/// How a schema is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Root,
    /// By this many properties and nothing else.
    Properties(usize),
    Elsewhere,
}

/// What a schema, or several by name, come to.
#[derive(Default)]
struct Found {
    annotation: Option<Annotation>,
    inside: Vec<Property>,
}

impl Reach {
    fn inside(self) -> Self {
        match self {
            Self::Root => Self::Properties(1),
            Self::Properties(depth) => Self::Properties(depth + 1),
            Self::Elsewhere => Self::Elsewhere,
        }
    }
}

impl<'a> Walk<'_, 'a> {
    fn next<A: MapAccess<'a>>(&mut self, map: &mut A, at: At) -> Result<Found, A::Error> {
        map.next_value_seed(Walk {
            findings: &mut *self.findings,
            at,
        })
    }

    /// The members of a schema.
    fn schema<A: MapAccess<'a>>(mut self, reach: Reach, mut map: A) -> Result<Found, A::Error> {
        let (mut header, mut type_) = (None, None);
        let mut inside = None;
        while let Some(key) = map.next_key::<Text<'_>>()? {
            let is_repeated = match key.as_str() {
                KEYWORD => {
                    let value: &RawValue = map.next_value()?;
                    self.findings.annotations.push(value);
                    header.replace(value).is_some()
                }
                "type" => type_.replace(map.next_value::<&RawValue>()?).is_some(),
                "properties" => {
                    let found = self.next(&mut map, At::Named(reach.inside()))?;
                    inside.replace(found.inside).is_some()
                }
                "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
                    self.next(&mut map, At::Named(Reach::Elsewhere))?;
                    false
                }
                // Not schemas, but values that may look like anything.
                "default" | "const" | "enum" | "examples" | "example" | "dependentRequired" => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
                _ => {
                    self.next(&mut map, At::Schema(Reach::Elsewhere))?;
                    false
                }
            };
            self.findings.ambiguous |= is_repeated && reach != Reach::Elsewhere;
        }
        let annotation = header.and_then(|header| self.annotation(reach, header, type_));
        Ok(Found {
            annotation,
            inside: inside.unwrap_or_default(),
        })
    }

    /// Schemas by name, of which those are kept that matter.
    fn named<A: MapAccess<'a>>(mut self, reach: Reach, mut map: A) -> Result<Found, A::Error> {
        let mut seen = HashSet::new();
        let mut inside = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let found = self.next(&mut map, At::Schema(reach))?;
            if found.annotation.is_some() || !found.inside.is_empty() {
                inside.push(Property {
                    name: name.clone(),
                    annotation: found.annotation,
                    inside: found.inside,
                });
            }
            self.findings.ambiguous |= reach != Reach::Elsewhere && !seen.insert(name);
        }
        Ok(Found {
            annotation: None,
            inside,
        })
    }

    fn annotation(&mut self, reach: Reach, header: &RawValue, type_: Option<&RawValue>) -> Option<Annotation> {
        let annotation = annotation(reach, header, type_).and_then(|annotation| {
            if self.findings.headers.len() == defaults::PARAM_HEADERS_MAX {
                return Err(InvalidAnnotation::TooMany);
            }
            if !self.findings.headers.insert(annotation.header.clone()) {
                return Err(InvalidAnnotation::Repeated(shown(header)));
            }
            Ok(annotation)
        });
        match annotation {
            Ok(annotation) => Some(annotation),
            Err(fault) => {
                self.findings.fault.get_or_insert(fault);
                None
            }
        }
    }
}

fn annotation(reach: Reach, header: &RawValue, type_: Option<&RawValue>) -> Result<Annotation, InvalidAnnotation> {
    match reach {
        Reach::Root | Reach::Elsewhere => return Err(InvalidAnnotation::Misplaced),
        Reach::Properties(depth) if depth > defaults::PARAM_HEADER_DEPTH_MAX => return Err(InvalidAnnotation::TooDeep),
        Reach::Properties(_) => {}
    }
    let name = object::string(header).ok_or(InvalidAnnotation::NotAString)?;
    let of = match type_.and_then(object::string).as_deref() {
        Some("string") => ArgumentType::String,
        Some("integer") => ArgumentType::Integer,
        Some("boolean") => ArgumentType::Boolean,
        _ => return Err(InvalidAnnotation::WrongType(shown(header))),
    };
    let header = Some(&name)
        .filter(|name| !name.is_empty())
        .and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok())
        .ok_or_else(|| InvalidAnnotation::NotAToken(shown(header)))?;
    Ok(Annotation { header, of })
}

/// The name in an annotation, cut: it ends up in logs and status.
fn shown(header: &RawValue) -> String {
    let name = object::string(header).unwrap_or_default();
    name.chars().take(SHOWN_MAX).collect()
}

const SHOWN_MAX: usize = 64;

impl<'a> DeserializeSeed<'a> for Walk<'_, 'a> {
    type Value = Found;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Walk<'_, 'a> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'a>>(self, map: A) -> Result<Found, A::Error> {
        match self.at {
            At::Schema(reach) => self.schema(reach, map),
            At::Named(reach) => self.named(reach, map),
        }
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Found, A::Error> {
        loop {
            let element = seq.next_element_seed(Walk {
                findings: &mut *self.findings,
                at: At::Schema(Reach::Elsewhere),
            })?;
            if element.is_none() {
                return Ok(Found::default());
            }
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::default())
    }
}
