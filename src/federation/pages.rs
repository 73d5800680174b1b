//! The pages at `--healthz-addr`, at the addresses that users of KubeFed know: probes, and what the process is doing.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::StatusCode;
use tokio::runtime::Handle;

use hawser_runtime::process::serve::{Health, Site, SitePage};

use super::numbers::FederationMetrics;

/// Ticks of a second in `/proc`.
const TICKS: u64 = 100;

/// Serves the pages.
pub struct ProcessPages {
    pub health: Arc<Health>,
    pub numbers: Arc<FederationMetrics>,
}

impl Site for ProcessPages {
    fn page<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<SitePage>> {
        let page = match path {
            "/healthz" => Some(probe(self.health.not_alive().as_slice())),
            "/readyz" => Some(probe(&self.health.not_ready())),
            "/debug/pprof/goroutine" => Some(text(StatusCode::OK, self.tasks())),
            _ => None,
        };
        ready(page).boxed()
    }
}

impl ProcessPages {
    /// Tasks stand in for goroutines. They have no stacks of their own, so the dump says who works on what.
    fn tasks(&self) -> String {
        let mut dump = format!(
            "tasks: {}\n\n",
            Handle::current().metrics().num_alive_tasks()
        );
        dump.push_str("reconciles that run, by controller:\n");
        for (controller, busy) in self.numbers.controllers.running() {
            // Writing to a text does not fail.
            let _ = writeln!(dump, "{controller} {busy}");
        }
        dump.push_str("\nthreads, with their state and their processor time in seconds:\n");
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
        for thread in threads.flatten() {
            let stat = fs::read_to_string(thread.path().join("stat"));
            if let Some(line) = stat.ok().as_deref().and_then(thread_line) {
                dump.push_str(&line);
            }
        }
        dump
    }
}

fn probe(problems: &[String]) -> SitePage {
    if problems.is_empty() {
        text(StatusCode::OK, "OK".to_owned())
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, problems.join("\n"))
    }
}

fn text(status: StatusCode, text: String) -> SitePage {
    (status, "text/plain; charset=utf-8", text)
}

/// A line about a thread, from its `stat`: number, name in parentheses, state, and the ticks in user and in system mode as
/// the 14th and 15th field.
fn thread_line(stat: &str) -> Option<String> {
    let (_, named) = stat.split_once('(')?;
    let (name, fields) = named.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = ticks(11)?.saturating_add(ticks(12)?);
    let (seconds, rest) = (ticks / TICKS, ticks % TICKS);
    Some(format!("{name} {} {seconds}.{rest:02}\n", fields[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_pages_say_whether_the_process_lives_and_what_it_does() {
        let numbers = FederationMetrics::new();
        numbers.controllers.announce("federatedsecret", 4);
        let health = Arc::new(Health::missing(["host"]));
        let pages = ProcessPages { health, numbers };
        let get = async |path: &str| {
            let page = pages.page(path).await;
            page.map(|(status, _, text)| (status.as_u16(), text))
        };
        let is = |status: u16, text: &str| Some((status, text.to_owned()));
        assert_eq!(get("/healthz").await, is(200, "OK"));
        assert_eq!(get("/readyz").await, is(503, "host: not ready yet"));
        pages.health.found("host");
        assert_eq!(get("/readyz").await, is(200, "OK"));
        let running = pages.numbers.controllers.begin("federatedsecret");
        let (_, dump) = get("/debug/pprof/goroutine").await.unwrap();
        assert!(dump.contains("\nfederatedsecret 1\n"), "{dump}");
        drop(running);
        assert_eq!(get("/debug/pprof/heap").await, None);
    }

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let stat = |name: &str| format!("7 ({name}) S 1 7 7 0 -1 4194304 9 0 0 0 150 105 0 0 20 0");
        let line = |name: &str| thread_line(&stat(name));
        assert_eq!(line("worker").as_deref(), Some("worker S 2.55\n"));
        assert_eq!(line("a) R (b").as_deref(), Some("a) R (b S 2.55\n"));
        assert_eq!(thread_line("7 (short) S 1"), None);
        assert_eq!(thread_line(""), None);
    }
}
