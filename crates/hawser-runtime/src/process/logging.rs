//! The log: one line for each event on stderr, as JSON for machines or separated by tabs for people.
//!
//! Knows the keys that readers of the logs rely on. The logger's name comes with the event, as its
//! field `logger`. Fields of the surrounding spans are in the line as well.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::errors::chain;

/// The target of Hawser's own events; other crates log warnings and errors only.
const OURS: &str = "hawser";

/// A target that logs failed requests without their context, which the sender logs too.
const REPEATED: &str = "kube_client::client::builder";

/// The keys of a line that are not fields of its event.
const RESERVED: &[&str] = &["level", "time", "logger", "caller", "msg"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    /// With the keys that log collectors of clouds expect: `timestamp`, `severity`, `source`, `message`.
    Cloud,
    Console,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    pub format: LogFormat,
    pub verbosity: Verbosity,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log format {0:?}: use JSON or Console")]
pub struct UnknownFormat(String);

/// Writes each event as one line.
struct Lines<W> {
    options: LogOptions,
    sink: Arc<Mutex<W>>,
}

/// The fields of an event or a span, in the order they were given.
#[derive(Clone, Default)]
struct LogFields {
    message: String,
    logger: Option<String>,
    fatal: bool,
    others: Vec<(String, Value)>,
}

/// Sends every event of this process to stderr from now on, also panics.
pub fn start(options: LogOptions) -> Result<(), SetGlobalDefaultError> {
    start_into(options, io::stderr())
}

/// Like [`start`], with another output.
pub fn start_into(
    options: LogOptions,
    sink: impl Write + Send + 'static,
) -> Result<(), SetGlobalDefaultError> {
    begin(options, &[], sink)
}

/// The warnings of a command to its user, on stderr, except for those of modules whose problems are in its answer.
pub fn start_in_command(answered: &[&'static str]) -> Result<(), SetGlobalDefaultError> {
    let options = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Warn,
    };
    begin(options, answered, io::stderr())
}

fn begin(
    options: LogOptions,
    silent: &[&'static str],
    sink: impl Write + Send + 'static,
) -> Result<(), SetGlobalDefaultError> {
    let subscriber = subscriber(options, silent, sink);
    tracing::subscriber::set_global_default(subscriber)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let what = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(panic = what, place, "a task of the process failed");
    }));
    Ok(())
}

/// Logs the error that ends the process.
pub fn fatal(message: &str, error: &dyn Error) {
    tracing::error!(fatal = true, error = chain(error), "{message}");
}

fn subscriber<W: Write + Send + 'static>(
    options: LogOptions,
    silent: &[&'static str],
    sink: W,
) -> impl Subscriber + Send + Sync {
    let lines = Lines {
        options,
        sink: Arc::new(Mutex::new(sink)),
    };
    Registry::default().with(lines).with(
        targets(options.verbosity)
            .with_targets(silent.iter().map(|module| (*module, LevelFilter::ERROR))),
    )
}

/// The level filter of each target.
fn targets(verbosity: Verbosity) -> Targets {
    let (ours, others) = match verbosity {
        Verbosity::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        Verbosity::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        Verbosity::Info => (LevelFilter::INFO, LevelFilter::WARN),
        Verbosity::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
    };
    let repeated = match verbosity {
        Verbosity::Debug => others,
        _ => LevelFilter::OFF,
    };
    Targets::new()
        .with_default(others)
        .with_target(OURS, ours)
        .with_target(REPEATED, repeated)
}

// === impl LogFormat ===

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "console" => Ok(Self::Console),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

// === impl Lines ===

impl<W: Write + Send + 'static, S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines<W> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = LogFields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            // From the innermost outwards: what stands nearer to the event stays.
            if let Some(outer) = span.extensions().get::<LogFields>() {
                fields.add_outer(outer);
            }
        }
        event.record(&mut fields);
        let line = match self.options.format {
            LogFormat::Json => json_line(event.metadata(), fields),
            LogFormat::Cloud => cloud_line(event.metadata(), fields),
            LogFormat::Console => console_line(event.metadata(), &fields),
        };
        // Where nobody listens any more nobody can be told.
        let _ = self.sink.lock().write_all(line.as_bytes());
    }
}

fn json_line(metadata: &Metadata<'_>, fields: LogFields) -> String {
    let mut line = vec![
        ("level".to_owned(), level(metadata, &fields).into()),
        ("time".to_owned(), now().into()),
    ];
    if let Some(logger) = fields.logger.as_deref() {
        line.push(("logger".to_owned(), logger.into()));
    }
    line.push(("caller".to_owned(), caller(metadata).into()));
    line.push(("msg".to_owned(), fields.message.into()));
    line.extend(fields.others);
    let mut text = in_order(&line);
    text.push('\n');
    text
}

fn cloud_line(metadata: &Metadata<'_>, fields: LogFields) -> String {
    let severity = match *metadata.level() {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        _ => "DEBUG",
    };
    let source = serde_json::json!({
        "function": metadata.module_path(), "file": metadata.file(), "line": metadata.line(),
    });
    let mut line = vec![
        ("timestamp".to_owned(), now().into()),
        ("severity".to_owned(), severity.into()),
        ("source".to_owned(), source),
        ("message".to_owned(), fields.message.into()),
    ];
    line.extend(fields.others);
    let mut text = in_order(&line);
    text.push('\n');
    text
}

fn console_line(metadata: &Metadata<'_>, fields: &LogFields) -> String {
    let level = level(metadata, fields).to_uppercase();
    let mut parts = vec![now(), level];
    parts.extend(fields.logger.as_deref().map(str::to_owned));
    parts.push(caller(metadata));
    parts.push(one_line(&fields.message));
    if !fields.others.is_empty() {
        parts.push(in_order(&fields.others));
    }
    let mut line = parts.join("\t");
    line.push('\n');
    line
}

fn level(metadata: &Metadata<'_>, fields: &LogFields) -> &'static str {
    match *metadata.level() {
        Level::ERROR if fields.fatal => "fatal",
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// The file with its directory, and the line.
fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or(metadata.target());
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    match metadata.line() {
        Some(line) => format!("{}:{line}", &file[start..]),
        None => file[start..].to_owned(),
    }
}

/// Escapes line breaks in a message.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for char in message.chars() {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
    line
}

/// The fields as one JSON object, in the order they have.
fn in_order(fields: &[(String, Value)]) -> String {
    let mut text = String::from("{");
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        // `Value` writes itself as JSON, whatever it is.
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        text.push_str(&value.to_string());
    }
    text.push('}');
    text
}

// === impl Fields ===

impl LogFields {
    fn add_outer(&mut self, outer: &Self) {
        if self.logger.is_none() {
            self.logger.clone_from(&outer.logger);
        }
        for (key, value) in &outer.others {
            if !self.others.iter().any(|(known, _)| known == key) {
                self.others.push((key.clone(), value.clone()));
            }
        }
    }

    /// A repeated field replaces the earlier one.
    fn set(&mut self, key: String, value: Value) {
        match self.others.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.others.push((key, value)),
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name().trim_start_matches("r#");
        match (name, value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", value) => self.message = value.to_string(),
            ("logger", Value::String(text)) => self.logger = Some(text),
            ("fatal", Value::Bool(fatal)) => self.fatal = fatal,
            (name, value) if RESERVED.contains(&name) => {
                self.set(format!("{name}_"), value);
            }
            (name, value) => {
                self.set(name.to_owned(), value);
            }
        }
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let number = serde_json::Number::from_f64(value);
        self.put(
            field,
            number.map_or_else(|| value.to_string().into(), Value::Number),
        );
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, chain(value).into());
    }
}

#[cfg(test)]
mod tests;
