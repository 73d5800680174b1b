//! Errors as text.

use std::error::Error;

/// An error with its causes: the outermost message alone often says no more than "service error".
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let reason = error.to_string();
        // Some errors repeat their reason.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        source = error.source();
    }
    text
}
