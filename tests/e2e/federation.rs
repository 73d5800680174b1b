//! The control plane of federated types between a host and its members, as its users meet it: the built binary.

mod canary;
mod chaos;
mod guide;
mod installed;
mod killed;
mod kubefedctl;
mod matrix;
mod members;
mod namespaced;
mod nodes;
mod objects;
pub(crate) mod place;
mod replicas;
mod requests;
mod starts;
mod trouble;
pub(crate) mod world;
