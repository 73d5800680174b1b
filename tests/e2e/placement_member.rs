//! The agent of a member of a fleet between a hub and its cluster, as the hub meets it: the built binary. The tests play
//! the hub.

mod answers;
mod canary;
mod deletions;
mod hostile;
mod killed;
mod limits;
mod played;
mod reached;
mod strategies;
mod trouble;
mod unfit;
mod works;
mod world;
