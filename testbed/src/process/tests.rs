use super::*;
use crate::eventually::SOON;

fn shell(script: &str) -> Launch {
    Launch::new("sh", "/bin/sh").arg("-c").arg(script)
}

#[tokio::test]
async fn output_and_exit_code_are_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo out; echo $WHAT >&2; exit 3";
    let output = shell(script)
        .env("WHAT", "err")
        .run(dir.path(), SOON)
        .await
        .unwrap();
    assert_eq!(output.exit.reason, Reason::Code(3));
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(output.exit.peak_rss_bytes > 0);
}

#[tokio::test]
async fn a_process_is_asked_to_end_by_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let process = shell(script).log(dir.path().join("log")).spawn().unwrap();
    process.await_log(SOON, "ready").await.unwrap();
    assert!(process.memory().unwrap().peak_rss_bytes > 0);
    assert_eq!(process.stop(SOON).await.unwrap().reason, Reason::Code(7));
    process.signal(Signal::Terminate).unwrap();
}

#[tokio::test]
async fn a_killed_process_says_so() {
    let process = shell("exec sleep 600").spawn().unwrap();
    assert_eq!(process.kill().await.unwrap().reason, Reason::Signal(9));
    assert!(process.memory().is_err());
}

#[tokio::test]
async fn dropping_a_process_kills_its_children_too() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let script = format!(
        "sh -c 'sleep 600; : {0}' & echo ready; sleep 600; : {0}",
        mark.display()
    );
    let process = shell(&script).log(dir.path().join("log")).spawn().unwrap();
    process.await_log(SOON, "ready").await.unwrap();
    assert!(is_running(&mark).unwrap());
    drop(process);
    crate::eventually(SOON, "the group is gone", async || {
        ensure!(!is_running(&mark)?, "still running");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let error = Launch::new("ghost", "/no/such/program")
        .spawn()
        .unwrap_err();
    let error = error.to_string();
    assert!(error.contains("/no/such/program: no such file"), "{error}");
}

#[tokio::test]
async fn waiting_for_an_end_that_does_not_come_is_an_error() {
    let process = shell("exec sleep 600").spawn().unwrap();
    let error = process.wait(Duration::from_millis(50)).await.unwrap_err();
    assert!(error.to_string().contains("did not end"), "{error}");
}
