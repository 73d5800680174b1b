//! The last question before a write leaves the process. It is asked by the connection that the write goes by: until then,
//! the write may have waited for that connection to be opened, or the whole process may have stood still.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

/// Whether a write may leave.
#[derive(Clone)]
pub(super) struct Departure(Arc<DepartureState>);

struct DepartureState {
    guard: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    refusal: OnceLock<String>,
}

impl Departure {
    pub(super) fn new(guard: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(DepartureState {
            guard: Box::new(guard),
            refusal: OnceLock::new(),
        }))
    }

    pub(super) fn ask(&self) -> Result<(), String> {
        (self.0.guard)().inspect_err(|why| {
            let _ = self.0.refusal.set(why.clone());
        })
    }

    /// Why it did not leave.
    pub(super) fn refusal(&self) -> Option<&String> {
        self.0.refusal.get()
    }
}

/// A body that asks when the connection wants it. The connection holds back the head until then, and is closed by a
/// refusal.
pub(super) struct AskingBody {
    departure: Option<Departure>,
    body: Body,
}

/// The request with its [`Departure`], if it has one, in the body.
pub(super) fn asking(request: Request<Body>) -> Request<AskingBody> {
    let (mut parts, body) = request.into_parts();
    let departure = parts.extensions.remove();
    Request::from_parts(parts, AskingBody { departure, body })
}

impl HttpBody for AskingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(departure) = self.departure.take() {
            departure.ask()?;
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
