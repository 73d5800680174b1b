//! `*` and `?` in keys and query values.

/// Matches the whole text against the pattern; a backslash makes the next character plain.
pub(super) fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
    let pattern: Vec<char> = String::from_utf8_lossy(pattern).chars().collect();
    let (mut t, mut p) = (0, 0);
    // Where to go on after a mismatch: the last star seen, and how much of the text it swallows. No earlier star
    // needs to be tried again, so the work is at most the product of both lengths.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match step(&pattern, p) {
            Step::Star => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Step::Any => {
                (t, p) = (t + 1, p + 1);
                continue;
            }
            Step::Plain(character, length) if character == text[t] => {
                (t, p) = (t + 1, p + length);
                continue;
            }
            Step::Plain(..) | Step::Broken | Step::End => {}
        }
        let Some((after, swallowed)) = star else {
            return false;
        };
        star = Some((after, swallowed + 1));
        (t, p) = (swallowed + 1, after);
    }
    pattern[p..].iter().all(|character| *character == '*')
}

enum Step {
    Star,
    Any,
    Plain(char, usize),
    /// A backslash with nothing behind it: it matches nothing.
    Broken,
    End,
}

fn step(pattern: &[char], at: usize) -> Step {
    match pattern.get(at) {
        None => Step::End,
        Some('*') => Step::Star,
        Some('?') => Step::Any,
        Some('\\') => pattern
            .get(at + 1)
            .map_or(Step::Broken, |character| Step::Plain(*character, 2)),
        Some(character) => Step::Plain(*character, 1),
    }
}
