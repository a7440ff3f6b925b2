//! Extensions of the protocol that are declared to clients.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::fleet::Federation;
use crate::index::skills;
use crate::mcp::object::ObjectWriter;
use crate::mcp::{Revision, apps, task};
use crate::upstream::Skills;

/// Declares the extensions that `federation` serves to clients of `revision` among its `capabilities`, if there are any:
/// those that a member brings along, and those that its object names, which says more.
pub(super) fn declare(capabilities: &mut ObjectWriter<'_>, federation: &Federation, revision: Revision) {
    // Legacy clients have tasks of another kind, which are not served.
    let has_tasks = revision == Revision::LATEST;
    let mut all: BTreeMap<&str, Cow<'_, str>> = BTreeMap::new();
    if federation.offers.tasks {
        all.insert(task::EXTENSION, "{}".into());
    }
    match federation.offers.skills {
        Skills::None => {}
        Skills::Listed => drop(all.insert(skills::EXTENSION, "{}".into())),
        Skills::WithDirectories => drop(all.insert(skills::EXTENSION, r#"{"directoryRead":true}"#.into())),
    }
    if federation.index.has_apps() {
        all.insert(apps::EXTENSION, federation.apps.settings().into());
    }
    let said = federation.extensions.iter();
    all.extend(said.map(|(id, settings)| (id.as_str(), settings.into())));
    all.retain(|id, _| has_tasks || *id != task::EXTENSION);
    if all.is_empty() {
        return;
    }
    let mut extensions = ObjectWriter::open(capabilities.name("extensions"));
    for (id, settings) in &all {
        extensions.member(id, settings);
    }
    extensions.close();
}
