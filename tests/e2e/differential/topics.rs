//! All topics; a new one goes to the end of both lists.

use super::step::Topic;

mod apply;
mod boats;
mod config_maps;
mod corners;
mod definitions;
mod deletion;
mod events;
mod histories;
mod kinds;
mod metadata;
mod namespaces;
mod packed;
mod paging;
mod patches;
mod paths;
mod rbac;
mod rules;
mod schemas;
mod secrets;
mod selectors;
mod subresources;
mod tables;
mod types;
mod updates;
mod watches;
mod wire;
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
        definitions::topic(),
        deletion::topic(),
        kinds::topic(),
        metadata::topic(),
        paging::topic(),
        patches::topic(),
        schemas::topic(),
        selectors::topic(),
        subresources::topic(),
        watches::topic(),
        wire::topic(),
        corners::topic(),
        updates::topic(),
        packed::topic(),
    ]
}
