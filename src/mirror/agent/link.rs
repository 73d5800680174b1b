//! The state of the link to the cloud: nothing is sent without credentials, and requests over a link that is down only
//! cost time.

use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use hawser_runtime::cluster::connection::Observer;

/// The first and the longest pause after the cloud did not respond.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The results of the last calls.
#[derive(Debug)]
pub struct Link {
    state: Mutex<LinkState>,
    /// Whether there were credentials once.
    admitted: watch::Sender<bool>,
}

#[derive(Debug)]
struct LinkState {
    heard: Option<Instant>,
    /// The end of the pause, and the length of the next one.
    down: Option<Instant>,
    pause: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            state: Mutex::new(LinkState {
                heard: None,
                down: None,
                pause: PAUSES.0,
            }),
            admitted: watch::Sender::new(false),
        }
    }
}

impl Link {
    /// There are credentials now.
    pub fn admit(&self) {
        self.admitted.send_replace(true);
    }

    pub fn is_admitted(&self) -> bool {
        *self.admitted.borrow()
    }

    /// Waits until there are credentials.
    pub async fn admitted(&self) {
        let mut admitted = self.admitted.subscribe();
        // Its sender is here.
        let _ = admitted.wait_for(|admitted| *admitted).await;
    }

    /// The remaining pause; `None` if the link is up or may be tried.
    pub fn pause(&self) -> Option<Duration> {
        let until = self.state.lock().down?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Whether the last call got a response.
    pub fn is_up(&self) -> bool {
        let state = self.state.lock();
        state.heard.is_some() && state.down.is_none()
    }

    /// The time since the last response of the cloud.
    pub fn silence(&self) -> Option<Duration> {
        self.state.lock().heard.map(|heard| heard.elapsed())
    }

    fn told(&self, code: Option<u16>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if code.is_some() {
            state.heard = Some(now);
            state.down = None;
            state.pause = PAUSES.0;
        } else if state.down.is_none_or(|down| down <= now) {
            // Of many calls that fail together one counts.
            state.down = Some(now + state.pause);
            state.pause = (state.pause * 2).min(PAUSES.1);
        }
    }
}

impl Observer for Link {
    fn answered(&self, _: &Method, code: Option<u16>) {
        self.told(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_link_that_is_down_is_tried_ever_more_seldom_and_used_at_once_when_it_is_up() {
        let link = Link::default();
        assert!(!link.is_up());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            link.told(None);
            link.told(None);
            let pause = link.pause().unwrap();
            pauses.push(pause.as_millis());
            tokio::time::advance(pause).await;
            assert_eq!(link.pause(), None);
            assert!(!link.is_up());
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        link.told(None);
        link.told(Some(401));
        assert_eq!(link.pause(), None);
        assert!(link.is_up());
    }
}
