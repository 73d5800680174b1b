//! Faults on demand: the requests that a rule matches, and the effect on them.
//!
//! Off by default. The first rule that strikes decides. Random numbers come from a generator with a fixed seed, so that
//! a run can be repeated. This file only decides; the server applies the fault.

use std::str::FromStr;
use std::time::Duration;

use kube_lang::go_text;
use parking_lot::Mutex;
use serde_json::Value;

use super::request_info::RequestInfo;

/// The requests that a rule matches. An empty field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    pub verb: Option<String>,
    pub cluster: Option<String>,
    pub group: Option<String>,
    pub resource: Option<String>,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// A part of the user agent.
    pub agent: Option<String>,
}

/// Whether a fault strikes before the request is executed, or after it took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// The effect on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request is delayed.
    Latency(Duration),
    /// The answer is this status; 409, 410, 429, 500, 503, 504 have the usual body.
    Status { code: u16, when: When },
    /// The connection is closed without an answer.
    Reset(When),
    /// A watch ends after this time without an error.
    CutWatch(Duration),
    /// The events of a watch arrive this much later.
    DelayWatch(Duration),
    /// A watch ends after this time with an error in its stream, as kcp's watches do when an export changes.
    FailWatch(Duration),
    /// A watch falls silent after this time: it stays open, but sends no event and no bookmark.
    StallWatch(Duration),
    /// A list is answered with the state of this number of revisions ago.
    StaleList(u64),
    /// The document of the request is changed by this merge patch, as by a mutating webhook.
    Mutate(Value),
}

/// Whether this is a verb of requests for resources, or a method of others (discovery, probes).
fn is_verb(verb: &str) -> bool {
    const VERBS: [&str; 12] = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "head",
        "options",
        "post",
        "put",
    ];
    VERBS.contains(&verb)
}

/// A fault: the requests that it matches, how often it strikes, and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub matcher: Matcher,
    /// The probability that a matching request is struck, from 0 to 1.
    pub rate: f64,
    /// The number of matching requests before the first one that is struck.
    pub skip: u64,
    /// The maximum number of struck requests.
    pub times: Option<u64>,
    pub action: Action,
}

impl Fault {
    /// A fault that always strikes.
    pub fn new(matcher: Matcher, action: Action) -> Self {
        Self {
            matcher,
            rate: 1.0,
            skip: 0,
            times: None,
            action,
        }
    }

    /// A fault that strikes only the first time.
    #[must_use]
    pub fn once(self) -> Self {
        Self {
            times: Some(1),
            ..self
        }
    }
}

/// The active faults. Tests add and remove them while the playground runs.
pub struct Faults {
    inner: Mutex<Inner>,
}

struct Inner {
    rules: Vec<Rule>,
    random: u64,
}

struct Rule {
    fault: Fault,
    seen: u64,
    struck: u64,
}

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>, seed: u64) -> Self {
        let this = Self {
            inner: Mutex::new(Inner {
                rules: Vec::new(),
                // The generator below never produces zero.
                random: seed | 1,
            }),
        };
        for fault in faults {
            this.add(fault);
        }
        this
    }

    pub fn add(&self, fault: Fault) {
        self.inner.lock().rules.push(Rule {
            fault,
            seen: 0,
            struck: 0,
        });
    }

    pub fn clear(&self) {
        self.inner.lock().rules.clear();
    }

    /// The number of struck requests of each active fault, in order.
    pub fn struck(&self) -> Vec<u64> {
        self.inner.lock().rules.iter().map(|r| r.struck).collect()
    }

    pub(crate) fn strike(&self, info: &RequestInfo, user_agent: &str) -> Option<Action> {
        let mut inner = self.inner.lock();
        let Inner { rules, random } = &mut *inner;
        for rule in rules.iter_mut() {
            if !rule.fault.matcher.matches(info, user_agent)
                || !rule.fault.action.concerns(&info.verb)
            {
                continue;
            }
            rule.seen += 1;
            if rule.seen <= rule.fault.skip
                || rule.fault.times.is_some_and(|times| rule.struck >= times)
                || next_unit(random) >= rule.fault.rate
            {
                continue;
            }
            rule.struck += 1;
            return Some(rule.fault.action.clone());
        }
        None
    }
}

impl Action {
    /// Actions on watches and lists do not affect other requests.
    fn concerns(&self, verb: &str) -> bool {
        self.only_verb().is_none_or(|only| only == verb)
    }

    /// The verb of an action that affects only one verb.
    fn only_verb(&self) -> Option<&'static str> {
        match self {
            Self::CutWatch(_) | Self::FailWatch(_) | Self::DelayWatch(_) | Self::StallWatch(_) => {
                Some("watch")
            }
            Self::StaleList(_) => Some("list"),
            Self::Latency(_) | Self::Status { .. } | Self::Reset(_) | Self::Mutate(_) => None,
        }
    }
}

impl Matcher {
    fn matches(&self, info: &RequestInfo, user_agent: &str) -> bool {
        let equal = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        equal(&self.verb, &info.verb)
            && equal(&self.cluster, &info.cluster)
            && equal(&self.group, &info.group)
            && equal(&self.resource, &info.resource)
            && equal(&self.subresource, &info.subresource)
            && equal(&self.namespace, &info.namespace)
            && equal(&self.name, &info.name)
            && self
                .agent
                .as_deref()
                .is_none_or(|agent| user_agent.contains(agent))
    }
}

/// A number in [0, 1) from xorshift64*; this suffices as randomness.
fn next_unit(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / (f64::from(u32::MAX) + 1.0)
}

/// The error in the text of a fault.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "fault {text:?}: {problem}; expected words such as verb=create resource=secrets rate=0.1 \
     skip=3 times=1 when=after and one of latency=200ms status=503 reset cut=2s fail=2s delay=1s stall=5s stale=10"
)]
pub struct FaultError {
    text: String,
    problem: String,
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Parses the format of the `--fault` flag: words separated by white space or commas.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let error = |problem: String| FaultError {
            text: text.to_owned(),
            problem,
        };
        let mut matcher = Matcher::default();
        let (mut rate, mut skip, mut times, mut when) = (1.0, 0, None, When::Before);
        let mut action = None;
        for word in text.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let bad = |what: &str| error(format!("{word:?} is not {what}"));
            let duration = || parse_duration(value).ok_or_else(|| bad("a duration such as 200ms"));
            let number = || value.parse::<u64>().map_err(|_| bad("a whole number"));
            let some = Some(value.to_owned());
            let mut act = None;
            match key {
                "verb" if !is_verb(value) => {
                    return Err(bad(
                        "a verb: get, list, watch, create, update, patch, delete or deletecollection",
                    ));
                }
                "verb" => matcher.verb = some,
                "cluster" => matcher.cluster = some,
                "group" => matcher.group = some,
                "resource" => matcher.resource = some,
                "subresource" => matcher.subresource = some,
                "namespace" => matcher.namespace = some,
                "name" => matcher.name = some,
                "agent" => matcher.agent = some,
                "rate" => {
                    rate = value
                        .parse()
                        .ok()
                        .filter(|rate| (0.0..=1.0).contains(rate))
                        .ok_or_else(|| bad("a share from 0 to 1"))?;
                }
                "skip" => skip = number()?,
                "times" => times = Some(number()?),
                "when" => {
                    when = match value {
                        "before" => When::Before,
                        "after" => When::After,
                        _ => return Err(bad("before or after")),
                    }
                }
                "latency" => act = Some(Action::Latency(duration()?)),
                "status" => {
                    let code = value
                        .parse()
                        .ok()
                        .filter(|code| (400..600).contains(code))
                        .ok_or_else(|| bad("a status from 400 to 599"))?;
                    act = Some(Action::Status {
                        code,
                        when: When::Before,
                    });
                }
                "reset" => act = Some(Action::Reset(When::Before)),
                "cut" => act = Some(Action::CutWatch(duration()?)),
                "fail" => act = Some(Action::FailWatch(duration()?)),
                "delay" => act = Some(Action::DelayWatch(duration()?)),
                "stall" => act = Some(Action::StallWatch(duration()?)),
                "stale" => act = Some(Action::StaleList(number()?)),
                _ => return Err(error(format!("{key:?} is not known"))),
            }
            if let Some(act) = act
                && action.replace(act).is_some()
            {
                return Err(error("more than one thing to do".to_owned()));
            }
        }
        let action = match action {
            None => return Err(error("nothing to do".to_owned())),
            Some(Action::Status { code, .. }) => Action::Status { code, when },
            Some(Action::Reset(_)) => Action::Reset(when),
            Some(action) => action,
        };
        if let (Some(only), Some(verb)) = (action.only_verb(), &matcher.verb)
            && verb != only
        {
            return Err(error(format!(
                "what it does can happen with verb={only} only, never with verb={verb}"
            )));
        }
        Ok(Self {
            matcher,
            rate,
            skip,
            times,
            action,
        })
    }
}

/// A duration in the format of faults, such as `300ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("{text:?} is no duration, such as 300ms"))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let nanos = u64::try_from(go_text::parse_duration(text)?).ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str) -> RequestInfo {
        RequestInfo {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            ..RequestInfo::default()
        }
    }

    #[test]
    fn the_flag_says_what_is_struck_how_often_and_how() {
        let fault: Fault =
            "verb=create resource=secrets rate=0.5,skip=2 times=1 status=503 when=after"
                .parse()
                .unwrap();
        assert_eq!(
            fault.action,
            Action::Status {
                code: 503,
                when: When::After
            }
        );
        assert_eq!((fault.skip, fault.times), (2, Some(1)));
        assert_eq!(fault.matcher.resource.as_deref(), Some("secrets"));
        let fault: Fault = "stall=1m".parse().unwrap();
        assert_eq!(fault.action, Action::StallWatch(Duration::from_mins(1)));
    }

    #[test]
    fn a_fault_that_cannot_be_read_says_which_word_and_what_is_expected() {
        let problem = |text: &str| Fault::from_str(text).unwrap_err().problem;
        assert_eq!(problem("verb=get"), "nothing to do");
        assert_eq!(problem("colour=red reset"), "\"colour\" is not known");
        assert_eq!(problem("reset cut=1s"), "more than one thing to do");
        assert_eq!(
            problem("latency=soon"),
            "\"latency=soon\" is not a duration such as 200ms"
        );
        assert_eq!(
            problem("status=200"),
            "\"status=200\" is not a status from 400 to 599"
        );
        assert_eq!(
            problem("rate=7 reset"),
            "\"rate=7\" is not a share from 0 to 1"
        );
        assert_eq!(
            problem("verb=craete reset"),
            "\"verb=craete\" is not a verb: get, list, watch, create, update, patch, delete or deletecollection"
        );
        assert_eq!(
            problem("stall=5s verb=get"),
            "what it does can happen with verb=watch only, never with verb=get"
        );
        assert_eq!(
            problem("verb=watch stale=3"),
            "what it does can happen with verb=list only, never with verb=watch"
        );
    }

    #[test]
    fn a_fault_passes_what_it_does_not_match_and_stops_after_its_times() {
        let faults = Faults::new(
            vec!["resource=secrets skip=1 times=2 reset".parse().unwrap()],
            1,
        );
        let strike = |resource| {
            faults
                .strike(&request("create", resource), "agent")
                .is_some()
        };
        assert!(!strike("configmaps"));
        let struck: Vec<bool> = (0..5).map(|_| strike("secrets")).collect();
        assert_eq!(struck, [false, true, true, false, false]);
        assert_eq!(faults.struck(), [2]);
        faults.clear();
        assert!(!strike("secrets"));
    }

    #[test]
    fn faults_of_watches_leave_other_requests_alone() {
        let faults = Faults::new(vec!["cut=1s".parse().unwrap()], 1);
        assert_eq!(faults.strike(&request("list", "secrets"), ""), None);
        assert!(faults.strike(&request("watch", "secrets"), "").is_some());
    }

    #[test]
    fn a_rate_strikes_about_that_share_and_the_same_ones_for_the_same_seed() {
        let run = |seed| {
            let faults = Faults::new(vec!["rate=0.1 status=500".parse().unwrap()], seed);
            (0..10_000)
                .map(|_| faults.strike(&request("get", "secrets"), "").is_some())
                .collect::<Vec<_>>()
        };
        let struck = run(7);
        let share = struck.iter().filter(|s| **s).count();
        assert!((800..1200).contains(&share), "{share}");
        assert_eq!(struck, run(7));
        assert_ne!(struck, run(8));
    }
}
