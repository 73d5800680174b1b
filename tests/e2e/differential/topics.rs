//! All topics; a new one goes to the end of both lists.

use super::step::Topic;

mod apply;
mod boats;
mod config_maps;
mod events;
mod histories;
mod namespaces;
mod paths;
mod rbac;
mod rules;
mod secrets;
mod tables;
mod types;
mod world;

pub(super) fn all() -> Vec<Topic> {
    vec![
        apply::topic(),
        boats::topic(),
        config_maps::topic(),
        events::topic(),
        histories::topic(),
        namespaces::topic(),
        paths::topic(),
        rbac::topic(),
        rules::topic(),
        secrets::topic(),
        tables::topic(),
        types::topic(),
        world::topic(),
    ]
}
