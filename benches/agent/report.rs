//! Numbers of both contenders, side by side.

use std::fmt::Write as _;

/// What one run of one contender came to: a name and a number each, in order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<(String, f64)>,
}

impl Report {
    pub(crate) fn add(&mut self, what: &str, value: f64) {
        println!("    {what:<48} {value:>10.2}");
        self.rows.push((what.to_owned(), value));
    }

    /// The middle and the end of a distribution of milliseconds.
    pub(crate) fn add_all(&mut self, what: &str, values: &mut [f64]) {
        values.sort_by(f64::total_cmp);
        let at = |hundredths: usize| {
            let last = values.len().saturating_sub(1);
            values.get(last * hundredths / 100).copied()
        };
        for (name, hundredths) in [("p50", 50), ("p99", 99), ("max", 100)] {
            self.add(
                &format!("{what}, {name} [ms]"),
                at(hundredths).unwrap_or(f64::NAN),
            );
        }
    }
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    };
    Some(Spread {
        median,
        least,
        most,
    })
}

/// The n-th row of each report; a name may stand in several rows.
fn column(reports: &[Report], row: usize) -> Option<Spread> {
    let values = reports.iter().filter_map(|report| report.rows.get(row));
    spread(values.map(|(_, value)| *value).collect())
}

/// A table in Markdown: medians, with the least and the most.
pub(crate) fn table(agent: &[Report], floor: &[Report]) -> String {
    let mut text = String::from("| | agent | floor | agent / floor |\n|---|---|---|---|\n");
    let show = |found: &Option<Spread>| match found {
        Some(found) => format!("{:.1} ({:.1}–{:.1})", found.median, found.least, found.most),
        None => "–".to_owned(),
    };
    let rows = agent.first().or(floor.first()).map(|first| &first.rows);
    for (row, (name, _)) in rows.into_iter().flatten().enumerate() {
        let (a, f) = (column(agent, row), column(floor, row));
        let ratio = match (&a, &f) {
            (Some(a), Some(f)) => format!("{:.2}", a.median / f.median),
            _ => "–".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {ratio} |",
            name.trim(),
            show(&a),
            show(&f)
        );
    }
    text
}
