use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::process::lease::Lock;

const DURATION: Duration = Duration::from_secs(15);
const ALMOST: Duration = Duration::from_millis(14_999);

fn us() -> Candidate {
    Candidate::new("us".to_owned(), DURATION)
}

fn lease(holder: &str, renewed: &str) -> Record {
    Record {
        holder: holder.to_owned(),
        seconds: 15,
        acquired: "then".to_owned(),
        renewed: renewed.to_owned(),
        transitions: 3,
    }
}

fn look(candidate: &mut Candidate, lease: &Record) -> Step {
    candidate.look(Some(lease.clone()), Instant::now(), "now")
}

fn taken() -> Step {
    Step::Write(Record {
        holder: "us".to_owned(),
        seconds: 15,
        acquired: "now".to_owned(),
        renewed: "now".to_owned(),
        transitions: 4,
    })
}

fn waiting() -> Step {
    Step::Wait {
        holder: "them".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_lease_one_is_made() {
    let expected = Record {
        acquired: "now".to_owned(),
        transitions: 0,
        ..lease("us", "now")
    };
    assert_eq!(
        us().look(None, Instant::now(), "now"),
        Step::Write(expected)
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_over_after_its_duration_of_silence_and_not_before() {
    let mut us = us();
    let theirs = lease("them", "long ago");
    assert_eq!(look(&mut us, &theirs), waiting());
    advance(ALMOST).await;
    assert_eq!(look(&mut us, &theirs), waiting());
    advance(Duration::from_millis(1)).await;
    assert_eq!(look(&mut us, &theirs), taken());
}

#[tokio::test(start_paused = true)]
async fn whatever_the_holders_clock_shows_a_change_is_a_sign_of_life() {
    let mut us = us();
    let clocks = [
        "12:00", "13:00", "11:00", "11:00:02", "", "1970", "2999", "no time",
    ];
    for clock in clocks.into_iter().cycle().take(40) {
        assert_eq!(look(&mut us, &lease("them", clock)), waiting(), "{clock}");
        advance(ALMOST).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_far_in_the_future_makes_no_lease_last_longer() {
    let mut us = us();
    let theirs = lease("them", "2999-01-01T00:00:00.000000Z");
    assert_eq!(look(&mut us, &theirs), waiting());
    advance(DURATION).await;
    assert_eq!(look(&mut us, &theirs), taken());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_holders_starts_the_wait_again() {
    let mut us = us();
    assert_eq!(
        look(&mut us, &lease("others", "now")),
        Step::Wait {
            holder: "others".to_owned()
        }
    );
    advance(ALMOST).await;
    assert_eq!(look(&mut us, &lease("them", "now")), waiting());
    advance(ALMOST).await;
    assert_eq!(look(&mut us, &lease("them", "now")), waiting());
}

#[tokio::test(start_paused = true)]
async fn the_holders_own_duration_counts() {
    let mut us = us();
    let long = Record {
        seconds: 60,
        ..lease("them", "now")
    };
    assert_eq!(look(&mut us, &long), waiting());
    advance(DURATION * 3).await;
    assert_eq!(look(&mut us, &long), waiting());
    advance(DURATION).await;
    assert_eq!(look(&mut us, &long), taken());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_up_is_taken_at_once() {
    let released = Candidate::given_up(&lease("them", "now"), "now");
    assert_eq!((released.holder.as_str(), released.seconds), ("", 1));
    assert_eq!(look(&mut us(), &released), taken());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_ours_is_renewed_with_its_history() {
    let mut us = us();
    assert_eq!(
        look(&mut us, &lease("us", "before")),
        Step::Write(lease("us", "now"))
    );
    advance(DURATION * 10).await;
    assert_eq!(
        look(&mut us, &lease("us", "before")),
        Step::Write(lease("us", "now"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_vanished_and_came_back_has_to_be_silent_again() {
    let mut us = us();
    let theirs = lease("them", "now");
    assert_eq!(look(&mut us, &theirs), waiting());
    advance(DURATION).await;
    assert!(matches!(
        us.look(None, Instant::now(), "now"),
        Step::Write(_)
    ));
    assert_eq!(look(&mut us, &theirs), waiting());
}

#[test]
fn what_else_stands_in_a_lease_stays() {
    let mut object = json!({
        "metadata": {"name": "one", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"holderIdentity": "them", "strategy": "OldestEmulationVersion"},
    });
    let record = lease("us", "now");
    Lock::Lease.write(&record, &mut object);
    assert_eq!(Lock::Lease.read(&object), record);
    assert_eq!(object["metadata"]["labels"]["a"], "b");
    assert_eq!(object["spec"]["strategy"], "OldestEmulationVersion");

    let mut bare = json!({"metadata": {"name": "one"}});
    assert_eq!(Lock::Lease.read(&bare), Record::default());
    Lock::Lease.write(&record, &mut bare);
    assert_eq!(Lock::Lease.read(&bare), record);
}

#[test]
fn nonsense_in_a_lease_counts_as_not_said() {
    let nonsense =
        json!({"spec": {"holderIdentity": 3, "leaseDurationSeconds": -1, "renewTime": {}}});
    assert_eq!(Lock::Lease.read(&nonsense), Record::default());
}

#[test]
fn durations_are_rounded_up_for_others() {
    let mut us = Candidate::new("us".to_owned(), Duration::from_millis(1500));
    let Step::Write(record) = us.look(None, Instant::now(), "now") else {
        panic!("nobody is in the way");
    };
    assert_eq!(record.seconds, 2);
}
