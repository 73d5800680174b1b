//! What to try next: commands for a shell, which work as they are printed.

use std::path::Path;

/// What each file is for.
const FILES: [(&str, &str); 6] = [
    (
        "consumer.kubeconfig",
        "the consumer's workspace, root:consumer",
    ),
    (
        "provider.kubeconfig",
        "the provider's workspace, root:provider",
    ),
    (
        "kcp.kubeconfig",
        "kcp as its administrator sees it, at root",
    ),
    ("service.kubeconfig", "the service cluster"),
    ("database.json", "another object for the consumer"),
    (super::LOG, "what the agent says"),
];

/// Commands, each with what it shows.
const COMMANDS: [(&str, &str); 8] = [
    (
        "the consumer's object, with the status that came back and what he was told",
        "kubectl --kubeconfig consumer.kubeconfig describe database orders",
    ),
    (
        "its copy, with all that the consumer does not see",
        "kubectl --kubeconfig service.kubeconfig get postgresclusters --all-namespaces --output=yaml",
    ),
    (
        "what the provider has said about the API, and whether it holds",
        "kubectl --kubeconfig service.kubeconfig wait --for=condition=Ready publishedresource/publish-databases",
    ),
    (
        "more storage: the copy follows",
        r#"kubectl --kubeconfig consumer.kubeconfig patch database orders --type=merge --patch='{"spec":{"storageGiB":50}}'"#,
    ),
    (
        "",
        "kubectl --kubeconfig service.kubeconfig get postgresclusters --all-namespaces \
         --output=custom-columns=NAME:.metadata.name,STORAGE:.spec.storageGiB",
    ),
    (
        "another database",
        "kubectl --kubeconfig consumer.kubeconfig create --filename=database.json",
    ),
    (
        "",
        "kubectl --kubeconfig consumer.kubeconfig wait --for=jsonpath='{.status.phase}'=Ready database/invoices",
    ),
    (
        "and away with the first: its copy goes before it",
        "kubectl --kubeconfig consumer.kubeconfig delete database orders",
    ),
];

/// Lines for people.
pub(super) fn lines(dir: &Path) -> Vec<String> {
    let mut lines = vec![String::new(), format!("In {}:", dir.display())];
    lines.extend(FILES.map(|(name, what)| format!("  {name:<20} {what}")));
    lines.extend(["", "What to try next, in another terminal:"].map(str::to_owned));
    lines.push(format!("    cd {}", quoted(&dir.display().to_string())));
    for (what, command) in COMMANDS {
        if !what.is_empty() {
            lines.push(format!("    # {what}"));
        }
        lines.push(format!("    {command}"));
    }
    lines.push(String::new());
    lines
}

/// A word as shells take it for what it is.
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
