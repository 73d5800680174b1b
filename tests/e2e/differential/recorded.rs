//! What kube-apiserver answered, kept in `tests/data/differential/TOPIC.txt`: a line for each answer that is
//! compared, in the order of the script, with a print of its request. Large answers are kept as prints.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use testbed::binaries::repository;

/// Answers that are longer are kept as prints.
const LARGE: usize = 2048;

/// An answer as it is compared with.
pub(super) enum Known {
    Whole(Value),
    Print(String),
}

impl Known {
    pub(super) fn is(&self, answer: &Value) -> bool {
        match self {
            Self::Whole(known) => known == answer,
            Self::Print(known) => *known == print(&answer.to_string()),
        }
    }
}

/// The answers of a topic that are still to come.
pub(super) struct Recorded(std::vec::IntoIter<String>);

impl Recorded {
    pub(super) fn read(topic: &str) -> Result<Self> {
        let file = file(topic);
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{}: run ./hack/test record", file.display()))?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Ok(Self(lines.into_iter()))
    }

    pub(super) fn next(&mut self, title: &str) -> Result<Known> {
        let line = self.0.next().context("nothing is recorded")?;
        let mut parts = line.splitn(2, ' ');
        ensure!(
            parts.next() == Some(&*print(title)),
            "another request was recorded than {title}: run ./hack/test record"
        );
        let answer = parts.next().context("no answer")?;
        Ok(match serde_json::from_str(answer) {
            Ok(Value::String(print)) => Known::Print(print),
            whole => Known::Whole(whole?),
        })
    }
}

/// The answers of a topic as they come.
#[derive(Default)]
pub(super) struct Recording(String);

impl Recording {
    /// `whole`: a part of the answer is compared, which a print cannot show.
    pub(super) fn push(&mut self, title: &str, answer: &Value, whole: bool) {
        let text = answer.to_string();
        let kept = if whole || text.len() <= LARGE {
            text
        } else {
            Value::from(print(&text)).to_string()
        };
        // Writing into a text cannot fail.
        let _ = writeln!(self.0, "{} {kept}", print(title));
    }

    pub(super) fn write(&self, topic: &str) -> Result<()> {
        let file = file(topic);
        fs::create_dir_all(file.with_file_name(""))?;
        fs::write(&file, &self.0).with_context(|| format!("writing {}", file.display()))
    }
}

/// Whether answers are kept at all.
pub(super) fn are_there() -> bool {
    file("wire").exists()
}

fn file(topic: &str) -> PathBuf {
    repository().join(format!("tests/data/differential/{topic}.txt"))
}

fn print(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(8).fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}
