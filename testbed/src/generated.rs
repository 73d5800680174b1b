//! Generated files that are checked in. A test named `generated_…` compares such a file with what
//! is generated now; `HAWSER_WRITE_GENERATED=1` makes the same test write it (`./hack/generate`).

use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use crate::binaries::repository;

/// Compares the file at `path`, relative to the repository, with its `wanted` content, or writes it.
pub fn check(path: &str, wanted: &str) -> Result<()> {
    let file = repository().join(path);
    if env::var_os("HAWSER_WRITE_GENERATED").is_some() {
        return fs::write(&file, wanted).with_context(|| format!("writing {path}"));
    }
    let found = fs::read_to_string(&file).with_context(|| format!("reading {path}"))?;
    if found != wanted {
        bail!("{path} is not up to date: run ./hack/generate and commit the result");
    }
    Ok(())
}

/// The same for the part of a file between a line with `<!-- begin NAME -->` and one with
/// `<!-- end NAME -->`.
pub fn check_section(path: &str, name: &str, wanted: &str) -> Result<()> {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let file = repository().join(path);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {path}"))?;
    let Some((before, rest)) = text.split_once(&begin) else {
        bail!("{path} has no {begin:?}")
    };
    let Some((_, after)) = rest.split_once(&end) else {
        bail!("{path} has no {end:?}")
    };
    check(path, &format!("{before}{begin}{wanted}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn generated_list_of_test_parts_in_contributing_is_up_to_date() {
        let output = Command::new("bash")
            .arg(repository().join("hack/test"))
            .arg("list")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let list = String::from_utf8(output.stdout).unwrap();
        check_section("CONTRIBUTING.md", "parts", &format!("```text\n{list}```\n")).unwrap();
    }

    #[test]
    fn a_stale_file_is_reported_with_what_to_run() {
        let error = check("LICENSE", "not the licence").unwrap_err().to_string();
        assert!(
            error.contains("LICENSE") && error.contains("./hack/generate"),
            "{error}"
        );
    }
}
