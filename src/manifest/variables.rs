//! `${VAR}` in an `mcp.json`, as the hosts write it.

use std::collections::BTreeMap;

/// Why a text cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unset {
    /// A variable without a value and without a default.
    #[error("the variable {name} is not set; set it, or give it a default: ${{{name}:-value}}")]
    Variable {
        /// Its name.
        name: String,
    },
    /// A value that VS Code asks its user for.
    #[error(
        "${{input:{id}}} is a value that a host asks its user for, and nobody is asked here; use a variable, ${{NAME}}"
    )]
    Input {
        /// Its id.
        id: String,
    },
}

/// The text with `${VAR}`, `${env:VAR}` and `${VAR:-default}` replaced by values of the environment.
///
/// As in a shell, a default also stands for an empty value. Anything else with a dollar sign stays as it is.
pub(super) fn expand(text: &str, environment: &BTreeMap<String, String>) -> Result<String, Unset> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, tail)) = after.split_once('}') else {
            out.push_str("${");
            rest = after;
            continue;
        };
        match value(inner, environment)? {
            Some(value) => out.push_str(value),
            None => out.extend(["${", inner, "}"]),
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of what stands between the braces; `None` where it is no variable.
fn value<'a>(inner: &'a str, environment: &'a BTreeMap<String, String>) -> Result<Option<&'a str>, Unset> {
    if let Some(id) = inner.strip_prefix("input:") {
        return Err(Unset::Input { id: id.to_owned() });
    }
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        return Ok(None);
    }
    match (environment.get(name).map(String::as_str), default) {
        (Some("") | None, Some(default)) => Ok(Some(default)),
        (Some(value), _) => Ok(Some(value)),
        (None, None) => Err(Unset::Variable { name: name.to_owned() }),
    }
}

fn is_name(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(word) && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Unset> {
        let pairs = [("A", "1"), ("EMPTY", ""), ("NESTED", "${A}")];
        expand(
            text,
            &pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        )
    }

    #[test]
    fn variables_are_replaced_by_their_values_or_defaults() {
        for (text, result) in [
            ("${A}", "1"),
            ("x${A}y${env:A}z", "x1y1z"),
            ("${B:-two}", "two"),
            ("${env:B:-}", ""),
            ("${A:-two}", "1"),
            ("${EMPTY:-two}", "two"),
            ("${EMPTY}", ""),
            ("${NESTED}", "${A}"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_stays() {
        for text in [
            "", "$A", "$$", "${", "${A", "a}b", "${1}", "${}", "${a b}", "${a.b}", "${x:y}",
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(text));
        }
        assert_eq!(
            expanded("${ ${A}").as_deref(),
            Ok("${ ${A}"),
            "the first brace closes the first"
        );
    }

    #[test]
    fn a_variable_without_a_value_is_named() {
        assert_eq!(expanded("a${B}"), Err(Unset::Variable { name: "B".into() }));
        let message = expanded("${B}").unwrap_err().to_string();
        assert_eq!(
            message,
            "the variable B is not set; set it, or give it a default: ${B:-value}"
        );
        assert_eq!(expanded("${input:token}"), Err(Unset::Input { id: "token".into() }));
    }
}
