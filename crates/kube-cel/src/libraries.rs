//! Values of the libraries that Kubernetes adds for rules: addresses, URLs, quantities, versions, formats of names.

pub(super) mod names;
pub(super) mod net;
pub(super) mod quantity;
pub(super) mod semver;
pub(super) mod url;

use self::{
    names::NamedFormat, net::Address, net::Network, quantity::Quantity, semver::Semver, url::Url,
};

/// A value that only its library can look into.
#[derive(Clone, Debug, PartialEq)]
pub enum Opaque {
    Address(Address),
    Network(Network),
    Url(Url),
    Quantity(Quantity),
    Semver(Semver),
    Format(NamedFormat),
}

impl Opaque {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Address(_) => "net.IP",
            Self::Network(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        self == other
    }

    /// The result of `string(x)`; `None` if there is no such conversion.
    pub(super) fn written(&self) -> Option<String> {
        match self {
            Self::Address(address) => Some(address.to_string()),
            Self::Network(network) => Some(network.to_string()),
            _ => None,
        }
    }
}
