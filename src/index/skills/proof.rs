//! What a skill's entry says of its files, and whether a file is that.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::mcp::Members;

/// What is known of a file before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The SHA-256 of its bytes.
    sha256: [u8; 32],
    /// How many there are.
    pub size: u64,
}

/// A file is not what the skill's entry says. It must not be served: the file or the entry is out of date, or worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It has another length.
    #[error("the file has {found} bytes where the skill's entry says {expected}")]
    Size {
        /// What the entry says.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// It has other bytes.
    #[error("the file's digest is not the one in the skill's entry")]
    Digest,
    /// It has neither text nor a blob that can be read.
    #[error("the file came without text or a readable blob")]
    Unreadable,
}

impl Mismatch {
    /// One CamelCase word.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Size { .. } => "SizeMismatch",
            Self::Digest => "DigestMismatch",
            Self::Unreadable => "Unreadable",
        }
    }
}

impl Proof {
    /// What `file`, one of an entry's resources, says; `None` if that is no digest and size.
    pub(super) fn read(file: &Members<'_>) -> Option<Self> {
        let size = serde_json::from_str(file.get("size")?.get()).ok()?;
        let digest = file.string("digest")?;
        let mut digits = digest.strip_prefix("sha256:")?.chars().map(|c| match c {
            '0'..='9' | 'a'..='f' => c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()),
            _ => None,
        });
        let mut sha256 = [0; 32];
        for byte in &mut sha256 {
            *byte = digits.next()?? << 4 | digits.next()??;
        }
        digits.next().is_none().then_some(Self { sha256, size })
    }

    /// Compares a file's bytes with what is known of it.
    ///
    /// # Errors
    /// They are others.
    pub fn check(&self, bytes: &[u8]) -> Result<(), Mismatch> {
        let found = bytes.len() as u64;
        if found != self.size {
            return Err(Mismatch::Size {
                expected: self.size,
                found,
            });
        }
        if digest(&SHA256, bytes).as_ref() != self.sha256 {
            return Err(Mismatch::Digest);
        }
        Ok(())
    }

    /// Compares `content`, one of the contents that `resources/read` gives, with what is known of the file.
    ///
    /// # Errors
    /// It is another, or cannot be read.
    pub fn check_content(&self, content: &str) -> Result<(), Mismatch> {
        let members = Members::parse(content).ok_or(Mismatch::Unreadable)?;
        match (members.string("text"), members.string("blob")) {
            (Some(text), None) => self.check(text.as_bytes()),
            (None, Some(blob)) => {
                let bytes = BASE64.decode(blob.as_bytes()).map_err(|_| Mismatch::Unreadable)?;
                self.check(&bytes)
            }
            _ => Err(Mismatch::Unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_with_the_entry_by_length_and_digest() {
        let file = r#"{"uri":"skill://a/ops/b c.txt","size":17,"digest":"sha256:3116f440fb6169a786794141c11b132b6cf346f79dd31f4458caf66cd9c25c32"}"#;
        let proof = Proof::read(&Members::parse(file).unwrap()).unwrap();
        assert_eq!(proof.check(b"eu-west, us-east\n"), Ok(()));
        for (content, expected) in [
            (r#"{"uri":"u","text":"eu-west, us-east\n"}"#, Ok(())),
            (r#"{"blob":"ZXUtd2VzdCwgdXMtZWFzdAo="}"#, Ok(())),
            (
                r#"{"text":"eu-west, us-east"}"#,
                Err(Mismatch::Size {
                    expected: 17,
                    found: 16,
                }),
            ),
            (r#"{"text":"eu-west, us-eest\n"}"#, Err(Mismatch::Digest)),
            (r#"{"blob":"?"}"#, Err(Mismatch::Unreadable)),
            (r#"{"uri":"u"}"#, Err(Mismatch::Unreadable)),
            (r#"{"text":"eu-west, us-east\n","blob":""}"#, Err(Mismatch::Unreadable)),
        ] {
            assert_eq!(proof.check_content(content), expected, "{content}");
        }
    }
}
