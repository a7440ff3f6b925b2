//! Files into objects: manifests as Kubernetes takes them, and the `mcp.json` that MCP hosts have.
//!
//! [`load`] reads the disk, directories of skills included; all the rest is pure. Types and bounds are checked by the schemas of the custom
//! resources and everything else by their own rules, so that a file is refused here for the same reason and with
//! the same words as in a cluster; what is added is the line, the nearest known name, and whether what objects say
//! of each other is there.

mod collection;
mod comments;
mod directories;
mod document;
mod federate;
mod host;
mod kind;
mod load;
mod metadata;
mod nearest;
mod objects;
mod path;
mod problem;
mod read;
mod reader;
mod reading;
mod references;
mod scalar;
mod schema;
mod tree;
mod variables;
mod yaml;

pub use directories::named as skill_directories;
pub use host::HEADERS_EXAMPLE;
pub use load::{Sources, environment, is_manifest, load};
pub use metadata::namespace_labels;
pub use objects::{CommandServer, ConfigMap, Manifests, Secret, SkillDirectory, SkillFiles};
pub use problem::{Problem, Problems};
pub use read::read;
pub use reading::{File, Options, Reading};
pub use tree::Tree;
