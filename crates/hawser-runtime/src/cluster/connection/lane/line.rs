//! The order of calls to a server, and the pauses of its tenants. Pure; the caller passes the time.
//!
//! Tenants take turns. Each tenant has a share of the concurrent calls, and all tenants whose calls get no response
//! have a share together, so they always leave room for the others. The more calls are under way, the fewer of them one
//! tenant may have: never more than could still be sent. Calls without a tenant wait in the same line and are limited
//! by the total only.
//!
//! It is not known in advance which tenant will be slow. If all calls are active and a tenant waits that is not slow,
//! calls of slow tenants beyond their share are abandoned, the youngest first. So tenants that stop responding at the same time
//! keep half of the calls once that is noticed.
//!
//! A waiting call occupies a worker that other tenants need. So the number of waiting calls of slow tenants has the same
//! limit as their active calls.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A call that takes longer makes its tenant slow,
pub(super) const SLOW: Duration = Duration::from_secs(2);
/// for this time after the last such call.
const REMEMBERED: Duration = Duration::from_mins(1);
/// Up to this number, tenants are kept without looking for idle ones.
const FEW: usize = 64;

/// `None` for calls on behalf of no tenant.
pub(super) type Tenant = Option<Arc<str>>;

/// Calls that wait or are under way at one server. `W` is notified when the turn of a call has come.
pub(super) struct Line<W> {
    most: usize,
    of_tenant: usize,
    of_slow: usize,
    next: u64,
    /// By number, with the time at which each call was sent.
    under_way: HashMap<u64, (Tenant, Duration)>,
    /// The calls that are given up and have not ended yet.
    given_up: HashSet<u64>,
    tenants: HashMap<Tenant, TenantState<W>>,
    /// Tenants with waiting calls; the first one has the next turn.
    round: VecDeque<Tenant>,
    held_until: Duration,
    /// When the last call ended.
    ended: Duration,
    /// Above this number, idle tenants are looked for.
    many: usize,
}

struct TenantState<W> {
    waiting: VecDeque<(u64, W)>,
    under_way: usize,
    slow_until: Duration,
    held_until: Duration,
}

impl<W> Default for TenantState<W> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: 0,
            slow_until: Duration::ZERO,
            held_until: Duration::ZERO,
        }
    }
}

impl<W> TenantState<W> {
    fn is_needed(&self, now: Duration) -> bool {
        let busy = self.under_way > 0 || !self.waiting.is_empty();
        busy || self.slow_until.max(self.held_until) > now
    }
}

impl<W> Line<W> {
    /// Limits for this many concurrent calls: a quarter for a tenant, half for all slow ones together.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        Self {
            most,
            of_tenant: (most / 4).max(1),
            of_slow: (most / 2).max(1),
            next: 0,
            under_way: HashMap::new(),
            given_up: HashSet::new(),
            tenants: HashMap::new(),
            round: VecDeque::new(),
            held_until: Duration::ZERO,
            ended: Duration::ZERO,
            many: FEW,
        }
    }

    /// Adds a call to the line of its tenant; returns its number.
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

    /// Removes a call, whether it waits or is under way.
    pub(super) fn leave(&mut self, tenant: &Tenant, number: u64, now: Duration) {
        self.notice(now);
        let was_under_way = self.under_way.remove(&number).is_some();
        self.ended = now;
        self.given_up.remove(&number);
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

    /// Releases every call whose turn has come.
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

    /// The calls to give up now for waiting tenants that are not slow. Each call is returned once.
    pub(super) fn give_up(&mut self, now: Duration) -> Vec<u64> {
        if self.under_way.len() < self.most {
            return Vec::new();
        }
        self.notice(now);
        let is_free = |tenant: &&Tenant| {
            let state = self.tenants.get(tenant);
            state.is_some_and(|state| state.slow_until <= now && state.under_way < self.of_tenant)
        };
        let wanted = self.round.iter().filter(is_free).count();
        let beyond = self.slow_under_way(now).saturating_sub(self.of_slow);
        let number = wanted.min(beyond).saturating_sub(self.given_up.len());
        let hangs = self.under_way.iter().filter(|(number, (tenant, since))| {
            let is_long = now.saturating_sub(*since) >= SLOW;
            tenant.is_some() && is_long && !self.given_up.contains(number)
        });
        let mut hangs: Vec<_> = hangs
            .map(|(n, (_, since))| (Reverse(*since), Reverse(*n)))
            .collect();
        hangs.sort_unstable();
        let given_up: Vec<u64> = hangs.iter().take(number).map(|(_, n)| n.0).collect();
        self.given_up.extend(&given_up);
        given_up
    }

    /// Whether a tenant is slow, and more calls of slow tenants wait than may be under way.
    pub(super) fn is_crowded(&self, tenant: &Tenant, now: Duration) -> bool {
        let slow = |tenant: &Tenant| {
            let state = self.tenants.get(tenant)?;
            (tenant.is_some() && state.slow_until > now).then_some(state.waiting.len())
        };
        slow(tenant).is_some() && self.round.iter().filter_map(slow).sum::<usize>() > self.of_slow
    }

    /// Pauses the whole server until this time.
    pub(super) fn hold(&mut self, until: Duration) {
        self.held_until = self.held_until.max(until);
    }

    /// Pauses one tenant until this time.
    pub(super) fn hold_tenant(&mut self, tenant: &Tenant, until: Duration, now: Duration) {
        let state = self.state(tenant, now);
        state.held_until = state.held_until.max(until);
    }

    /// Since when no call has waited or been under way.
    pub(super) fn quiet_since(&self) -> Option<Duration> {
        let is_quiet = self.under_way.is_empty() && self.round.is_empty();
        is_quiet.then_some(self.ended)
    }

    /// The remaining pause for calls of a tenant.
    pub(super) fn held_for(&self, tenant: &Tenant, now: Duration) -> Option<Duration> {
        let own = self.tenants.get(tenant).map(|state| state.held_until);
        let until = self.held_until.max(own.unwrap_or_default());
        (until > now).then(|| until.saturating_sub(now))
    }

    fn may_send(&self, tenant: &Tenant, slow: usize, now: Duration) -> bool {
        let Some(state) = self.tenants.get(tenant) else {
            return false;
        };
        let left = self.most - self.under_way.len();
        tenant.is_none()
            || state.under_way < self.of_tenant.min(left)
                && (state.slow_until <= now || slow < self.of_slow)
    }

    /// The number of concurrent calls of slow tenants.
    fn slow_under_way(&self, now: Duration) -> usize {
        let of_slow = |(tenant, _): &&(Tenant, Duration)| {
            let state = self.tenants.get(tenant);
            tenant.is_some() && state.is_some_and(|state| state.slow_until > now)
        };
        self.under_way.values().filter(of_slow).count()
    }

    /// Notes the tenants whose calls have had no response for long.
    fn notice(&mut self, now: Duration) {
        for (tenant, since) in self.under_way.values() {
            if now.saturating_sub(*since) >= SLOW
                && let Some(state) = self.tenants.get_mut(tenant)
            {
                state.slow_until = now + REMEMBERED;
            }
        }
    }

    fn state(&mut self, tenant: &Tenant, now: Duration) -> &mut TenantState<W> {
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

    /// Each waiter is a name; returns the calls that are released.
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

        /// Adds this many calls of a tenant, named `a0`, `a1` and so on; returns the calls that are released.
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
        for tenant in ["a", "b", "c"] {
            assert_eq!(model.enter(tenant, 4, at(0)).len(), 4);
        }
        assert_eq!(model.enter("d", 4, at(0)).len(), 2);
        assert_eq!(model.enter("z", 1, at(1)), ["z16"]);
        assert!(model.end("z16", at(1)).is_empty());
        // They turn out to be slow: nobody follows them before more than half of them have ended.
        assert!(model.enter("a", 10, at(3)).is_empty());
        for name in ["a0", "a1", "a2", "a3", "b4", "b5"] {
            assert!(model.end(name, at(4)).is_empty());
        }
        // Half of the calls are of slow ones now, and the others are free.
        assert_eq!(model.enter("y", 20, at(5)).len(), 4);
        assert_eq!(model.end("c8", at(5)), ["d14"]);
    }

    #[test]
    fn tenants_that_begin_to_hang_at_once_are_given_up_for_those_that_wait() {
        for crowd in [7, 12, 20, 32, 100] {
            let mut model = Model::new(32);
            for number in 0..crowd {
                model.enter(&format!("t{number}-"), 32, at(0));
            }
            assert_eq!(model.line.under_way.len(), 32, "{crowd} others");
            assert!(model.enter("z", 1, at(0)).is_empty());
            assert!(model.line.give_up(at(1)).is_empty());
            // Seven have all calls. Half of these are for whoever waits, in turn, each time it is seen that
            // those who had them hang.
            let mut waves = 0;
            let mut admitted = Vec::new();
            while !admitted.iter().any(|name: &String| name.starts_with('z')) {
                waves += 1;
                let now = at(2 * waves);
                let mut given_up = model.line.give_up(now);
                assert!(model.line.give_up(now).is_empty(), "each is named once");
                while let Some(number) = given_up.pop() {
                    let ended = model.numbers.iter().find(|(_, (_, one))| *one == number);
                    let name = ended.map(|(name, _)| name.clone()).unwrap();
                    admitted.extend(model.end(&name, now));
                    given_up.extend(model.line.give_up(now));
                }
                assert!(model.line.slow_under_way(now) >= 16, "half is left to them");
            }
            assert_eq!(waves, (crowd - 7) / 16 + 1, "{crowd} others");
        }
    }

    #[test]
    fn a_server_that_is_slow_for_everybody_goes_on_with_half_of_the_calls() {
        let mut model = Model::new(8);
        for tenant in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            model.enter(tenant, 3, at(0));
        }
        assert_eq!(model.line.under_way.len(), 8);
        // Three have sent nothing yet; as soon as they are slow too, nobody is given up for anybody.
        let given_up = model.line.give_up(at(3));
        assert_eq!(given_up.len(), 3);
        for number in given_up {
            let ended = model.numbers.iter().find(|(_, (_, one))| *one == number);
            let name = ended.map(|(name, _)| name.clone()).unwrap();
            assert_eq!(model.end(&name, at(3)).len(), 1);
        }
        assert_eq!(model.line.under_way.len(), 8);
        assert!(model.line.give_up(at(6)).is_empty());
    }

    #[test]
    fn several_tenants_that_want_all_calls_leave_one_to_another() {
        for crowd in 3..=6 {
            let mut model = Model::new(32);
            for number in 0..crowd {
                model.enter(&format!("t{number}-"), 32, at(0));
            }
            assert_eq!(model.enter("z", 1, at(0)).len(), 1, "{crowd} others");
        }
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
