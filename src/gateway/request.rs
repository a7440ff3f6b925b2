//! A request that passed the rules of its era, with all that is known of who sends it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::HeaderMap;

use super::access::Principal;
use super::conversations::Conversations;
use super::line::Line;
use super::session::Session;
use super::viewer::Viewer;
use crate::fleet::Fleet;
use crate::index::Audience;
use crate::mcp::{Id, Members, Method, Revision};

/// A request that passed the rules of its era.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// To be echoed.
    pub id: Id<'a>,
    /// What is asked for.
    pub method: Method,
    /// With which parameters; without any where there are none.
    pub params: &'a Members<'a>,
    /// The `_meta` in them, if it is an object.
    pub meta: Option<&'a Members<'a>>,
    /// The revision that the client speaks.
    pub revision: Revision,
    /// The whole message.
    pub body: &'a Bytes,
    /// Who sends it.
    pub principal: &'a Principal,
    /// What they may see.
    pub audience: Audience,
    /// Who that is, for what outlives the request.
    pub(super) viewer: &'a Viewer,
    /// What is served now and later.
    pub fleet: &'a Arc<ArcSwap<Fleet>>,
    /// The session of a Legacy client, where it has one.
    pub session: Option<&'a Session>,
    /// Where goes what is said before the answer, if the client can hear it.
    pub intermediate: Option<&'a Line>,
    /// The headers that came with it, if the transport has any.
    pub headers: Option<&'a HeaderMap>,
    /// What it shares with the client's other messages.
    pub conversations: &'a Arc<Conversations>,
}
