//! YAML into JSON of the same types, within bounds.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::defaults::FRONTMATTER_EXPANDED_MAX;

/// The one document of `yaml` as JSON.
///
/// Aliases are followed, but not to more than [`FRONTMATTER_EXPANDED_MAX`] bytes, however small the text is.
///
/// # Errors
/// It is no YAML, or says what JSON cannot: tags, infinite numbers, keys that are lists or maps. Or a key is there
/// twice. The message tells where.
pub(super) fn to_json(yaml: &str) -> Result<Value, serde_yaml::Error> {
    let left = Cell::new(FRONTMATTER_EXPANDED_MAX);
    Json { left: &left }.deserialize(serde_yaml::Deserializer::from_str(yaml))
}

/// A value to come, and how much of the bound is left for it.
#[derive(Clone, Copy)]
struct Json<'l> {
    left: &'l Cell<usize>,
}

/// A key to come.
struct Key<'l>(Json<'l>);

impl Json<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        // A value costs something even if it is empty.
        let left = self.left.get().checked_sub(bytes.saturating_add(8));
        self.left
            .set(left.ok_or_else(|| E::custom("it is too long once its aliases are followed"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend(1)?;
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend(8)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend(8)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend(8)?;
        let number = Number::from_f64(value);
        Ok(Value::Number(number.ok_or_else(|| {
            E::custom("JSON has no such number; put it in quotes")
        })?))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(1)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.spend(1)?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.spend(1)?;
        let mut map = Map::new();
        while let Some(key) = access.next_key_seed(Key(self))? {
            let value = access.next_value_seed(self)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` is there twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(A::Error::custom(
            "tags, such as `!x`, have no meaning here; put the value in quotes",
        ))
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        match self.0.deserialize(deserializer)? {
            Value::String(key) => Ok(key),
            key @ (Value::Bool(_) | Value::Number(_) | Value::Null) => Ok(key.to_string()),
            Value::Array(_) | Value::Object(_) => Err(D::Error::custom("a list or a map cannot be a key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_and_order_are_preserved() {
        let yaml = "b: 1\na: 2.50\nversion: 2.0.1\nflag: true\nno: no\nnothing: ~\nlist: [1, x, {k: -3}]\nbig: 18446744073709551615\nday: 2026-11-30\nquoted: '1'\n1: one\nfolded: >\n  a\n  b\n";
        let value = to_json(yaml).unwrap();
        assert_eq!(
            value.to_string(),
            r#"{"b":1,"a":2.5,"version":"2.0.1","flag":true,"no":"no","nothing":null,"list":[1,"x",{"k":-3}],"big":18446744073709551615,"day":"2026-11-30","quoted":"1","1":"one","folded":"a b\n"}"#
        );
        assert_eq!(to_json("").unwrap(), json!(null));
    }

    #[test]
    fn what_json_does_not_have_is_refused() {
        for (yaml, says) in [
            ("a: .nan", "quotes"),
            ("a: !x y", "tags"),
            ("? [a]\n: b", "key"),
            ("a: 1\na: 2", "twice"),
            ("a: 1\n---\nb: 2", "document"),
            ("a: *b", "anchor"),
            ("a: [", ""),
            ("a: b: c", "line 1"),
        ] {
            let error = to_json(yaml).unwrap_err().to_string();
            assert!(error.contains(says), "{yaml}: {error}");
        }
    }

    #[test]
    fn aliases_are_followed_within_bounds() {
        assert_eq!(to_json("a: &x [1]\nb: *x").unwrap(), json!({"a": [1], "b": [1]}));
        let bomb = format!(
            "a: &a {}\nb: &b [{}]\nc: [{}]",
            "x".repeat(2_000),
            "*a,".repeat(50),
            "*b,".repeat(50)
        );
        assert!(to_json(&bomb).unwrap_err().to_string().contains("too long"));
        assert!(to_json(&"[".repeat(10_000)).is_err());
    }
}
