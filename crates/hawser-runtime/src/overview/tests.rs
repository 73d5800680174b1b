use super::recent::{Latency, Minute, RecentChanges};
use super::*;

/// An agent with ten thousand objects, of which some are out of sync for several reasons.
fn busy() -> Overview {
    let object = |number: usize, detail: &str| ObjectOverview {
        config: "publish-databases".to_owned(),
        kind: "Database".to_owned(),
        tenant: format!("root:org:team-{number}"),
        namespace: Some("default".to_owned()),
        name: format!("orders-{number}"),
        attempts: AttemptsOverview {
            code: "Invalid".to_owned(),
            detail: detail.to_owned(),
            since_seconds: 3_700,
            attempts: 12,
            last_seconds: 20,
            next_seconds: Some(40),
        },
    };
    let reason = |code: &str, class: &str, count: usize| ReasonOverview {
        code: code.to_owned(),
        class: class.to_owned(),
        explanation: "the server rejected the object as invalid".to_owned(),
        advice: Some("correct the object as the server says".to_owned()),
        count,
        objects: (0..count.min(MOST_OBJECTS))
            .map(|number| object(number, "spec.size: must be <= 3"))
            .collect(),
    };
    let mut overview = Overview {
        name: "databases".to_owned(),
        version: "0.1.0".to_owned(),
        role: Role::Leading,
        time: "2026-11-28T04:00:00Z".to_owned(),
        uptime_seconds: 93_784,
        tenant_word: "workspace".to_owned(),
        kinds: vec![
            KindOverview {
                name: "publish-databases".to_owned(),
                kind: "Database".to_owned(),
                objects: 10_000,
                out_of_sync: 270,
                left_behind: 3,
                problems: vec!["Authorized: may not list Secret".to_owned()],
                held: Some(HeldOverview {
                    count: 12,
                    why: "more than 50 %".to_owned(),
                    approval: "kubectl annotate publishedresource publish-databases \
                               hawser.dev/approve-deletions=hold-1"
                        .to_owned(),
                }),
            },
            KindOverview {
                name: "publish-buckets".to_owned(),
                kind: "Bucket".to_owned(),
                objects: 7,
                ..KindOverview::default()
            },
        ],
        reasons: vec![
            reason("Invalid", "refused", 250),
            reason("NoAnswer", "retry", 20),
        ],
        recent: RecentChanges {
            minutes: (0..15)
                .map(|number| Minute {
                    spec: number,
                    status: 2 * number,
                    problems: 1,
                })
                .collect(),
            spec: Latency {
                count: 100,
                p50: 11.2,
                p99: 80.4,
            },
            status: Latency::default(),
        },
        ..Overview::default()
    };
    overview.rank_tenants(
        (0..1_000)
            .map(|number| TenantOverview {
                name: format!("team-{number}"),
                objects: 10,
                out_of_sync: number % 3,
            })
            .collect(),
    );
    overview
}

#[test]
fn the_page_lists_some_objects_of_each_reason_and_leads_to_the_others() {
    let overview = busy();
    let page = page::overview(&overview);
    for text in [
        "10,007",
        ">270<",
        "root:org:team-4",
        "<a href=\"/reasons/Invalid\">245 more</a>",
        "What to do: correct the object as the server says.",
        "hawser.dev/approve-deletions=hold-1",
        "Authorized: may not list Secret",
        "spec.size: must be &lt;= 3",
        "1d 2h",
        "900 more are not listed here",
    ] {
        assert!(page.contains(text), "{text} is missing:\n{page}");
    }
    assert!(!page.contains("orders-5<"), "the first page is short");
    assert!(!page.contains("<script"), "it needs no script");
    let reason = page::reason(&overview, "Invalid").unwrap();
    assert!(reason.contains("orders-99<") && reason.contains("150 more are not listed here"));
    // A browser that stays on it sees when the last object is in sync.
    assert!(page::reason(&overview, "Forbidden").is_some_and(|page| page.contains("No object")));
    assert_eq!(page::reason(&overview, "Nothing"), None);
}

#[test]
fn names_and_messages_are_text_on_the_page_and_in_a_terminal() {
    let mut overview = busy();
    let hostile = "<script>alert(\"'&\")</script>\u{1b}[2J";
    overview.kinds[0].kind = hostile.to_owned();
    overview.reasons[0].objects[0].tenant = hostile.to_owned();
    overview.reasons[0].objects[0].attempts.detail = hostile.to_owned();
    let page = page::overview(&overview) + &page::reason(&overview, "Invalid").unwrap();
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;alert(&quot;&#39;&amp;&quot;)"));
    let lines = terminal::lines(&overview, 200, 50);
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
}

#[test]
fn a_screen_has_the_worst_first_whatever_its_size() {
    for (width, height) in [(80, 24), (200, 50), (20, 5), (1, 1), (0, 0)] {
        let lines = terminal::lines(&busy(), width, height);
        assert!(lines.len() <= height);
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert!(widest.unwrap_or_default() <= width, "{width}: {lines:#?}");
    }
    let small = terminal::lines(&busy(), 80, 24).join("\n");
    for text in [
        "leading",
        "objects 10,007, out of sync 270",
        "Invalid",
        "NoAnswer",
        "orders-0",
    ] {
        assert!(small.contains(text), "{text} is missing:\n{small}");
    }
    let large = terminal::lines(&busy(), 200, 50).join("\n");
    assert!(
        large.contains("12 attempts, next in 40s  spec.size"),
        "{large}"
    );
}

#[test]
fn only_a_leader_says_that_all_is_well() {
    for role in [Role::Standby, Role::Starting] {
        let blind = Overview {
            role,
            ..Overview::default()
        };
        let told = page::overview(&blind) + &terminal::lines(&blind, 80, 24).join("\n");
        assert!(!told.contains("All objects are in sync."), "{told}");
        assert!(told.contains("This process is a standby.") == (role == Role::Standby));
    }
    let well = Overview {
        role: Role::Leading,
        ..Overview::default()
    };
    let lines = terminal::lines(&well, 80, 24).join("\n");
    assert!(lines.contains("All objects are in sync."));
    assert!(page::overview(&well).contains("All objects are in sync."));
}

#[test]
fn an_overview_is_read_back_from_its_json() {
    let text = serde_json::to_string(&busy()).unwrap();
    assert_eq!(serde_json::from_str::<Overview>(&text).unwrap(), busy());
    // One of another version may lack fields, or have more.
    let other = serde_json::from_str::<Overview>("{\"name\": \"a\", \"new\": 1}").unwrap();
    assert_eq!(other.name, "a");
}

#[test]
fn tenants_take_turns_among_the_objects_of_a_reason() {
    let now = Instant::now();
    let old = (0..MOST_OBJECTS).map(|number| (now, ("many", number)));
    let young = (now + std::time::Duration::from_secs(9), ("one", 0));
    let objects = old.chain([young]).collect();
    let object = |(tenant, number): &(&str, usize)| {
        Some(ObjectOverview {
            tenant: (*tenant).to_owned(),
            name: number.to_string(),
            ..ObjectOverview::default()
        })
    };
    let by_reason = ByReason::from([(Code::Invalid, objects)]);
    let reasons = reasons(by_reason, |(tenant, _)| tenant, |_| None, object);
    let listed = &reasons[0].objects;
    assert_eq!(
        (listed.len(), reasons[0].count),
        (MOST_OBJECTS, MOST_OBJECTS + 1)
    );
    let tenants = [&*listed[0].tenant, &*listed[1].tenant, &*listed[2].tenant];
    assert_eq!(tenants, ["many", "one", "many"]);
}

#[test]
fn spans_and_numbers_are_short() {
    let spans = [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3_700, "1h 1m"),
        (93_784, "1d 2h"),
    ];
    for (seconds, text) in spans {
        assert_eq!(span(seconds), text);
    }
    let numbers = [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (1_234_567, "1,234,567"),
    ];
    for (number, text) in numbers {
        assert_eq!(grouped(number), text);
    }
}
