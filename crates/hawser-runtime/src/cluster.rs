//! Talking to control planes: no dialect in here.
//!
//! | module | what it knows |
//! |---|---|
//! | [`brake`] | holds the deletions of a kind when too many would go at once |
//! | [`cache`] | what is known of many objects, asked by key and by labels |
//! | [`complaint`] | what an API server finds wrong with the fields of an object, read apart from the values |
//! | [`config`] | kubeconfigs: where they are looked for, what they mean, when they changed |
//! | [`connection`] | a server, a path below it, credentials; calls bounded in number and time |
//! | [`document`] | objects as servers send them, read as far as they can be |
//! | [`feed`] | keeping a table up by a list and a watch |
//! | [`discovery`] | what is served: names, scope, versions and subresources of a kind |
//! | [`queue`] | whose turn it is: tenants in turns, lanes, back-off |
//! | [`troubles`] | what is logged of objects that cannot be kept in step: once, and nothing that they contain |
//! | [`wire`] | the requests of passes as calls, and what answers mean |

pub mod brake;
pub mod cache;
pub mod complaint;
pub mod config;
pub mod connection;
pub mod discovery;
pub mod document;
pub mod feed;
pub mod queue;
pub mod troubles;
pub mod wire;

#[cfg(any(test, feature = "testing"))]
pub mod ground;
