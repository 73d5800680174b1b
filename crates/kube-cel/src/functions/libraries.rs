//! The functions of the libraries that Kubernetes adds.

use std::{cmp::Ordering, net::IpAddr, rc::Rc};

use crate::{
    fault::{Fault, Meter},
    libraries::{
        Opaque,
        names::NamedFormat,
        net::{self, Address, Network},
        quantity::{self, Quantity},
        semver::{self, Reading},
        url::{self, Url},
    },
    value::{Answer, Val},
};

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    [address, link, amount, version, named_format]
        .into_iter()
        .find_map(|library| library(name, arguments, meter))
}

fn opaque_value<'a>(opaque: Opaque) -> Val<'a> {
    Val::Opaque(opaque.into())
}

fn answer<'a>(made: Result<Opaque, String>) -> Answer<'a> {
    made.map(|opaque| Val::Opaque(opaque.into()))
        .map_err(Fault::Error)
}

fn address<'a>(name: &str, arguments: &[Val<'a>], _meter: &Meter) -> Option<Answer<'a>> {
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
        "ip" => answer(net::address(text).map(|ip| Opaque::Address(Address(ip)))),
        "isIP" => Ok(Val::Bool(net::address(text).is_ok())),
        "ip.isCanonical" => match net::address(text) {
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
        ("containsIP", [Val::Text(text)]) => match net::address(text.as_str()) {
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

fn link<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    match arguments {
        [Val::Text(text)] => {
            let text = text.as_str();
            if let Err(fault) = meter.bytes(text.len()) {
                return Some(Err(fault));
            }
            match name {
                "url" => Some(answer(url::parse(text).map(Opaque::Url))),
                "isURL" => Some(Ok(Val::Bool(url::parse(text).is_ok()))),
                _ => None,
            }
        }
        [Val::Opaque(opaque)] => {
            let Opaque::Url(url) = opaque.as_ref() else {
                return None;
            };
            Some(Ok(match name {
                "getScheme" => Val::text(url.scheme.as_str()),
                "getHost" => Val::text(url.host.as_str()),
                "getHostname" => Val::text(url.hostname()),
                "getPort" => Val::text(url.port()),
                "getEscapedPath" => Val::text(url.path.as_str()),
                "getQuery" => parameters(url),
                _ => return None,
            }))
        }
        _ => None,
    }
}

/// The parameters of a URL, each with its values.
fn parameters<'a>(url: &Url) -> Val<'a> {
    let mut entries: Vec<(String, Vec<Val<'a>>)> = Vec::new();
    for (key, value) in form_urlencoded::parse(url.query.as_bytes()) {
        let value = Val::text(value.as_ref());
        match entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => entries.push((key.into_owned(), vec![value])),
        }
    }
    let entries = entries
        .into_iter()
        .map(|(key, values)| (Val::text(key), Val::list(values)));
    Val::Map(Rc::new(entries.collect()))
}

fn amount<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    let (quantity, rest) = match arguments {
        [Val::Text(text)] => {
            if let Err(fault) = meter.bytes(text.as_str().len()) {
                return Some(Err(fault));
            }
            return match name {
                "quantity" => Some(answer(quantity::parse(text.as_str()).map(Opaque::Quantity))),
                "isQuantity" => Some(Ok(Val::Bool(quantity::parse(text.as_str()).is_ok()))),
                _ => None,
            };
        }
        [Val::Opaque(opaque), rest @ ..] => match opaque.as_ref() {
            Opaque::Quantity(quantity) => (quantity, rest),
            _ => return None,
        },
        _ => return None,
    };
    let other = match rest {
        [] => return alone(name, quantity),
        [Val::Int(number)] => Quantity(i128::from(*number) * quantity::UNIT),
        [Val::Opaque(other)] => match other.as_ref() {
            Opaque::Quantity(other) => other.clone(),
            _ => return None,
        },
        _ => return None,
    };
    let order = quantity.0.cmp(&other.0);
    Some(Ok(match name {
        "add" => opaque_value(Opaque::Quantity(Quantity(
            quantity.0.saturating_add(other.0),
        ))),
        "sub" => opaque_value(Opaque::Quantity(Quantity(
            quantity.0.saturating_sub(other.0),
        ))),
        "compareTo" => Val::Int(match order {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        "isGreaterThan" => Val::Bool(order.is_gt()),
        "isLessThan" => Val::Bool(order.is_lt()),
        _ => return None,
    }))
}

fn alone<'a>(name: &str, quantity: &Quantity) -> Option<Answer<'a>> {
    Some(match name {
        "isInteger" => Ok(Val::Bool(quantity.as_integer().is_some())),
        "asInteger" => quantity
            .as_integer()
            .map(Val::Int)
            .ok_or_else(|| Fault::new("cannot convert value to integer")),
        "asApproximateFloat" => Ok(Val::Double(quantity.approximate())),
        "sign" => Ok(Val::Int(match quantity.0.signum() {
            -1 => -1,
            0 => 0,
            _ => 1,
        })),
        _ => return None,
    })
}

fn version<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    if let [Val::Text(text), rest @ ..] = arguments {
        let reading = match rest {
            [] | [Val::Bool(false)] => Reading::Strict,
            [Val::Bool(true)] => Reading::Normalizing,
            _ => return None,
        };
        if let Err(fault) = meter.bytes(text.as_str().len()) {
            return Some(Err(fault));
        }
        return match name {
            "semver" => Some(answer(
                semver::parse(text.as_str(), reading).map(Opaque::Semver),
            )),
            "isSemver" => Some(Ok(Val::Bool(semver::parse(text.as_str(), reading).is_ok()))),
            _ => None,
        };
    }
    let [Val::Opaque(opaque), rest @ ..] = arguments else {
        return None;
    };
    let Opaque::Semver(version) = opaque.as_ref() else {
        return None;
    };
    let part = |nth: usize| Val::Int(i64::try_from(version.numbers[nth]).unwrap_or(i64::MAX));
    let order = match rest {
        [] => {
            return Some(Ok(match name {
                "major" => part(0),
                "minor" => part(1),
                "patch" => part(2),
                _ => return None,
            }));
        }
        [Val::Opaque(other)] => match other.as_ref() {
            Opaque::Semver(other) => version.compared(other),
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(match name {
        "compareTo" => Val::Int(match order {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        "isGreaterThan" => Val::Bool(order.is_gt()),
        "isLessThan" => Val::Bool(order.is_lt()),
        _ => return None,
    }))
}

fn named_format<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    match (name, arguments) {
        ("format.named", [Val::Text(name)]) => Some(Ok(match NamedFormat::find(name.as_str()) {
            Some(format) => Val::some(opaque_value(Opaque::Format(format))),
            None => Val::Optional(None),
        })),
        ("validate", [Val::Opaque(opaque), Val::Text(text)]) => {
            let Opaque::Format(format) = opaque.as_ref() else {
                return None;
            };
            if let Err(fault) = meter.bytes(text.as_str().len() * 4) {
                return Some(Err(fault));
            }
            let complaints = format.complaints(text.as_str());
            Some(Ok(if complaints.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(complaints.into_iter().map(Val::text).collect()))
            }))
        }
        (name, []) => {
            let format = NamedFormat::find(name.strip_prefix("format.")?)?;
            Some(Ok(opaque_value(Opaque::Format(format))))
        }
        _ => None,
    }
}
