//! An overview as HTML: one document without scripts, for wide and narrow screens.

use std::fmt::{self, Display, Write as _};

use hawser_sync::Code;

use super::recent::{MINUTES, Minute};
use super::{KindOverview, ObjectOverview, Overview, ReasonOverview, grouped, span};

/// The objects of one reason that the first page lists.
const FEW: usize = 5;
/// The seconds after which a browser reads the page again.
const REFRESH: u32 = 10;
/// The height of the diagram of changes,
const HEIGHT: u32 = 60;
/// the width of a minute in it,
const WIDTH: u32 = 16;
/// and that of all minutes.
const DIAGRAM: u32 = WIDTH * MINUTES;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2733;--dim:#5f6c7b;--line:#d8dee6;--paper:#fff;--card:#f5f7fa;--spec:#2b6cb0;\
--status:#38a169;--bad:#c53030;--wait:#b7791f}\
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf1;--dim:#9aa7b5;--line:#33404e;--paper:#12181f;--card:#1b232d;\
--spec:#63b3ed;--status:#68d391;--bad:#fc8181;--wait:#f6c667}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:75rem;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.45 system-ui,sans-serif}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}a{color:var(--spec)}\
.dim{color:var(--dim)}.bad{color:var(--bad)}.wait{color:var(--wait)}\
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin:1rem 0}\
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}\
.tile b{display:block;font-size:1.3rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
th{color:var(--dim);font-weight:500}td.n,th.n{text-align:right}\
td.w{overflow-wrap:anywhere;min-width:12rem}\
code{font-size:.9em;overflow-wrap:anywhere}section.reason{border-left:3px solid var(--wait);padding-left:.8rem;margin:1rem 0}\
section.refused{border-color:var(--bad)}section h3{margin:0;font-size:1rem}p{margin:.2rem 0}\
svg{width:100%;max-width:40rem;height:5rem;display:block}\
@media(max-width:40rem){.stack tr,.stack td{display:block;border:0;padding:0;text-align:left}.stack th{display:none}\
.stack tr{border-bottom:1px solid var(--line);padding:.35rem 0}.stack td[title]:not(:empty)::before{content:attr(title) \" \";\
color:var(--dim)}}";

/// Text that is written with its special characters escaped.
struct Text<'t>(&'t str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// The first page.
pub fn overview(overview: &Overview) -> String {
    document(overview, |out| {
        tiles(out, overview)?;
        held(out, overview)?;
        out_of_sync(out, overview)?;
        changes(out, &overview.recent.minutes)?;
        kinds(out, overview)?;
        tenants(out, overview)?;
        caches(out, overview)
    })
}

/// The page of one reason; `None` if there is no such reason.
pub fn reason(overview: &Overview, code: &str) -> Option<String> {
    let code = Code::named(code)?;
    Some(document(overview, |out| {
        writeln!(out, "<p><a href=\"/\">Overview</a></p>")?;
        let reason = overview
            .reasons
            .iter()
            .find(|one| one.code == code.as_str());
        match reason {
            Some(reason) => one_reason(out, overview, reason, usize::MAX),
            None => writeln!(out, "<p>No object has the reason {code}.</p>"),
        }
    }))
}

fn document(overview: &Overview, body: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = head(&mut out, overview)
        .and_then(|()| body(&mut out))
        .and_then(|()| writeln!(out, "</main></body></html>"));
    out
}

fn head(out: &mut String, overview: &Overview) -> fmt::Result {
    let name = Text(&overview.name);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name} – Hawser</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta http-equiv=\"refresh\" content=\"{REFRESH}\"><style>{STYLE}</style></head><body><header>\
         <h1>{name}</h1><p class=\"dim\">Hawser {} · {} · up {} · {}</p></header><main>",
        Text(&overview.version),
        overview.role_text(),
        span(overview.uptime_seconds),
        Text(&overview.time),
    )
}

fn tiles(out: &mut String, overview: &Overview) -> fmt::Result {
    let red = |count: usize| if count > 0 { "bad" } else { "" };
    let (out_of_sync, held) = (overview.out_of_sync(), overview.held());
    let tenants = format!("{}s", overview.tenant_word);
    let tiles = [
        ("objects", grouped(overview.objects()), ""),
        ("out of sync", grouped(out_of_sync), red(out_of_sync)),
        ("held deletions", grouped(held), red(held)),
        (&tenants, grouped(overview.tenant_count), ""),
        ("spec p50 / p99", overview.recent.spec.to_string(), ""),
        ("status p50 / p99", overview.recent.status.to_string(), ""),
        ("queued", grouped(overview.queue.ready), ""),
        ("oldest queued", span(overview.queue.oldest_seconds), ""),
    ];
    out.push_str("<div class=\"tiles\">");
    for (label, number, class) in tiles {
        let label = Text(label);
        write!(
            out,
            "<div class=\"tile\"><b class=\"{class}\">{number}</b>{label}</div>"
        )?;
    }
    writeln!(out, "</div>")
}

fn held(out: &mut String, overview: &Overview) -> fmt::Result {
    for kind in &overview.kinds {
        let Some(held) = &kind.held else { continue };
        writeln!(
            out,
            "<section class=\"reason refused\"><h3>{} deletions of {} wait for approval</h3><p>{}</p>\
             <p>To approve them: <code>{}</code></p></section>",
            grouped(held.count),
            Text(&kind.kind),
            Text(&held.why),
            Text(&held.approval),
        )?;
    }
    Ok(())
}

fn out_of_sync(out: &mut String, overview: &Overview) -> fmt::Result {
    writeln!(out, "<h2>Out of sync</h2>")?;
    if let Some(ignorance) = overview.role.ignorance() {
        writeln!(out, "<p>{ignorance}</p>")?;
    } else if overview.reasons.is_empty() {
        writeln!(out, "<p>All objects are in sync.</p>")?;
    }
    for reason in &overview.reasons {
        one_reason(out, overview, reason, FEW)?;
    }
    Ok(())
}

fn one_reason(
    out: &mut String,
    overview: &Overview,
    reason: &ReasonOverview,
    most: usize,
) -> fmt::Result {
    let (code, class) = (Text(&reason.code), Text(&reason.class));
    let color = if reason.class == "refused" {
        "bad"
    } else {
        "wait"
    };
    writeln!(
        out,
        "<section class=\"reason {class}\"><h3><span class=\"{color}\">{code}</span> · {}</h3><p>{}</p>",
        grouped(reason.count),
        Text(&reason.explanation),
    )?;
    if let Some(advice) = &reason.advice {
        writeln!(out, "<p class=\"dim\">What to do: {}.</p>", Text(advice))?;
    }
    let word = Text(&overview.tenant_word);
    writeln!(
        out,
        "<div class=\"wide\"><table class=\"stack\"><tr><th>{word}</th><th>object</th><th>since</th><th class=\"n\">attempts</th>\
         <th>next</th><th>message</th></tr>"
    )?;
    let shown = reason.objects.iter().take(most);
    for object in shown.clone() {
        row(out, object)?;
    }
    writeln!(out, "</table></div>")?;
    let (shown, listed) = (shown.count(), reason.objects.len());
    if shown < reason.count {
        let more = grouped(reason.count - shown);
        if shown < listed {
            writeln!(out, "<p><a href=\"/reasons/{code}\">{more} more</a></p>")?;
        } else {
            writeln!(out, "<p class=\"dim\">{more} more are not listed here</p>")?;
        }
    }
    writeln!(out, "</section>")
}

fn row(out: &mut String, object: &ObjectOverview) -> fmt::Result {
    let attempts = &object.attempts;
    let namespace = object.namespace.as_ref().map(|name| format!("{name}/"));
    let next = match attempts.next_seconds {
        Some(0) => "now".to_owned(),
        Some(seconds) => format!("in {}", span(seconds)),
        None => "after a change".to_owned(),
    };
    writeln!(
        out,
        "<tr><td>{}</td><td>{} {}{}</td><td title=\"for\">{}</td><td class=\"n\" title=\"attempts\">{}</td>\
         <td title=\"next\">{next}</td><td class=\"w\">{}</td></tr>",
        Text(&object.tenant),
        Text(&object.kind),
        Text(&namespace.unwrap_or_default()),
        Text(&object.name),
        span(attempts.since_seconds),
        attempts.attempts,
        Text(&attempts.detail),
    )
}

/// Bars for each minute: changes of the spec below those of the status.
fn changes(out: &mut String, minutes: &[Minute]) -> fmt::Result {
    let most = minutes
        .iter()
        .map(|minute| minute.spec + minute.status)
        .max();
    let most = most.unwrap_or_default().max(1);
    let height = |count: u32| f64::from(count) / f64::from(most) * f64::from(HEIGHT);
    writeln!(
        out,
        "<h2>Changes in the last {} minutes</h2><svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"at most {most} changes a minute\">",
        minutes.len(),
        DIAGRAM,
    )?;
    // The last minute is at the right edge.
    let used = WIDTH * u32::try_from(minutes.len()).unwrap_or(MINUTES);
    let mut left = DIAGRAM.saturating_sub(used);
    for minute in minutes {
        let (spec, status) = (height(minute.spec), height(minute.status));
        let (bottom, width) = (f64::from(HEIGHT), WIDTH - 2);
        for (color, top, height) in [
            ("spec", bottom - spec, spec),
            ("status", bottom - spec - status, status),
        ] {
            write!(
                out,
                "<rect x=\"{left}\" y=\"{top:.1}\" width=\"{width}\" height=\"{height:.1}\" \
                 style=\"fill:var(--{color})\"/>"
            )?;
        }
        left += WIDTH;
    }
    let sum = |part: fn(&Minute) -> u32| minutes.iter().map(|minute| part(minute) as usize).sum();
    writeln!(
        out,
        "</svg><p class=\"dim\"><span style=\"color:var(--spec)\">■</span> {} changes of the spec, \
         <span style=\"color:var(--status)\">■</span> {} of the status, {} passes with a problem; at most {} a \
         minute</p>",
        grouped(sum(|minute| minute.spec)),
        grouped(sum(|minute| minute.status)),
        grouped(sum(|minute| minute.problems)),
        grouped(most as usize),
    )
}

fn kinds(out: &mut String, overview: &Overview) -> fmt::Result {
    writeln!(
        out,
        "<h2>Kinds</h2><div class=\"wide\"><table><tr><th>name</th><th>kind</th><th class=\"n\">objects</th>\
         <th class=\"n\">out of sync</th><th class=\"n\">left behind</th><th>problems</th></tr>"
    )?;
    for kind in &overview.kinds {
        let KindOverview {
            name,
            kind,
            objects,
            out_of_sync,
            left_behind,
            problems,
            ..
        } = kind;
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"w bad\">{}</td></tr>",
            Text(name),
            Text(kind),
            grouped(*objects),
            grouped(*out_of_sync),
            grouped(*left_behind),
            Text(&problems.join("; ")),
        )?;
    }
    writeln!(out, "</table></div>")
}

fn tenants(out: &mut String, overview: &Overview) -> fmt::Result {
    let word = Text(&overview.tenant_word);
    writeln!(
        out,
        "<h2>{} {word}s</h2><div class=\"wide\"><table><tr><th>{word}</th><th class=\"n\">objects</th>\
         <th class=\"n\">out of sync</th></tr>",
        grouped(overview.tenant_count),
    )?;
    for tenant in &overview.tenants {
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Text(&tenant.name),
            grouped(tenant.objects),
            grouped(tenant.out_of_sync),
        )?;
    }
    writeln!(out, "</table></div>")?;
    let more = overview.tenant_count - overview.tenants.len().min(overview.tenant_count);
    if more > 0 {
        writeln!(
            out,
            "<p class=\"dim\">{} more are not listed here</p>",
            grouped(more)
        )?;
    }
    Ok(())
}

fn caches(out: &mut String, overview: &Overview) -> fmt::Result {
    writeln!(
        out,
        "<h2>Caches</h2><div class=\"wide\"><table><tr><th>side</th><th>kind</th><th class=\"n\">objects</th>\
         <th class=\"n\">KiB</th><th>last event</th></tr>"
    )?;
    for cache in &overview.caches {
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{} ago</td></tr>",
            Text(&cache.side),
            Text(&cache.kind),
            grouped(cache.objects),
            grouped(cache.bytes.div_ceil(1024)),
            span(cache.silent_seconds),
        )?;
    }
    writeln!(out, "</table></div>")
}
