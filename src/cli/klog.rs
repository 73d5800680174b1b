//! Flags of other programs which have no effect, above all those of klog, their log library. They are written with
//! dashes or with underscores.

use std::ffi::OsString;

const SWITCHES: &[&str] = &[
    "add-dir-header",
    "alsologtostderr",
    "legacy-stderr-threshold-behavior",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
];

const VALUES: &[&str] = &[
    "alsologtostderrthreshold",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "log-flush-frequency",
    "stderrthreshold",
    "vmodule",
];

/// Takes these flags, and those of a program, with their values out of a command line, and returns them as they were
/// written.
pub(super) fn take(args: &mut Vec<OsString>, switches: &[&str], values: &[&str]) -> Vec<String> {
    let is_in = |lists: [&[&str]; 2], name: &str| lists.concat().contains(&name);
    let mut taken = Vec::new();
    let mut at = 1;
    while at < args.len() && args[at] != "--" {
        let text = args[at].to_string_lossy();
        let flag = text.split('=').next().unwrap_or_default();
        let name = flag
            .strip_prefix('-')
            .map(|name| name.strip_prefix('-').unwrap_or(name));
        let name = name.unwrap_or_default().replace('_', "-");
        let has_value = is_in([VALUES, values], &name);
        if !has_value && !is_in([SWITCHES, switches], &name) {
            at += 1;
            continue;
        }
        let value_follows = has_value && !text.contains('=');
        taken.push(flag.to_owned());
        args.remove(at);
        if value_follows && at < args.len() {
            args.remove(at);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_with_their_values() {
        let line = "x --logtostderr enable --log-dir /a --log_file=/b jobs -v 4 --alsologtostderr=false -- --vmodule";
        let mut args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let taken = take(&mut args, &[], &[]);
        assert_eq!(args.join(" ".as_ref()), *"x enable jobs -v 4 -- --vmodule");
        let wanted = [
            "--logtostderr",
            "--log-dir",
            "--log_file",
            "--alsologtostderr",
        ];
        assert_eq!(taken, wanted);
    }
}
