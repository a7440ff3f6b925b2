//! Reading HTTP bodies, with a limit before memory is used.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The connection broke before its end.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// Reads a body of at most `limit` bytes; one that comes in a single piece is not copied.
pub(crate) async fn read(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    let mut first: Option<Bytes> = None;
    let mut more = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        match &first {
            None => first = Some(data),
            Some(start) => {
                if more.is_empty() {
                    more.extend_from_slice(start);
                }
                more.extend_from_slice(&data);
            }
        }
        if first.as_ref().map_or(0, Bytes::len).max(more.len()) > limit {
            return Err(BodyError::TooLarge(limit));
        }
    }
    Ok(if more.is_empty() {
        first.unwrap_or_default()
    } else {
        more.freeze()
    })
}

/// Lets go of what still comes of a body, up to `limit` bytes of it.
pub(crate) async fn discard(body: &mut Incoming, limit: usize) {
    let mut left = limit;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}
