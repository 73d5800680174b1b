//! Whose call is sent next, and who was asked for a pause. Pure; time is what the caller says it is.
//!
//! Tenants take turns. One of them has a share of the calls under way, and all whose calls go
//! unanswered have a share together, so that any number of them leaves room for the others. Calls of
//! nobody in particular stand in the same line and are limited by the whole only.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A call that is under way for longer makes its tenant slow,
const SLOW: Duration = Duration::from_secs(2);
/// for so long after it was seen under way last.
const REMEMBERED: Duration = Duration::from_mins(1);
/// So many tenants are kept without looking for what can be forgotten.
const FEW: usize = 64;

/// None for calls of nobody in particular.
pub(super) type Tenant = Option<Arc<str>>;

/// Calls that wait or are under way at one server. `W` is told when a turn has come.
pub(super) struct Line<W> {
    most: usize,
    of_tenant: usize,
    of_slow: usize,
    next: u64,
    /// By number, with the time at which each was let go.
    under_way: HashMap<u64, (Tenant, Duration)>,
    tenants: HashMap<Tenant, State<W>>,
    /// Who has calls that wait; the first one's turn is next.
    round: VecDeque<Tenant>,
    held_until: Duration,
    /// More tenants than this are looked through for those that can be forgotten.
    many: usize,
}

struct State<W> {
    waiting: VecDeque<(u64, W)>,
    under_way: usize,
    slow_until: Duration,
    held_until: Duration,
}

impl<W> Default for State<W> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: 0,
            slow_until: Duration::ZERO,
            held_until: Duration::ZERO,
        }
    }
}

impl<W> State<W> {
    fn is_needed(&self, now: Duration) -> bool {
        let busy = self.under_way > 0 || !self.waiting.is_empty();
        busy || self.slow_until.max(self.held_until) > now
    }
}

impl<W> Line<W> {
    /// Of so many calls under way a tenant has a quarter, and all slow ones together half.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        Self {
            most,
            of_tenant: (most / 4).max(1),
            of_slow: (most / 2).max(1),
            next: 0,
            under_way: HashMap::new(),
            tenants: HashMap::new(),
            round: VecDeque::new(),
            held_until: Duration::ZERO,
            many: FEW,
        }
    }

    /// Puts a call at the end of its tenant's line; its number.
    pub(super) fn enter(&mut self, tenant: &Tenant, waiter: W, now: Duration) -> u64 {
        let number = self.next;
        self.next += 1;
        let state = self.state(tenant, now);
        state.waiting.push_back((number, waiter));
        if state.waiting.len() == 1 {
            self.round.push_back(tenant.clone());
        }
        number
    }

    /// Takes out a call, whether it waits or is under way.
    pub(super) fn leave(&mut self, tenant: &Tenant, number: u64, now: Duration) {
        self.notice(now);
        let was_under_way = self.under_way.remove(&number).is_some();
        let state = self.state(tenant, now);
        if was_under_way {
            state.under_way -= 1;
            return;
        }
        let before = state.waiting.len();
        state.waiting.retain(|(waiting, _)| *waiting != number);
        if before > 0 && state.waiting.is_empty() {
            self.round.retain(|one| one != tenant);
        }
    }

    /// Lets every call go whose turn has come.
    pub(super) fn admit(&mut self, now: Duration) -> Vec<W> {
        self.notice(now);
        let mut slow = self.slow_under_way(now);
        let mut admitted = Vec::new();
        while self.under_way.len() < self.most {
            let may = |tenant: &Tenant| self.may_send(tenant, slow, now);
            let Some(place) = self.round.iter().position(may) else {
                break;
            };
            let Some(tenant) = self.round.remove(place) else {
                break;
            };
            let state = self.tenants.entry(tenant.clone()).or_default();
            let Some((number, waiter)) = state.waiting.pop_front() else {
                continue;
            };
            state.under_way += 1;
            slow += usize::from(tenant.is_some() && state.slow_until > now);
            if !state.waiting.is_empty() {
                self.round.push_back(tenant.clone());
            }
            self.under_way.insert(number, (tenant, now));
            admitted.push(waiter);
        }
        admitted
    }

    /// A server as a whole asked to be left alone until then.
    pub(super) fn hold(&mut self, until: Duration) {
        self.held_until = self.held_until.max(until);
    }

    /// The same for calls of one tenant.
    pub(super) fn hold_tenant(&mut self, tenant: &Tenant, until: Duration, now: Duration) {
        let state = self.state(tenant, now);
        state.held_until = state.held_until.max(until);
    }

    /// How long calls of a tenant are to wait by the word of the server.
    pub(super) fn held_for(&self, tenant: &Tenant, now: Duration) -> Option<Duration> {
        let own = self.tenants.get(tenant).map(|state| state.held_until);
        let until = self.held_until.max(own.unwrap_or_default());
        (until > now).then(|| until.saturating_sub(now))
    }

    fn may_send(&self, tenant: &Tenant, slow: usize, now: Duration) -> bool {
        let Some(state) = self.tenants.get(tenant) else {
            return false;
        };
        tenant.is_none()
            || state.under_way < self.of_tenant && (state.slow_until <= now || slow < self.of_slow)
    }

    /// How many calls of slow tenants are under way.
    fn slow_under_way(&self, now: Duration) -> usize {
        let of_slow = |(tenant, _): &&(Tenant, Duration)| {
            let state = self.tenants.get(tenant);
            tenant.is_some() && state.is_some_and(|state| state.slow_until > now)
        };
        self.under_way.values().filter(of_slow).count()
    }

    /// Takes note of whose calls have gone unanswered for long.
    fn notice(&mut self, now: Duration) {
        for (tenant, since) in self.under_way.values() {
            if now.saturating_sub(*since) >= SLOW
                && let Some(state) = self.tenants.get_mut(tenant)
            {
                state.slow_until = now + REMEMBERED;
            }
        }
    }

    fn state(&mut self, tenant: &Tenant, now: Duration) -> &mut State<W> {
        if self.tenants.len() > self.many {
            self.tenants.retain(|_, state| state.is_needed(now));
            self.many = FEW.max(self.tenants.len() * 2);
        }
        self.tenants.entry(tenant.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Each waiter is a name; the line tells who goes.
    struct Model {
        line: Line<String>,
        numbers: HashMap<String, (Tenant, u64)>,
    }

    impl Model {
        fn new(most: usize) -> Self {
            Self {
                line: Line::new(most),
                numbers: HashMap::new(),
            }
        }

        /// So many calls of a tenant, named `a0`, `a1` and so on; who goes.
        fn enter(&mut self, tenant: &str, calls: usize, now: Duration) -> Vec<String> {
            for _ in 0..calls {
                let name = format!("{tenant}{}", self.numbers.len());
                let tenant = (!tenant.is_empty()).then(|| tenant.into());
                let number = self.line.enter(&tenant, name.clone(), now);
                self.numbers.insert(name, (tenant, number));
            }
            self.line.admit(now)
        }

        fn end(&mut self, name: &str, now: Duration) -> Vec<String> {
            let (tenant, number) = &self.numbers[name];
            self.line.leave(tenant, *number, now);
            self.line.admit(now)
        }
    }

    #[test]
    fn a_tenant_has_a_quarter_of_the_calls_and_the_rest_is_for_the_others() {
        let mut model = Model::new(16);
        assert_eq!(model.enter("a", 40, at(0)).len(), 4);
        assert_eq!(model.enter("b", 1, at(0)).len(), 1);
        assert_eq!(model.enter("c", 40, at(0)).len(), 4);
        assert_eq!(model.enter("d", 40, at(0)).len(), 4);
        // Three are left, and nobody in particular has no share.
        assert_eq!(model.enter("", 40, at(0)).len(), 3);
        assert_eq!(model.end("a0", at(1)).len(), 1);
    }

    #[test]
    fn tenants_take_turns_however_much_one_of_them_wants() {
        let mut model = Model::new(1);
        assert_eq!(model.enter("", 1, at(0)), ["0"]);
        assert!(model.enter("a", 10, at(0)).is_empty());
        assert!(model.enter("b", 2, at(0)).is_empty());
        let mut order = String::new();
        let mut last = "0".to_owned();
        while let Some(next) = model.end(&last, at(0)).pop() {
            order.push_str(&next[..1]);
            last = next;
        }
        assert_eq!(order, "ababaaaaaaaa");
    }

    #[test]
    fn any_number_of_slow_tenants_leaves_half_of_the_calls_to_the_others() {
        let mut model = Model::new(16);
        for tenant in ["a", "b", "c", "d"] {
            assert_eq!(model.enter(tenant, 4, at(0)).len(), 4);
        }
        assert!(model.enter("z", 1, at(1)).is_empty());
        // They turn out to be slow: as soon as one answer comes the others have their turn.
        assert!(model.enter("a", 10, at(3)).is_empty());
        assert_eq!(model.end("a0", at(3)), ["z16"]);
        assert!(model.end("z16", at(3)).is_empty());
        for number in 1..8 {
            let tenant = if number < 4 { "a" } else { "b" };
            assert!(model.end(&format!("{tenant}{number}"), at(4)).is_empty());
        }
        // Half of the calls are of slow ones now, and the others are free.
        assert_eq!(model.enter("y", 20, at(5)).len(), 4);
        assert_eq!(model.end("c8", at(5)), ["a17"]);
    }

    #[test]
    fn a_tenant_is_slow_for_a_minute_after_its_last_slow_call() {
        let mut model = Model::new(4);
        for tenant in ["a", "b", "c"] {
            assert_eq!(model.enter(tenant, 1, at(0)).len(), 1);
        }
        for name in ["a0", "b1", "c2"] {
            assert!(model.end(name, at(5)).is_empty());
        }
        assert_eq!(model.enter("a", 1, at(64)), ["a3"]);
        assert_eq!(model.enter("b", 1, at(64)), ["b4"]);
        assert!(model.enter("c", 1, at(64)).is_empty());
        assert_eq!(model.enter("d", 1, at(65)), ["c5", "d6"]);
    }

    #[test]
    fn who_gives_up_waiting_leaves_no_trace() {
        let mut model = Model::new(1);
        assert_eq!(model.enter("a", 2, at(0)), ["a0"]);
        assert!(model.enter("b", 1, at(0)).is_empty());
        assert!(model.end("a1", at(0)).is_empty());
        assert_eq!(model.end("a0", at(0)), ["b2"]);
        assert!(model.end("b2", at(0)).is_empty());
        assert!(model.line.under_way.is_empty() && model.line.round.is_empty());
    }

    #[test]
    fn a_pause_of_one_tenant_is_not_one_of_another() {
        let mut line = Line::<()>::new(4);
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| Some(name.into()));
        line.hold_tenant(&a, at(30), at(0));
        assert_eq!(line.held_for(&a, at(10)), Some(at(20)));
        assert_eq!(line.held_for(&b, at(10)), None);
        assert_eq!(line.held_for(&None, at(10)), None);
        line.hold(at(15));
        assert_eq!(line.held_for(&a, at(10)), Some(at(20)));
        assert_eq!(line.held_for(&b, at(10)), Some(at(5)));
        assert_eq!(line.held_for(&None, at(15)), None);
        assert_eq!(line.held_for(&a, at(30)), None);
    }

    #[test]
    fn tenants_of_whom_nothing_is_left_are_forgotten() {
        let mut line = Line::<()>::new(4);
        for number in 0..10_000_u64 {
            let tenant = Some(number.to_string().into());
            line.hold_tenant(&tenant, at(number + 10), at(number));
        }
        assert!(line.tenants.len() <= FEW + 1, "{}", line.tenants.len());
    }
}
