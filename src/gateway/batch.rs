//! Batches, which only 2025-03-26 knows: each message in one is answered as if it had come alone.

use bytes::Bytes;
use futures::future::join_all;
use http::StatusCode;

use super::finished::{Content, Finished};
use super::legacy;
use super::modern::{Refusal, refusal};
use super::reply::without_session;
use super::rpc::{self, Came, Client, Hearing};
use super::visit::Visit;
use crate::defaults;
use crate::mcp::batch::Batch;
use crate::mcp::{Envelope, MessageError, Revision, RpcError};
use crate::metrics::Outcome;

/// Answers the messages of the batch in `body`.
pub(super) async fn answer(visit: &Visit, body: &Bytes, hearing: Hearing<'_>) -> Finished {
    let refused = |error: &Refusal| {
        let elapsed = visit.started.elapsed();
        visit.federation.metrics.request(None, Outcome::Refused, elapsed);
        visit.refuse(None, error)
    };
    let unknown = || refusal(StatusCode::BAD_REQUEST, MessageError::Batch.to_rpc_error());
    if let Err(error) = legacy::admitted(visit.federation.protocol, None, visit.spoken_headers()) {
        return refused(&error);
    }
    match visit.revision() {
        Ok(Revision::V2025_03_26) => {}
        Ok(_) => return refused(&unknown()),
        Err(error) => return refused(&error),
    }
    let session = match visit.session() {
        Ok(session) => session,
        Err(error) => return without_session(error),
    };
    // What comes on a channel before the handshake is of no known revision.
    let knows_batches = match &session {
        Some(session) => session.revision == Revision::V2025_03_26,
        None => visit.channel.is_none(),
    };
    if !knows_batches {
        return refused(&unknown());
    }
    let parts = match parts(body) {
        Ok(parts) => parts,
        Err(error) => return refused(&error),
    };
    let client = Client {
        session: session.as_deref(),
        revision: Revision::V2025_03_26,
        hearing,
    };
    // All at once: what one of them takes, or comes to, is no matter of the others.
    let answers = join_all(parts.iter().map(async |part| {
        let read = Envelope::parse(part, defaults::JSON_DEPTH_MAX);
        rpc::answer(visit, read, part, Came::InBatchOf(client)).await
    }))
    .await;
    let answers: Vec<_> = answers
        .into_iter()
        .flat_map(|finished| finished.content.into_messages())
        .collect();
    if answers.is_empty() {
        return Finished::nothing(StatusCode::ACCEPTED);
    }
    Finished::new(StatusCode::OK, Content::Batch(answers))
}

/// The messages of a batch, unread.
fn parts(body: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let wrong = |code, text: String| refusal(StatusCode::BAD_REQUEST, RpcError::new(code, text));
    let Batch { first, count } =
        Batch::parse(body).map_err(|error| wrong(RpcError::PARSE, format!("not valid JSON: {error}")))?;
    match count {
        0 => Err(wrong(
            RpcError::INVALID_REQUEST,
            "a batch has at least one message".into(),
        )),
        1..=defaults::BATCH_MAX => Ok(first.iter().map(|part| body.slice_ref(part.get().as_bytes())).collect()),
        more => {
            let text = format!(
                "a batch has at most {} messages, this one has {more}",
                defaults::BATCH_MAX
            );
            Err(wrong(RpcError::INVALID_REQUEST, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_messages_and_not_too_many() {
        let code = |body: &str| {
            parts(&Bytes::copy_from_slice(body.as_bytes()))
                .map(|parts| parts.len())
                .map_err(|refused| refused.error.code)
        };
        assert_eq!(code("[1, {}]"), Ok(2));
        assert_eq!(code("[]"), Err(-32600));
        assert_eq!(code("[{},"), Err(-32700));
        let of = |count| format!("[{}]", vec!["{}"; count].join(","));
        assert_eq!(code(&of(defaults::BATCH_MAX)), Ok(defaults::BATCH_MAX));
        assert_eq!(code(&of(defaults::BATCH_MAX + 1)), Err(-32600));
        let many = parts(&Bytes::from(of(100_000))).unwrap_err();
        assert!(many.error.message.contains("100000"), "{}", many.error.message);
    }
}
