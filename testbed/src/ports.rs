//! Loopback ports for servers that must come back on the same port after a restart.
//!
//! They lie below the range from which the kernel takes ports for outgoing connections, so that
//! none of those can sit on a port while its server is down, and a lock file a port keeps other
//! test processes away for as long as the port is held.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{env, process};

use anyhow::{Context as _, Result, bail};

const FIRST: u16 = 16_000;
const COUNT: u16 = 14_000;

/// A port of ours until this is dropped.
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    pub fn reserve() -> Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes begin at places of their own, so that they seldom meet.
        let start = u16::try_from(process::id() % u32::from(COUNT)).unwrap_or_default();
        let locks = env::temp_dir().join("hawser-testbed-ports");
        fs::create_dir_all(&locks).with_context(|| format!("creating {}", locks.display()))?;
        for _ in 0..COUNT {
            let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let offset = (u32::from(start) + step * 7) % u32::from(COUNT);
            let number = FIRST + u16::try_from(offset).unwrap_or_default();
            let Ok(lock) = File::create(locks.join(number.to_string())) else {
                continue;
            };
            let free =
                lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
            if free {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        bail!(
            "no free port on 127.0.0.1 between {FIRST} and {}",
            FIRST + COUNT
        )
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_nobody_elses() {
        let ports: Vec<_> = (0..20).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ports.len());
    }
}
