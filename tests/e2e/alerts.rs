//! The alert rules and the dashboard of the charts: each rule fires, and each metric exists.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use testbed::binaries::repository;

const RULES: &str = "charts/hawser/files/alerts.yaml";
const DASHBOARD: &str = "charts/hawser/files/dashboard.json";

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(repository().join(path)).with_context(|| path.to_owned())
}

fn promtool(args: &[&str]) -> Result<()> {
    let mut command = Command::new("promtool");
    let output = command.args(args).current_dir(repository()).output();
    let output = output.context("promtool does not start: install Debian's package prometheus")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
    Ok(())
}

/// The rules of each chart, the series that show them, and where their metrics are described.
struct Alerts {
    rules: &'static str,
    cases: &'static str,
    metrics: &'static [&'static str],
}

const ALERTS: [Alerts; 3] = [
    Alerts {
        rules: RULES,
        cases: "tests/data/alerts-test.yaml",
        metrics: &["docs/agent.md"],
    },
    Alerts {
        rules: "charts/hawser-hub/files/alerts.yaml",
        cases: "tests/data/alerts-hub-test.yaml",
        metrics: &[
            "docs/agent.md",
            "src/placement/hub/numbers.rs",
            "src/placement/hub/runs/numbers.rs",
        ],
    },
    Alerts {
        rules: "charts/hawser-member/files/alerts.yaml",
        cases: "tests/data/alerts-member-test.yaml",
        metrics: &["docs/agent.md", "src/placement/member/numbers.rs"],
    },
];

#[test]
fn each_alert_fires_for_its_problem_and_none_without() -> Result<()> {
    for Alerts { rules, cases, .. } in ALERTS {
        promtool(&["check", "rules", rules])?;
        promtool(&["test", "rules", cases])?;
        // The first case has every rule; promtool knows no others than those that are listed.
        let (rules, cases) = (read(rules)?, read(cases)?);
        let names = rules
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- alert: "));
        let names: Vec<&str> = names.collect();
        ensure!(names.len() > 5, "{names:?}");
        let (every, _) = cases
            .split_once("eval_time: 90s")
            .context("no second look")?;
        for name in names {
            ensure!(
                every.contains(&format!("{{alertname=\"{name}\"}}")),
                "{name} is not shown to fire"
            );
        }
    }
    Ok(())
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_the_agent_has() -> Result<()> {
    let prefixes = [
        "hawser_",
        "process_",
        "controller_runtime_",
        "leader_election_",
        "fleet_",
        "scheduling_",
        "work_",
    ];
    let dashboard = (DASHBOARD, ALERTS[0].metrics);
    let rules = ALERTS.map(|alerts| (alerts.rules, alerts.metrics));
    for (path, described) in rules.into_iter().chain([dashboard]) {
        let described: Vec<String> = described.iter().map(|at| read(at)).collect::<Result<_>>()?;
        let described = described.concat();
        let text = read(path)?;
        let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        let metrics = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
        let metrics: BTreeSet<&str> = metrics
            .map(|metric| metric.strip_suffix("_bucket").unwrap_or(metric))
            .map(|metric| metric.strip_suffix("_count").unwrap_or(metric))
            .collect();
        ensure!(metrics.len() > 5, "{path}: {metrics:?}");
        for metric in metrics {
            let quoted = [format!("`{metric}`"), format!("\"{metric}\"")];
            ensure!(
                quoted.iter().any(|metric| described.contains(metric)),
                "{path}: {metric}"
            );
        }
    }
    Ok(())
}
