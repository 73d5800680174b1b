//! The languages of Kubernetes configuration, as the Go libraries speak them. Pure: no client, no runtime, no clock.
//!
//! | module | what it knows |
//! |---|---|
//! | [`object`] | a JSON object with typed access to what every Kubernetes object has; merge patches |
//! | [`selector`] | label selectors, as strings and as objects |
//! | [`paths`] | dotted paths into JSON: read, write, delete |
//! | [`names`], [`formats`] | what names and formatted strings look like |
//! | [`go_text`] | numbers and text as Go prints them |
//! | [`go_json`] | JSON text as Go writes it |
//! | [`go_regex`] | regular expressions of Go |
//! | [`template`] | Go templates, Handlebars, one table of functions |

pub mod formats;
pub mod go_json;
pub mod go_regex;
pub mod go_text;
pub mod names;
pub mod object;
pub mod paths;
pub mod selector;
pub mod template;
