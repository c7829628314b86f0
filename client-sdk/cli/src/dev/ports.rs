//! Free loopback ports for the cluster's processes.
//!
//! Taken from below the range the system gives to outgoing connections: a port of ours that is free for a moment, while its
//! process restarts, is then never lent to somebody's outgoing connection.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// Lowest port considered.
const FIRST: u16 = 20_000;
/// End of the search (exclusive) where the system does not tell its own range.
const USUAL_EPHEMERAL: u16 = 32_768;

/// Hands out ports that are free for TCP and UDP, each once.
pub struct Ports {
    next: u16,
    end: u16,
    given: BTreeSet<u16>,
}

impl Ports {
    /// Starts the search at a random place, so that two clusters started at once rarely meet.
    #[must_use]
    pub fn new(taken: impl IntoIterator<Item = u16>) -> Self {
        let end = ephemeral_start().filter(|start| *start > FIRST + 1_000).unwrap_or(USUAL_EPHEMERAL);
        Ports { next: rand::random_range(FIRST..end), end, given: taken.into_iter().collect() }
    }

    /// The next free address.
    ///
    /// # Errors
    /// Every port of the range is in use.
    pub fn take(&mut self) -> Result<SocketAddr> {
        for _ in FIRST..self.end {
            let port = self.next;
            self.next = if port + 1 == self.end { FIRST } else { port + 1 };
            if !self.given.contains(&port) && is_free(port) {
                self.given.insert(port);
                return Ok(address(port));
            }
        }
        let end = self.end;
        Err(anyhow::anyhow!(
            "no loopback port from {FIRST} to {end} is free: stop what holds them (`ss -tulpn` shows it)"
        ))
    }
}

/// Whether nobody listens on the port, neither by TCP nor by UDP.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(address(port)).is_ok() && UdpSocket::bind(address(port)).is_ok()
}

/// Fails with the remedy if one of `needed` is held by somebody else.
///
/// # Errors
/// Names the first port in use.
pub fn must_be_free(needed: impl IntoIterator<Item = SocketAddr>) -> Result<()> {
    let held = needed.into_iter().find(|addr| !is_free(addr.port()));
    held.map_or(Ok(()), |addr| {
        Err(anyhow::anyhow!("{addr} belongs to this cluster but another process listens on it"))
            .context("stop that process (`ss -tulpn` shows it), or give up the cluster with `seam dev down --wipe`")
    })
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn ephemeral_start() -> Option<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_given_once() {
        let mut ports = Ports::new([]);
        let given: BTreeSet<u16> = (0..40).map(|_| ports.take().expect("a free port").port()).collect();
        assert_eq!(given.len(), 40);
        let mut others = Ports::new(given.iter().copied());
        assert!((0..40).all(|_| !given.contains(&others.take().expect("a free port").port())));
    }

    #[test]
    fn a_port_in_use_by_either_protocol_is_not_free() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
        for held in [tcp.local_addr(), udp.local_addr()].map(|addr| addr.expect("an address")) {
            let error = must_be_free([held]).expect_err("held");
            assert!(format!("{error:#}").contains(&held.to_string()), "{error:#}");
        }
    }
}
