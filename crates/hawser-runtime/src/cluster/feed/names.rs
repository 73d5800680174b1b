//! Interned names of clusters and namespaces.

use std::collections::HashSet;
use std::sync::Arc;

#[derive(Clone, Default)]
pub(super) struct Names {
    known: HashSet<Arc<str>>,
    /// With this many names, unused ones are dropped.
    full: usize,
}

/// With fewer names, unused ones are not looked for.
const FEW: usize = 256;

impl Names {
    pub(super) fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.full.max(FEW) {
            self.known.retain(|name| Arc::strong_count(name) > 1);
            self.full = self.known.len() * 2;
        }
        let name = Arc::from(name);
        self.known.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nothing_bears_any_more_are_dropped() {
        let mut names = Names::default();
        let borne: Vec<_> = (0..FEW).map(|n| names.get(&format!("borne-{n}"))).collect();
        for number in 0..100_000 {
            names.get(&format!("gone-{number}"));
        }
        assert!(names.known.len() <= 2 * FEW + 1, "{}", names.known.len());
        assert!(Arc::ptr_eq(&borne[7], &names.get("borne-7")));
    }
}
