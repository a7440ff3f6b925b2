//! A client's message with those of its parts that its era's rules look at.

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;

use super::modern::{Refusal, refusal};
use crate::mcp::meta::VersionClaim;
use crate::mcp::{Envelope, Era, Id, Kind, Members, MessageError, Method, RpcError};

/// A message that was read.
pub(super) struct Message<'a> {
    pub(super) kind: Kind<'a>,
    /// All of it.
    pub(super) body: &'a Bytes,
    params: Option<Members<'a>>,
    meta: Option<Members<'a>>,
    /// Whether it has parameters that cannot be read.
    is_spoilt: bool,
}

/// A request in it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) id: Id<'a>,
    pub(super) method: &'a str,
}

impl<'a> Message<'a> {
    /// The message in `envelope`, which was read from `body`.
    ///
    /// # Errors
    /// It is no JSON-RPC 2.0 message.
    pub(super) fn of(envelope: &'a Envelope<'a>, body: &'a Bytes) -> Result<Self, MessageError> {
        let kind = envelope.kind()?;
        let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
        let meta = params.as_ref().and_then(|params| params.get("_meta"));
        let meta = meta.and_then(|raw| Members::parse(raw.get()));
        Ok(Self {
            kind,
            body,
            is_spoilt: envelope.params.is_some() && params.is_none(),
            params,
            meta,
        })
    }

    /// Its parameters, if it has any that can be read.
    pub(super) fn params(&self) -> Option<&Members<'a>> {
        self.params.as_ref()
    }

    /// The `_meta` in them, if it is an object.
    pub(super) fn meta(&self) -> Option<&Members<'a>> {
        self.meta.as_ref()
    }

    /// What it asks for, if it is a request.
    pub(super) fn asked(&self) -> Option<Asked<'a>> {
        match self.kind {
            Kind::Request { id, method } => Some(Asked { id, method }),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        }
    }

    /// Whether it says itself that it is under the Modern rules.
    pub(super) fn claims_modern(&self) -> bool {
        VersionClaim::of(self.meta()) != VersionClaim::None
    }

    /// Whether it opens a session.
    pub(super) fn is_handshake(&self) -> bool {
        self.asked()
            .is_some_and(|asked| asked.method == Method::Initialize.as_str())
    }

    /// Refuses it where its parameters cannot be read.
    pub(super) fn readable(&self) -> Result<(), Refusal> {
        if self.is_spoilt {
            let error = RpcError::new(RpcError::INVALID_PARAMS, "params names a member twice");
            return Err(refusal(StatusCode::BAD_REQUEST, error));
        }
        Ok(())
    }

    /// Refuses it where it asks for `method` with `arguments` that are no object.
    pub(super) fn check_arguments(&self, method: Method, era: Era) -> Result<(), Refusal> {
        if !matches!(method, Method::ToolsCall | Method::PromptsGet) {
            return Ok(());
        }
        let arguments = self.params().and_then(|members| members.get("arguments"));
        match arguments.map(RawValue::get) {
            None | Some("null") => Ok(()),
            Some(text) if text.starts_with('{') => Ok(()),
            Some(_) => {
                let status = match era {
                    Era::Modern => StatusCode::BAD_REQUEST,
                    Era::Legacy => StatusCode::OK,
                };
                let error = RpcError::new(RpcError::INVALID_PARAMS, "params.arguments must be an object");
                Err(refusal(status, error))
            }
        }
    }
}
