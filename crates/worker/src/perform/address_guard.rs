//! Which addresses an HTTP action may reach.
//!
//! A definition is data from users, and so is every redirect and every DNS answer. Unless a network is
//! allowed in the settings, an action reaches public unicast addresses only: no loopback, no private
//! or link-local network, no cloud metadata, nothing that merely wraps one of those in IPv6.
//!
//! The check is made on the addresses that the connection then uses: names are resolved here, by the
//! client's own resolver, and only checked addresses are handed on, so a second DNS answer cannot
//! differ. The HTTP stack does not ask a resolver about hosts that are literal addresses; those are
//! checked by [`AddressGuard::check_url`] before each request and before each redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

#[derive(Debug, Clone)]
pub(crate) struct AddressGuard {
    allow: Arc<[IpNet]>,
}

/// The target is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not allowed: {why}")]
pub(crate) struct Forbidden {
    pub(crate) host: String,
    pub(crate) why: &'static str,
}

impl AddressGuard {
    pub(crate) fn new(allow: &[IpNet]) -> Self {
        Self { allow: allow.into() }
    }

    /// The scheme, and the host if it is an address.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Forbidden> {
        let forbidden = |why| Forbidden { host: url.host_str().unwrap_or_default().to_owned(), why };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(forbidden("only http and https are spoken"));
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check(IpAddr::V4(ip)).map_err(forbidden),
            Some(Host::Ipv6(ip)) => self.check(IpAddr::V6(ip)).map_err(forbidden),
            // Checked when it is resolved.
            Some(Host::Domain(_)) => Ok(()),
            None => Err(forbidden("the URL names no host")),
        }
    }

    pub(crate) fn check(&self, ip: IpAddr) -> Result<(), &'static str> {
        let plain = unwrapped(ip);
        if self.allow.iter().any(|net| net.contains(&ip) || net.contains(&plain)) {
            return Ok(());
        }
        match plain {
            IpAddr::V4(ip) => not_public_v4(ip),
            IpAddr::V6(ip) => not_public_v6(ip),
        }
        .map_or(Ok(()), Err)
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
                .filter(|address| guard.check(address.ip()).inspect_err(|why| refused = Some(*why)).is_ok())
                .collect();
            match (allowed.is_empty(), refused) {
                (true, Some(why)) => Err(Forbidden { host, why }.into()),
                (true, None) => Err(format!("{host} has no address").into()),
                (false, _) => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The IPv4 address inside an IPv6 one: mapped, compatible, 6to4 or NAT64.
fn unwrapped(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] => v4(g, h),
        [0, 0, 0, 0, 0, 0] if g != 0 => v4(g, h),
        [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0x2002, high, low, ..] => v4(high, low),
        [..] => ip,
    }
}

fn not_public_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (0, _, _) => Some("it is unspecified"),
        (127, _, _) => Some("it is loopback"),
        (10, _, _) | (172, 16..=31, _) | (192, 168, _) => Some("it is private"),
        (100, 64..=127, _) => Some("it is shared (carrier-grade NAT)"),
        (169, 254, _) => Some("it is link-local (cloud metadata lives there)"),
        (192, 0, 0) | (192, 0, 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => {
            Some("it is reserved")
        }
        (224..=239, _, _) => Some("it is multicast"),
        (240..=255, _, _) => Some("it is reserved"),
        (_, _, _) => None,
    }
}

fn not_public_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let [a, b, ..] = ip.segments();
    match (a, b) {
        _ if ip.is_unspecified() => Some("it is unspecified"),
        _ if ip.is_loopback() => Some("it is loopback"),
        (0xfe80..=0xfebf, _) => Some("it is link-local"),
        (0xfc00..=0xfdff, _) => Some("it is private"),
        (0xfec0..=0xfeff, _) => Some("it is private (site-local)"),
        (0xff00..=0xffff, _) => Some("it is multicast"),
        (0x2001, 0x0db8) | (0x0100, 0) | (0x2001, 0) | (0x64, 0xff9b) => Some("it is reserved"),
        (0x2000..=0x3fff, _) => None,
        (_, _) => Some("it is not global unicast"),
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
    fn private_places_are_refused_in_every_spelling() {
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
    fn public_addresses_are_reached() {
        for host in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "169.253.0.1", "[2606:4700::1111]", "[::ffff:1.1.1.1]"]
        {
            let url = Url::parse(&format!("https://{host}/")).unwrap();
            assert_eq!(guard(&[]).check_url(&url), Ok(()), "{host}");
        }
    }

    #[test]
    fn an_allowed_network_is_reached_and_nothing_beside_it() {
        let guard = guard(&["10.1.0.0/16", "::1/128"]);
        assert!(guard.check("10.1.2.3".parse().unwrap()).is_ok());
        assert!(guard.check("::ffff:10.1.2.3".parse().unwrap()).is_ok());
        assert!(guard.check("::1".parse().unwrap()).is_ok());
        assert!(guard.check("10.2.0.1".parse().unwrap()).is_err());
        assert!(guard.check("127.0.0.1".parse().unwrap()).is_err());
    }

    #[test]
    fn other_schemes_are_refused() {
        for url in ["file:///etc/passwd", "ftp://1.1.1.1/", "gopher://1.1.1.1/"] {
            assert!(guard(&[]).check_url(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_refused() {
        let Err(error) = guard(&[]).resolve("localhost".parse().unwrap()).await else { panic!("resolved") };
        assert!(error.downcast_ref::<Forbidden>().is_some(), "{error}");
        assert!(guard(&["127.0.0.0/8", "::1/128"]).resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
