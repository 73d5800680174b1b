//! Each rule of the queue over virtual time, then the handle over tokio's.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::{Depth, Due, Fair, Outcome, Queue, QueueKey, Take, Urgency};

/// The middle of the spread of a back-off: 50 ms, 100 ms, 200 ms …
const MIDDLE: u64 = 200;

fn tenant(name: &str) -> Arc<str> {
    name.into()
}

fn urgency(word: &str) -> Urgency {
    match word {
        "live" => Urgency::Live,
        "initial" => Urgency::Initial,
        "resync" => Urgency::Resync,
        other => panic!("no urgency: {other}"),
    }
}

fn due(urgency: Urgency, at: Duration) -> Due {
    Due { at, urgency }
}

fn millis(word: &str) -> Duration {
    Duration::from_millis(word.parse().unwrap())
}

fn in_words(take: &Take<String>) -> String {
    match take {
        Take::Empty => "nothing".to_owned(),
        Take::Wait(until) => format!("nothing until {}", until.as_millis()),
        Take::Key(taken) => {
            let mut words = taken.key.clone();
            if !taken.waited.is_zero() {
                write!(words, " waited {}", taken.waited.as_millis()).unwrap();
            }
            if taken.attempt > 1 {
                write!(words, " attempt {}", taken.attempt).unwrap();
            }
            words
        }
    }
}

/// Runs a script, a line each: the time in milliseconds, what is done, and for `take` what is
/// expected. The tenant of a key is its first letter. One tenant runs two keys at once.
#[track_caller]
fn check(script: &str) {
    let mut fair = Fair::new(2);
    let lines = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = millis(words[0]);
        let tenant = |key: &str| Arc::from(&key[..1]);
        match &words[1..] {
            ["add", key, lane] => {
                let due = due(urgency(lane), now);
                fair.add((*key).to_owned(), &tenant(key), due, now);
            }
            ["add", key, lane, "at", at] => {
                let due = due(urgency(lane), millis(at));
                fair.add((*key).to_owned(), &tenant(key), due, now);
            }
            ["settled", key] => fair.done(&(*key).to_owned(), Outcome::Settled, now, MIDDLE),
            ["again", key, after] => {
                fair.done(
                    &(*key).to_owned(),
                    Outcome::Again(millis(after)),
                    now,
                    MIDDLE,
                );
            }
            ["failed", key] => fair.done(&(*key).to_owned(), Outcome::Failed(None), now, MIDDLE),
            ["failed", key, after] => {
                let outcome = Outcome::Failed(Some(millis(after)));
                fair.done(&(*key).to_owned(), outcome, now, MIDDLE);
            }
            ["retry", tenant] => fair.retry(|key| key.starts_with(tenant), now),
            ["forget", tenant] => fair.forget(|key| key.starts_with(tenant)),
            ["take", expected @ ..] => {
                assert_eq!(in_words(&fair.take(now)), expected.join(" "), "at: {line}");
            }
            other => panic!("no such line: {other:?}"),
        }
    }
}

#[test]
fn a_key_waits_at_most_once() {
    check(
        "0 add a live
         5 add a live
         7 take a waited 7
         7 take nothing
         8 settled a
         8 take nothing",
    );
}

#[test]
fn what_happens_while_a_key_runs_makes_it_ready_right_after() {
    check(
        "0 add a live
         0 take a
         1 add a live
         2 add a resync
         2 take nothing
         3 settled a
         3 take a waited 2
         4 settled a
         4 take nothing",
    );
}

#[test]
fn the_earliest_time_wins_and_a_later_one_never_puts_off() {
    check(
        "0 add a live at 50
         0 add a live at 90
         0 add a live at 30
         29 take nothing until 30
         30 take a
         31 settled a
         100 take nothing",
    );
    check(
        "0 add a live
         0 add a live at 90
         1 take a waited 1
         1 settled a
         100 take nothing",
    );
    check(
        "0 add a initial at 5000
         9 add a initial
         9 take a
         9 settled a
         6000 take nothing",
    );
}

#[test]
fn a_delayed_wish_made_while_a_key_runs_is_kept() {
    check(
        "0 add a live
         0 take a
         1 add a live at 80
         2 settled a
         2 take nothing until 80
         80 take a",
    );
}

#[test]
fn again_comes_back_after_its_time_or_when_something_happens() {
    check(
        "0 add a live
         0 take a
         0 again a 500
         499 take nothing until 500
         500 take a
         500 again a 500
         600 add a resync
         600 take a
         600 again a 0
         600 take a",
    );
}

#[test]
fn what_failed_comes_back_at_once_when_what_it_failed_for_has_changed() {
    check(
        "0 add a1 live
         0 add b1 live
         0 take a1
         0 take b1
         0 failed a1 60000
         0 failed b1 60000
         10 add a1 initial
         10 take nothing until 60000
         20 retry a
         20 take a1
         20 take nothing until 60000
         30 failed a1 60000
         40 take nothing until 60000",
    );
}

#[test]
fn what_runs_while_that_changes_runs_once_more() {
    check(
        "0 add a1 live
         0 take a1
         10 retry a
         20 failed a1 60000
         20 take a1 waited 10 attempt 2
         30 settled a1
         30 take nothing",
    );
}

#[test]
fn failures_back_off_and_anything_else_forgets_them() {
    check(
        "0 add a live
         0 take a
         0 failed a
         0 take nothing until 50
         50 take a attempt 2
         50 failed a
         50 take nothing until 150
         150 take a attempt 3
         150 again a 10
         160 take a
         160 failed a
         160 take nothing until 210
         210 take a attempt 2
         210 settled a
         300 add a live
         300 take a",
    );
}

#[test]
fn a_failure_waits_at_least_as_long_as_the_server_asked() {
    check(
        "0 add a live
         0 take a
         0 failed a 7000
         0 take nothing until 7000
         7000 take a attempt 2
         7000 failed a 20
         7000 take nothing until 7100",
    );
}

#[test]
fn only_a_live_change_cuts_a_back_off_short() {
    check(
        "0 add a live
         0 take a
         0 failed a 7000
         1 add a resync
         1 add a initial
         1 take nothing until 7000
         2 add a live
         2 take a attempt 2
         2 add a resync
         3 failed a 7000
         3 take nothing until 7003",
    );
}

#[test]
fn a_failing_key_that_changes_all_the_time_gets_one_extra_attempt_a_second() {
    let mut script = "0 add a live\n0 take a\n".to_owned();
    for attempt in 2..=6 {
        // Changed while it ran and failed: five times at once.
        writeln!(
            script,
            "0 add a live\n0 failed a\n0 take a attempt {attempt}"
        )
        .unwrap();
    }
    script.push_str(
        "0 add a live
         0 failed a
         0 take nothing until 1000
         10 add a live
         10 take nothing until 1000
         1000 take a attempt 7
         1000 failed a
         1500 add a live
         1500 take nothing until 2000
         2000 take a attempt 8
         2000 failed a
         5000 add a live
         5000 take a attempt 9",
    );
    check(&script);
}

#[test]
fn tenants_take_turns_whatever_one_of_them_has_waiting() {
    check(
        "0 add a1 live
         1 add a2 live
         2 add a3 live
         3 add b1 live
         4 add c1 live
         4 take a1 waited 4
         4 take b1 waited 1
         4 take c1
         4 take a2 waited 3
         5 settled a1
         5 take a3 waited 3",
    );
}

#[test]
fn within_a_tenant_the_first_to_be_ready_is_the_first_to_run() {
    check(
        "0 add a1 live at 20
         0 add a2 live at 10
         15 add a3 live
         30 take a2 waited 20
         30 take a3 waited 15
         30 settled a2
         30 take a1 waited 10",
    );
}

#[test]
fn one_tenant_never_holds_more_than_its_share() {
    check(
        "0 add a1 live
         0 add a2 live
         0 add a3 live
         0 add a4 resync
         0 take a1
         0 take a2
         0 take nothing
         0 add b1 resync
         0 take b1
         0 settled a2
         0 take a3
         0 take nothing
         0 failed a1
         0 take a4
         0 take nothing until 50",
    );
}

#[test]
fn live_changes_go_before_initial_and_resync_work_of_all_tenants() {
    check(
        "0 add a1 resync
         1 add b1 initial
         2 add c1 live
         3 add d1 live
         3 take c1 waited 1
         3 take d1
         3 take b1 waited 2
         3 take a1 waited 3",
    );
}

#[test]
fn a_waiting_key_moves_up_when_something_more_urgent_happens_and_never_down() {
    check(
        "0 add a1 resync
         0 add b1 initial
         1 add a1 live
         1 add a1 resync
         1 take a1 waited 1
         1 take b1 waited 1",
    );
}

#[test]
fn lower_lanes_get_every_eighth_turn() {
    let mut fair = Fair::new(1000);
    let (busy, slow): (Arc<str>, Arc<str>) = ("busy".into(), "slow".into());
    for key in 0..40 {
        fair.add(
            key,
            &busy,
            due(Urgency::Live, Duration::ZERO),
            Duration::ZERO,
        );
    }
    for key in [100, 101] {
        fair.add(
            key,
            &slow,
            due(Urgency::Initial, Duration::ZERO),
            Duration::ZERO,
        );
        fair.add(
            key + 100,
            &slow,
            due(Urgency::Resync, Duration::ZERO),
            Duration::ZERO,
        );
    }
    let order: Vec<i32> = std::iter::from_fn(|| match fair.take(Duration::ZERO) {
        Take::Key(taken) => Some(taken.key),
        _ => None,
    })
    .collect();
    let position = |key: i32| order.iter().position(|taken| *taken == key).unwrap() + 1;
    assert_eq!([100, 200, 101, 201].map(position), [8, 9, 16, 17]);
    assert_eq!(order.len(), 44);
}

#[test]
fn any_number_of_tenants_whose_keys_take_long_leaves_room_for_the_others() {
    let at = Duration::from_secs;
    let mut fair = Fair::new(4).with_slow(8);
    let tenants: Vec<Arc<str>> = ('a'..='d').map(|name| name.to_string().into()).collect();
    for key in 0..80 {
        fair.add(key, &tenants[key % 4], due(Urgency::Live, at(0)), at(0));
    }
    let take = |fair: &mut Fair<usize>, now: Duration| match fair.take(now) {
        Take::Key(taken) => Some(taken.key),
        Take::Wait(_) | Take::Empty => None,
    };
    let mut running: Vec<usize> = std::iter::from_fn(|| take(&mut fair, at(0))).collect();
    assert_eq!(running.len(), 16);
    // They run for long; nobody follows them before half of them have ended.
    for _ in 0..8 {
        assert_eq!(take(&mut fair, at(6)), None);
        let ended = running.swap_remove(0);
        fair.done(&ended, Outcome::Settled, at(6), MIDDLE);
    }
    assert_eq!(take(&mut fair, at(6)), None);
    let quiet: Arc<str> = "z".into();
    for key in 100..110 {
        fair.add(key, &quiet, due(Urgency::Initial, at(6)), at(6));
    }
    let taken: Vec<usize> = std::iter::from_fn(|| take(&mut fair, at(6))).collect();
    assert_eq!(taken, [100, 101, 102, 103]);
    let ended = running.swap_remove(0);
    fair.done(&ended, Outcome::Settled, at(6), MIDDLE);
    assert!(take(&mut fair, at(6)).is_some_and(|key| key < 80));
    assert_eq!(take(&mut fair, at(6)), None);
}

#[test]
fn tenants_that_want_all_workers_at_once_leave_some_to_another() {
    let now = Duration::ZERO;
    for crowd in [4, 8, 16, 40] {
        let mut fair = Fair::new(16).with_slow(32).with_workers(64);
        for key in 0..crowd * 100 {
            let tenant: Arc<str> = format!("t{}", key % crowd).into();
            fair.add(key, &tenant, due(Urgency::Live, now), now);
        }
        let mut running = 0;
        while let Take::Key(_) = fair.take(now) {
            running += 1;
        }
        assert!(running >= 32, "{crowd} tenants have {running}");
        fair.add(
            usize::MAX,
            &"another".into(),
            due(Urgency::Initial, now),
            now,
        );
        let Take::Key(taken) = fair.take(now) else {
            panic!("{crowd} tenants have {running} workers, and nobody else has any");
        };
        assert_eq!(taken.key, usize::MAX);
    }
}

/// Of fewer tenants each leaves a worker to others. As many servers hang as it takes: none of them can tell that all
/// workers wait.
#[tokio::test(start_paused = true)]
async fn workers_that_tenants_hold_at_any_number_of_servers_are_back_once_that_is_noticed() {
    for crowd in [64, 100] {
        let queue = Queue::new(64);
        for key in 0..crowd * 100 {
            let hanging = tenant(&format!("hanging {}", key % crowd));
            queue.add(Of(hanging, key), Urgency::Live);
        }
        let another = Of(tenant("another"), 0);
        queue.add(another.clone(), Urgency::Initial);
        let begun = tokio::time::Instant::now();
        let (tell, mut told) = tokio::sync::mpsc::channel(1);
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let (queue, tell, another) = (queue.clone(), tell.clone(), another.clone());
            workers.spawn(async move {
                while let Some(work) = queue.next().await {
                    if work.key == another {
                        tell.send(()).await.unwrap();
                        queue.done(work, Outcome::Settled);
                    } else {
                        let _ = tokio::time::timeout(LONG, work.given_up()).await;
                        queue.done(work, Outcome::Failed(None));
                    }
                }
            });
        }
        // Live changes come before it only seven times.
        told.recv().await.unwrap();
        queue.add(another, Urgency::Live);
        told.recv().await.unwrap();
        let twice = Duration::from_secs(5);
        assert!(begun.elapsed() <= twice, "{crowd}: {:?}", begun.elapsed());
        // Nobody waits any more, and nobody has to end.
        let running = queue.busy();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(queue.busy() >= running.min(32), "{crowd}");
    }
}

#[test]
fn keys_of_slow_tenants_end_for_others_that_wait_and_half_of_the_workers_stays_theirs() {
    let at = Duration::from_secs;
    let mut fair = Fair::new(4).with_slow(8).with_workers(16);
    for key in 0..32 {
        fair.add(
            key,
            &tenant(&format!("t{}", key % 8)),
            due(Urgency::Live, at(0)),
            at(0),
        );
    }
    while let Take::Key(_) = fair.take(at(0)) {}
    assert_eq!(fair.busy(), 15);
    fair.add(99, &tenant("the last"), due(Urgency::Live, at(0)), at(0));
    assert!(matches!(fair.take(at(0)), Take::Key(taken) if taken.key == 99));
    assert_eq!(fair.give_up(at(1)), [0; 0], "nobody else waits");
    for key in 100..120 {
        let other = tenant(&format!("other {key}"));
        fair.add(key, &other, due(Urgency::Initial, at(1)), at(1));
        fair.add(key + 100, &other, due(Urgency::Resync, at(1)), at(1));
    }
    assert_eq!(fair.give_up(at(1)), [0; 0], "nothing takes long");
    let ended = fair.give_up(at(3));
    assert_eq!(ended.len(), 8);
    assert!(ended.contains(&99), "the youngest go first");
    assert_eq!(fair.give_up(at(3)), [0; 0], "each is told once");
    for key in &ended {
        fair.done(key, Outcome::Failed(None), at(3), MIDDLE);
        assert!(matches!(fair.take(at(3)), Take::Key(taken) if taken.key >= 100));
    }
    assert_eq!(fair.give_up(at(4)), [0; 0], "the rest is theirs");
}

#[test]
fn a_tenant_is_slow_for_a_minute_after_a_key_that_took_long() {
    let at = Duration::from_secs;
    let mut fair = Fair::new(4).with_slow(1);
    let [slow, other]: [Arc<str>; 2] = ["a".into(), "b".into()];
    fair.add(0, &slow, due(Urgency::Live, at(0)), at(0));
    assert!(matches!(fair.take(at(0)), Take::Key(_)));
    fair.add(9, &slow, due(Urgency::Live, at(1000)), at(0));
    fair.done(&0, Outcome::Settled, at(7), MIDDLE);
    for key in 1..4 {
        fair.add(key, &slow, due(Urgency::Live, at(8)), at(8));
    }
    assert!(matches!(fair.take(at(9)), Take::Key(_)));
    assert!(!matches!(fair.take(at(9)), Take::Key(_)));
    fair.add(5, &other, due(Urgency::Live, at(9)), at(9));
    assert!(matches!(fair.take(at(9)), Take::Key(taken) if taken.key == 5));
    for key in [1, 5] {
        fair.done(&key, Outcome::Settled, at(10), MIDDLE);
    }
    assert!(matches!(fair.take(at(66)), Take::Key(taken) if taken.key == 2));
    assert!(!matches!(fair.take(at(66)), Take::Key(_)));
    assert!(matches!(fair.take(at(67)), Take::Key(taken) if taken.key == 3));
}

#[test]
fn what_is_forgotten_does_not_come_back_unless_it_is_added_again() {
    check(
        "0 add a1 live
         0 add a2 live at 10
         0 add a3 live
         0 add b1 live
         0 take a1
         0 add a1 live
         0 forget a
         0 take b1
         0 failed a1
         5000 take nothing
         5000 add a1 live
         5000 take a1
         5000 forget a
         5001 add a1 live
         5001 failed a1
         5001 take a1",
    );
}

#[test]
fn a_wait_without_end_is_waited_for_and_cut_short() {
    let mut fair = Fair::new(1);
    let tenant: Arc<str> = "a".into();
    let second = Duration::from_secs(1);
    fair.add("a", &tenant, due(Urgency::Live, second), second);
    assert!(matches!(fair.take(second), Take::Key(_)));
    fair.done(&"a", Outcome::Again(Duration::MAX), second, 0);
    assert_eq!(fair.take(second), Take::Wait(Duration::MAX));
    fair.add("a", &tenant, due(Urgency::Live, second), second);
    assert!(matches!(fair.take(second), Take::Key(_)));
}

#[test]
fn depth_and_age_tell_what_waits() {
    let mut fair = Fair::new(1);
    let tenant: Arc<str> = "a".into();
    let at = Duration::from_secs;
    assert_eq!(
        (fair.depth(), fair.oldest(at(9)), fair.busy()),
        Default::default()
    );
    fair.add("one", &tenant, due(Urgency::Live, at(1)), at(1));
    fair.add("two", &tenant, due(Urgency::Resync, at(2)), at(2));
    fair.add("three", &tenant, due(Urgency::Initial, at(3)), at(3));
    fair.add("four", &tenant, due(Urgency::Live, at(60)), at(0));
    let depth = Depth {
        live: 1,
        initial: 1,
        resync: 1,
        delayed: 1,
    };
    assert_eq!((fair.depth(), depth.ready()), (depth, 3));
    assert_eq!(fair.oldest(at(9)), Some(at(8)));
    assert!(matches!(fair.take(at(9)), Take::Key(_)));
    assert_eq!((fair.depth().ready(), fair.busy()), (2, 1));
    assert_eq!(fair.oldest(at(9)), Some(at(7)));
    fair.forget(|key| *key != "four");
    assert_eq!(fair.oldest(at(9)), None);
    assert_eq!(fair.oldest(at(61)), Some(at(1)));
}

#[test]
fn adds_retries_and_running_time_are_counted() {
    let mut fair = Fair::new(2);
    let at = Duration::from_secs;
    let a: Arc<str> = "a".into();
    // The second time it is ready already.
    fair.add("one", &a, due(Urgency::Resync, at(1)), at(1));
    fair.add("one", &a, due(Urgency::Live, at(1)), at(1));
    fair.add("two", &a, due(Urgency::Live, at(1)), at(1));
    fair.add("three", &a, due(Urgency::Live, at(100)), at(0));
    assert_eq!((fair.state(at(2)).adds, fair.state(at(2)).ready), (2, 2));
    assert!(matches!(fair.take(at(2)), Take::Key(_)));
    assert!(matches!(fair.take(at(5)), Take::Key(_)));
    let state = fair.state(at(12));
    let times = (state.busy, state.unfinished, state.longest);
    assert_eq!(times, (2, at(17), at(10)));
    fair.add("one", &a, due(Urgency::Live, at(12)), at(12));
    fair.done(&"one", Outcome::Settled, at(13), MIDDLE);
    fair.done(&"two", Outcome::Failed(None), at(14), MIDDLE);
    let state = fair.state(at(14));
    assert_eq!((state.adds, state.retries, state.busy), (3, 1, 0));
    assert_eq!((state.unfinished, state.longest), Default::default());
    // Both come back when their time has come.
    assert!(matches!(fair.take(at(100)), Take::Key(_)));
    assert_eq!(fair.state(at(100)).adds, 5);
}

/// A key of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Of(Arc<str>, usize);

impl QueueKey for Of {
    fn tenant(&self) -> &Arc<str> {
        let Self(tenant, _) = self;
        tenant
    }
}

fn of(tenant: &str, key: usize) -> Of {
    Of(tenant.into(), key)
}

/// Longer than anything here can take; with paused time it costs nothing.
const LONG: Duration = Duration::from_hours(1);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_what_is_added_while_it_waits() {
    let queue: Queue<Of> = Queue::new(4);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|work| work.key.clone()) }
    });
    tokio::task::yield_now().await;
    queue.add(of("a", 1), Urgency::Live);
    assert_eq!(soon(waiting).await.unwrap(), Some(of("a", 1)));
}

#[tokio::test(start_paused = true)]
async fn what_is_delayed_comes_at_its_time_even_to_workers_that_waited_before() {
    let queue = Queue::new(8);
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        workers.spawn(async move {
            let work = queue.next().await.unwrap();
            let arrived = tokio::time::Instant::now();
            queue.done(work, Outcome::Settled);
            arrived
        });
    }
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    for key in 0..3 {
        queue.add_after(of("a", key), Urgency::Live, Duration::from_secs(5));
    }
    while let Some(arrived) = soon(workers.join_next()).await {
        let waited = arrived.unwrap() - start;
        assert!(waited >= Duration::from_secs(5), "early: {waited:?}");
        assert!(waited < Duration::from_secs(6), "late: {waited:?}");
    }
    assert_eq!(queue.busy(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_waiting_leaves_the_clock_to_another() {
    let queue: Queue<Of> = Queue::new(2);
    let patient = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|work| work.key.clone()) }
    });
    // The first worker waits without an end in sight, the second one learns of the delayed key.
    tokio::task::yield_now().await;
    {
        let hasty = queue.next();
        tokio::pin!(hasty);
        assert!(futures::poll!(&mut hasty).is_pending());
        queue.add_after(of("a", 1), Urgency::Live, Duration::from_secs(5));
        tokio::task::yield_now().await;
        assert!(futures::poll!(&mut hasty).is_pending());
    }
    assert_eq!(soon(patient).await.unwrap(), Some(of("a", 1)));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_dropped_counts_as_failed() {
    let queue = Queue::new(2);
    queue.add(of("a", 1), Urgency::Live);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _work = queue.next().await;
            panic!("on purpose");
        }
    });
    assert!(worker.await.is_err());
    assert_eq!((queue.busy(), queue.depth().delayed), (0, 1));
    let work = soon(queue.next()).await.unwrap();
    assert_eq!((work.key.clone(), work.attempt), (of("a", 1), 2));
    queue.done(work, Outcome::Settled);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_ends_its_workers_and_hands_out_nothing() {
    let queue = Queue::new(8);
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let queue: Queue<Of> = queue.clone();
        workers.spawn(async move { queue.next().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.close();
    queue.add(of("a", 1), Urgency::Live);
    while let Some(ended) = soon(workers.join_next()).await {
        assert!(ended.unwrap());
    }
    assert!(soon(queue.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_one_tenant_delays_another_one_by_a_turn() {
    let queue = Queue::new(8);
    for key in 0..1000 {
        queue.add(of("busy", key), Urgency::Live);
    }
    let first = soon(queue.next()).await.unwrap();
    queue.add(of("quiet", 1), Urgency::Live);
    let next = [
        soon(queue.next()).await.unwrap().key.clone(),
        soon(queue.next()).await.unwrap().key.clone(),
    ];
    assert!(next.contains(&of("quiet", 1)), "{next:?}");
    drop(first);
}

/// What a writer wanted of a key last, what a worker saw of it last, and whether one has it now.
#[derive(Default)]
struct Seen {
    wanted: usize,
    done: usize,
    running: bool,
}

type Board = Arc<Vec<parking_lot::Mutex<Seen>>>;

async fn work_through(queue: Queue<Of>, board: Board) {
    while let Some(work) = queue.next().await {
        let Of(_, key) = work.key;
        {
            let mut seen = board[key].lock();
            assert!(!seen.running, "two workers have key {key}");
            seen.running = true;
            seen.done = seen.wanted;
        }
        tokio::task::yield_now().await;
        board[key].lock().running = false;
        queue.done(work, Outcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_and_many_writers_lose_nothing_and_never_share_a_key() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 200;
    let queue = Queue::new(8);
    let board: Board = Arc::new((0..KEYS).map(|_| parking_lot::Mutex::default()).collect());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        tasks.spawn(work_through(queue.clone(), Arc::clone(&board)));
    }
    for round in 1..=ROUNDS {
        for (key, seen) in board.iter().enumerate() {
            seen.lock().wanted = round;
            queue.add(of(&format!("tenant {}", key % 7), key), Urgency::Live);
        }
        tokio::task::yield_now().await;
    }
    let all_done = async {
        while board.iter().any(|seen| seen.lock().done < ROUNDS) {
            tokio::task::yield_now().await;
        }
    };
    let minute = Duration::from_mins(1);
    let done = tokio::time::timeout(minute, all_done).await;
    queue.close();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    done.expect("every last wish is followed by a run");
}
