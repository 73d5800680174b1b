//! Metrics of this process from the operating system. Metrics that are not available are left out.

use std::fmt::Write as _;
use std::fs;

/// Clock ticks in a second, as Linux counts for processes.
const TICKS: f64 = 100.0;

/// Writes the available metrics under their usual names.
pub fn write(out: &mut String) {
    let stat = Stat::read();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let rows = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time in seconds.",
            stat.as_ref().map(|stat| stat.cpu_seconds),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since the Unix epoch in seconds.",
            stat.as_ref().and_then(|stat| stat.started),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            kilobytes(&status, "VmRSS:"),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            kilobytes(&status, "VmSize:"),
        ),
        (
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            descriptors
                .and_then(|count| u32::try_from(count).ok())
                .map(f64::from),
        ),
        (
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            after(&limits, "Max open files").and_then(|soft| soft.parse().ok()),
        ),
    ];
    for (name, kind, help, number) in rows {
        if let Some(number) = number {
            // Writing to a text does not fail.
            let _ = writeln!(
                out,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {number}"
            );
        }
    }
}

/// The relevant fields of `/proc/self/stat`.
struct Stat {
    cpu_seconds: f64,
    started: Option<f64>,
}

impl Stat {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program may hold anything; what follows it are numbers, the third field first.
        let (_, numbers) = stat.rsplit_once(')')?;
        let ticks = |field: usize| -> Option<f64> {
            numbers.split_whitespace().nth(field - 3)?.parse().ok()
        };
        let booted: Option<f64> = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|stat| after(&stat, "btime").and_then(|seconds| seconds.parse().ok()));
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS,
            started: booted
                .zip(ticks(22))
                .map(|(booted, ticks)| booted + ticks / TICKS),
        })
    }
}

/// The first word after this prefix of a line.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(words))?;
    line.split_whitespace().next()
}

fn kilobytes(text: &str, words: &str) -> Option<f64> {
    let number: f64 = after(text, words)?.parse().ok()?;
    Some(number * 1024.0)
}
