//! The YAML of frontmatter into JSON. Hosts read the file once more and compare: so it is read as they do (YAML 1.2, core
//! schema), and what they refuse is refused.

use granit_parser::{Event, Parser, ScalarStyle, Tag, options};
use serde_json::{Map, Number, Value};

use crate::defaults::FRONTMATTER_DEPTH_MAX;

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub(super) struct YamlError {
    /// Where, as lines of the file count: the first one is the mark before the frontmatter.
    line: usize,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Syntax(String),
    #[error("anchors (`&x`) and aliases (`*x`) are refused by hosts; write the value out, or put it in quotes")]
    Alias,
    #[error("tags, such as `!x`, have no meaning here; put the value in quotes")]
    Tag,
    #[error("JSON has no such number; put it in quotes")]
    Number,
    #[error("the key `{0}` is not read as text; put it in quotes")]
    Key(String),
    #[error("a list or a map cannot be a key")]
    CollectionAsKey,
    #[error("`{0}` is there twice")]
    Twice(String),
    #[error("it is nested deeper than {FRONTMATTER_DEPTH_MAX} levels")]
    Depth,
    #[error("a second document begins; there can be one only")]
    Document,
}

/// The one document of `yaml` as JSON; null, if there is none.
///
/// # Errors
/// It is no YAML, says what JSON cannot, or what hosts refuse. The message tells where.
pub(super) fn to_json(yaml: &str) -> Result<Value, YamlError> {
    let mut composer = Composer::default();
    let mut parser = Parser::new_from_str_with_options(yaml, options! { emit_comments: false });
    while let Some(event) = parser.next_event() {
        let (line, taken) = match event {
            Ok((event, span)) => (span.start.line(), composer.take(event)),
            Err(error) => (error.marker().line(), Err(Fault::Syntax(error.info().to_owned()))),
        };
        taken.map_err(|fault| YamlError { line: line + 1, fault })?;
    }
    Ok(composer.whole.unwrap_or_default())
}

/// Puts the parser's events together.
#[derive(Default)]
struct Composer {
    open: Vec<Open>,
    has_begun: bool,
    whole: Option<Value>,
}

/// A list or a map whose end has not come yet.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Map<String, Value>,
        /// The key whose value comes next.
        key: Option<String>,
    },
}

impl Composer {
    fn take(&mut self, event: Event<'_>) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(..) if std::mem::replace(&mut self.has_begun, true) => Err(Fault::Document),
            Event::Alias(_) | Event::UnresolvedAlias(_) => Err(Fault::Alias),
            Event::Scalar(text, style, anchor, tag) => {
                unmarked(anchor, tag.as_deref())?;
                let value = match style {
                    ScalarStyle::Plain => resolved(&text)?,
                    _ => Value::from(&*text),
                };
                self.put(value)
            }
            Event::SequenceStart(_, anchor, tag) => {
                unmarked(anchor, tag.as_deref())?;
                self.begin(Open::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                unmarked(anchor, tag.as_deref())?;
                self.begin(Open::Map {
                    entries: Map::new(),
                    key: None,
                })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(items)) => self.put(Value::Array(items)),
                Some(Open::Map { entries, .. }) => self.put(Value::Object(entries)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), Fault> {
        if matches!(self.open.last(), Some(Open::Map { key: None, .. })) {
            return Err(Fault::CollectionAsKey);
        }
        if self.open.len() == FRONTMATTER_DEPTH_MAX {
            return Err(Fault::Depth);
        }
        self.open.push(open);
        Ok(())
    }

    /// Takes a finished value, or a key.
    fn put(&mut self, value: Value) -> Result<(), Fault> {
        match self.open.last_mut() {
            None => self.whole = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map { entries, key }) => match key.take() {
                Some(key) => {
                    entries.insert(key, value);
                }
                None => match value {
                    Value::String(name) if entries.contains_key(&name) => return Err(Fault::Twice(name)),
                    Value::String(name) => *key = Some(name),
                    other => return Err(Fault::Key(other.to_string())),
                },
            },
        }
        Ok(())
    }
}

fn unmarked(anchor: usize, tag: Option<&Tag>) -> Result<(), Fault> {
    match tag {
        Some(_) => Err(Fault::Tag),
        None if anchor != 0 => Err(Fault::Alias),
        None => Ok(()),
    }
}

/// What a text without quotes means (YAML 1.2, section 10.3.2).
fn resolved(text: &str) -> Result<Value, Fault> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(text) {
            Some(number) => Value::Number(number.ok_or(Fault::Number)?),
            None => Value::from(text),
        },
    })
}

/// The number that `text` is; within, `None` where JSON does not have it.
fn number(text: &str) -> Option<Option<Number>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(None);
    }
    let radix = |prefix: &str, radix: u32| {
        let digits = text.strip_prefix(prefix)?;
        let are_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        are_digits.then(|| u64::from_str_radix(digits, radix).ok().map(Number::from))
    };
    if let Some(number) = radix("0o", 8).or_else(|| radix("0x", 16)) {
        return Some(number);
    }
    let whole = text.parse::<i64>().map(Number::from);
    let whole = whole.or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    match whole {
        Some(number) => Some(Some(number)),
        None => is_decimal(unsigned).then(|| text.parse().ok().and_then(Number::from_f64)),
    }
}

/// Whether it is a decimal number without a sign: digits, at most one point among or around them, and an exponent.
fn is_decimal(text: &str) -> bool {
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => are_digits(fraction),
        Some((whole, fraction)) => are_digits(whole) && (fraction.is_empty() || are_digits(fraction)),
        None => are_digits(mantissa),
    };
    mantissa && exponent.is_none_or(|exponent| are_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_and_order_are_preserved() {
        let yaml = "b: 1\na: 2.50\nversion: 2.0.1\nflag: true\nno: no\nnothing: ~\nempty:\nlist: [1, x, {k: -3}]\nbig: 18446744073709551615\nday: 2026-11-30\nquoted: '1'\n'1': one\nfolded: >\n  a\n  b\nkept: |\n  a\n   b # no comment\ncompact:\n- x: \"\\u00e9\\n\" # a comment\n  y: é\nlong: one\n  two\n";
        assert_eq!(
            to_json(yaml).unwrap().to_string(),
            r#"{"b":1,"a":2.5,"version":"2.0.1","flag":true,"no":"no","nothing":null,"empty":null,"list":[1,"x",{"k":-3}],"big":18446744073709551615,"day":"2026-11-30","quoted":"1","1":"one","folded":"a b\n","kept":"a\n b # no comment\n","compact":[{"x":"é\n","y":"é"}],"long":"one two"}"#
        );
        assert_eq!(to_json("").unwrap(), json!(null));
        assert_eq!(to_json("a: 1\r\nb: x\r\n").unwrap(), json!({"a": 1, "b": "x"}));
    }

    #[test]
    fn words_without_quotes_mean_what_the_core_schema_says() {
        for (text, value) in [
            ("NULL", json!(null)),
            ("False", json!(false)),
            ("012", json!(12)),
            ("+12", json!(12)),
            ("-0", json!(0)),
            ("0o14", json!(12)),
            ("0x1F", json!(31)),
            ("1e3", json!(1000.0)),
            ("-.5", json!(-0.5)),
            ("+1.", json!(1.0)),
            ("1.5E-2", json!(0.015)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
        ] {
            assert_eq!(resolved(text), Ok(value), "{text}");
        }
        for text in [
            "yes", "on", "nUll", "0o9", "0x", "0xg", "0b1", "1_000", "12:30", "1.2.3", ".", "-", "+", "e1", "1e",
            "1e+", "--1", "+-1", "inf", "nan", "-.nan", "0o+1", "-0x1", "٣",
        ] {
            assert_eq!(resolved(text), Ok(json!(text)));
        }
        for text in [".inf", "-.INF", ".nan", "1e400", "0xfffffffffffffffff"] {
            assert_eq!(resolved(text), Err(Fault::Number), "{text}");
        }
    }

    #[test]
    fn what_json_does_not_have_or_hosts_refuse_is_refused() {
        for (yaml, says) in [
            ("a: .nan", "line 2: JSON has no such number; put it in quotes"),
            ("a: !x y", "tags"),
            ("a: !!str 1", "tags"),
            ("? [a]\n: b", "key"),
            ("1: a", "the key `1` is not read as text"),
            ("a: 1\nb: 2\na: 2", "line 4: `a` is there twice"),
            ("a: {b: 1, b: 2}", "twice"),
            ("a: 1\n---\nb: 2", "document"),
            ("a: 1\n...\nb: 2", "document"),
            ("a: *b", "anchor"),
            ("a: &x [1]\nb: 1", "anchors"),
            ("a: &x [1]\nb: *x", "anchors"),
            ("a: [", "line "),
            ("a: b: c", "line 2"),
        ] {
            let error = to_json(yaml).unwrap_err().to_string();
            assert!(error.contains(says), "{yaml}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| format!("a: {}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(to_json(&nested(FRONTMATTER_DEPTH_MAX - 1)).is_ok());
        let error = to_json(&nested(FRONTMATTER_DEPTH_MAX)).unwrap_err().to_string();
        assert!(error.contains("deeper"), "{error}");
        assert!(to_json(&nested(10_000)).is_err());
    }
}
