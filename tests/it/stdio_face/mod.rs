//! `mcpfleet up --stdio` and `mcpfleet connect`, as a host starts them: by pipes.

mod arguments;
mod at_work;
mod crowded;
mod host;
mod messages;
mod news;
mod peers;
mod remote;
