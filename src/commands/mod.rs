//! What the program does besides serving: commands for people.

pub mod crds;
pub mod reference;
