//! Catalogs merged into what the clients of a federation see: pure, deterministic, built once per change.

pub mod catalog;
pub mod merge;
pub mod naming;
pub mod search;
pub mod template;
pub mod withheld;

pub use catalog::{Catalog, Item, List};
pub use merge::{Index, Listing, MemberCatalog, Target};
pub use withheld::{Annotations, Defect, Withheld};
