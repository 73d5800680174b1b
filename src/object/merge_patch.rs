//! RFC 7386 merge patches: made from two documents, applied to one.
