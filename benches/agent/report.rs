//! Numbers of all contenders, side by side.

use std::fmt::Write as _;

/// The result of one run of one contender: a name and a number each, in order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    value: f64,
    point: Option<Point>,
}

/// A point of a plot.
#[derive(Debug)]
struct Point {
    plot: String,
    by: &'static str,
    at: usize,
}

impl Report {
    pub(crate) fn add(&mut self, what: &str, value: f64) {
        self.push(what.to_owned(), value, None);
    }

    /// A number that stands in a plot too.
    pub(crate) fn point(&mut self, plot: &str, by: &'static str, at: usize, value: f64) {
        let point = Point {
            plot: plot.to_owned(),
            by,
            at,
        };
        self.push(format!("{plot}, {at} {by}"), value, Some(point));
    }

    fn push(&mut self, name: String, value: f64, point: Option<Point>) {
        println!("    {name:<64} {value:>10.2}");
        self.rows.push(Row { name, value, point });
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

/// A contender with all its reports.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) reports: Vec<Report>,
}

impl Column {
    /// The n-th row of each report; some rows are in the first report only.
    fn spread(&self, row: usize) -> Option<Spread> {
        let rows = self
            .reports
            .iter()
            .filter_map(|report| report.rows.get(row));
        spread(rows.map(|row| row.value).collect())
    }

    /// The rows of the longest report.
    fn rows(&self) -> &[Row] {
        let longest = self.reports.iter().max_by_key(|report| report.rows.len());
        longest.map_or(&[], |report| &report.rows)
    }
}

/// A table in Markdown: medians, with the least and the most if they differ. The last column is the first contender by
/// the last one.
pub(crate) fn table(columns: &[Column]) -> String {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
        return String::new();
    };
    let mut text = String::from("| |");
    for column in columns {
        let _ = write!(text, " {} |", column.name);
    }
    let is_compared = columns.len() > 1;
    if is_compared {
        let _ = write!(text, " {} / {} |", first.name, last.name);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len() + usize::from(is_compared)));
    text.push('\n');
    for (at, row) in first.rows().iter().enumerate() {
        let found: Vec<_> = columns.iter().map(|column| column.spread(at)).collect();
        let _ = write!(text, "| {} |", row.name.trim());
        for found in &found {
            let _ = write!(text, " {} |", found.as_ref().map_or("–".to_owned(), shown));
        }
        if is_compared {
            let ratio = match (&found[0], &found[found.len() - 1]) {
                (Some(a), Some(b)) => format!("{:.2}", a.median / b.median),
                _ => "–".to_owned(),
            };
            let _ = write!(text, " {ratio} |");
        }
        text.push('\n');
    }
    text
}

fn shown(found: &Spread) -> String {
    let digits = if found.median < 10.0 { 2 } else { 0 };
    if found.least.total_cmp(&found.most).is_eq() {
        return format!("{:.digits$}", found.median);
    }
    format!(
        "{:.digits$} ({:.digits$}–{:.digits$})",
        found.median, found.least, found.most
    )
}

/// The plots as Mermaid charts: a line for each contender, in the order of the table.
pub(crate) fn plots(columns: &[Column]) -> String {
    let rows = columns.first().map_or(&[][..], Column::rows);
    let points = || {
        let points = rows.iter().enumerate();
        points.filter_map(|(at, row)| Some((at, row.point.as_ref()?)))
    };
    let mut plots: Vec<(&str, &str)> = Vec::new();
    for (_, point) in points() {
        let plot = (point.plot.as_str(), point.by);
        if !plots.contains(&plot) {
            plots.push(plot);
        }
    }
    let mut text = String::new();
    for (plot, by) in plots {
        let of_plot = || points().filter(|(_, point)| point.plot == plot && point.by == by);
        if of_plot().count() < 2 {
            continue;
        }
        let ticks: Vec<String> = of_plot().map(|(_, point)| point.at.to_string()).collect();
        let _ = write!(
            text,
            "\n```mermaid\nxychart-beta\n    title \"{plot}\"\n    x-axis \"{by}\" [{}]\n    y-axis 0 --> {:.0}\n",
            ticks.join(", "),
            of_plot()
                .flat_map(|(at, _)| columns.iter().filter_map(move |it| it.spread(at)))
                .map(|found| found.median)
                .fold(1.0, f64::max)
                .ceil(),
        );
        for column in columns {
            let values: Option<Vec<String>> = of_plot()
                .map(|(at, _)| Some(format!("{:.2}", column.spread(at)?.median)))
                .collect();
            if let Some(values) = values {
                let _ = writeln!(text, "    line [{}]", values.join(", "));
            }
        }
        text.push_str("```\n");
    }
    text
}
