//! The files for the user: kubeconfigs, manifests, a log.
//!
//! Kubeconfigs contain tokens, so every file is readable by its owner only. Does not know the contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A directory that files are written to.
#[derive(Clone, Debug)]
pub struct Files {
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("writing {path}")]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl Files {
    /// The directory is created with the first file.
    pub fn below(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a kubeconfig as YAML, atomically.
    pub fn kubeconfig(&self, name: &str, kubeconfig: &Value) -> Result<PathBuf, WriteError> {
        // A line each: the authority is long, and tools that look for lines would not find it folded.
        let plain = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let yaml = serde_saphyr::to_string_with_options(kubeconfig, plain)
            .map_err(|error| self.failed(name)(io::Error::other(error)))?;
        self.write(name, &yaml)
    }

    /// Writes a text, atomically.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, WriteError> {
        let path = self.dir.join(name);
        let unfinished = format!(".{name}.{}", std::process::id());
        let mut file = self.open(&unfinished)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| fs::rename(self.dir.join(unfinished), &path));
        written.map_err(self.failed(name))?;
        Ok(path)
    }

    /// Creates an empty file.
    pub fn open(&self, name: &str) -> Result<File, WriteError> {
        let failed = self.failed(name);
        if let Err(error) = fs::create_dir_all(&self.dir) {
            return Err(WriteError {
                path: self.dir.clone(),
                source: error,
            });
        }
        private(&self.dir.join(name)).map_err(failed)
    }

    fn failed(&self, name: &str) -> impl FnOnce(io::Error) -> WriteError {
        let path = self.dir.join(name);
        |source| WriteError { path, source }
    }
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    // One that was there before keeps the rights that it had.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kcp_playground::server::{Context, kubeconfig};

    #[test]
    fn what_is_in_the_way_of_the_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let taken = directory.path().join("taken");
        fs::write(&taken, "").unwrap();
        let error = Files::below(&taken)
            .write("database.json", "{}")
            .unwrap_err();
        assert_eq!(error.to_string(), format!("writing {}", taken.display()));
    }

    #[test]
    fn a_kubeconfig_has_its_authority_on_the_line_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context {
            name: "root",
            server: "https://127.0.0.1:1/clusters/root".to_owned(),
        };
        let authority = "of quite a length\n".repeat(40);
        let written = kubeconfig(&authority, "admin", "0123", &[context]);
        let path = Files::below(directory.path())
            .kubeconfig("kcp.kubeconfig", &written)
            .unwrap();
        let text = fs::read_to_string(path).unwrap();
        let of_authority = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("certificate-authority-data: "))
            .unwrap();
        assert!(of_authority.len() > 900, "{text}");
        assert!(text.contains("token: \"0123\""), "{text}");
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, written);
    }
}
