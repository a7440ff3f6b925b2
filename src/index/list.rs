//! The lists that servers give.

use crate::mcp::Method;

/// The four lists that every revision knows, and that of the extension for skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
    Skills,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Tools,
        Self::Resources,
        Self::Templates,
        Self::Prompts,
        Self::Skills,
    ];

    /// One entry of it, in words.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
            Self::Skills => "skill",
        }
    }

    /// The method that reads it.
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
            Self::Prompts => Method::PromptsList,
            Self::Skills => Method::SkillsList,
        }
    }

    /// The list that `method` reads.
    pub fn of_method(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    /// The member of the result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Skills => "skills",
        }
    }

    /// The member of an entry that identifies it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources | Self::Skills => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// Whether its entries have names, which prefixes keep apart, rather than URIs.
    pub const fn has_names(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }

    /// The server capability that goes with it, if the protocol itself knows one.
    pub const fn capability(self) -> Option<&'static str> {
        match self {
            Self::Tools => Some("tools"),
            Self::Resources | Self::Templates => Some("resources"),
            Self::Prompts => Some("prompts"),
            Self::Skills => None,
        }
    }
}
