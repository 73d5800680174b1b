//! A process that is killed at each request about an object, before and after the request takes effect, and started again.
//! A read has no effect, so it is one boundary: the process ends without the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kcp_playground::Playground;
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use testbed::{SOON, eventually};

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);

/// Verb, resource and subresource of a request.
type Kind = [String; 3];

/// A request of a life, by its server and its number among those of its kind.
#[derive(Debug)]
struct Boundary {
    server: usize,
    kind: Kind,
    skip: u64,
    when: When,
}

/// The life of an object, which can be lived again and again with a process that is killed on the way.
pub(crate) trait Life {
    /// A part of the user agent of the process.
    const AGENT: &'static str;
    /// The names of the servers. Servers of one name are alike.
    const SERVERS: &'static [&'static str];

    /// How everything is to be at the end of a part of the life.
    type Wanted: ?Sized;

    fn servers(&self) -> Result<Vec<&Playground>>;
    /// Whether a request of the process belongs to the latest life. What goes on without it does not.
    fn owns(&self, request: &LoggedRequest) -> bool;
    async fn kill(&mut self) -> Result<()>;
    async fn start(&mut self) -> Result<()>;

    /// From nothing to nothing, for an object of a new name.
    async fn live(&mut self) -> Result<()>;
    async fn is_done(&self, wanted: &Self::Wanted) -> Result<()>;

    /// Waits until all is as wanted. Kills the process when it comes to its request.
    async fn until(&mut self, what: &str, wanted: &Self::Wanted) -> Result<()> {
        eventually(SOON, what, async || {
            if is_struck(self)? {
                return Ok(());
            }
            self.is_done(wanted).await
        })
        .await;
        if is_struck(self)? {
            restart(self).await?;
        }
        eventually(SOON, what, async || self.is_done(wanted).await).await;
        Ok(())
    }
}

fn is_struck<L: Life + ?Sized>(life: &L) -> Result<bool> {
    let servers = life.servers()?;
    let mut struck = servers.iter().flat_map(|server| server.faults().struck());
    Ok(struck.any(|times| times > 0))
}

async fn restart<L: Life + ?Sized>(life: &mut L) -> Result<()> {
    life.kill().await?;
    for server in life.servers()? {
        server.faults().clear();
    }
    life.start().await
}

/// Lives once unharmed, and then once for each request of that life, with the process killed there. Several lives share the
/// requests. Each kind of requests has to be met, and at least `wanted`, each as `create configmaps  of the member`.
pub(crate) async fn kill_at_each_request<L: Life>(lives: &mut [L], wanted: &[&str]) -> Result<()> {
    let first = lives.first_mut().context("a life")?;
    let marks = first.servers()?.into_iter();
    let marks: Vec<u64> = marks.map(|server| server.requests().mark()).collect();
    first.live().await?;
    let boundaries = boundaries(first, &marks)?;
    let named = |at: &Boundary| format!("{} of the {}", at.kind.join(" "), L::SERVERS[at.server]);
    let kind = |at: &Boundary| format!("{}, {:?}", named(at), at.when);
    let made: BTreeSet<String> = boundaries.iter().map(named).collect();
    let lacking = wanted.iter().filter(|kind| !made.contains(**kind));
    let lacking: Vec<_> = lacking.collect();
    ensure!(lacking.is_empty(), "{lacking:?} are not among {made:#?}");
    let count = lives.len();
    let all = lives.iter_mut().enumerate().map(async |(number, life)| {
        let mut met = Vec::new();
        for at in boundaries.iter().skip(number).step_by(count) {
            let lived = live_to(life, at).await;
            if lived.with_context(|| format!("killed at {at:?}"))? {
                met.push(kind(at));
            }
        }
        anyhow::Ok(met)
    });
    let met: BTreeSet<String> = try_join_all(all).await?.into_iter().flatten().collect();
    // Two writes of a status may be one in another life; no kind of requests is left out.
    let all: BTreeSet<String> = boundaries.iter().map(kind).collect();
    let missing: Vec<_> = all.difference(&met).collect();
    ensure!(missing.is_empty(), "not met: {missing:#?}");
    Ok(())
}

/// Lives with the process killed at a request. Whether it came to that request.
async fn live_to<L: Life>(life: &mut L, at: &Boundary) -> Result<bool> {
    let [verb, resource, subresource] = at.kind.clone().map(Some);
    let matcher = Matcher {
        verb,
        resource,
        subresource,
        agent: Some(L::AGENT.to_owned()),
        ..Matcher::default()
    };
    let action = match at.when {
        When::Before => Action::Latency(NEVER),
        When::After => Action::Reset(When::After),
    };
    let fault = Fault {
        skip: at.skip,
        ..Fault::new(matcher, action).once()
    };
    life.servers()?[at.server].faults().add(fault);
    // What a process knows is not asked for again: what is served, and what an open watch tells.
    if ["list", "watch"].contains(&&*at.kind[0]) || at.kind[1].is_empty() {
        life.kill().await?;
        life.start().await?;
    }
    life.live().await?;
    if is_struck(life)? {
        restart(life).await?;
    }
    let faults = life.servers()?[at.server].faults();
    let was_struck = faults.struck().is_empty();
    faults.clear();
    Ok(was_struck)
}

/// Where the process is to be killed, by the requests of the latest life.
fn boundaries<L: Life>(life: &L, marks: &[u64]) -> Result<Vec<Boundary>> {
    let mut boundaries = Vec::new();
    let mut known = BTreeSet::new();
    for (number, (server, mark)) in life.servers()?.iter().zip(marks).enumerate() {
        let mut numbers = BTreeMap::<_, u64>::new();
        for request in server.requests().since(*mark) {
            if !request.user_agent.contains(L::AGENT) || !life.owns(&request) {
                continue;
            }
            let kind = [request.verb, request.resource, request.subresource];
            let next = numbers.entry(kind.clone()).or_default();
            let skip = *next;
            *next += 1;
            if known.insert((L::SERVERS[number], kind.clone(), skip)) {
                let is_read = ["get", "list", "watch"].contains(&&*kind[0]);
                let whens = if is_read {
                    &[When::Before][..]
                } else {
                    &[When::Before, When::After]
                };
                boundaries.extend(whens.iter().map(|when| Boundary {
                    server: number,
                    kind: kind.clone(),
                    skip,
                    when: *when,
                }));
            }
        }
    }
    Ok(boundaries)
}
