//! The two tools that lead to tools which are not listed.

use super::instructions;

/// A tool of the gateway's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Calls a tool by its name.
    Execute,
    /// Finds tools by words.
    Search,
}

impl MetaTool {
    /// Both, in the order of their names.
    pub const ALL: [Self; 2] = [Self::Execute, Self::Search];
    /// Their names, which no member's tool can have.
    pub const NAMES: [&str; 2] = [Self::Execute.name(), Self::Search.name()];

    /// Where to look for a tool that is not listed.
    pub const HINT: &str = "more tools than are listed are found with tool_search and called with execute_tool";

    /// `instructions` for those who are listed the two.
    pub fn hinted(instructions: &str) -> String {
        let mut text = instructions.to_owned();
        instructions::append(&mut text, HINT_SENTENCES);
        text
    }

    /// The name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute_tool",
            Self::Search => "tool_search",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|meta| meta.name() == name)
    }

    /// Its descriptor.
    pub const fn descriptor(self) -> &'static str {
        match self {
            Self::Execute => concat!(
                r#"{"name":"execute_tool","description":"Calls a tool by its name. Find names, and the arguments that tools take, with tool_search.","#,
                r#""inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The tool's name, as tool_search tells it."},"#,
                r#""parameters":{"type":"object","description":"The tool's arguments, as its input schema describes them."}},"required":["name"]}}"#,
            ),
            Self::Search => concat!(
                r#"{"name":"tool_search","description":"Finds tools by words in their names, descriptions and keywords. Most tools here are not listed: search for what you want to do, then call what you found with execute_tool.","#,
                r#""inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words that say what the tool should do. Everything is found without any."},"#,
                r#""max_results":{"type":"integer","description":"At most so many tools."}}},"annotations":{"readOnlyHint":true}}"#,
            ),
        }
    }
}

const HINT_SENTENCES: &str = "Most tools here are not listed. Find them with tool_search, by words that say what they \
                              should do, and call them with execute_tool.";

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn descriptors_are_json_and_name_their_tools() {
        for meta in MetaTool::ALL {
            let descriptor: Value = serde_json::from_str(meta.descriptor()).unwrap();
            assert_eq!(descriptor["name"], meta.name());
            assert_eq!(descriptor["inputSchema"]["type"], "object");
            assert_eq!(MetaTool::of_name(meta.name()), Some(meta));
        }
        assert_eq!(MetaTool::of_name("tool"), None);
        assert!(MetaTool::NAMES.is_sorted());
    }
}
