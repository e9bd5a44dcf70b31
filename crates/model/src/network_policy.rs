//! Which network addresses the engine may connect to on behalf of a tenant.
//!
//! URLs of HTTP actions and addresses of executors are data from tenants, and so is every DNS answer about them. Unless
//! a network is allowed in the settings, only public unicast addresses pass: no loopback, no private or link-local
//! network, no cloud metadata, and no IPv6 address that wraps one of those.
//!
//! The policy judges addresses. The caller resolves a name once and connects only to the addresses that passed, so
//! that a second DNS answer cannot differ.

use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Cloud metadata services, which hand out credentials to machines. Allowing a surrounding network does not
/// open them: only an entry for the single address does.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    // Container credentials of AWS.
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    // WireServer of Azure: a public address that the host answers.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
];

/// Allow list: all public addresses, plus the networks that the operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    allow: Vec<IpNet>,
}

impl NetworkPolicy {
    pub fn allowing_networks(allow: Vec<IpNet>) -> Self {
        Self { allow }
    }

    /// Why the address may not be connected to.
    pub fn check_address(&self, ip: IpAddr) -> Result<(), &'static str> {
        let plain = unwrap_ipv4(ip);
        let metadata = METADATA.contains(&plain);
        let allows = |net: &IpNet| {
            (net.contains(&ip) || net.contains(&plain))
                && (!metadata || net.prefix_len() == net.max_prefix_len())
        };
        if self.allow.iter().any(allows) {
            return Ok(());
        }
        if metadata {
            return Err("it is a cloud metadata service");
        }
        match plain {
            IpAddr::V4(ip) => not_public_v4(ip),
            IpAddr::V6(ip) => not_public_v6(ip),
        }
        .map_or(Ok(()), Err)
    }
}

/// The IPv4 address inside an IPv6 one: mapped, compatible, 6to4 or NAT64.
fn unwrap_ipv4(ip: IpAddr) -> IpAddr {
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
        (169, 254, _) => Some("it is link-local"),
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

    fn policy(allow: &[&str]) -> NetworkPolicy {
        NetworkPolicy::allowing_networks(allow.iter().map(|net| net.parse().unwrap()).collect())
    }

    fn check(policy: &NetworkPolicy, ip: &str) -> Result<(), &'static str> {
        policy.check_address(ip.parse().unwrap())
    }

    #[test]
    fn only_allowed_private_networks_pass() {
        let policy = policy(&["10.1.0.0/16", "::1/128"]);
        for ip in ["10.1.2.3", "::ffff:10.1.2.3", "::1", "1.1.1.1"] {
            assert_eq!(check(&policy, ip), Ok(()), "{ip}");
        }
        for ip in ["10.2.0.1", "127.0.0.1"] {
            assert!(check(&policy, ip).is_err(), "{ip}");
        }
    }

    #[test]
    fn allowed_network_excludes_metadata_services() {
        let wide = policy(&["0.0.0.0/0", "::/0"]);
        for ip in ["10.0.0.1", "127.0.0.1", "fd00::1", "169.254.169.1"] {
            assert_eq!(check(&wide, ip), Ok(()), "{ip}");
        }
        for ip in [
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "169.254.170.2",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
        ] {
            assert!(check(&wide, ip).is_err(), "{ip}");
            assert!(check(&policy(&[]), ip).is_err(), "{ip}");
        }
    }

    #[test]
    fn metadata_service_needs_own_entry() {
        assert_eq!(check(&policy(&["168.63.129.16/32"]), "168.63.129.16"), Ok(()));
        assert_eq!(check(&policy(&["fd00:ec2::254/128"]), "fd00:ec2::254"), Ok(()));
    }
}
