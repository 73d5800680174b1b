//! An overview as lines of a terminal of any size.

use super::recent::Minute;
use super::{ObjectOverview, Overview, grouped, plain, span};

/// The heights of a bar of one character.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The columns for the name of an object on a wide screen.
const WIDEST_NAME: usize = 80;
/// The lines for kinds, unless there is room for more.
const KINDS: usize = 4;

/// The lines of a screen of this size: none is wider, and there are no more.
pub fn lines(overview: &Overview, width: usize, height: usize) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{}  {}  Hawser {}  up {}  {}",
            overview.name,
            overview.role_text(),
            overview.version,
            span(overview.uptime_seconds),
            overview.time,
        ),
        format!(
            "objects {}, out of sync {}, held deletions {}, {}s {}; queue {} ({})",
            grouped(overview.objects()),
            grouped(overview.out_of_sync()),
            grouped(overview.held()),
            overview.tenant_word,
            grouped(overview.tenant_count),
            grouped(overview.queue.ready),
            span(overview.queue.oldest_seconds),
        ),
        format!(
            "spec {}  status {}  changes {} at most {} a minute",
            overview.recent.spec,
            overview.recent.status,
            bars(&overview.recent.minutes),
            grouped(most(&overview.recent.minutes) as usize),
        ),
        String::new(),
    ];
    // A third of the screen at most.
    kinds(&mut lines, overview, KINDS.max(height / 3));
    out_of_sync(&mut lines, overview, width, height);
    lines.truncate(height);
    lines.into_iter().map(|line| fit(&line, width)).collect()
}

fn kinds(lines: &mut Vec<String>, overview: &Overview, most: usize) {
    lines.push(row(["KIND", "OBJECTS", "OUT", "HELD", "LEFT", "PROBLEM"]));
    let mut kinds: Vec<_> = overview.kinds.iter().collect();
    let is_well = |kind: &super::KindOverview| {
        kind.problems.is_empty() && kind.held.is_none() && kind.out_of_sync == 0
    };
    kinds.sort_by_key(|kind| is_well(kind));
    for kind in kinds.iter().take(most) {
        let held = kind.held.as_ref().map_or(0, |held| held.count);
        lines.push(row([
            &kind.kind,
            &grouped(kind.objects),
            &grouped(kind.out_of_sync),
            &grouped(held),
            &grouped(kind.left_behind),
            &kind.problems.join("; "),
        ]));
    }
    if kinds.len() > most {
        lines.push(format!("… {} more", kinds.len() - most));
    }
    lines.push(String::new());
}

fn row(cells: [&str; 6]) -> String {
    let [kind, objects, out, held, left, problem] = cells;
    format!("{kind:24} {objects:>9} {out:>8} {held:>6} {left:>8}  {problem}")
}

/// The reasons, with as many of their objects as there is room for.
fn out_of_sync(lines: &mut Vec<String>, overview: &Overview, width: usize, height: usize) {
    if let Some(ignorance) = overview.role.ignorance() {
        lines.push(ignorance.to_owned());
        return;
    }
    if overview.reasons.is_empty() {
        lines.push("All objects are in sync.".to_owned());
        return;
    }
    let room = height.saturating_sub(lines.len());
    let reasons = overview.reasons.len();
    // Each reason has a line; the rest is for objects, of every reason the same number.
    let each = room.saturating_sub(reasons) / reasons;
    for reason in &overview.reasons {
        let advice = reason.advice.as_ref();
        let advice = advice.map_or_else(String::new, |advice| format!(": {advice}"));
        let count = grouped(reason.count);
        lines.push(format!("{count:>7} {}{advice}", reason.code));
        let objects = reason.objects.iter().take(each);
        lines.extend(objects.map(|object| one(object, width)));
    }
}

fn one(object: &ObjectOverview, width: usize) -> String {
    let attempts = &object.attempts;
    let namespace = object.namespace.as_ref().map(|name| format!("{name}/"));
    let next = attempts.next_seconds.map_or_else(
        || "after a change".to_owned(),
        |next| format!("next in {}", span(next)),
    );
    let name = format!(
        "        {} {} {}{}",
        object.tenant,
        object.kind,
        namespace.unwrap_or_default(),
        object.name,
    );
    let since = span(attempts.since_seconds);
    // On a narrow screen there is room for the time alone.
    if width < 120 {
        let room = width.saturating_sub(since.len() + 2);
        return format!("{}  {since}", fit(&name, room));
    }
    let room = (width * 2 / 5).min(WIDEST_NAME);
    format!(
        "{:room$}  for {since}, {} attempts, {next}  {}",
        fit(&name, room),
        attempts.attempts,
        attempts.detail,
    )
}

fn most(minutes: &[Minute]) -> u32 {
    let sums = minutes.iter().map(|minute| minute.spec + minute.status);
    sums.max().unwrap_or_default()
}

fn bars(minutes: &[Minute]) -> String {
    let most = most(minutes).max(1);
    let bar = |minute: &Minute| {
        let changes = u64::from(minute.spec) + u64::from(minute.status);
        let eighths = (changes * 8).div_ceil(most.into());
        usize::try_from(eighths).map_or(' ', |eighths| BARS[eighths.min(8)])
    };
    minutes.iter().map(bar).collect()
}

/// The beginning of a line, without characters that a terminal would obey.
pub fn fit(line: &str, width: usize) -> String {
    let line = plain(line);
    let mut chars = line.chars();
    let mut text: String = chars.by_ref().take(width).collect();
    if chars.next().is_some() {
        text.pop();
        text.push('…');
    }
    text.truncate(text.trim_end().len());
    text
}
