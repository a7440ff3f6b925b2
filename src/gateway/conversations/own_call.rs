//! A call that outlives the request that began it.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;

use crate::defaults;
use crate::index::Target;
use crate::mcp::LogLevel;
use crate::mcp::{Envelope, Features, Members, Method};
use crate::upstream::{Call, Ear, Error, Fanout, Owner, Reply, TaskCall, Upstream};

/// A call that needs nothing of the request that began it.
pub(in crate::gateway) struct OwnCall {
    pub(in crate::gateway) upstream: Arc<Upstream>,
    pub(in crate::gateway) body: Bytes,
    pub(in crate::gateway) method: Method,
    pub(in crate::gateway) target: Target,
    pub(in crate::gateway) features: Features,
    pub(in crate::gateway) owner: Owner,
    pub(in crate::gateway) task: TaskCall,
    pub(in crate::gateway) log_level: Option<LogLevel>,
    pub(in crate::gateway) ear: Arc<dyn Ear>,
    pub(in crate::gateway) fanout: Fanout,
}

impl OwnCall {
    /// Carries it out. To drop this is to cancel it.
    pub(in crate::gateway) async fn run(self) -> Result<Reply, Error> {
        let malformed = || Error::Protocol("the request cannot be read again".to_owned());
        let envelope = Envelope::parse(&self.body, defaults::JSON_DEPTH_MAX).map_err(|_| malformed())?;
        let params = envelope
            .params
            .and_then(|raw| Members::parse(raw.get()))
            .unwrap_or_default();
        let meta = params.get("_meta").and_then(|raw| Members::parse(raw.get()));
        let call = Call {
            method: self.method,
            target: &self.target.original,
            params: &params,
            meta: meta.as_ref(),
            param_headers: self.target.param_headers.as_deref(),
            owner: self.owner,
            features: &self.features,
            answers: None,
            task: self.task,
            log_level: self.log_level,
            ear: Some(self.ear),
            fanout: self.fanout,
        };
        self.upstream.call(call).await
    }
}

/// The work of a call: done by the request that waits for it, or, while none does, by a task of its own. To drop it
/// is to cancel the call.
pub(in crate::gateway) enum Work {
    Here(Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>),
    Elsewhere(AbortOnDropHandle<Result<Reply, Error>>),
    /// Over, or given up for this reason.
    Gone(Error),
}

impl Work {
    /// Work that nobody has begun yet.
    pub(in crate::gateway) fn new(work: impl Future<Output = Result<Reply, Error>> + Send + 'static) -> Self {
        Self::Here(Box::pin(work))
    }

    /// What it comes to.
    pub(in crate::gateway) async fn done(&mut self) -> Result<Reply, Error> {
        match self {
            Self::Here(work) => work.await,
            Self::Elsewhere(task) => match task.await {
                Ok(reply) => reply,
                Err(error) => Err(Error::Protocol(format!("the call ended badly: {error}"))),
            },
            Self::Gone(why) => Err(why.clone()),
        }
    }

    /// Lets a task go on with it.
    pub(in crate::gateway) fn leave(&mut self) {
        let over = Error::Protocol("the call is over".to_owned());
        *self = match std::mem::replace(self, Self::Gone(over)) {
            Self::Here(work) => Self::Elsewhere(AbortOnDropHandle::new(tokio::spawn(work))),
            other => other,
        };
    }

    /// Gives it up, so that it comes to `why`: what it was, which is cancelled by being dropped.
    pub(in crate::gateway) fn give_up(&mut self, why: Error) -> Self {
        std::mem::replace(self, Self::Gone(why))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::Elsewhere(_) => "Elsewhere",
            Self::Gone(_) => "Gone",
        })
    }
}
