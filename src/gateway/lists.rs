//! The list methods: a page of what the client may see, written from the index.

use serde_json::json;

use super::answer::Answer;
use super::cursor;
use super::outgoing::Outgoing;
use super::request::Request;
use crate::defaults;
use crate::fleet::Federation;
use crate::index::{Audience, List};
use crate::mcp::object::ObjectWriter;
use crate::mcp::{Era, RpcError, message, meta, passed};
use crate::metrics::Outcome;

/// Lists what the client of `request` may see of `list`.
pub(super) fn answer(federation: &Federation, request: Request<'_>, list: List) -> Answer {
    let cursor = request.params.get("cursor").filter(|cursor| cursor.get() != "null");
    let after = match cursor {
        None => None,
        Some(_) => {
            let cursor = request.params.string("cursor");
            let keys = request.conversations.keys(&federation.name);
            match cursor.and_then(|cursor| cursor::open(list, &cursor, &*keys?)) {
                Some(after) => Some(after),
                None => {
                    let text = "params.cursor is not one that this list gave; leave it out to start anew";
                    return Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, text));
                }
            }
        }
    };
    let index = &federation.index;
    let view = index.view(request.audience);
    let page = index.page(&view, list, request.revision, after.as_deref(), federation.page_size);
    let next = match page.last {
        None => None,
        Some(last) => match request.conversations.keys(&federation.name) {
            Some(keys) => Some(cursor::seal(list, last, &keys)),
            // The rest must not look as if it were not there.
            None => return Answer::failed(request, "pages are not ready yet; try again"),
        },
    };
    let is_shared = page.items.len() >= defaults::SHARED_MIN;
    let copied: &[u8] = if is_shared { b"" } else { page.items };
    let size = copied.len() + federation.server_info.len() + 256;
    let mut place = 0;
    let body = message::response_with(request.id.as_json(), size, |out| {
        let between = (after.as_deref(), next.as_deref());
        place = write(out, federation, request, list, copied, between);
    });
    if is_shared {
        Answer::new(Outgoing::around(body, place, page.shared()), Outcome::Ok)
    } else {
        Answer::new(body, Outcome::Ok)
    }
}

/// For whom what `audience` is told of what there is holds.
pub(super) fn cache_scope(federation: &Federation, audience: Audience) -> &'static str {
    let is_same_for_all = federation.index.rules().is_empty() && !audience.show_all && !federation.is_private;
    if is_same_for_all { "public" } else { "private" }
}

/// Writes the result of a list method with the `items` that stand behind `after` and before `next`, and gives the place
/// where they end; Modern results say how long they hold, for whom, and who answers (2026-07-28, caching).
fn write(
    out: &mut Vec<u8>,
    federation: &Federation,
    request: Request<'_>,
    list: List,
    items: &[u8],
    (after, next): (Option<&str>, Option<&str>),
) -> usize {
    let era = request.revision.era();
    let mut result = ObjectWriter::open(out);
    if era == Era::Modern {
        result.string("resultType", "complete");
    }
    let value = result.name(list.member());
    value.push(b'[');
    value.extend_from_slice(items);
    let place = value.len();
    value.push(b']');
    if let Some(next) = next {
        result.string("nextCursor", next);
    }
    if era == Era::Modern {
        result.member("ttlMs", "0");
        let depends_on_client = list == List::Tools && federation.index.hides_app_only();
        let scope = if depends_on_client {
            "private"
        } else {
            cache_scope(federation, request.audience)
        };
        result.string("cacheScope", scope);
    }
    if era == Era::Modern || !federation.absent.is_empty() {
        let mut own = ObjectWriter::open(result.name("_meta"));
        if era == Era::Modern {
            own.member(meta::SERVER_INFO, &federation.server_info);
            if passed::is_asked_for(request.meta) {
                let view = federation.index.view(request.audience);
                let entries = federation.index.passed(&view, list, after, federation.page_size);
                passed::write(&mut own, federation.mark, entries);
            }
        }
        if !federation.absent.is_empty() {
            let names: Vec<&str> = federation.absent.iter().map(|absent| absent.member.as_str()).collect();
            own.member(meta::ABSENT_MEMBERS, &json!(names).to_string());
        }
        own.close();
    }
    result.close();
    place
}
