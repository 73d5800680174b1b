//! Whose words a text is in, and how much of its arguments a function keeps.

/// The number of nodes of one template that are read: definitions that use one another can be longer than their text.
pub(super) const MAX_NODES: usize = 5_000;
/// The largest nesting of its blocks, with the definitions that they use and every `else if`.
pub(super) const MAX_DEPTH: usize = 100;

/// The fields of a template's data that are known before it is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data<'a> {
    /// Fields that are in nobody's words but the author's and the workspace's.
    pub own: &'a [&'a str],
    /// Fields that nobody can choose as a whole, but whose parts are somebody's words.
    pub whole: &'a [&'a str],
    /// Dotted paths within objects, and whose words everything below them is in.
    pub paths: &'a [(&'a str, Whose)],
    /// Fields with the text that they have.
    pub given: &'a [(&'a str, &'a str)],
    /// Fields by which a text tells one workspace from another.
    pub telling: &'a [&'a str],
}

/// Whose words a text is in. What is certain comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// The author's, and those of fields that are the author's.
    Author,
    /// Also fields that are written as a whole.
    Whole,
    /// Also the status of an object.
    Status,
    Objects,
}

/// What a template writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub whose: Whose,
    /// True if each of its branches writes one of the telling fields, and none of them only a part of it.
    pub tells: bool,
}

impl Written {
    pub(super) const TEXT: Self = Self {
        whose: Whose::Author,
        tells: false,
    };
    pub(super) const ANYTHING: Self = Self {
        whose: Whose::Objects,
        tells: false,
    };

    /// One after the other.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            whose: self.whose.max(next.whose),
            tells: self.tells || next.tells,
        }
    }

    /// One of the two, nobody knows which.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            whose: self.whose.max(other.whose),
            tells: self.tells && other.tells,
        }
    }
}

impl Data<'_> {
    pub(super) fn given(&self, field: &str) -> Option<&str> {
        let mut given = self.given.iter();
        given.find_map(|(name, text)| (*name == field).then_some(*text))
    }

    /// What is known of a field whose text is not.
    pub(super) fn field(&self, field: &str) -> Written {
        let whose = if self.own.contains(&field) {
            Whose::Author
        } else if self.whole.contains(&field) {
            Whose::Whole
        } else {
            Whose::Objects
        };
        Written {
            whose,
            tells: self.telling.contains(&field),
        }
    }

    /// What is known of a dotted path.
    pub(super) fn path(&self, path: &str) -> Written {
        let leads = |to: &str| {
            let rest = path.strip_prefix(to);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let known = self.paths.iter().find(|(to, _)| leads(to));
        Written {
            whose: known.map_or(Whose::Objects, |(_, whose)| *whose),
            tells: false,
        }
    }
}

/// An argument of a function, as far as it is known.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) is: Written,
    pub(super) text: Option<&'a str>,
    pub(super) number: Option<i64>,
}

/// How much of its arguments is in the result of a function.
enum Keeps {
    /// All of each.
    All,
    /// All of this one.
    Only(usize),
    /// All of one of them.
    One,
    /// Something that depends on all of each, and that nobody can choose.
    Hash,
    /// So much of this one that it differs where the argument differs.
    Start(usize),
    Parts,
}

/// A part of a name or a hash of this length tells it from others.
const TELLING: i64 = 8;

fn keeps(name: &str, args: &[Argument<'_>]) -> Keeps {
    match (name, args) {
        (
            "lower" | "upper" | "trim" | "nospace" | "quote" | "squote" | "toString" | "print"
            | "println" | "cat" | "list" | "join" | "goPrint" | "goNumbers",
            _,
        ) => Keeps::All,
        ("printf", [format, ..]) if format.text.is_some_and(writes_all) => Keeps::All,
        ("replace", [old, ..]) if old.text.is_some_and(separates) => Keeps::Only(2),
        ("default" | "coalesce", _) => Keeps::One,
        ("sha1sum" | "sha256sum" | "sha512sum" | "sha3sum" | "sha3short" | "shortHash", [_]) => {
            Keeps::Hash
        }
        ("sha3short", [_, length]) if is_telling(length) => Keeps::Hash,
        ("trunc", [length, _]) if is_telling(length) => Keeps::Start(1),
        _ => Keeps::Parts,
    }
}

fn is_telling(length: &Argument<'_>) -> bool {
    length.number.is_some_and(|length| length >= TELLING)
}

/// A text that may stand between the parts of a path or of a name, and is none of them.
fn separates(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next();
    chars.next().is_none() && first.is_some_and(|c| !c.is_alphanumeric())
}

/// True for a format that cuts nothing off.
fn writes_all(format: &str) -> bool {
    let mut parts = format.split('%');
    parts.next();
    let mut escaped = false;
    parts.all(|part| {
        if std::mem::take(&mut escaped) {
            return true;
        }
        escaped = part.is_empty();
        escaped || part.starts_with(['s', 'v', 'q'])
    }) && !escaped
}

/// What is known of the result of a function that is not called.
pub(super) fn result(name: &str, args: &[Argument<'_>]) -> Written {
    let keeps = keeps(name, args);
    let all = args.iter().map(|arg| arg.is);
    let worst = all.clone().map(|is| is.whose).max();
    let worst = worst.unwrap_or(Whose::Author);
    let whose = match &keeps {
        _ if worst == Whose::Objects || all.clone().all(|is| is.whose != Whose::Whole) => worst,
        Keeps::Hash if worst == Whose::Whole => Whose::Author,
        Keeps::All | Keeps::Only(_) | Keeps::One | Keeps::Hash => worst,
        Keeps::Start(_) | Keeps::Parts => Whose::Objects,
    };
    let mut all = all;
    let tells = match keeps {
        Keeps::All | Keeps::Hash => all.any(|is| is.tells),
        Keeps::One => args.first().is_some_and(|_| all.all(|is| is.tells)),
        Keeps::Only(at) | Keeps::Start(at) => args.get(at).is_some_and(|arg| arg.is.tells),
        Keeps::Parts => false,
    };
    Written { whose, tells }
}
