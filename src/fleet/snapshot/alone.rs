//! Each member of a federation as a federation of its own, under the names that its server gives: pages of apps know no
//! others. Who may connect, and what they see of it, is the same; what is said of it, its server says.

use std::sync::Arc;

use super::federation::{Federation, View};
use crate::fleet::own::Own;

/// What stands before the member in the name of such a federation.
pub(super) const BEFORE_MEMBER: &str = "/servers/";

/// The name of `member` of `federation` alone.
pub fn name_of(federation: &str, member: &str) -> String {
    format!("{federation}{BEFORE_MEMBER}{member}")
}

impl Federation {
    /// The member of this name alone. It hears of the same changes and counts its requests with the whole.
    pub(super) fn alone(&self, member: &str) -> Option<&Arc<Self>> {
        let place = self.members.iter().position(|own| own.name == member)?;
        let made = self.alone.0.get(place)?;
        if made.get().is_none() {
            let alone = self.only(place)?;
            drop(made.set(Arc::new(alone)));
        }
        made.get()
    }

    fn only(&self, place: usize) -> Option<Self> {
        let mut member = self.members.get(place)?.clone();
        let own = self.own.as_ref().and_then(|own| own.only(place));
        member.skills = None;
        let said = member.introduction.clone();
        Some(
            self.in_view(View {
                name: name_of(&self.name, &member.name),
                server_info: said
                    .info
                    .map_or_else(|| self.server_info.clone(), |info| info.to_string()),
                instructions: said.instructions.as_deref().unwrap_or_default().to_owned(),
                own_instructions: None,
                index: Arc::new(self.index.alone(place)?),
                offers: member.offers,
                is_alone: true,
                is_private: own.as_ref().is_some_and(Own::has_lists),
                own,
                absent: Vec::new(),
                members: vec![member],
            }),
        )
    }
}
