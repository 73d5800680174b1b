//! Trace context of the [W3C](https://www.w3.org/TR/trace-context/): requests of a pass continue the trace that its
//! object names. Hawser has no spans of its own, so it passes the context on unchanged, as the standard wants it.

use std::future::Future;

use http::HeaderValue;

use kube_lang::object::Object;

/// The annotation of an object and the header of a request that contain the context.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

/// The trace that a request belongs to, and the span that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext(Box<str>);

impl TraceContext {
    /// The context in the annotation of an object.
    pub fn of(object: &Object) -> Option<Self> {
        Self::parse(object.annotation(TRACEPARENT)?)
    }

    /// Parses version `00`, the only one there is. Anything else is not passed on: it is a consumer's word.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, length| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.len() == length && part.bytes().all(is_hex)
        };
        let is_id = |part: &str, length| hex(part, length) && part.bytes().any(|byte| byte != b'0');
        let parts: Vec<&str> = text.splitn(5, '-').collect();
        let ["00", trace, span, flags] = parts[..] else {
            return None;
        };
        (is_id(trace, 32) && is_id(span, 16) && hex(flags, 2)).then(|| Self(text.into()))
    }

    /// The id of the trace, for log lines.
    pub fn trace_id(&self) -> &str {
        self.0.split('-').nth(1).unwrap_or_default()
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

/// Sends the requests of this work with the context.
pub(crate) async fn within<T>(context: Option<TraceContext>, work: impl Future<Output = T>) -> T {
    CURRENT.scope(context, work).await
}

/// The context of the requests that are sent now.
pub(super) fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_passed_on_unchanged() {
        let context = TraceContext::parse(GIVEN).unwrap();
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.header().unwrap(), GIVEN);
    }

    #[test]
    fn anything_else_is_not() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zeros = "0".repeat(32);
        for text in [
            "",
            "00",
            &format!("00-{trace}-{span}"),
            &format!("00-{trace}-{span}-01-more"),
            &format!("01-{trace}-{span}-01"),
            &format!("00-{}-{span}-01", trace.to_uppercase()),
            &format!("00-{zeros}-{span}-01"),
            &format!("00-{trace}-{}-01", &zeros[..16]),
            &format!("00-{trace}-{span}-0\n"),
            &format!("00-{trace}-{span}-é"),
            &format!(" {GIVEN}"),
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text:?}");
        }
    }
}
