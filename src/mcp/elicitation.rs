//! `elicitation/create`: what a server asks of a person, in what the client's revision knows. The answers are the same
//! in all revisions that have it.

use std::borrow::Cow;

use super::asking::{Unaskable, write_params};
use super::object::{self, Members, ObjectWriter};
use super::version::{Era, Revision};

/// The `params` of a server's request for a client of revision `to`.
///
/// 2025-06-18 has forms of single values only, without defaults except for booleans, and titles of choices beside the
/// choices. Pages to open came with 2025-11-25, where they are told apart by `id`, which has to be ours; Modern has
/// none.
pub fn params(params: &str, to: Revision, id: &str) -> Result<String, Unaskable> {
    let members = Members::parse(params).ok_or(Unaskable::Malformed("the request"))?;
    let is_page = match members.get("mode").map(object::string) {
        None => false,
        Some(Some(mode)) if mode == "form" => false,
        Some(Some(mode)) if mode == "url" => true,
        Some(_) => return Err(Unaskable::Malformed("mode")),
    };
    if to < Revision::V2025_06_18 {
        return Err(Unaskable::Elicitation(to));
    }
    let is_first = to == Revision::V2025_06_18;
    if is_page && is_first {
        return Err(Unaskable::Page(to));
    }
    let mut out = Vec::with_capacity(params.len() + id.len() + 32);
    let mut object = ObjectWriter::open(&mut out);
    write_params(&mut object, &members, to, |object, name, value| match name {
        "elicitationId" => Ok(true),
        "mode" => Ok(is_first),
        "requestedSchema" if is_first => {
            object.member(name, &form(value, to)?);
            Ok(true)
        }
        _ => Ok(false),
    })?;
    if is_page && to.era() == Era::Legacy {
        object.string("elicitationId", id);
    }
    object.close();
    String::from_utf8(out).map_err(|_| Unaskable::Malformed("the request"))
}

/// A form's schema as 2025-06-18 has it.
fn form(schema: &str, to: Revision) -> Result<String, Unaskable> {
    let malformed = || Unaskable::Malformed("requestedSchema");
    let members = Members::parse(schema).ok_or_else(malformed)?;
    let mut out = Vec::with_capacity(schema.len());
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter() {
        if name == "properties" {
            let fields = Members::parse(value.get()).ok_or_else(malformed)?;
            let mut properties = ObjectWriter::open(object.name(name));
            for (field, schema) in fields.iter() {
                properties.member(field, &property(field, schema.get(), to)?);
            }
            properties.close();
        } else {
            object.member(name, value.get());
        }
    }
    object.close();
    String::from_utf8(out).map_err(|_| malformed())
}

/// The schema of one field as 2025-06-18 has it.
fn property<'a>(field: &str, schema: &'a str, to: Revision) -> Result<Cow<'a, str>, Unaskable> {
    let malformed = || Unaskable::Malformed("a field of requestedSchema");
    let members = Members::parse(schema).ok_or_else(malformed)?;
    match members.string("type").as_deref() {
        Some("boolean") => return Ok(Cow::Borrowed(schema)),
        Some("string" | "number" | "integer") => {}
        Some("array") => {
            return Err(Unaskable::MultipleChoice {
                field: field.to_owned(),
                revision: to,
            });
        }
        _ => return Err(malformed()),
    }
    let mut out = Vec::with_capacity(schema.len());
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter() {
        match name {
            "default" => {}
            "oneOf" => {
                let choices: Vec<Members<'_>> = serde_json::from_str(value.get()).map_err(|_| malformed())?;
                let constants: Option<Vec<_>> = choices.iter().map(|c| c.get("const").map(|raw| raw.get())).collect();
                let constants = constants.ok_or_else(malformed)?;
                let titles = choices.iter().zip(&constants);
                let titles: Vec<_> = titles
                    .map(|(choice, constant)| choice.get("title").map_or(*constant, |raw| raw.get()))
                    .collect();
                object.member("enum", &format!("[{}]", constants.join(",")));
                object.member("enumNames", &format!("[{}]", titles.join(",")));
            }
            _ => object.member(name, value.get()),
        }
    }
    object.close();
    String::from_utf8(out).map(Cow::Owned).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, to: Revision) -> String {
        params(text, to, "e-1").unwrap_or_else(|error| error.reason().to_owned())
    }

    fn field(schema: &str) -> String {
        let text = format!(
            r#"{{"mode":"form","message":"m","requestedSchema":{{"type":"object","properties":{{"f":{schema}}},"required":["f"]}}}}"#
        );
        let answer = asked(&text, Revision::V2025_06_18);
        let inner = answer.strip_prefix(r#"{"message":"m","requestedSchema":{"type":"object","properties":{"f":"#);
        match inner.and_then(|rest| rest.strip_suffix(r#"},"required":["f"]}}"#)) {
            Some(schema) => schema.to_owned(),
            None => answer,
        }
    }

    #[test]
    fn fields_are_written_as_the_first_revision_with_forms_has_them() {
        for (now, then) in [
            (
                r#"{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g"}],"default":"r","title":"Colour"}"#,
                r#"{"type":"string","enum":["r","g"],"enumNames":["Red","g"],"title":"Colour"}"#,
            ),
            (
                r#"{"type":"string","enum":["a"],"enumNames":["A"],"default":"a"}"#,
                r#"{"type":"string","enum":["a"],"enumNames":["A"]}"#,
            ),
            (
                r#"{"type":"number","minimum":1.50,"default":2}"#,
                r#"{"type":"number","minimum":1.50}"#,
            ),
            (
                r#"{"type":"integer","default":2,"future":[ ]}"#,
                r#"{"type":"integer","future":[ ]}"#,
            ),
            (
                r#"{ "type":"boolean", "default":true }"#,
                r#"{ "type":"boolean", "default":true }"#,
            ),
            (
                r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
                "NoMultipleChoice",
            ),
            (r#"{"type":"string","oneOf":[{"title":"Red"}]}"#, "Malformed"),
            (r#"{"type":"object"}"#, "Malformed"),
            ("1", "Malformed"),
        ] {
            assert_eq!(field(now), then, "{now}");
        }
    }

    #[test]
    fn forms_stay_as_they_are_for_later_revisions() {
        let form =
            r#"{"mode":"form","message":"m","requestedSchema":{ "properties": {"f":{"type":"array","default":[ ]}}}}"#;
        for to in [Revision::V2025_11_25, Revision::V2026_07_28] {
            assert_eq!(asked(form, to), form);
        }
        let early = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
        for to in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
            assert_eq!(asked(early, to), early);
        }
    }

    #[test]
    fn pages_have_an_id_of_ours_where_the_revision_demands_one() {
        let modern = r#"{"mode":"url","message":"m","url":"https://a.example/"}"#;
        let legacy = r#"{"mode":"url","message":"m","elicitationId":"theirs","url":"https://a.example/"}"#;
        let ours = r#"{"mode":"url","message":"m","url":"https://a.example/","elicitationId":"e-1"}"#;
        for page in [modern, legacy] {
            assert_eq!(asked(page, Revision::V2025_11_25), ours);
            assert_eq!(asked(page, Revision::V2026_07_28), modern);
            assert_eq!(asked(page, Revision::V2025_06_18), "NoUrlElicitation");
        }
    }

    #[test]
    fn what_is_of_one_hop_stays_there() {
        let own = r#"{"message":"m","task":{"ttl":1},"_meta":{"progressToken":1,"k":2},"requestedSchema":{}}"#;
        assert_eq!(
            asked(own, Revision::V2025_11_25),
            r#"{"message":"m","_meta":{"k":2},"requestedSchema":{}}"#
        );
        assert_eq!(
            asked(own, Revision::V2026_07_28),
            r#"{"message":"m","requestedSchema":{}}"#
        );
        let only = r#"{"message":"m","_meta":{"progressToken":1}}"#;
        assert_eq!(asked(only, Revision::V2025_11_25), r#"{"message":"m"}"#);
    }

    #[test]
    fn what_cannot_be_asked_is_refused_by_name() {
        for to in [Revision::V2024_11_05, Revision::V2025_03_26] {
            assert_eq!(asked(r#"{"message":"m"}"#, to), "NoElicitation");
        }
        for odd in ["[]", r#"{"mode":"carrier pigeon"}"#, r#"{"mode":1}"#] {
            assert_eq!(asked(odd, Revision::LATEST), "Malformed", "{odd}");
        }
        assert_eq!(asked(r#"{"requestedSchema":1}"#, Revision::V2025_06_18), "Malformed");
    }
}
