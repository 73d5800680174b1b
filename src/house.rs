//! The rules of the house that no compiler checks: who may know whom, and how large a file may grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What the deciding code must not know: clients, the runtime, logging, clocks.
const IMPURE: &[&str] = &[
    "kube::",
    "k8s_openapi::",
    "tokio::",
    "use tokio",
    "tracing::",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "std::fs",
    "std::net",
    "std::env",
];

/// The names of products, which belong to dialects.
const PRODUCTS: &[&str] = &["syncagent", "kcp.io", "cloudrobotics", "kubefed"];

struct Rule {
    /// A file or directory below the workspace, without the ending `.rs`.
    room: &'static str,
    /// Files and directories of the room that are outside the rule.
    except: &'static [&'static str],
    must_not_know: &'static [&'static str],
}

fn within(name: &str, place: &str) -> bool {
    let rest = name.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

/// What the manifests of the members do not enforce: words, clocks and files, and the rooms within one member.
const RULES: &[Rule] = &[
    Rule {
        room: "crates/kube-lang/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/kube-cel/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/kube-schema/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/hawser-federation/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/hawser-placement/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/hawser-sync/src",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "crates/hawser-sync/src",
        except: &[],
        must_not_know: PRODUCTS,
    },
    Rule {
        room: "crates/hawser-runtime/src",
        except: &[],
        must_not_know: PRODUCTS,
    },
    Rule {
        room: "crates/hawser-runtime/src",
        except: &[],
        // The words of the dialects.
        must_not_know: &[
            "sync_agent",
            "kcp",
            "PublishedResource",
            "APIBinding",
            "APIExport",
            "orphan",
            "Federated",
            "FleetMember",
            "Robot",
        ],
    },
    Rule {
        room: "crates/kcp-playground/src",
        except: &[],
        must_not_know: &["hawser_sync", "hawser_runtime"],
    },
    Rule {
        room: "src/mutation",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "src/cli",
        except: &["src/cli/playground"],
        must_not_know: &["kcp_playground"],
    },
    Rule {
        room: "src/webhook",
        except: &[],
        must_not_know: &["kcp_playground"],
    },
    Rule {
        room: "src/publish",
        // One table is shared by passes.
        except: &["src/publish/agent", "src/publish/related/ledger"],
        must_not_know: &["Mutex", "RwLock"],
    },
    Rule {
        room: "src/rehearsal",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "src/explain",
        except: &[],
        must_not_know: &["crate::cli", "crate::mirror", "crate::publish"],
    },
    Rule {
        room: "src/publish",
        except: &[],
        must_not_know: &[
            "kcp_playground",
            "crate::demo",
            "crate::cli",
            "crate::mirror",
        ],
    },
    Rule {
        room: "src/mirror",
        except: &[],
        must_not_know: &[
            "kcp_playground",
            "crate::demo",
            "crate::cli",
            "crate::publish",
        ],
    },
    Rule {
        room: "src/federation",
        except: &[],
        must_not_know: &[
            "kcp_playground",
            "crate::demo",
            "crate::cli",
            "crate::mirror",
            "crate::publish",
        ],
    },
    Rule {
        room: "src/placement",
        except: &[],
        must_not_know: &[
            "kcp_playground",
            "crate::demo",
            "crate::cli",
            "crate::mirror",
            "crate::publish",
            "crate::federation",
        ],
    },
    Rule {
        room: "src/mirror",
        // The part that acts.
        except: &["src/mirror/agent"],
        must_not_know: IMPURE,
    },
    Rule {
        room: "src/publish",
        // The types are what a CRD is generated from; the agent is the part that acts.
        except: &["src/publish/agent", "src/publish/types"],
        must_not_know: IMPURE,
    },
];

/// Every Rust file of the product, with its path and its text; what is compiled for tests only is left out.
fn product_sources() -> Vec<(String, String)> {
    sources(&["src", "crates"])
}

fn sources(places: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    let mut open: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                sources.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let test_modules = test_modules(&sources);
    sources.retain(|(name, _)| !test_modules.iter().any(|module| within(name, module)));
    assert!(
        sources.len() > 300,
        "only {} sources below {}",
        sources.len(),
        root.display()
    );
    sources
}

/// The modules that are compiled for tests only, as paths without their ending: the line before the declaration
/// says so.
fn test_modules(sources: &[(String, String)]) -> Vec<String> {
    let mut modules = vec!["src/house".to_owned(), "crates/fuzz".to_owned()];
    for (name, text) in sources {
        let path = name.trim_end_matches(".rs");
        let room = path.trim_end_matches("/lib").trim_end_matches("/main");
        let mut for_tests = false;
        for line in text.lines().map(str::trim) {
            let declared = line
                .trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ")
                .strip_prefix("mod ")
                .and_then(|rest| rest.strip_suffix(';'));
            if let (true, Some(module)) = (for_tests, declared) {
                modules.push(format!("{room}/{module}"));
            }
            for_tests = line.starts_with("#[cfg(") && line.contains("test");
        }
    }
    modules
}

/// The code of a file without its comments and the tests in it, which are at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("\n#[cfg(test)]\nmod tests {");
    text[..tests.unwrap_or(text.len())]
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

#[test]
fn no_room_knows_what_it_must_not_know() {
    let mut broken = Vec::new();
    for (name, text) in &product_sources() {
        for rule in RULES {
            if !within(name, rule.room) || rule.except.iter().any(|place| within(name, place)) {
                continue;
            }
            for (line, code) in code(text) {
                for word in rule
                    .must_not_know
                    .iter()
                    .filter(|word| code.contains(**word))
                {
                    broken.push(format!("{name}:{line} must not know {word}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn files_stay_small_enough_to_be_read_and_none_is_called_mod() {
    let mut broken = Vec::new();
    for (name, text) in product_sources() {
        if name.ends_with("/mod.rs") {
            broken.push(format!("{name}: call it by its directory's name"));
        }
        let lines = code(&text).count();
        if lines > 800 {
            broken.push(format!("{name}: {lines} lines, split it"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The name of the type that a line of code declares at the outermost level of a file.
fn declared_type(code: &str) -> Option<&str> {
    let rest = code
        .strip_prefix("pub ")
        .or_else(|| code.strip_prefix("pub(crate) "))
        .or_else(|| code.strip_prefix("pub(super) "))
        .unwrap_or(code);
    let name = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|keyword| rest.strip_prefix(keyword))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
}

#[test]
fn no_two_types_of_a_crate_have_one_name() {
    let mut types: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (file, text) in &product_sources() {
        let (member, _) = file.split_once("src/").unwrap_or_default();
        for (line, code) in code(text) {
            if let Some(name) = declared_type(code) {
                let key = (format!("{member}src"), name.to_owned());
                let places = types.entry(key).or_default();
                places.push(format!("{file}:{line}"));
            }
        }
    }
    assert!(types.len() > 700, "only {} types", types.len());
    let broken: Vec<String> = types
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|((_, name), places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The paths that begin at a place of a text, with the lists in braces expanded, and the rest of the text.
fn expanded(text: &str) -> (Vec<Vec<&str>>, &str) {
    let mut rest = text.trim_start();
    if let Some(list) = rest.strip_prefix('{') {
        let mut paths = Vec::new();
        rest = list;
        loop {
            // A comma may be at the end of a list.
            if let Some(left) = rest.trim_start().strip_prefix('}') {
                return (paths, left);
            }
            let (more, left) = expanded(rest);
            paths.extend(more);
            let Some(end) = left.find([',', '}']) else {
                return (paths, "");
            };
            rest = &left[end + 1..];
            if left[end..].starts_with('}') {
                return (paths, rest);
            }
        }
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (name, left) = rest.split_at(end.unwrap_or(rest.len()));
    match left.strip_prefix("::") {
        Some(left) if !name.is_empty() => {
            let (mut paths, left) = expanded(left);
            for path in &mut paths {
                path.insert(0, name);
            }
            (paths, left)
        }
        _ => (vec![vec![name]], left),
    }
}

/// The modules that the code of a module uses. A re-export uses nothing.
fn used_modules(module: &str, text: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let joined = |at: &[&str]| at.join("/");
    let here: Vec<&str> = module.split('/').filter(|part| !part.is_empty()).collect();
    let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
    let text = lines.join("\n");
    let items = text.split_inclusive(';');
    let is_export = |item: &&str| {
        let item = item.trim_start();
        item.starts_with("pub") && item.lines().next().unwrap_or_default().contains(" use ")
    };
    let text: String = items.filter(|item| !is_export(item)).collect();
    let mut used = BTreeSet::new();
    for (index, _) in text.match_indices("::") {
        let before = text[..index].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        let first = &text[before.len()..index];
        let child = joined(&[&here[..], &[first]].concat());
        let is_start = matches!(first, "crate" | "super" | "self") || all.contains_key(&child);
        // A visibility is no use.
        let is_visibility = before.ends_with("(in ");
        if first.is_empty() || before.ends_with("::") || is_visibility || !is_start {
            continue;
        }
        for path in expanded(&text[before.len()..]).0 {
            let mut at = here.clone();
            for name in path {
                match name {
                    "crate" => at.clear(),
                    "super" => drop(at.pop()),
                    "self" => {}
                    name if all.contains_key(&joined(&[&at[..], &[name]].concat())) => {
                        at.push(name);
                    }
                    _ => break,
                }
            }
            used.insert(joined(&at));
        }
    }
    used.remove(module);
    used
}

#[test]
fn no_file_uses_itself_by_way_of_others() {
    let mut rooms: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, text) in sources(&["src", "crates", "testbed"]) {
        let Some((member, file)) = name.split_once("src/") else {
            continue;
        };
        let module = match file.trim_end_matches(".rs") {
            "lib" => "",
            module => module,
        };
        let modules = rooms.entry(format!("{member}src")).or_default();
        modules.insert(module.to_owned(), text);
    }
    assert!(rooms.len() > 9, "only these members: {:?}", rooms.keys());
    for (room, modules) in &rooms {
        assert!(modules.len() > 10, "only {} files in {room}", modules.len());
        let mut left: BTreeMap<_, _> = modules
            .iter()
            .map(|(name, text)| (name.clone(), used_modules(name, text, modules)))
            .collect();
        assert!(left.values().any(|used| used.len() > 3));
        // What uses nothing that is left, or is used by nothing that is, is on no cycle.
        while let Some(free) = left
            .keys()
            .find(|name| {
                let uses = left[*name].iter().any(|one| left.contains_key(one));
                let is_used = left.values().any(|used| used.contains(*name));
                !(uses && is_used)
            })
            .cloned()
        {
            left.remove(&free);
        }
        assert!(
            left.is_empty(),
            "{room}: files that use each other: {left:#?}"
        );
    }
}
