//! The floors of the engine: every file uses only files below it, and every type has a unique name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files of the engine that are no tests, by their names, each with its code without comments.
fn files() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(root.join("lib.rs")).unwrap();
    let production = lib.split("#[cfg(test)]").next().unwrap();
    let declared = production.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        line.strip_suffix(';')
    });
    let read = |name: &str| {
        let text = fs::read_to_string(root.join(format!("{name}.rs"))).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap().lines();
        let code = code.map(|line| line.split("//").next().unwrap_or_default());
        code.collect::<Vec<_>>().join("\n")
    };
    let mut files: BTreeMap<_, _> = declared.map(|name| (name.to_owned(), read(name))).collect();
    assert!(files.len() > 15, "only {} files", files.len());
    files.insert("lib".to_owned(), production.to_owned());
    files
}

/// The files that a file uses: paths of the crate begin with `super` or `crate`.
fn uses(code: &str, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let paths = ["super::", "crate::"].map(|root| code.split(root).skip(1));
    let first = |path: &str| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
        path[..end.unwrap_or(path.len())].to_owned()
    };
    // A name that is no file comes from the list of all names, which knows every file.
    let file = |name: String| {
        if files.contains_key(&name) {
            name
        } else {
            "lib".to_owned()
        }
    };
    paths.into_iter().flatten().map(first).map(file).collect()
}

#[test]
fn no_file_of_the_engine_uses_itself_by_way_of_others() {
    let files = files();
    let mut left: BTreeMap<_, _> = files
        .iter()
        .filter(|(name, _)| *name != "lib")
        .map(|(name, code)| (name.clone(), uses(code, &files)))
        .collect();
    // What uses nothing that is left, or is used by nothing that is, is on no cycle.
    while let Some(free) = left
        .keys()
        .find(|name| {
            let uses = left[*name].iter().any(|one| left.contains_key(one));
            let used = left.values().any(|used| used.contains(*name));
            let by_all = left[*name].contains("lib");
            !(by_all || uses && used)
        })
        .cloned()
    {
        left.remove(&free);
    }
    assert!(left.is_empty(), "files that use each other: {left:#?}");
}

#[test]
fn every_type_of_the_engine_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, code) in files() {
        for line in code.lines().map(str::trim_start) {
            let line = line
                .trim_start_matches("pub ")
                .trim_start_matches("pub(super) ");
            let named = ["struct ", "enum ", "trait ", "type "];
            if let Some(rest) = named.iter().find_map(|word| line.strip_prefix(word)) {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap();
                places
                    .entry(rest[..end].to_owned())
                    .or_default()
                    .push(file.clone());
            }
        }
    }
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "{places:?}");
}
