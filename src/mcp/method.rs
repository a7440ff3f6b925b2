//! The methods that are served, and what a gateway must know of each.

/// A request's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Initialize,
    Ping,
    Discover,
    ToolsList,
    ToolsCall,
    ResourcesList,
    ResourceTemplatesList,
    ResourcesRead,
    PromptsList,
    PromptsGet,
    Complete,
    Subscribe,
    Unsubscribe,
    SetLevel,
    Listen,
}

impl Method {
    /// The method of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" => Self::Initialize,
            "ping" => Self::Ping,
            "server/discover" => Self::Discover,
            "tools/list" => Self::ToolsList,
            "tools/call" => Self::ToolsCall,
            "resources/list" => Self::ResourcesList,
            "resources/templates/list" => Self::ResourceTemplatesList,
            "resources/read" => Self::ResourcesRead,
            "prompts/list" => Self::PromptsList,
            "prompts/get" => Self::PromptsGet,
            "completion/complete" => Self::Complete,
            "resources/subscribe" => Self::Subscribe,
            "resources/unsubscribe" => Self::Unsubscribe,
            "logging/setLevel" => Self::SetLevel,
            "subscriptions/listen" => Self::Listen,
            _ => return None,
        })
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::Discover => "server/discover",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::ResourcesList => "resources/list",
            Self::ResourceTemplatesList => "resources/templates/list",
            Self::ResourcesRead => "resources/read",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::Complete => "completion/complete",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::SetLevel => "logging/setLevel",
            Self::Listen => "subscriptions/listen",
        }
    }

    /// The member of `params` that names what is addressed, and that `Mcp-Name` repeats (2026-07-28, transports).
    pub const fn target(self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead => Some("uri"),
            _ => None,
        }
    }

    /// Whether it is answered at once, from what is known here.
    pub const fn is_immediate(self) -> bool {
        !matches!(
            self,
            Self::ToolsCall | Self::ResourcesRead | Self::PromptsGet | Self::Complete | Self::Subscribe
        )
    }

    /// Whether it is part of the Legacy revisions.
    pub const fn in_legacy(self) -> bool {
        !matches!(self, Self::Discover | Self::Listen)
    }

    /// Whether it is part of the Modern revision.
    pub const fn in_modern(self) -> bool {
        !matches!(
            self,
            Self::Initialize | Self::Ping | Self::Subscribe | Self::Unsubscribe | Self::SetLevel
        )
    }
}
