//! Servers that are asked with what callers present: each caller has lists and connections of its own, and nothing of
//! one reaches another.

mod desk;
mod failures;
mod lists;
mod news;
mod room;
mod secrets;
