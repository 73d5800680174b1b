//! Checks the flags that name the place of an agent, for commands beside it. An agent waits for what does not exist yet;
//! a command would answer as if nothing were there.

use std::collections::BTreeSet;

use super::options::AgentOptions;
use super::process::{Agent, Connections};
use super::startup::SLICES;
use crate::publish::marks;
use hawser_runtime::cluster::connection::{Call, Connection};
use kube_lang::object::Object;

/// The number of workspaces that are named where one is not found.
const SHOWN: usize = 5;

/// A flag that names what does not exist.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(
        "there is no APIExportEndpointSlice {0} in the workspace of --kcp-kubeconfig: correct --apiexportendpointslice-ref"
    )]
    NoSlice(String),
    #[error(
        "the namespace {0} of --namespace does not exist on the service cluster: name that of the agent"
    )]
    NoNamespace(String),
}

/// Checks slice and namespace. What may not be read may exist.
pub async fn check_place(planes: &Connections, options: &AgentOptions) -> Result<(), PlaceError> {
    let AgentOptions {
        slice, namespace, ..
    } = options;
    if is_absent(&planes.kcp, format!("{SLICES}/{slice}")).await {
        return Err(PlaceError::NoSlice(slice.clone()));
    }
    if is_absent(&planes.service, format!("/api/v1/namespaces/{namespace}")).await {
        return Err(PlaceError::NoNamespace(namespace.clone()));
    }
    Ok(())
}

async fn is_absent(plane: &Connection, path: String) -> bool {
    let found = plane.ask(Call::get(path)).await;
    found.is_err_and(|error| error.code() == Some(404))
}

/// The first few of these names, and how many others there are.
pub(super) fn first_of(mut names: Vec<String>) -> String {
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// The warning that nothing belongs to an agent of this name, but copies belong to others. It is no error: an agent may
/// be about to begin beside another one.
pub(super) fn other_agents(own: &str, others: &BTreeSet<String>) -> Option<String> {
    if others.is_empty() || others.contains(own) {
        return None;
    }
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    Some(format!(
        "no copy and no state Secret belongs to the agent {own}, but copies belong to {}: is --agent-name {} meant?",
        others.join(", "),
        others.join(" or ")
    ))
}

/// The same, from the caches.
pub(super) fn cached_other_agents(agent: &Agent) -> Option<String> {
    let name = |object: &Object| object.label(marks::AGENT_NAME).map(str::to_owned);
    let running = agent.dispatch.running();
    let copies = running.values().flat_map(|one| one.copies());
    let names = copies.filter_map(|(_, copy)| name(&copy)).collect();
    let warning = other_agents(&agent.options.agent_name, &names)?;
    let states = running.values().filter_map(|one| one.states());
    let has_state = states
        .flat_map(|states| states.all())
        .any(|(_, state)| name(&state).as_deref() == Some(&*agent.options.agent_name));
    (!has_state).then_some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_are_told_and_the_number_of_others() {
        let first = |count: usize| first_of((0..count).rev().map(|one| one.to_string()).collect());
        assert_eq!(first(0), "none");
        assert_eq!(first(2), "0, 1");
        assert_eq!(first(7), "0, 1, 2, 3, 4 and 2 more");
    }

    #[test]
    fn the_names_of_other_agents_are_told_if_the_own_one_has_nothing() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        let warning = other_agents("a", &names(&["b", "c"])).unwrap();
        assert!(
            warning.ends_with("is --agent-name b or c meant?"),
            "{warning}"
        );
        assert_eq!(other_agents("a", &names(&["a", "b"])), None);
        assert_eq!(other_agents("a", &names(&[])), None);
    }
}
