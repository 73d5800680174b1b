//! The control plane of federated types between a host and two members, as its users meet it: the built binary.

mod members;
mod objects;
mod world;
