//! The log of all requests, for tests and benchmarks.
//!
//! Bounded: the oldest entries are dropped first. Entries contain no bodies, so no secret values.

use std::collections::VecDeque;
use std::io::Write;

use parking_lot::Mutex;
use serde::Serialize;

use super::request_info::RequestInfo;

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedRequest {
    /// Counts up from 1 over the life of the playground.
    pub number: u64,
    pub verb: String,
    pub cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub export: String,
    pub group: String,
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The HTTP status; 0 if a fault closed the connection before an answer.
    pub code: u16,
    pub user: String,
    pub user_agent: String,
    /// The query, as it was sent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub query: String,
}

/// The log. Writing is cheap; reading copies the matching entries.
pub struct RequestLog {
    inner: Mutex<LogState>,
}

struct LogState {
    entries: VecDeque<LoggedRequest>,
    last: u64,
    capacity: usize,
    sink: Option<Box<dyn Write + Send>>,
}

impl RequestLog {
    pub(crate) fn new(capacity: usize, sink: Option<Box<dyn Write + Send>>) -> Self {
        Self {
            inner: Mutex::new(LogState {
                entries: VecDeque::new(),
                last: 0,
                capacity,
                sink,
            }),
        }
    }

    pub(crate) fn push(
        &self,
        info: &RequestInfo,
        query: Option<&str>,
        code: u16,
        user: &str,
        user_agent: &str,
    ) {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let entry = LoggedRequest {
            number: inner.last,
            verb: info.verb.clone(),
            cluster: info.cluster.clone(),
            export: info.export.clone(),
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            code,
            user: user.to_owned(),
            user_agent: user_agent.to_owned(),
            query: query.unwrap_or_default().to_owned(),
        };
        if let Some(sink) = inner.sink.as_mut() {
            // A full disk must not stop the control plane: the log ends, and serving continues.
            let written = serde_json::to_writer(&mut *sink, &entry)
                .map_err(std::io::Error::from)
                .and_then(|()| sink.write_all(b"\n"));
            if let Err(error) = written {
                tracing::warn!(%error, "the request log file cannot be written, it ends here");
                inner.sink = None;
            }
        }
        if inner.entries.len() == inner.capacity {
            inner.entries.pop_front();
        }
        inner.entries.push_back(entry);
    }

    /// The number of the newest entry, for [`Self::since`].
    pub fn mark(&self) -> u64 {
        self.inner.lock().last
    }

    /// The retained entries after a number, oldest first.
    pub fn since(&self, mark: u64) -> Vec<LoggedRequest> {
        let inner = self.inner.lock();
        let skip = inner.entries.partition_point(|entry| entry.number <= mark);
        inner.entries.range(skip..).cloned().collect()
    }

    /// The number of retained entries after a number that a predicate accepts.
    pub fn count_since(&self, mark: u64, accept: impl Fn(&LoggedRequest) -> bool) -> usize {
        let inner = self.inner.lock();
        let skip = inner.entries.partition_point(|entry| entry.number <= mark);
        inner.entries.range(skip..).filter(|e| accept(e)).count()
    }

    pub(crate) fn flush(&self) {
        if let Some(sink) = self.inner.lock().sink.as_mut()
            && let Err(error) = sink.flush()
        {
            tracing::warn!(%error, "the end of the request log file is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(resource: &str) -> RequestInfo {
        RequestInfo {
            verb: "create".to_owned(),
            resource: resource.to_owned(),
            ..RequestInfo::default()
        }
    }

    #[test]
    fn what_came_after_a_mark_is_counted_and_the_oldest_entries_go_first() {
        let log = RequestLog::new(2, None);
        log.push(&info("a"), None, 201, "me", "test");
        let mark = log.mark();
        log.push(&info("b"), None, 201, "me", "test");
        log.push(&info("c"), None, 409, "me", "test");
        let resources = |mark| {
            log.since(mark)
                .into_iter()
                .map(|e| e.resource)
                .collect::<Vec<_>>()
        };
        assert_eq!(resources(mark), ["b", "c"]);
        assert_eq!(resources(0), ["b", "c"], "the first one made room");
        assert_eq!(log.count_since(mark, |e| e.code == 409), 1);
    }
}
