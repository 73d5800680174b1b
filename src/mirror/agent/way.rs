//! The proxy to the cloud, from the usual environment variables.
//!
//! Pure: gets the values of the variables, and does not read them.

use std::net::IpAddr;

use http::Uri;

/// The values of the environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For https URLs.
    pub proxy: String,
    /// The hosts that are reached without a proxy, comma separated.
    pub except: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("HTTPS_PROXY is not an http or https URL (not shown, because it may contain a password)")]
pub struct RouteError;

impl Proxies {
    pub fn of_process() -> Self {
        let of = |names: [&str; 2]| {
            let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self {
            proxy: of(["HTTPS_PROXY", "https_proxy"]),
            except: of(["NO_PROXY", "no_proxy"]),
        }
    }

    /// The proxy for a URL.
    pub fn to(&self, address: &Uri) -> Result<Option<Uri>, RouteError> {
        let host = address.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let port = address.port_u16().unwrap_or(443);
        if self.proxy.is_empty() || self.excepts(&host, port) {
            return Ok(None);
        }
        let text = if self.proxy.contains("://") {
            self.proxy.clone()
        } else {
            format!("http://{}", self.proxy)
        };
        let proxy: Uri = text.parse().map_err(|_| RouteError)?;
        match (proxy.scheme_str(), proxy.host()) {
            (Some("http" | "https"), Some(_)) => Ok(Some(proxy)),
            _ => Err(RouteError),
        }
    }

    fn excepts(&self, host: &str, port: u16) -> bool {
        let ip = host.parse::<IpAddr>().ok();
        // Nobody else has a way to these.
        if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let mut entries = self.except.split(',').map(str::trim);
        entries.any(|entry| {
            let entry = entry.to_ascii_lowercase();
            match (ip, entry.split_once('/')) {
                (Some(ip), Some((net, bits))) => is_within(ip, net, bits),
                _ => entry == "*" || names(&entry, host, port),
            }
        })
    }
}

/// Whether an entry such as `example.com`, `.example.com:8443` or `10.0.0.1` matches a host: a name matches its
/// subdomains too, and with a leading dot only these.
fn names(entry: &str, host: &str, port: u16) -> bool {
    let bare = entry.parse::<IpAddr>().is_ok();
    let (name, only) = match entry.rsplit_once(':') {
        Some((name, only)) if !bare => (name, only.parse().ok()),
        _ => (entry, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() || only.is_some_and(|only: u16| only != port) {
        return false;
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some(domain) => host.ends_with(name) && host.len() > domain.len() + 1,
        None => {
            host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|sub| sub.ends_with('.'))
        }
    }
}

fn is_within(ip: IpAddr, net: &str, bits: &str) -> bool {
    let (Ok(net), Ok(bits)) = (net.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    let differ = match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) if bits <= 32 => u128::from(
            (ip.to_bits() ^ net.to_bits())
                .checked_shr(32 - bits)
                .unwrap_or(0),
        ),
        (IpAddr::V6(ip), IpAddr::V6(net)) if bits <= 128 => (ip.to_bits() ^ net.to_bits())
            .checked_shr(128 - bits)
            .unwrap_or(0),
        _ => return false,
    };
    differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(except: &str, address: &str, by_proxy: bool) {
        let proxies = Proxies {
            proxy: "http://proxy:3128".into(),
            except: except.into(),
        };
        let found = proxies.to(&address.parse().unwrap()).unwrap();
        assert_eq!(found.is_some(), by_proxy, "{address} except {except:?}");
    }

    #[test]
    fn what_is_excepted_is_reached_without_a_proxy() {
        check("", "https://www.example.com/a", true);
        check("example.com", "https://www.example.com", false);
        check("example.com", "https://EXAMPLE.com.", false);
        check("example.com", "https://badexample.com", true);
        check(".example.com", "https://example.com", true);
        check(".example.com", "https://a.example.com", false);
        check("*.example.com", "https://a.example.com", false);
        check("x, example.com:8443", "https://example.com:8443", false);
        check("x, example.com:8443", "https://example.com", true);
        check("*", "https://example.com", false);
        check("10.0.0.0/8", "https://10.1.2.3:6443", false);
        check("10.0.0.0/8", "https://11.1.2.3:6443", true);
        check("0.0.0.0/0", "https://11.1.2.3:6443", false);
        check("10.0.0.0/8", "https://example.com", true);
        check("10.1.2.3", "https://10.1.2.3", false);
        check("fd00::/8", "https://[fd12::1]", false);
        check("fd00::1", "https://[fd00::1]", false);
        check(",,", "https://example.com", true);
    }

    #[test]
    fn the_machine_itself_is_never_reached_by_a_proxy() {
        check("", "https://127.0.0.1:6443", false);
        check("", "https://localhost", false);
        check("", "https://[::1]:6443", false);
    }

    #[test]
    fn a_proxy_is_an_address_with_or_without_a_scheme() {
        let of = |proxy: &str| {
            let proxies = Proxies {
                proxy: proxy.into(),
                except: String::new(),
            };
            let found = proxies.to(&Uri::from_static("https://example.com"));
            found.map(|found| found.map(|uri| uri.to_string()))
        };
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("proxy:3128"), Ok(Some("http://proxy:3128/".into())));
        assert_eq!(
            of("https://u:p@proxy"),
            Ok(Some("https://u:p@proxy/".into()))
        );
        assert_eq!(of("socks5://proxy"), Err(RouteError));
        assert_eq!(of("http://"), Err(RouteError));
    }

    #[test]
    fn a_password_in_the_address_of_a_proxy_that_cannot_be_used_is_not_repeated() {
        for proxy in ["socks5://u:hunter2@proxy", "http://u:hunter2 x@proxy"] {
            let proxies = Proxies {
                proxy: proxy.into(),
                except: String::new(),
            };
            let error = proxies.to(&Uri::from_static("https://example.com"));
            let told = format!("{:?} {}", error, error.as_ref().unwrap_err());
            assert!(!told.contains("hunter"), "{told}");
        }
    }
}
