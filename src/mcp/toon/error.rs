//! Why JSON is left as it is.

/// Why a text stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToonError {
    /// It is no JSON.
    #[error("the text is no JSON")]
    NotJson,
    /// It nests deeper than [`JSON_DEPTH_MAX`](crate::defaults::JSON_DEPTH_MAX).
    #[error("the JSON nests too deep")]
    TooDeep,
    /// It has more values than [`TOON_VALUES_MAX`](crate::defaults::TOON_VALUES_MAX).
    #[error("the JSON has too many values")]
    TooMany,
    /// An object names a member twice.
    #[error("the JSON names a member twice")]
    Ambiguous,
    /// A number has more digits, written without an exponent, than
    /// [`TOON_DIGITS_MAX`](crate::defaults::TOON_DIGITS_MAX).
    #[error("the JSON has a number that is too long without its exponent")]
    TooLong,
    /// Written out, it is more than [`TOON_GROWTH_MAX`](crate::defaults::TOON_GROWTH_MAX) times as long.
    #[error("the JSON is much shorter than its TOON")]
    Grown,
}

impl ToonError {
    /// One CamelCase word.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotJson => "NotJson",
            Self::TooDeep => "TooDeep",
            Self::TooMany => "TooMany",
            Self::Ambiguous => "Ambiguous",
            Self::TooLong => "TooLong",
            Self::Grown => "Grown",
        }
    }
}
