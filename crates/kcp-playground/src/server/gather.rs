//! Combines small writes to a connection into large ones.
//!
//! One change can be sent to a hundred watches over one connection. HTTP/2 flushes after each frame, and TLS turns each
//! flush into a record and a system call, on both sides. Here, a flush waits until the connection's task is idle: see
//! [`Gathered::run`].

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum size of buffered writes.
const FULL: usize = 64 * 1024;
/// The buffer that an idle connection keeps.
const KEPT: usize = 4 * 1024;

/// A stream with buffered writes.
pub(super) struct Gathered<S>(Arc<Mutex<Gathering<S>>>);

struct Gathering<S> {
    stream: S,
    waiting: Vec<u8>,
    /// The number of buffered bytes that are already written.
    handed_on: usize,
    failed: Option<io::ErrorKind>,
}

impl<S> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Gathering {
            stream,
            waiting: Vec::new(),
            handed_on: 0,
            failed: None,
        })))
    }

    /// Another handle of the stream: one is for the connection, one for running it.
    pub(super) fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Gathered<S> {
    /// Runs a connection over this stream. Its writes are flushed whenever it becomes idle.
    pub(super) fn run<'a, C>(&'a self, connection: Pin<&'a mut C>) -> Running<'a, C, S> {
        Running {
            connection,
            stream: self,
        }
    }
}

/// A running connection.
pub(super) struct Running<'a, C, S> {
    connection: Pin<&'a mut C>,
    stream: &'a Gathered<S>,
}

impl<C: Future, S: AsyncWrite + Unpin> Future for Running<'_, C, S> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let ended = self.connection.as_mut().poll(cx);
        let mut gathering = self.stream.0.lock();
        if let Poll::Ready(Err(error)) = gathering.hand_on(cx) {
            gathering.failed = Some(error.kind());
            // The connection gets this error at its next read or write.
            cx.waker().wake_by_ref();
        }
        ended
    }
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    fn hand_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_empty() || self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        while self.handed_on < self.waiting.len() {
            let rest = &self.waiting[self.handed_on..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.handed_on += written;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.handed_on = 0;
        self.waiting.clear();
        self.waiting.shrink_to(KEPT);
        Poll::Ready(Ok(()))
    }

    /// The space for more data; pending while the buffer is full and the peer does not read.
    fn room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Some(failed) = self.failed {
            return Poll::Ready(Err(failed.into()));
        }
        if self.waiting.len() >= FULL {
            ready!(self.hand_on(cx))?;
        }
        Poll::Ready(Ok(FULL - self.waiting.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut gathering = self.0.lock();
        if let Some(failed) = gathering.failed {
            return Poll::Ready(Err(failed.into()));
        }
        Pin::new(&mut gathering.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        text: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(text)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        texts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathering = self.0.lock();
        let room = ready!(gathering.room(cx))?;
        let mut left = room;
        for text in texts {
            let taken = &text[..text.len().min(left)];
            gathering.waiting.extend_from_slice(taken);
            left -= taken.len();
        }
        Poll::Ready(Ok(room - left))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let failed = self.0.lock().failed;
        Poll::Ready(failed.map_or(Ok(()), |failed| Err(failed.into())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = self.0.lock();
        ready!(gathering.hand_on(cx))?;
        Pin::new(&mut gathering.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::sync::mpsc;

    use super::*;

    /// A stream that counts its writes.
    struct Counted {
        stream: DuplexStream,
        writes: Arc<Mutex<usize>>,
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            text: &[u8],
        ) -> Poll<io::Result<usize>> {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, text))?;
            *self.writes.lock() += 1;
            Poll::Ready(Ok(written))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    #[tokio::test]
    async fn what_many_write_at_once_goes_out_at_once() {
        let (stream, mut client) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(Mutex::new(0));
        let counted = Counted {
            stream,
            writes: Arc::clone(&writes),
        };
        let gathered = Gathered::new(counted);
        let mut stream = gathered.share();
        let (sender, mut frames) = mpsc::unbounded_channel::<&'static [u8]>();
        let connection = async move {
            while let Some(frame) = frames.recv().await {
                stream.write_all(frame).await.unwrap();
                stream.flush().await.unwrap();
            }
        };
        let running = tokio::spawn(async move { gathered.run(pin!(connection)).await });
        let mut read = [0; 300];
        for round in 1..=3 {
            for _ in 0..100 {
                let sender = sender.clone();
                tokio::spawn(async move { sender.send(b"abc").unwrap() });
            }
            // It arrives without any other activity on the connection.
            client.read_exact(&mut read).await.unwrap();
            assert_eq!(read, *b"abc".repeat(100));
            assert_eq!(*writes.lock(), round);
        }
        drop(sender);
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_holds_up_who_writes() {
        let (stream, mut client) = tokio::io::duplex(1000);
        let gathered = Gathered::new(stream);
        let mut stream = gathered.share();
        let text: Vec<u8> = (0..=250).cycle().take(FULL * 3).collect();
        let expected = text.clone();
        let connection = async move {
            stream.write_all(&text).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let mut running = tokio::spawn(async move { gathered.run(pin!(connection)).await });
        let held_up = tokio::time::timeout(Duration::from_mins(1), &mut running).await;
        assert!(held_up.is_err());
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, expected);
        running.await.unwrap();
    }

    /// A peer that neither sends nor reads.
    struct Broken;

    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Broken {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_connection_that_reads_is_told_that_writing_has_failed() {
        let gathered = Gathered::new(Broken);
        let mut stream = gathered.share();
        let connection = async move {
            stream.write_all(b"abc").await.unwrap();
            stream.flush().await.unwrap();
            let read = stream.read(&mut [0; 10]).await;
            (read, stream.write(b"abc").await, stream.flush().await)
        };
        let (read, write, flush) = gathered.run(pin!(connection)).await;
        let kinds = [read.map(drop), write.map(drop), flush].map(|r| r.unwrap_err().kind());
        assert_eq!(kinds, [io::ErrorKind::BrokenPipe; 3]);
    }
}
