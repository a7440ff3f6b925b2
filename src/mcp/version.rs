//! Protocol revisions and the two eras they fall into.

use std::fmt;

/// A protocol revision that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// Whether a peer needs a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// With a handshake: up to 2025-11-25.
    Legacy,
    /// Without: 2026-07-28.
    Modern,
}

impl Revision {
    /// The newest revision with a handshake.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;
    /// What a Legacy request without a version header speaks (2025-06-18 specification, transports).
    pub const WITHOUT_HEADER: Self = Self::V2025_03_26;
    /// Everything spoken, as discovery tells it: Modern first, then the Legacy ones, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];
    /// The Legacy revisions, oldest first.
    pub const LEGACY: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];

    /// The revision of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// What a server answers to a handshake that asks for `requested`: the same if it is a Legacy revision spoken
    /// here, else the newest Legacy one. A Modern revision has no handshake and is never answered.
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested.trim())
            .filter(|r| r.era() == Era::Legacy)
            .unwrap_or(Self::LATEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "Legacy",
            Self::Modern => "Modern",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_answered_with_a_legacy_revision_only() {
        assert_eq!(Revision::negotiate("2025-06-18"), Revision::V2025_06_18);
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate("1999-12-31"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate(""), Revision::V2025_11_25);
    }

    #[test]
    fn names_are_read_back() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
        }
    }
}
