//! The texts that users see, collected from the sources into `tests/data/strings.txt` for review.
//!
//! A text is a string literal of at least two words outside of tests, or the documentation of a command-line argument. Proofs
//! in `expect` and messages of assertions are no texts for users, and CRD descriptions are in `crds/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::binaries::repository;
use crate::generated::check;

/// Macros and methods whose literals are for developers.
const FOR_DEVELOPERS: &[&str] = &[
    "expect",
    "expect_err",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "unreachable",
    "include_str",
    "include_bytes",
    "concat",
    "env",
    "cfg",
    "cfg_attr",
    "allow",
    "deprecated",
];

/// Derives of clap, whose doc comments are the help.
const CLAP: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum"];

/// Sources without texts of ours: tools of tests, and servers whose texts are those of kube-apiserver and kcp.
const WITHOUT_TEXTS: &[&str] = &["crates/fuzz", "crates/kcp-playground", "crates/kube-schema"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_test = [
            "tests",
            "testing",
            "properties",
            "model",
            "ground",
            "histories",
            "house",
            "simulation",
        ]
        .contains(&&*stem);
        if is_test {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The text of a string literal, without its quotes and escapes.
fn text_of(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        let raw = raw.trim_matches('#');
        return Some(raw.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut rest = inner.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            // A line that is continued.
            ('\\', Some('\n')) => while rest.next_if(|it| it.is_whitespace()).is_some() {},
            ('\\', Some('n')) => {
                rest.next();
                text.push('\n');
            }
            ('\\', Some(_)) => text.extend(rest.next()),
            _ => text.push(next),
        }
    }
    Some(text)
}

/// Two words of letters with a space between them.
fn is_prose(text: &str) -> bool {
    let words = text.split([' ', '\n']);
    let lone = words.filter(|word| {
        let letters = word.trim_matches(|c: char| ",.:;()'`\"".contains(c));
        !letters.is_empty()
            && letters
                .chars()
                .all(|c| c.is_alphabetic() || c == '-' || c == '\'')
    });
    lone.count() >= 2
}

#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    /// Collects from the tokens of an item, a body or a macro.
    fn collect(&mut self, tokens: TokenStream, help: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut docs = Vec::new();
        let (mut clap, mut test) = (false, false);
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Literal(literal) => {
                    let text = text_of(&literal.to_string());
                    self.0.extend(text.filter(|text| is_prose(text)));
                }
                // The attribute of a whole file.
                TokenTree::Group(_)
                    if at > 1 && is(&tokens[at - 2], "#") && is(&tokens[at - 1], "!") => {}
                TokenTree::Group(group) if at > 0 && is(&tokens[at - 1], "#") => {
                    let attribute = group.stream().to_string();
                    if let Some(doc) = doc(group.stream()) {
                        docs.push(doc);
                    } else if attribute.starts_with("cfg") && attribute.contains("test") {
                        test = true;
                    } else if attribute.starts_with("derive") {
                        let words = attribute.split(|c: char| !c.is_alphanumeric());
                        clap |= words.into_iter().any(|word| CLAP.contains(&word));
                    } else if attribute.starts_with("error") || attribute.starts_with("arg") {
                        self.collect(group.stream(), false);
                    }
                }
                TokenTree::Group(group) => {
                    let item = group.delimiter() == Delimiter::Brace;
                    if (help || clap) && !docs.is_empty() {
                        self.help(&docs);
                    }
                    docs.clear();
                    if !test && !is_for_developers(&tokens[..at]) {
                        self.collect(group.stream(), clap && item);
                    }
                    if item {
                        (clap, test) = (false, false);
                    }
                }
                TokenTree::Punct(mark) if ",;".contains(mark.as_char()) => {
                    if help && !docs.is_empty() {
                        self.help(&docs);
                    }
                    docs.clear();
                    test &= mark.as_char() != ';';
                }
                _ => {}
            }
        }
        if help && !docs.is_empty() {
            self.help(&docs);
        }
    }

    fn help(&mut self, docs: &[String]) {
        let lines: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
        self.0.push(lines.join(" "));
    }
}

/// Whether what comes before a group is the name of a macro or method for developers.
fn is_for_developers(before: &[TokenTree]) -> bool {
    let name = before.iter().rev().find(|token| !is(token, "!"));
    name.is_some_and(|name| FOR_DEVELOPERS.contains(&&*name.to_string()))
}

fn is(token: &TokenTree, mark: &str) -> bool {
    token.to_string() == mark
}

/// The line of a doc comment.
fn doc(attribute: TokenStream) -> Option<String> {
    let mut tokens = attribute.into_iter();
    let (name, literal) = (tokens.next()?, tokens.nth(1)?);
    is(&name, "doc").then(|| text_of(&literal.to_string()))?
}

#[test]
fn generated_list_of_texts_is_up_to_date() {
    let root = repository();
    let mut files = Vec::new();
    for directory in ["src", "crates"] {
        sources(&root.join(directory), &mut files);
    }
    let mut all = BTreeMap::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().display().to_string();
        let is_source = place.starts_with("src/") || place.contains("/src/");
        if !is_source || WITHOUT_TEXTS.iter().any(|other| place.starts_with(other)) {
            continue;
        }
        let mut texts = Texts::default();
        let source = fs::read_to_string(&file).unwrap();
        texts.collect(source.parse().expect("the file compiles"), false);
        if !texts.0.is_empty() {
            all.insert(place, texts.0);
        }
    }
    let mut list =
        "# The texts that users see, by file, for review. `./hack/generate` writes this list.\n"
            .to_owned();
    for (place, texts) in all {
        write!(list, "\n[{place}]\n").unwrap();
        for text in texts {
            writeln!(list, "{}", text.trim().replace('\n', "\\n")).unwrap();
        }
    }
    check("tests/data/strings.txt", &list).unwrap();
}
