//! Where the programs are that `hack/control-planes/build` and `testbed/judges/build` make. Knows nothing of running them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};

const HOW: &str = "run `./hack/test` or `hack/control-planes/build`";

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("testbed/ lies in the repository")
}

/// The path of one of `etcd`, `kube-apiserver`, `kube-controller-manager`, `kubectl`, `helm`,
/// `supervise`; an error of one line if it isn't built or its sources changed since.
pub fn find(program: &str) -> Result<PathBuf> {
    let current = repository().join("target/control-planes/current");
    let path = current.join(program);
    if !path.is_file() {
        bail!("{} is missing: {HOW}", path.display());
    }
    let built = fs::symlink_metadata(&current).and_then(|link| link.modified())?;
    if newest(&repository().join("hack/control-planes"))? > built {
        bail!(
            "{} is older than hack/control-planes: {HOW}",
            path.display()
        );
    }
    path.canonicalize()
        .with_context(|| format!("resolving {}", path.display()))
}

/// The path of the clients that judge a server (`testbed/judges`); an error of one line if they aren't
/// built or their sources changed since.
pub fn judges() -> Result<PathBuf> {
    const HOW: &str = "run `./hack/test` or `testbed/judges/build`";
    let path = repository().join("target/judges/judges");
    if !path.is_file() {
        bail!("{} is missing: {HOW}", path.display());
    }
    if newest(&repository().join("testbed/judges"))? > fs::metadata(&path)?.modified()? {
        bail!("{} is older than testbed/judges: {HOW}", path.display());
    }
    Ok(path)
}

fn newest(dir: &Path) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let time = if entry.file_type()?.is_dir() {
            self::newest(&entry.path())?
        } else {
            entry.metadata()?.modified()?
        };
        newest = newest.max(time);
    }
    Ok(newest)
}
