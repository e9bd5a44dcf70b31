//! Address guard: the addresses that an HTTP action may reach (SSRF protection).
//!
//! A definition is data from users, and so is every redirect and every DNS answer.
//! [`millstream_model::network_policy`] says which addresses are allowed; this file applies it to requests.
//!
//! The check is made on the addresses that the connection then uses: names are resolved here, by the
//! client's own resolver, and only checked addresses are handed on, so a second DNS answer cannot
//! differ. The HTTP stack does not ask a resolver about hosts that are literal addresses; those are
//! checked by [`AddressGuard::check_url`] before each request and before each redirect.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use millstream_model::network_policy::NetworkPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

#[derive(Debug, Clone)]
pub(crate) struct AddressGuard {
    policy: Arc<NetworkPolicy>,
}

/// The target is forbidden.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not allowed: {why}")]
pub(crate) struct ForbiddenTarget {
    pub(crate) host: String,
    pub(crate) why: &'static str,
}

impl AddressGuard {
    pub(crate) fn new(allow: &[IpNet]) -> Self {
        Self { policy: Arc::new(NetworkPolicy::allowing_networks(allow.to_vec())) }
    }

    /// Checks the scheme, and the host if it is an address.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), ForbiddenTarget> {
        let forbidden = |why| ForbiddenTarget { host: url.host_str().unwrap_or_default().to_owned(), why };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(forbidden("only http and https are supported"));
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_ip(IpAddr::V4(ip)).map_err(forbidden),
            Some(Host::Ipv6(ip)) => self.check_ip(IpAddr::V6(ip)).map_err(forbidden),
            // Checked when it is resolved.
            Some(Host::Domain(_)) => Ok(()),
            None => Err(forbidden("the URL names no host")),
        }
    }

    pub(crate) fn check_ip(&self, ip: IpAddr) -> Result<(), &'static str> {
        self.policy.check_address(ip)
    }
}

impl Resolve for AddressGuard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let mut refused = None;
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| {
                    guard.check_ip(address.ip()).inspect_err(|why| refused = Some(*why)).is_ok()
                })
                .collect();
            match (allowed.is_empty(), refused) {
                (true, Some(why)) => Err(ForbiddenTarget { host, why }.into()),
                (true, None) => Err(format!("{host} has no address").into()),
                (false, _) => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow: &[&str]) -> AddressGuard {
        let allow: Vec<IpNet> = allow.iter().map(|net| net.parse().unwrap()).collect();
        AddressGuard::new(&allow)
    }

    #[test]
    fn private_addresses_are_refused_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.2.1",
            "[::1]",
            "[::]",
            "[::ffff:10.0.0.1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[::127.0.0.1]",
            "[fe80::1]",
            "[fc00::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[64:ff9b::10.0.0.1]",
            "[2002:7f00:1::]",
            "[fec0::1]",
            "[2001:db8::1]",
            "[64:ff9b:1::1]",
            // The URL parser reads these as 127.0.0.1 and 10.0.0.1.
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "10.1",
        ] {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            assert!(guard(&[]).check_url(&url).is_err(), "{host} got through");
        }
    }

    #[test]
    fn address_guard_allows_public_addresses() {
        for host in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "169.253.0.1", "[2606:4700::1111]", "[::ffff:1.1.1.1]"]
        {
            let url = Url::parse(&format!("https://{host}/")).unwrap();
            assert_eq!(guard(&[]).check_url(&url), Ok(()), "{host}");
        }
    }

    #[test]
    fn address_guard_refuses_other_schemes() {
        for url in ["file:///etc/passwd", "ftp://1.1.1.1/", "gopher://1.1.1.1/"] {
            assert!(guard(&[]).check_url(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn hostname_resolving_to_loopback_is_refused() {
        let Err(error) = guard(&[]).resolve("localhost".parse().unwrap()).await else { panic!("resolved") };
        assert!(error.downcast_ref::<ForbiddenTarget>().is_some(), "{error}");
        assert!(guard(&["127.0.0.0/8", "::1/128"]).resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
