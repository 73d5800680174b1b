//! Addresses and networks.

use std::{fmt, net::IpAddr};

#[derive(Clone, Debug, PartialEq)]
pub struct Address(pub(crate) IpAddr);

#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
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

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
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
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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
    pub(crate) fn masked(address: &IpAddr, length: u8) -> IpAddr {
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

    pub(crate) fn contains(&self, address: &IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self::masked(&self.address, self.length) == Self::masked(address, self.length)
    }

    pub(crate) fn contains_network(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(&other.address)
    }
}
