//! Descriptors of tools in what a client's revision knows. Those of resources, templates and prompts are the same in
//! all revisions: members that are newer than a client do no harm there.

use std::borrow::Cow;

use super::object::{Members, ObjectWriter};
use super::version::{Era, Revision};

/// `tool`, as a server of era `from` describes it, for a client of revision `to`; borrowed if nothing goes.
///
/// An `outputSchema` goes where the structured content that it promises would not arrive: before 2025-06-18 always, for
/// the other Legacy revisions if its root is not of type object. `execution` (2025-11-25) never crosses to the other era;
/// nor does it stay where it says that the tool makes tasks, as none of that kind are served: some clients would refuse
/// to call a tool that wants them.
pub fn tool(tool: &str, from: Era, to: Revision) -> Cow<'_, str> {
    let Some(members) = Members::parse(tool) else {
        return Cow::Borrowed(tool);
    };
    let goes = |name: &str, value: &str| match name {
        "outputSchema" => to.era() == Era::Legacy && (to < Revision::V2025_06_18 || !is_object_schema(value)),
        "execution" => (from, to.era()) != (Era::Legacy, Era::Legacy) || speaks_of_tasks(value),
        _ => false,
    };
    if !members.iter().any(|(name, value)| goes(name, value.get())) {
        return Cow::Borrowed(tool);
    }
    let mut out = Vec::with_capacity(tool.len());
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter().filter(|(name, value)| !goes(name, value.get())) {
        object.member(name, value.get());
    }
    object.close();
    String::from_utf8(out).map_or(Cow::Borrowed(tool), Cow::Owned)
}

/// Whether `tool` wants to be called for a task, and not otherwise (2025-11-25, tasks).
pub fn needs_task(tool: &str) -> bool {
    // Most tools have no such member, and are not read for it.
    let says_so = || {
        let execution = Members::parse(tool)?.get("execution")?.get();
        Some(Members::parse(execution)?.string("taskSupport")? == "required")
    };
    tool.contains("\"taskSupport\"") && says_so() == Some(true)
}

fn speaks_of_tasks(execution: &str) -> bool {
    let support = Members::parse(execution).and_then(|members| members.string("taskSupport"));
    support.is_some_and(|support| support != "forbidden")
}

/// Legacy revisions demand exactly this type at the root.
fn is_object_schema(schema: &str) -> bool {
    Members::parse(schema).is_some_and(|members| members.string("type").as_deref() == Some("object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_schema_goes_where_what_it_promises_does_not_arrive() {
        for (schema, since) in [
            (r#"{"type":"object","properties":{}}"#, Revision::V2025_06_18),
            (r#"{"type": "array"}"#, Revision::V2026_07_28),
            (r#"{"type":["object","null"]}"#, Revision::V2026_07_28),
            (
                r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##,
                Revision::V2026_07_28,
            ),
            ("null", Revision::V2026_07_28),
        ] {
            let whole = format!(r#"{{"name":"a", "outputSchema": {schema}, "future":[1.0 ]}}"#);
            for to in Revision::ALL {
                let expected = if to >= since {
                    whole.as_str()
                } else {
                    r#"{"name":"a","future":[1.0 ]}"#
                };
                assert_eq!(tool(&whole, Era::Legacy, to), expected, "{to}");
            }
        }
    }

    #[test]
    fn execution_stays_in_the_era_it_is_of_and_promises_no_tasks() {
        for support in ["optional", "required"] {
            let with = format!(r#"{{"name":"a","execution":{{"taskSupport":"{support}"}}}}"#);
            assert_eq!(needs_task(&with), support == "required");
            for to in Revision::ALL {
                assert_eq!(tool(&with, Era::Legacy, to), r#"{"name":"a"}"#);
            }
        }
        let with = r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#;
        assert!(!needs_task(with));
        let without = r#"{"name":"a"}"#;
        for to in Revision::LEGACY {
            assert_eq!(tool(with, Era::Legacy, to), with);
            assert_eq!(tool(with, Era::Modern, to), without);
        }
        assert_eq!(tool(with, Era::Legacy, Revision::LATEST), without);
        assert_eq!(tool(with, Era::Modern, Revision::LATEST), without);
    }

    #[test]
    fn everything_else_is_passed_as_it_is() {
        let odd = r#"{ "name":"a", "title":1, "icons":[], "inputSchema":{"outputSchema":1,"execution":{}}, "annotations":{} }"#;
        for to in Revision::ALL {
            assert_eq!(tool(odd, Era::Modern, to), odd);
        }
        assert_eq!(tool("[]", Era::Legacy, Revision::LATEST), "[]");
    }
}
