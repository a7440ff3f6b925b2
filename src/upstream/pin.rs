//! Which protocol is spoken with a server, where its owner says so.

use crate::mcp::Revision;

/// Which protocol is spoken with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// What the server speaks; it is asked.
    #[default]
    None,
    /// The Modern revision of this name. The server is not asked anything before its lists, so that one works that
    /// answers no discovery.
    Modern(String),
    /// What the handshake gives that offers this revision; there is no discovery before it.
    Legacy(Revision),
}
