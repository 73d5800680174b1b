//! A link of loopback TCP that can be as bad as the weather: slow, deaf in one way or both, refusing,
//! cut. Knows nothing of what travels over it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::task::AbortOnDropHandle;

use crate::eventually::{SOON, within};
use crate::ports::Port;

/// How the link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Clear,
    /// Everything takes so much longer, each way.
    Slow(Duration),
    /// What is sent this way arrives only when the weather changes. Connections are still made.
    Deaf(Way),
    /// Nobody listens. Open connections stay.
    Refusing,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
    Both,
}

/// A port on loopback behind which another one is.
pub struct Link {
    port: Port,
    to: SocketAddr,
    weather: watch::Sender<Weather>,
    open: Arc<Mutex<JoinSet<()>>>,
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Link {
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let link = Self {
            port: Port::reserve()?,
            to,
            weather: watch::Sender::new(Weather::Clear),
            open: Arc::default(),
            listening: Mutex::default(),
        };
        link.listen().await?;
        Ok(link)
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    /// Lets the weather change, for open connections too.
    pub async fn set(&self, weather: Weather) -> Result<()> {
        self.weather.send_replace(weather);
        if weather == Weather::Refusing {
            let listening = self.listening.lock().take();
            if let Some(listening) = listening {
                listening.abort();
                // It holds the port until it has ended; that it was aborted is known.
                let _ = listening.await;
            }
            return Ok(());
        }
        let listens = self.listening.lock().is_some();
        if listens { Ok(()) } else { self.listen().await }
    }

    /// Ends all open connections, and says how many there were.
    pub fn cut(&self) -> usize {
        let mut open = self.open.lock();
        while open.try_join_next().is_some() {}
        let count = open.len();
        open.abort_all();
        count
    }

    /// Nobody listens, and nothing that was open is left.
    pub async fn away(&self) -> Result<()> {
        self.set(Weather::Refusing).await?;
        self.cut();
        Ok(())
    }

    async fn listen(&self) -> Result<()> {
        let bind = async || TcpListener::bind(self.address()).await;
        // A port that was listened at a moment ago may take a moment to be had again.
        let bound = within(SOON, bind).await;
        let listener = bound
            .map_err(anyhow::Error::msg)
            .context("listening for a link")?;
        let (to, weather) = (self.to, self.weather.subscribe());
        let open = Arc::clone(&self.open);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut open = open.lock();
                while open.try_join_next().is_some() {}
                open.spawn(join(near, to, weather.clone()));
            }
        });
        *self.listening.lock() = Some(AbortOnDropHandle::new(task));
        Ok(())
    }
}

/// Joins a connection to a new one, until either side ends it.
async fn join(near: TcpStream, to: SocketAddr, weather: watch::Receiver<Weather>) {
    let Ok(far) = TcpStream::connect(to).await else {
        return;
    };
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::join!(
        pass(near_in, far_out, Way::There, weather.clone()),
        pass(far_in, near_out, Way::Back, weather),
    );
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut weather: watch::Receiver<Weather>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or_default();
        let heard = |weather: &Weather| match weather {
            Weather::Deaf(deaf) => *deaf != way && *deaf != Way::Both,
            _ => true,
        };
        let Ok(now) = weather.wait_for(heard).await.map(|weather| *weather) else {
            return;
        };
        if let Weather::Slow(by) = now {
            time::sleep(by).await;
        }
        // The end of one way is not that of the other.
        let sent = match read {
            0 => to
                .shutdown()
                .await
                .and(Err(std::io::ErrorKind::NotConnected.into())),
            read => to.write_all(&buffer[..read]).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
