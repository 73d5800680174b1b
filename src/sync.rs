//! The engine: subjects, links, views and pure decisions.
