//! Arguments that are repeated as `Mcp-Param-*` headers: checked of clients, sent to servers, and what becomes of tools
//! that ask for them wrongly.

mod again;
mod checks;
mod made;
mod peers;
mod route;
mod wrong;
