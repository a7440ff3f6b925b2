//! Whose a skill is, and what is known of its files.

use super::audience::Audience;
use super::list::List;
use super::merged::Target;
use super::skills::{Entry, OwnSkills, SkillPrefix, SkillUris, uri};
use super::{Index, MemberCatalog};

impl Index {
    /// The skills of the federation itself.
    pub fn own_skills(&self) -> Option<&OwnSkills> {
        self.plan.own.as_deref()
    }

    /// Whether the federation itself, and no member, has what `target` is.
    pub fn is_own(&self, target: &Target) -> bool {
        self.own == Some(target.member)
    }

    /// What stands before the skills of the member in this place.
    fn skill_prefix(&self, member: usize) -> Option<&SkillPrefix> {
        self.members.get(member)?.skills.prefix()
    }

    /// Who owns the skill, or the directory of one, that `audience` calls `uri`, listed or not.
    pub fn skill(&self, uri: &str, audience: Audience) -> Option<Target> {
        let owner = self.owner_by_prefix(uri).or_else(|| self.owner_by_skill(uri, audience));
        self.seen_by(owner?, audience)
    }

    /// The skills that the resource `original` of the member in this place may be a file of.
    pub fn skills_around(&self, member: usize, original: &str) -> Vec<Entry> {
        let Some(offering) = self.members.get(member) else {
            return Vec::new();
        };
        let skills = self.merged(List::Skills);
        let entries = uri::manifests_around(original).filter_map(|manifest| {
            let uri = offering.uri_for_clients(&manifest);
            let entry = skills.of_key(&uri).find(|(_, entry)| entry.target.member == member)?.1;
            Entry::read(self.raw(List::Skills, entry)).ok()
        });
        entries.collect()
    }

    /// Whose the URI is by what it begins with: the federation's own, or what is under the prefix of a member.
    pub(super) fn owner_by_prefix(&self, uri: &str) -> Option<Target> {
        let prefix = uri::prefix_of(uri)?;
        if let (Some(place), Some(own)) = (self.own, self.own_skills())
            && own.has(uri)
        {
            return Some(Target::resource(place, uri));
        }
        if let [alone] = &*self.members
            && self.own.is_none()
            && alone.skills == SkillUris::AsTheyAre
        {
            return Some(Target::resource(0, uri));
        }
        let has_it = |member: &MemberCatalog| member.skills.prefix().is_some_and(|own| own.as_str() == prefix);
        let member = self.members.iter().position(has_it)?;
        let original = self.skill_prefix(member)?.to_member(uri)?;
        Some(Target::resource(member, &original))
    }

    /// Whose the URI is by a skill that is listed, whatever its scheme, and that it is a file of.
    pub(super) fn owner_by_skill(&self, uri: &str, audience: Audience) -> Option<Target> {
        let named = uri::manifest(uri).into_owned();
        let skills = self.merged(List::Skills);
        let mut manifests = std::iter::once(named).chain(uri::manifests_around(uri));
        let entry = manifests.find_map(|manifest| skills.get(&manifest, audience.rules))?;
        let member = self.members.get(entry.target.member)?;
        let original = match member.skills.prefix() {
            Some(prefix) => prefix.to_member(uri).unwrap_or_else(|| uri.to_owned()),
            None => uri.to_owned(),
        };
        Some(Target::resource(entry.target.member, &original))
    }

    pub(super) fn seen_by(&self, owner: Target, audience: Audience) -> Option<Target> {
        let covered = self.covering(owner.member, &owner.original);
        covered.meets(audience.rules).then_some(owner)
    }
}
