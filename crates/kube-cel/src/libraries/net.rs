//! Addresses and networks.

use std::{fmt, net::IpAddr};

use super::{Opaque, answer, opaque_value};
use crate::{
    fault::{Answer, Meter},
    value::Val,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Address(IpAddr);

#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    let parsed: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {}",
            complaint(text)
        )
    })?;
    match parsed {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        parsed => Ok(parsed),
    }
}

/// The server's first complaint about a text that is no address.
fn complaint(text: &str) -> &'static str {
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    if text.contains(':') || !parts.iter().all(digits) || parts.len() == 1 {
        "unable to parse IP"
    } else if parts
        .iter()
        .any(|part| part.len() > 1 && part.starts_with('0'))
    {
        "IPv4 field has octet with leading zero"
    } else if parts.iter().any(|part| part.parse::<u8>().is_err()) {
        "IPv4 field has value >255"
    } else if parts.len() < 4 {
        "IPv4 address too short"
    } else {
        "IPv4 address too long"
    }
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        const FAILED: &str = "network address parse error during conversion from string";
        let wrong = |why: &str| format!("{FAILED}: {FAILED}: netip.ParsePrefix({text:?}): {why}");
        let (ip, length) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
        let address: IpAddr = ip
            .parse()
            .map_err(|_| wrong(&format!("ParseAddr({ip:?}): {}", complaint(ip))))?;
        if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
            return Err(format!(
                "{FAILED}: IPv4-mapped IPv6 address {text:?} is not allowed"
            ));
        }
        let digits = !length.is_empty() && length.bytes().all(|c| c.is_ascii_digit());
        let canonical = length == "0" || !length.starts_with('0');
        if !digits || !canonical || length.len() > 3 {
            return Err(wrong(&format!("bad bits after slash: {length:?}")));
        }
        let length: u8 = length
            .parse()
            .ok()
            .filter(|length| *length <= Self::bits(&address))
            .ok_or_else(|| wrong("prefix length out of range"))?;
        Ok(Self { address, length })
    }

    fn bits(address: &IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// An address with all behind the prefix made zero.
    fn masked(address: &IpAddr, length: u8) -> IpAddr {
        match address {
            IpAddr::V4(four) => {
                let mask = u32::MAX
                    .checked_shl(u32::from(32 - length.min(32)))
                    .unwrap_or(0);
                IpAddr::V4((u32::from(*four) & mask).into())
            }
            IpAddr::V6(six) => {
                let mask = u128::MAX
                    .checked_shl(u32::from(128 - length.min(128)))
                    .unwrap_or(0);
                IpAddr::V6((u128::from(*six) & mask).into())
            }
        }
    }

    fn contains(&self, address: &IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self::masked(&self.address, self.length) == Self::masked(address, self.length)
    }

    fn contains_network(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(&other.address)
    }
}

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], _meter: &Meter) -> Option<Answer<'a>> {
    match arguments {
        [Val::Text(text)] => of_text(name, text.as_str()),
        [Val::Opaque(opaque), rest @ ..] => match opaque.as_ref() {
            Opaque::Address(address) if rest.is_empty() => of_address(name, &address.0),
            Opaque::Network(network) => of_network(name, network, rest),
            _ => None,
        },
        _ => None,
    }
}

fn of_text<'a>(name: &str, text: &str) -> Option<Answer<'a>> {
    Some(match name {
        "ip" => answer(address(text).map(|ip| Opaque::Address(Address(ip)))),
        "isIP" => Ok(Val::Bool(address(text).is_ok())),
        "ip.isCanonical" => match address(text) {
            Ok(ip) => Ok(Val::Bool(ip.to_string() == text)),
            Err(why) => answer(Err(why)),
        },
        "cidr" => answer(Network::parse(text).map(Opaque::Network)),
        "isCIDR" => Ok(Val::Bool(Network::parse(text).is_ok())),
        _ => return None,
    })
}

fn of_address<'a>(name: &str, ip: &IpAddr) -> Option<Answer<'a>> {
    let link_local = match ip {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    };
    let link_local_multicast = match ip {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    };
    let broadcast = matches!(ip, IpAddr::V4(four) if four.is_broadcast());
    Some(Ok(match name {
        "family" => Val::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Val::Bool(ip.is_unspecified()),
        "isLoopback" => Val::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => Val::Bool(link_local_multicast),
        "isLinkLocalUnicast" => Val::Bool(link_local),
        "isGlobalUnicast" => Val::Bool(
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || link_local
                || broadcast),
        ),
        _ => return None,
    }))
}

fn of_network<'a>(name: &str, network: &Network, rest: &[Val<'a>]) -> Option<Answer<'a>> {
    Some(match (name, rest) {
        ("containsIP", [Val::Text(text)]) => match address(text.as_str()) {
            Ok(ip) => Ok(Val::Bool(network.contains(&ip))),
            Err(_) => return None,
        },
        ("containsCIDR", [Val::Text(text)]) => match Network::parse(text.as_str()) {
            Ok(other) => Ok(Val::Bool(network.contains_network(&other))),
            Err(why) => answer(Err(why)),
        },
        ("containsIP", [Val::Opaque(other)]) => match other.as_ref() {
            Opaque::Address(ip) => Ok(Val::Bool(network.contains(&ip.0))),
            _ => return None,
        },
        ("containsCIDR", [Val::Opaque(other)]) => match other.as_ref() {
            Opaque::Network(other) => Ok(Val::Bool(network.contains_network(other))),
            _ => return None,
        },
        ("ip", []) => Ok(opaque_value(Opaque::Address(Address(network.address)))),
        ("masked", []) => Ok(opaque_value(Opaque::Network(Network {
            address: Network::masked(&network.address, network.length),
            length: network.length,
        }))),
        ("prefixLength", []) => Ok(Val::Int(i64::from(network.length))),
        _ => return None,
    })
}
