//! The environment that a manifest gives to a server, as a kubelet would make it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::api::environment::{EnvFrom, EnvVar};
use crate::fleet::{Reference, ReferenceKind, References, Unresolved};

/// Variables by name, and which of them hold something from a Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    values: BTreeMap<String, String>,
    secret: BTreeSet<String>,
}

impl Environment {
    /// The variables of `env` over those of `env_from`, of each the later over the earlier. `$(NAME)` in a literal
    /// value stands for a variable that comes before it.
    ///
    /// # Errors
    /// Says which Secret or ConfigMap is missing, or which value is not text.
    pub(crate) fn resolve(
        namespace: &str,
        env: &[EnvVar],
        env_from: &[EnvFrom],
        references: &References,
    ) -> Result<Self, Unresolved> {
        let mut environment = Self::default();
        for source in env_from {
            environment.add_all(namespace, source, references)?;
        }
        for variable in env {
            environment.add(namespace, variable, references)?;
        }
        Ok(environment)
    }

    /// The variables by name.
    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Whether the value of `name` comes from a Secret, in whole or in part.
    pub(crate) fn is_secret(&self, name: &str) -> bool {
        self.secret.contains(name)
    }

    /// `text` with each `$(NAME)` of a known variable replaced; `$$` stands for `$`, and what is not known stays.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.expand_noting(text, |_| {})
    }

    /// Each of `texts` expanded.
    pub(crate) fn expand_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.expand(text)).collect()
    }

    fn add_all(&mut self, namespace: &str, source: &EnvFrom, references: &References) -> Result<(), Unresolved> {
        let Some((reference, optional)) = Reference::of_all(namespace, source) else {
            return Ok(());
        };
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (key, value) in references.values(&reference, optional)?.into_iter().flatten() {
            let value = text(value).ok_or_else(|| not_text(&format!("key {key:?} of {reference}")))?;
            self.set(format!("{prefix}{key}"), value, reference.kind == ReferenceKind::Secret);
        }
        Ok(())
    }

    fn add(&mut self, namespace: &str, variable: &EnvVar, references: &References) -> Result<(), Unresolved> {
        let (value, secret) = match (&variable.value, &variable.value_from) {
            (value, None) => {
                let mut secret = false;
                let note = |name: &str| secret |= self.is_secret(name);
                let value = self.expand_noting(value.as_deref().unwrap_or_default(), note);
                (value, secret)
            }
            (_, Some(source)) => {
                let Some(value) = references.value(namespace, source)? else {
                    return Ok(());
                };
                let value =
                    text(value).ok_or_else(|| not_text(&format!("the value of variable {:?}", variable.name)))?;
                (value, source.secret_key_ref.is_some())
            }
        };
        self.set(variable.name.clone(), value, secret);
        Ok(())
    }

    fn set(&mut self, name: String, value: String, secret: bool) {
        if secret {
            self.secret.insert(name.clone());
        } else {
            self.secret.remove(&name);
        }
        self.values.insert(name, value);
    }

    fn expand_noting(&self, text: &str, mut note: impl FnMut(&str)) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            out.push_str(before);
            rest = behind;
            if let Some(behind) = rest.strip_prefix('$') {
                out.push('$');
                rest = behind;
                continue;
            }
            let named = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            match named.and_then(|(name, behind)| Some((name, self.values.get(name)?, behind))) {
                Some((name, value, behind)) => {
                    note(name);
                    out.push_str(value);
                    rest = behind;
                }
                None => out.push('$'),
            }
        }
        out.push_str(rest);
        out
    }
}

impl fmt::Debug for Environment {
    /// Values may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Text that a process can be given.
fn text(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?;
    (!value.contains('\0')).then(|| value.to_owned())
}

fn not_text(what: &str) -> Unresolved {
    Unresolved {
        reason: "InvalidValue",
        message: format!("{what} is not text and cannot be an environment variable; leave it out of the environment"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::Content;

    fn references() -> References {
        let content = |pairs: &[(&str, &[u8])]| {
            let values = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec()));
            Content::Found(values.collect())
        };
        [
            (
                Reference::new(ReferenceKind::Secret, "default", "keys"),
                content(&[("token", b"hidden"), ("user", b"me")]),
            ),
            (
                Reference::new(ReferenceKind::ConfigMap, "default", "settings"),
                content(&[("mode", b"fast"), ("user", b"you")]),
            ),
            (
                Reference::new(ReferenceKind::Secret, "default", "binary"),
                content(&[("key", b"\xff\x00")]),
            ),
            (
                Reference::new(ReferenceKind::Secret, "default", "gone"),
                Content::Missing,
            ),
        ]
        .into_iter()
        .collect()
    }

    fn resolve(env: Value, env_from: Value) -> Result<Environment, Unresolved> {
        let env: Vec<EnvVar> = serde_json::from_value(env).unwrap();
        let env_from: Vec<EnvFrom> = serde_json::from_value(env_from).unwrap();
        Environment::resolve("default", &env, &env_from, &references())
    }

    fn shown(environment: &Environment) -> Vec<String> {
        environment
            .values()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn the_later_value_wins_and_env_wins_over_env_from() {
        let environment = resolve(
            json!([{"name": "token", "value": "mine"}, {"name": "empty"}, {"name": "token", "value": "last"}]),
            json!([{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}},
                   {"prefix": "S_", "secretRef": {"name": "keys"}}, {"secretRef": {"name": "gone", "optional": true}}]),
        );
        let expected = [
            "S_token=hidden",
            "S_user=me",
            "empty=",
            "mode=fast",
            "token=last",
            "user=you",
        ];
        assert_eq!(shown(&environment.unwrap()), expected);
    }

    #[test]
    fn values_come_from_keys_and_are_left_out_where_optional_and_missing() {
        let environment = resolve(
            json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                   {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
                   {"name": "C", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": true}}}]),
            json!([]),
        );
        assert_eq!(shown(&environment.unwrap()), ["A=hidden", "B=fast"]);
    }

    #[test]
    fn what_is_missing_or_not_text_is_named() {
        let error = resolve(json!([]), json!([{"secretRef": {"name": "gone"}}])).unwrap_err();
        assert_eq!(error.reason, "RefNotFound");
        let error = resolve(json!([]), json!([{"secretRef": {"name": "binary"}}])).unwrap_err();
        assert_eq!(error.reason, "InvalidValue");
        assert!(
            error
                .message
                .starts_with("key \"key\" of Secret \"binary\" is not text"),
            "{}",
            error.message
        );
    }

    #[test]
    fn earlier_variables_are_expanded_and_unknown_ones_stay() {
        let environment = resolve(
            json!([{"name": "HOST", "value": "db"}, {"name": "URL", "value": "http://$(HOST)/$(LATER)"},
                   {"name": "LATER", "value": "x"}, {"name": "ESCAPED", "value": "$$(HOST) $HOST $(HOST $"}]),
            json!([]),
        );
        let environment = environment.unwrap();
        let expected = [
            "ESCAPED=$(HOST) $HOST $(HOST $",
            "HOST=db",
            "LATER=x",
            "URL=http://db/$(LATER)",
        ];
        assert_eq!(shown(&environment), expected);
        assert_eq!(
            environment.expand_all(&["--host=$(HOST)".into(), "é$(LATER)$".into()]),
            ["--host=db", "éx$"]
        );
    }

    #[test]
    fn what_a_secret_reaches_is_secret_and_nothing_shows_in_debug_output() {
        let environment = resolve(
            json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                   {"name": "HEADER", "value": "Bearer $(TOKEN)"}, {"name": "user", "value": "plain"}]),
            json!([{"secretRef": {"name": "keys"}}]),
        );
        let environment = environment.unwrap();
        let secret: Vec<bool> = ["TOKEN", "HEADER", "token", "user"]
            .map(|name| environment.is_secret(name))
            .into();
        assert_eq!(secret, [true, true, true, false]);
        assert!(!format!("{environment:?}").contains("hidden"));
    }
}
