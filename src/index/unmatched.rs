//! What a federation's manifest says of things that are not there: most often a name that is misspelt, or that a server
//! gave up.

use super::catalog::Catalog;
use super::glob::Glob;
use super::list::List;
use super::{Index, MemberCatalog};

impl Index {
    /// What filters, overrides and rules name and nothing bears, in words, in the order of the manifest. Of a member whose
    /// lists are not known, or not whole, nothing is said; neither of what is found by other ways than lists.
    pub fn unmatched(&self) -> Vec<String> {
        let members = self.members.iter().filter(|member| self.is_in_manifest(member));
        let of_members = members.filter_map(|member| {
            let catalog = known(member).filter(|_| !member.selection.searches_remotely)?;
            Some((member, catalog))
        });
        let of_members = of_members.flat_map(|(member, catalog)| {
            let names: Vec<_> = tools(catalog).collect();
            let unmatched = member.selection.unmatched(&names);
            let said = unmatched.map(|what| format!("member {} says {what}", member.name));
            said.collect::<Vec<_>>()
        });
        of_members.chain(self.unmatched_rules()).collect()
    }

    fn is_in_manifest(&self, member: &MemberCatalog) -> bool {
        let own = self.own.and_then(|place| self.members.get(place));
        !own.is_some_and(|own| std::ptr::eq(own, member))
    }

    fn unmatched_rules(&self) -> impl Iterator<Item = String> + '_ {
        let all_known = self.members.iter().all(|member| known(member).is_some());
        let no_search = self.members.iter().all(|member| !member.selection.searches_remotely);
        self.rules()
            .patterns()
            .enumerate()
            .flat_map(move |(place, (of_members, names))| {
                let is_member = |glob: &Glob| self.members.iter().any(|member| glob.matches(&member.name));
                let nobody = of_members.iter().filter(move |glob| !is_member(glob));
                let nobody = nobody.map(|glob| (format!("members {:?}", glob.to_string()), "is no member"));
                let covered = move |member: &&MemberCatalog| {
                    of_members.is_empty() || of_members.iter().any(|glob| glob.matches(&member.name))
                };
                let matches_any =
                    move |glob: &Glob| self.members.iter().filter(covered).any(|member| has(member, glob));
                let nothing = names.iter().filter(move |glob| {
                    // URIs may be of resources that no list has.
                    all_known && no_search && !glob.to_string().contains(':') && !matches_any(glob)
                });
                let nothing = nothing.map(|glob| (format!("names {:?}", glob.to_string()), "matches nothing"));
                let all: Vec<_> = nobody.chain(nothing).collect();
                all.into_iter()
                    .map(move |(what, why)| format!("access.rules[{place}] says {what}, which {why}"))
            })
    }
}

/// The lists of a member, if all is known of them.
fn known(member: &MemberCatalog) -> Option<&Catalog> {
    member.catalog.as_deref().filter(|catalog| catalog.complete)
}

/// Also of those that are not offered: they are there.
fn tools(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let withheld = catalog.withheld.iter().filter(|entry| entry.list == List::Tools);
    let listed = catalog.tools.iter().map(|tool| &*tool.key);
    listed.chain(withheld.map(|entry| &*entry.name))
}

fn has(member: &MemberCatalog, glob: &Glob) -> bool {
    let Some(catalog) = member.catalog.as_deref() else {
        return false;
    };
    let mut listed = List::ALL.into_iter().flat_map(|list| catalog.list(list));
    listed.any(|item| glob.matches(&item.key)) || catalog.withheld.iter().any(|entry| glob.matches(&entry.name))
}
