//! The limits of paths and of their evaluation, and the errors of paths.

use std::cell::Cell;

use thiserror::Error;

/// The longest path that is accepted.
pub(crate) const MAX_PATH_BYTES: usize = 4 * 1024;
/// The largest depth of a path, counting every key, pipe and nested query.
pub const MAX_DEPTH: usize = 160;
/// The number of bytes that one evaluation may read, all its parts together.
pub const MAX_WORK: usize = 32 * 1024 * 1024;
/// The number of nulls that may fill the gap before an element written beyond the end of a list.
pub(crate) const MAX_PADDING: usize = 10_000;
/// The number of elements that one `[*]` path may match.
pub(crate) const MAX_ELEMENTS: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    #[error("path cannot be empty")]
    Empty,
    #[error("path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    #[error(
        "cannot delete value from a complex path: use keys and indices only, or [*] for each element"
    )]
    ComplexDelete,
    #[error("cannot set array element for non-numeric key '{key}'")]
    NotAnIndex { key: String },
    #[error("index {index} is more than {MAX_PADDING} elements beyond the end of the list")]
    TooFarBeyond { index: usize },
    #[error("the value at path '{path}' cannot be replaced: the result would not be JSON")]
    NotWritable { path: String },
    #[error("path '{path}' has an empty key or #, *, ?, | or @: use keys only")]
    NotKeys { path: String },
    #[error("path '{path}' has #, *, ?, | or @ before [*]: use keys and indices there")]
    EachOfComplex { path: String },
    #[error("path '{path}' matches more than {MAX_ELEMENTS} elements")]
    TooManyElements { path: String },
    #[error("path is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("evaluating the path reads more than {MAX_WORK} bytes")]
    TooMuchWork,
}

/// The work that one evaluation may do. Pipes and multipaths can multiply text, so the work is counted in bytes looked at.
#[derive(Debug, Default)]
pub(super) struct Budget {
    work: Cell<usize>,
    depth: Cell<usize>,
}

impl Budget {
    pub(super) fn spend(&self, bytes: usize) -> Result<(), PathError> {
        let work = self.work.get().saturating_add(bytes);
        self.work.set(work);
        if work > MAX_WORK {
            Err(PathError::TooMuchWork)
        } else {
            Ok(())
        }
    }

    pub(super) fn spent(&self) -> usize {
        self.work.get()
    }

    pub(super) fn nested<T>(
        &self,
        work: impl FnOnce() -> Result<T, PathError>,
    ) -> Result<T, PathError> {
        let depth = self.depth.get();
        if depth >= MAX_DEPTH {
            return Err(PathError::TooDeep);
        }
        self.depth.set(depth + 1);
        let result = work();
        self.depth.set(depth);
        result
    }
}
