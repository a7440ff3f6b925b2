//! The right to make a request, of which what waits for its client must not outlive the end.

use super::hop::Hop;
use crate::fleet::Federation;
use crate::gateway::viewer::Standing;
use crate::index::Audience;
use crate::mcp::Method;

/// Resolves once nobody can go on with the request of `hop`: its server is let go of, or whoever sent it may not make it
/// any more.
pub(super) fn ended(hop: Hop<'_>) -> impl Future<Output = ()> + Send + use<> {
    let let_go_of = hop.upstream.let_go_of();
    let request = hop.request;
    let standing = Standing::new(request.viewer.clone(), request.fleet, &hop.federation.name);
    let right = Right {
        method: request.method,
        server: hop.member.server.clone(),
        original: hop.target.original.clone(),
        uri: request.params.string("uri").map(|uri| uri.into_owned()),
    };
    async move {
        let taken = standing.without(|federation, audience| right.holds(federation, audience));
        tokio::select! {
            () = let_go_of => {}
            () = taken => {}
        }
    }
}

/// What was let through by the gate, to be held against it again.
struct Right {
    method: Method,
    server: String,
    /// What the server calls the tool, prompt or resource.
    original: String,
    /// What the client calls the resource, if it is one.
    uri: Option<String>,
}

impl Right {
    fn holds(&self, federation: &Federation, audience: Audience) -> bool {
        let members = federation.members.iter().enumerate();
        let mut places = members.filter_map(|(place, member)| (member.server == self.server).then_some(place));
        let index = &federation.index;
        match (self.method, self.uri.as_deref()) {
            (Method::ToolsCall, _) => places.any(|place| index.offers_tool(place, &self.original, audience)),
            (Method::PromptsGet, _) => places.any(|place| index.offers_prompt(place, &self.original, audience)),
            (_, Some(uri)) => match index.resource(uri, audience) {
                Some(owner) => places.any(|place| place == owner.member),
                // Of those that nobody lists each may turn out to be the one that has it.
                None => places.any(|place| index.readers(uri, audience).any(|reader| reader == place)),
            },
            _ => places.next().is_some(),
        }
    }
}
