//! Errors of an expression in the form that CEL compilers use: the position, the message, and the line with a mark below
//! it.

use std::fmt::Write as _;

use super::expr::Position;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub(super) at: Position,
    pub message: String,
}

/// More say nothing new.
const MOST: usize = 100;

impl Problem {
    /// The offset in the source, in bytes.
    pub fn offset(&self, source: &str) -> usize {
        let Position { line, column } = self.at;
        let before = line.saturating_sub(1);
        let start: usize = source
            .split_inclusive('\n')
            .take(before)
            .map(str::len)
            .sum();
        let mut chars = source[start..].char_indices();
        chars
            .nth(column)
            .map_or(source.len(), |(offset, _)| start + offset)
    }

    pub(super) fn new(at: Position, message: String) -> Self {
        Self { at, message }
    }
}

/// All of them in the order of their places.
pub fn show(mut problems: Vec<Problem>, source: &str) -> String {
    problems.sort_by_key(|problem| problem.at);
    let mut text = String::new();
    for (nth, problem) in problems.iter().take(MOST).enumerate() {
        if nth > 0 {
            text.push('\n');
        }
        write_problem(problem, source, &mut text);
    }
    text
}

fn write_problem(problem: &Problem, source: &str, out: &mut String) {
    let Position { line, column } = problem.at;
    let shown = if line == 0 {
        -1
    } else {
        i64::try_from(column).unwrap_or(0) + 1
    };
    let line_shown = if line == 0 {
        -1
    } else {
        i64::try_from(line).unwrap_or(0)
    };
    let _ = write!(
        out,
        "ERROR: <input>:{line_shown}:{shown}: {}",
        problem.message
    );
    let Some(snippet) = line
        .checked_sub(1)
        .and_then(|nth| source.split('\n').nth(nth))
    else {
        return;
    };
    let _ = write!(out, "\n | {}\n | ", snippet.replace('\t', " "));
    let mut chars = snippet.chars();
    for c in chars.by_ref().take(column) {
        out.push(if c.is_ascii() { '.' } else { '．' });
    }
    out.push(match chars.next() {
        Some(c) if !c.is_ascii() => '＾',
        _ => '^',
    });
}
