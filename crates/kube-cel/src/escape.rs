//! Names of properties as expressions write them: `__dot__` for a dot and so on.

/// Words that an expression cannot use as a name.
const RESERVED: [&str; 22] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "__",
];

/// True for a reserved word of the language.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) && name != "__"
}

/// The name of a property in expressions; `None` for one that they cannot name.
pub fn escape(name: &str) -> Option<String> {
    let starts_right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let chars_right = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
    if !starts_right || !chars_right {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}
