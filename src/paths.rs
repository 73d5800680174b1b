//! Dotted paths into JSON documents.
