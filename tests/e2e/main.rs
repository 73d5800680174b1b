//! Tests against real control planes, in one binary so that they link once and share a cluster.

mod agent;
mod alerts;
mod canary;
mod chaos;
mod cli;
mod demo;
mod differential;
mod docs;
mod examples;
mod federation;
mod fleet;
mod ground;
mod helm;
mod image;
mod installation;
mod killed;
mod kubectl;
mod mirror;
mod openapi;
mod openapi_of_playground;
mod placement_hub;
mod placement_member;
mod playground;
mod schemas;
mod test_command;
mod workspaces;
