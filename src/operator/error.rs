//! Why a reconcile failed and is tried again.

use std::time::Duration;

/// Why a reconcile failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("the API server: {0}")]
    Api(#[source] Box<kube::Error>),
    /// An object changed between reading and writing it.
    #[error("{0} changed meanwhile")]
    Changed(String),
    /// Another replica may lead by now, so nothing was written.
    #[error("this replica leads no longer")]
    NotLeading,
    /// The API server took too long.
    #[error("not done after {0:?}")]
    Timeout(Duration),
    /// One of our own objects could not be written as JSON.
    #[error("cannot write an object as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// One CamelCase word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => "ApiFailed",
            Self::Changed(_) => "Changed",
            Self::NotLeading => "NotLeading",
            Self::Timeout(_) => "Timeout",
            Self::Json(_) => "Json",
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}
