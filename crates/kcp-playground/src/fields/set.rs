//! Sets of paths as trees. Whether a path is in a set does not depend on the paths below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::element::{Element, ElementPath};

/// A set of paths. Every branch contains a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(BTreeMap<Element, Branch>);

/// The content of a set at one path element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) member: bool,
    pub(super) below: Set,
}

impl Branch {
    pub(super) fn leaf() -> Self {
        Self {
            member: true,
            below: Set::default(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Set {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A set of paths of field names, written with dots.
    pub(crate) fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.split('.').map(Element::field));
        }
        set
    }

    pub(crate) fn insert(&mut self, path: impl IntoIterator<Item = Element>) {
        let mut set = self;
        let mut path = path.into_iter().peekable();
        while let Some(element) = path.next() {
            let branch = set.0.entry(element).or_default();
            if path.peek().is_none() {
                branch.member = true;
                return;
            }
            set = &mut branch.below;
        }
    }

    pub(crate) fn has(&self, path: &ElementPath) -> bool {
        let Some((last, steps)) = path.0.split_last() else {
            return false;
        };
        let mut set = self;
        for step in steps {
            match set.0.get(step) {
                Some(branch) => set = &branch.below,
                None => return false,
            }
        }
        set.0.get(last).is_some_and(|branch| branch.member)
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Branch> {
        self.0.get(element)
    }

    /// For small sets: searched linearly.
    pub(super) fn field(&self, name: &str) -> Option<&Branch> {
        let named =
            |element: &Element| matches!(element, Element::Field(field) if **field == *name);
        let found = self.0.iter().find(|(element, _)| named(element));
        found.map(|(_, branch)| branch)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Element, &Branch)> {
        self.0.iter()
    }

    /// Adds the content of an element to the existing content.
    pub(super) fn add(&mut self, element: Element, branch: Branch) {
        if branch.is_empty() {
            return;
        }
        match self.0.entry(element) {
            Entry::Vacant(vacant) => {
                vacant.insert(branch);
            }
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                there.member |= branch.member;
                there.below.extend(branch.below);
            }
        }
    }

    /// Adds all paths of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        if self.0.is_empty() {
            self.0 = other.0;
            return;
        }
        for (element, branch) in other.0 {
            self.add(element, branch);
        }
    }

    #[cfg(test)]
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other.clone());
        all
    }

    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, mine) in &self.0 {
            let Some(theirs) = other.0.get(element) else {
                continue;
            };
            let branch = Branch {
                member: mine.member && theirs.member,
                below: mine.below.intersection(&theirs.below),
            };
            if !branch.is_empty() {
                both.0.insert(element.clone(), branch);
            }
        }
        both
    }

    /// This set without the paths of `other`; paths below those stay.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.subtract(other);
        left
    }

    /// Removes the paths of the other set; paths below them stay.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.take(other, |mine, theirs| {
            mine.member &= !theirs.member;
            mine.below.subtract(&theirs.below);
        });
    }

    /// Removes the paths of the other set and all paths below them.
    pub(crate) fn subtract_whole(&mut self, other: &Self) {
        self.take(other, |mine, theirs| {
            if theirs.member {
                *mine = Branch::default();
            } else {
                mine.below.subtract_whole(&theirs.below);
            }
        });
    }

    fn take(&mut self, other: &Self, from: impl Fn(&mut Branch, &Branch)) {
        for (element, theirs) in &other.0 {
            if let Some(mine) = self.0.get_mut(element) {
                from(mine, theirs);
                if mine.is_empty() {
                    self.0.remove(element);
                }
            }
        }
    }

    /// All paths; shorter paths come first.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> Vec<ElementPath> {
        let mut left = usize::MAX;
        self.paths_within(&mut left).unwrap_or_default()
    }

    /// All paths, shorter paths first, if their names fit into the remaining bytes. Their bytes are subtracted.
    pub(super) fn paths_within(&self, left: &mut usize) -> Option<Vec<ElementPath>> {
        let mut paths = Vec::new();
        self.collect(&mut (Vec::new(), 0), &mut paths, left)?;
        Some(paths)
    }

    fn collect(
        &self,
        above: &mut (Vec<Element>, usize),
        paths: &mut Vec<ElementPath>,
        left: &mut usize,
    ) -> Option<()> {
        for (element, branch) in &self.0 {
            if branch.member {
                *left = left.checked_sub(above.1 + element.size())?;
                let mut path = above.0.clone();
                path.push(element.clone());
                paths.push(ElementPath(path));
            }
        }
        for (element, branch) in &self.0 {
            let size = element.size();
            above.0.push(element.clone());
            above.1 += size;
            branch.below.collect(above, paths, left)?;
            above.0.pop();
            above.1 -= size;
        }
        Some(())
    }
}
