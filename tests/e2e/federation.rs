//! The control plane of federated types between a host and two members, as its users meet it: the built binary.

mod kubefedctl;
mod members;
mod namespaced;
mod objects;
mod world;
