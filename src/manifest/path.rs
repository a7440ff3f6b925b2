//! Where a value stands inside an object, written as the API server writes it.

use std::fmt;

/// The way from an object's root to one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// A field that the schema names.
    Field(String),
    /// A key of a map, chosen by the user.
    Key(String),
    /// A place in a list.
    Index(usize),
}

impl Path {
    /// The path one step further.
    pub(super) fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// The path one field further.
    pub(super) fn field(&self, name: &str) -> Self {
        self.join(Segment::Field(name.to_owned()))
    }

    /// The path to a key of a map.
    pub(super) fn key(&self, name: &str) -> Self {
        self.join(Segment::Key(name.to_owned()))
    }

    /// The path to a place in a list.
    pub(super) fn index(&self, index: usize) -> Self {
        self.join(Segment::Index(index))
    }

    /// A path of fields only: `spec.remote.url`.
    pub(super) fn of_fields(dotted: &str) -> Self {
        dotted.split('.').fold(Self::default(), |path, name| path.field(name))
    }

    /// The steps, from the root.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if position == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_the_api_server_writes_them() {
        let member = Path::of_fields("spec.members").index(0).field("prefix");
        assert_eq!(member.to_string(), "spec.members[0].prefix");
        let limit = Path::of_fields("spec.limits").key("nvidia.com/gpu");
        assert_eq!(limit.to_string(), "spec.limits[nvidia.com/gpu]");
    }
}
