//! Access to control planes. Knows no dialect.
//!
//! | module | content |
//! |---|---|
//! | [`brake`] | holds the deletions of a kind when too many would happen at once |
//! | [`cache`] | the known objects of all kinds, by key and by labels |
//! | [`complaint`] | the fields that an API server rejects, parsed without the values that it quotes |
//! | [`config`] | kubeconfigs: lookup, parsing, changes |
//! | [`connection`] | a server, a base path, credentials; calls are bounded in number and time |
//! | [`document`] | objects as servers send them; objects that are nested too deeply are read in part |
//! | [`events`] | events about objects: a bounded queue, and rates for each object and each tenant |
//! | [`feed`] | keeps a table current by a list and a watch |
//! | [`discovery`] | the names, scope, versions and subresources of the served kinds |
//! | [`queue`] | the fair queue: tenants take turns, urgent keys first, back-off |
//! | [`trace`] | the trace context of requests |
//! | [`troubles`] | decides which problems of objects are logged: each once, without contents of objects |
//! | [`wire`] | translates requests of passes into calls, and responses into answers |

pub mod brake;
pub mod cache;
pub mod complaint;
pub mod config;
pub mod connection;
pub mod discovery;
pub mod document;
pub mod events;
pub mod feed;
pub mod queue;
pub mod trace;
pub mod troubles;
pub mod wire;

#[cfg(any(test, feature = "testing"))]
pub mod ground;
