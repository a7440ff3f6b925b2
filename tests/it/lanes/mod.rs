//! Whose calls share a connection to a Legacy server, and what becomes of what such a server asks.

mod caller;
mod desk;
mod news;
mod owners;
mod process_desk;
mod processes;
mod questions;
mod sessions;
