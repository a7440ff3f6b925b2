//! Skills (SEP-2640, the Skills extension): directories of files with a `SKILL.md`, of members and of the federation's
//! own.
//!
//! What hosts verify stays as it is: no byte of a file, no frontmatter and no digest is ever changed. Only the URIs of
//! members' skills are, by [`SkillPrefix`], in a way that can be undone.

pub mod entry;
pub mod frontmatter;
pub mod own;
pub mod package;
mod proof;
pub mod rewrite;
pub mod uri;
mod yaml;

pub use entry::{Entry, EntryError, Files};
pub use frontmatter::{Frontmatter, FrontmatterError};
pub use own::{LeftOut, LeftOutCause, OwnSkills};
pub use package::{Package, PackageError};
pub use proof::{Mismatch, Proof};
pub use uri::{SkillPrefix, SkillUris};

/// The extension's id.
pub const EXTENSION: &str = crate::mcp::features::SKILLS;
