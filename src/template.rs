//! Templates: the Go dialect, Handlebars, one table of functions.
