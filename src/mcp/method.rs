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
    TasksGet,
    TasksUpdate,
    TasksCancel,
    TasksResult,
    SkillsList,
    SkillsGet,
    DirectoryRead,
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
            "tasks/get" => Self::TasksGet,
            "tasks/update" => Self::TasksUpdate,
            "tasks/cancel" => Self::TasksCancel,
            "tasks/result" => Self::TasksResult,
            "skills/list" => Self::SkillsList,
            "skills/get" => Self::SkillsGet,
            "resources/directory/read" => Self::DirectoryRead,
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
            Self::TasksGet => "tasks/get",
            Self::TasksUpdate => "tasks/update",
            Self::TasksCancel => "tasks/cancel",
            Self::TasksResult => "tasks/result",
            Self::SkillsList => "skills/list",
            Self::SkillsGet => "skills/get",
            Self::DirectoryRead => "resources/directory/read",
        }
    }

    /// The member of `params` that names what is addressed.
    pub const fn target(self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead | Self::SkillsGet | Self::DirectoryRead => Some("uri"),
            _ if self.is_of_tasks() => Some(TASK_ID),
            _ => None,
        }
    }

    /// The same where `Mcp-Name` repeats it (2026-07-28, transports), which says nothing of the methods of skills.
    pub const fn named_target(self) -> Option<&'static str> {
        match self {
            Self::SkillsGet | Self::DirectoryRead => None,
            _ => self.target(),
        }
    }

    /// Whether it is about a task, which it names.
    pub const fn is_of_tasks(self) -> bool {
        matches!(
            self,
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel | Self::TasksResult
        )
    }

    /// Whether it is answered at once, from what is known here.
    pub const fn is_immediate(self) -> bool {
        !self.is_of_tasks()
            && !matches!(
                self,
                Self::ToolsCall
                    | Self::ResourcesRead
                    | Self::PromptsGet
                    | Self::Complete
                    | Self::Subscribe
                    | Self::SkillsGet
                    | Self::DirectoryRead
            )
    }

    /// Whether it is part of the Legacy revisions, as they are served, or of the extension for skills: their tasks are
    /// only asked for, of servers.
    pub const fn in_legacy(self) -> bool {
        !self.is_of_tasks() && !matches!(self, Self::Discover | Self::Listen)
    }

    /// Whether it is part of the Modern revision, or of its extensions for tasks and skills.
    pub const fn in_modern(self) -> bool {
        !matches!(
            self,
            Self::Initialize | Self::Ping | Self::Subscribe | Self::Unsubscribe | Self::SetLevel | Self::TasksResult
        )
    }
}

const TASK_ID: &str = "taskId";
