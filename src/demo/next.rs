//! Commands to try afterwards, for a shell; they work as they are printed.

use std::path::Path;

/// The log file of the agent.
pub const LOG: &str = "agent.log";

/// The files and their purposes.
pub(super) const FILES: &[(&str, &str)] = &[
    (
        "consumer.kubeconfig",
        "the consumer's workspace, root:consumer",
    ),
    (
        "provider.kubeconfig",
        "the provider's workspace, root:provider",
    ),
    ("kcp.kubeconfig", "kcp, as administrator, at root"),
    ("service.kubeconfig", "the service cluster"),
    (
        "database.json",
        "a second object for the consumer to create",
    ),
    (LOG, "the log of the agent"),
];

/// Commands with their purposes.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "the consumer's object, with the status that came back and its events",
        "kubectl --kubeconfig consumer.kubeconfig describe database orders",
    ),
    (
        "its copy, with the fields that are hidden from the consumer",
        "kubectl --kubeconfig service.kubeconfig get postgresclusters --all-namespaces --output=yaml",
    ),
    (
        "the provider's PublishedResource is ready",
        "kubectl --kubeconfig service.kubeconfig wait --for=condition=Ready publishedresource/publish-databases",
    ),
    (
        "change the spec: the copy follows",
        r#"kubectl --kubeconfig consumer.kubeconfig patch database orders --type=merge --patch='{"spec":{"storageGiB":50}}'"#,
    ),
    (
        "",
        "kubectl --kubeconfig service.kubeconfig get postgresclusters --all-namespaces \
         --output=custom-columns=NAME:.metadata.name,STORAGE:.spec.storageGiB",
    ),
    (
        "create a second database",
        "kubectl --kubeconfig consumer.kubeconfig create --filename=database.json",
    ),
    (
        "",
        "kubectl --kubeconfig consumer.kubeconfig wait --for=jsonpath='{.status.phase}'=Ready database/invoices",
    ),
    (
        "why an object is in sync or not",
        "hawser explain database orders --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \
         --namespace hawser --agent-name demo --apiexportendpointslice-ref databases.example.org",
    ),
    (
        "all objects and problems at a glance; http://127.0.0.1:8090 has the same as a page",
        "hawser top --once",
    ),
    (
        "delete the first: Hawser deletes the copy, then releases the object",
        "kubectl --kubeconfig consumer.kubeconfig delete database orders",
    ),
];

/// The lines that are printed.
pub(super) fn lines(dir: &Path, files: &[(&str, &str)], commands: &[(&str, &str)]) -> Vec<String> {
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "hawser".to_owned(), |path| path.display().to_string());
    let mut lines = vec![String::new(), format!("In {}:", dir.display())];
    lines.extend(
        files
            .iter()
            .map(|(name, what)| format!("  {name:<20} {what}")),
    );
    lines.extend(["", "Commands to try, in another terminal:"].map(str::to_owned));
    lines.push(format!("    cd {}", quoted(&dir.display().to_string())));
    for (what, command) in commands {
        if !what.is_empty() {
            lines.push(format!("    # {what}"));
        }
        // Whoever runs it from the sources has not installed it.
        let own = command
            .strip_prefix("hawser")
            .map(|args| format!("{}{args}", quoted(&program)));
        lines.push(format!("    {}", own.as_deref().unwrap_or(command)));
    }
    lines.push(String::new());
    lines
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_stand_in_commands_as_shells_take_them() {
        for (text, expected) in [
            ("/home/me/hawser-playground", "/home/me/hawser-playground"),
            ("/tmp/my place", "'/tmp/my place'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
