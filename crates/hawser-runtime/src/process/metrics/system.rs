//! What the operating system knows of this process. Where it does not tell, the numbers are left out.

use std::fmt::Write as _;
use std::fs;

/// Clock ticks in a second, as Linux counts for processes.
const TICKS: f64 = 100.0;

/// Writes what is known, under the names that everybody uses.
pub fn write(out: &mut String) {
    let stat = Stat::read();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let rows = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Time that processors worked for this process, in seconds.",
            stat.as_ref().map(|stat| stat.cpu_seconds),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "When this process started, in seconds since 1970.",
            stat.as_ref().and_then(|stat| stat.started),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Memory of this process that is in RAM.",
            kilobytes(&status, "VmRSS:"),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Memory that this process has addresses for.",
            kilobytes(&status, "VmSize:"),
        ),
        (
            "process_open_fds",
            "gauge",
            "Open file descriptors.",
            descriptors
                .and_then(|count| u32::try_from(count).ok())
                .map(f64::from),
        ),
        (
            "process_max_fds",
            "gauge",
            "File descriptors that may be open.",
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

/// What stands in `/proc/self/stat` and concerns us.
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

/// The first word behind these at the start of a line.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(words))?;
    line.split_whitespace().next()
}

fn kilobytes(text: &str, words: &str) -> Option<f64> {
    let number: f64 = after(text, words)?.parse().ok()?;
    Some(number * 1024.0)
}
