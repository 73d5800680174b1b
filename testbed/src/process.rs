//! One child process: its output, its end, its memory. It never outlives the process that started
//! it, not even one killed by SIGKILL: `supervise` stands between and watches a pipe.
//!
//! Nothing here belongs to a tokio runtime, so a process may be started in one test and used in
//! another.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use parking_lot::{Condvar, Mutex};
use tokio::time;

use crate::binaries;
use crate::eventually::{SOON, within};

/// The first line in the log of a process with limited memory.
pub const LIMITED: &str = "the memory of this process is limited";

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stdout: Option<PathBuf>,
    stderr: Option<PathBuf>,
}

/// A started process. Dropping it kills it and its process group, and waits until it is gone.
pub struct Process {
    name: String,
    pid: u32,
    stderr: Option<PathBuf>,
    orders: Mutex<Option<ChildStdin>>,
    ended: Arc<Ended>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub reason: Reason,
    /// The most memory it ever held.
    pub peak_rss_bytes: u64,
    /// The time it ran on a processor, user and system.
    pub cpu: Duration,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Code(i32),
    Signal(i32),
    /// `supervise` itself ended without a word.
    Unknown,
}

/// What a process that has run to its end left.
#[derive(Debug, Clone)]
pub struct Output {
    pub exit: Exit,
    pub stdout: String,
    pub stderr: String,
}

/// The memory of a running process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub rss_bytes: u64,
    /// Without the pages of its program, which processes share.
    pub own_bytes: u64,
    pub peak_rss_bytes: u64,
}

/// The signals that can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    Kill,
    Interrupt,
    HangUp,
    /// Freezes the process.
    Stop,
    /// Lets a frozen process go on.
    Continue,
}

/// The end of a process, awaited by threads and by tasks of any runtime.
#[derive(Default)]
struct Ended {
    exit: Mutex<Option<Exit>>,
    changed: Condvar,
    notify: tokio::sync::Notify,
}

// === impl Launch ===

impl Launch {
    /// `name` stands in messages and names the log.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdout: None,
            stderr: None,
        }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Limits the memory that it can write to; its log begins with [`LIMITED`]. A process that needs more is refused
    /// memory or threads, and ends or panics.
    #[must_use]
    pub fn with_memory(mut self, mebibytes: usize) -> Self {
        let kibibytes = mebibytes << 10;
        let limited = format!("ulimit -d {kibibytes} && echo '{LIMITED}' >&2 && exec \"$@\"");
        let before = [OsString::from("-c"), limited.into(), "sh".into()];
        let program = std::mem::replace(&mut self.program, "/bin/sh".into());
        let before = before.into_iter().chain([program.into_os_string()]);
        self.args = before.chain(self.args).collect();
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    #[must_use]
    pub fn without_env(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// The directory to run in.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Appends all output to one file.
    #[must_use]
    pub fn log(mut self, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        self.stdout = Some(file.clone());
        self.stderr = Some(file);
        self
    }

    /// Appends standard output to a file of its own.
    #[must_use]
    pub fn stdout(mut self, file: impl Into<PathBuf>) -> Self {
        self.stdout = Some(file.into());
        self
    }

    /// Starts the process.
    pub fn spawn(self) -> Result<Process> {
        let mut command = Command::new(binaries::find("supervise")?);
        for (option, file) in [("--stdout", &self.stdout), ("--stderr", &self.stderr)] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        command.arg(&self.program).args(&self.args);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        let orders = child.stdin.take();
        let mut says = BufReader::new(child.stdout.take().context("supervise has no output")?);

        let mut line = String::new();
        says.read_line(&mut line)
            .with_context(|| format!("starting {}", self.name))?;
        let Some(pid) = line
            .strip_prefix("started ")
            .and_then(|pid| pid.trim().parse().ok())
        else {
            let _ = child.wait();
            let why = line
                .strip_prefix("failed ")
                .unwrap_or("supervise said nothing")
                .trim();
            bail!("starting {}: {why}", self.name);
        };
        let ended = Arc::new(Ended::default());
        thread::Builder::new()
            .name(format!("end of {}", self.name))
            .spawn({
                let ended = Arc::clone(&ended);
                move || ended.watch(child, says)
            })
            .with_context(|| format!("watching {}", self.name))?;
        let orders = Mutex::new(orders);
        Ok(Process {
            name: self.name,
            pid,
            stderr: self.stderr,
            orders,
            ended,
        })
    }

    /// Runs the process to its end. `scratch` is a directory for its output.
    pub async fn run(self, scratch: &Path, deadline: Duration) -> Result<Output> {
        let place = crate::names::unique(&self.name);
        let stdout = scratch.join(format!("{place}.stdout"));
        let stderr = scratch.join(format!("{place}.stderr"));
        let process = Self {
            stdout: Some(stdout.clone()),
            stderr: Some(stderr.clone()),
            ..self
        }
        .spawn()?;
        let exit = process.wait(deadline).await;
        let read = |file: &Path| {
            let bytes = fs::read(file).unwrap_or_default();
            let _ = fs::remove_file(file);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (stdout, stderr) = (read(&stdout), read(&stderr));
        let exit = exit.with_context(|| format!("it said: {stdout}{stderr}"))?;
        Ok(Output {
            exit,
            stdout,
            stderr,
        })
    }
}

// === impl Process ===

impl Process {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.ended.exit.lock()
    }

    /// Sends a signal to the process; to one that has ended, nothing.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(orders) = &mut *self.orders.lock()
            && let Err(error) = writeln!(orders, "{signal}")
        {
            // The pipe breaks when supervise has ended, which it does after the process only.
            ensure!(
                error.kind() == std::io::ErrorKind::BrokenPipe,
                "signalling {}",
                self.name
            );
        }
        Ok(())
    }

    /// Awaits its end.
    pub async fn wait(&self, deadline: Duration) -> Result<Exit> {
        let end = async {
            loop {
                let changed = self.ended.notify.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if let Some(exit) = self.exit() {
                    return exit;
                }
                changed.await;
            }
        };
        time::timeout(deadline, end)
            .await
            .with_context(|| format!("{} ({}) did not end in {deadline:?}", self.name, self.pid))
    }

    /// Asks it to end (SIGTERM) and awaits that.
    pub async fn stop(&self, deadline: Duration) -> Result<Exit> {
        self.signal(Signal::Terminate)?;
        self.wait(deadline).await
    }

    /// Kills it (SIGKILL) and awaits its end.
    pub async fn kill(&self) -> Result<Exit> {
        self.signal(Signal::Kill)?;
        self.wait(SOON).await
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        // A device such as /dev/full has no end.
        let file = self.stderr.as_ref().filter(|file| file.is_file());
        let bytes = file.map(fs::read).and_then(Result::ok);
        let bytes = bytes.unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn log_file(&self) -> Option<&Path> {
        self.stderr.as_deref()
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let all: Vec<_> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Awaits that its log contains a text, and returns the first line with it.
    pub async fn await_log(&self, deadline: Duration, text: &str) -> Result<String> {
        let seen = within(deadline, async || {
            let log = self.log();
            log.lines()
                .find(|line| line.contains(text))
                .map(ToOwned::to_owned)
                .ok_or(text)
        });
        seen.await.map_err(|_| {
            let tail = self.log_tail(20);
            anyhow::anyhow!(
                "{} did not say {text:?} in {deadline:?}; its log ends: {tail}",
                self.name
            )
        })
    }

    /// Its memory now; an error once it has ended.
    pub fn memory(&self) -> Result<Memory> {
        let file = format!("/proc/{}/status", self.pid);
        let status = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_whitespace().nth(0)?.parse::<u64>().ok());
            Ok(kib.with_context(|| format!("{file} has no {name}"))? * 1024)
        };
        Ok(Memory {
            rss_bytes: field("VmRSS:")?,
            own_bytes: field("RssAnon:")?,
            peak_rss_bytes: field("VmHWM:")?,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of the orders is the order to kill the whole group.
        self.orders.lock().take();
        let mut exit = self.ended.exit.lock();
        if exit.is_none() {
            self.ended.changed.wait_for(&mut exit, SOON);
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("name", &self.name)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

// === impl Ended ===

impl Ended {
    /// Reads supervise's last words, and reaps it.
    fn watch(&self, mut child: Child, says: BufReader<impl std::io::Read>) {
        let last = says
            .lines()
            .map_while(Result::ok)
            .last()
            .unwrap_or_default();
        let _ = child.wait();
        *self.exit.lock() = Some(Exit::parse(&last));
        self.changed.notify_all();
        self.notify.notify_waiters();
    }
}

// === impl Exit ===

impl Exit {
    pub fn success(&self) -> bool {
        self.reason == Reason::Code(0)
    }

    fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let kind = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let value = number().and_then(|value| i32::try_from(value).ok());
        let reason = match (kind, value) {
            (Some("exited"), Some(code)) => Reason::Code(code),
            (Some("killed"), Some(signal)) => Reason::Signal(signal),
            _ => Reason::Unknown,
        };
        let peak_rss_bytes = number().unwrap_or_default() * 1024;
        Self {
            reason,
            peak_rss_bytes,
            cpu: Duration::from_micros(number().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Code(code) => write!(f, "exit code {code}"),
            Reason::Signal(signal) => write!(f, "signal {signal}"),
            Reason::Unknown => write!(f, "an unknown end"),
        }
    }
}

// === impl Signal ===

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
            Self::Interrupt => "INT",
            Self::HangUp => "HUP",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        })
    }
}

/// True while a process runs whose command line contains `text`.
pub fn is_running(text: impl AsRef<OsStr>) -> Result<bool> {
    let text = text.as_ref().as_encoded_bytes();
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        // A process that has just ended has no command line any more.
        let command = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        if command.windows(text.len()).any(|part| part == text) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
