//! The rules of the house that no compiler checks: who may know whom, and how large a file may grow.

use std::fs;
use std::path::{Path, PathBuf};

/// What the deciding code must not know: clients, the runtime, logging, clocks.
const IMPURE: &[&str] = &[
    "kube::",
    "use kube",
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

struct Rule {
    /// Below `src/`: a file or the start of its path.
    room: &'static str,
    /// Files and directories of the room that are outside the rule, each for a reason that stands in
    /// ARCHITECTURE.md.
    except: &'static [&'static str],
    must_not_know: &'static [&'static str],
}

impl Rule {
    fn spares(&self, name: &str) -> bool {
        let within = |place: &str| {
            let rest = name.strip_prefix(place);
            rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
        };
        self.except.iter().any(|place| within(place))
    }
}

const RULES: &[Rule] = &[
    Rule {
        room: "object",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "selector",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "paths",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "template",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "mutation",
        except: &[],
        must_not_know: IMPURE,
    },
    Rule {
        room: "sync",
        except: &["sync/look.rs", "sync/act.rs"],
        must_not_know: IMPURE,
    },
    Rule {
        room: "sync",
        except: &[],
        must_not_know: &[
            "crate::publish",
            "crate::playground",
            "crate::mirror",
            "syncagent",
            "kcp.io",
            "cloudrobotics",
            "crate::template",
            "crate::mutation",
        ],
    },
    Rule {
        room: "cluster",
        except: &[],
        must_not_know: &[
            "crate::publish",
            "crate::mirror",
            "crate::template",
            "crate::mutation",
            "syncagent",
            "kcp.io",
            "cloudrobotics",
        ],
    },
    Rule {
        room: "playground",
        except: &[],
        must_not_know: &[
            "crate::sync",
            "crate::publish",
            "crate::demo",
            "crate::template",
            "crate::mutation",
            "crate::paths",
            "crate::selector",
        ],
    },
    Rule {
        room: "template",
        except: &[],
        must_not_know: &["crate::sync", "crate::publish", "crate::playground"],
    },
    Rule {
        room: "mutation",
        except: &[],
        must_not_know: &["crate::sync", "crate::publish", "crate::playground"],
    },
    Rule {
        room: "publish",
        except: &[],
        must_not_know: &[
            "crate::playground",
            "crate::demo",
            "crate::cli",
            "crate::mirror",
        ],
    },
    Rule {
        room: "mirror",
        except: &[],
        must_not_know: &[
            "crate::playground",
            "crate::cli",
            "crate::publish",
            "crate::template",
            "crate::mutation",
        ],
    },
    Rule {
        room: "mirror",
        // The part that acts.
        except: &["mirror/agent"],
        must_not_know: IMPURE,
    },
    Rule {
        room: "publish",
        // The types are what a CRD is generated from; the agent is the part that acts.
        except: &["publish/agent", "publish/types"],
        must_not_know: IMPURE,
    },
];

/// Every Rust file below `src/`, with its path from there and its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                found.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {}", root.display());
    found
}

/// The modules that are compiled for tests only, as paths without their ending: whoever declares them
/// says so in the line before.
fn test_modules(sources: &[(String, String)]) -> Vec<String> {
    let mut modules = vec!["house".to_owned()];
    for (name, text) in sources {
        let room = match name.trim_end_matches(".rs") {
            "lib" | "main" => String::new(),
            room => format!("{room}/"),
        };
        let mut for_tests = false;
        for line in text.lines().map(str::trim) {
            let declared = line
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ")
                .strip_prefix("mod ")
                .and_then(|rest| rest.strip_suffix(';'));
            if let (true, Some(module)) = (for_tests, declared) {
                modules.push(format!("{room}{module}"));
            }
            for_tests = line == "#[cfg(test)]";
        }
    }
    modules
}

/// The sources without those that are compiled for tests only.
fn product_sources() -> Vec<(String, String)> {
    let mut sources = sources();
    let test_modules = test_modules(&sources);
    sources.retain(|(name, _)| {
        let path = name.trim_end_matches(".rs");
        !test_modules.iter().any(|module| {
            path.strip_prefix(module.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    });
    sources
}

/// The code of a file without its comments and its test module.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

#[test]
fn no_room_knows_what_it_must_not_know() {
    let mut broken = Vec::new();
    for (name, text) in &product_sources() {
        let room = name.split(['/', '.']).next().unwrap_or_default();
        for rule in RULES {
            if rule.room != room || rule.spares(name) {
                continue;
            }
            for (line, code) in code(text) {
                for word in rule
                    .must_not_know
                    .iter()
                    .filter(|word| code.contains(**word))
                {
                    broken.push(format!("src/{name}:{line} must not know {word}"));
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
            broken.push(format!("src/{name}: call it by its directory's name"));
        }
        let lines = code(&text).count();
        if lines > 800 {
            broken.push(format!("src/{name}: {lines} lines, split it"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
