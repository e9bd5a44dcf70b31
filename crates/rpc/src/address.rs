//! Executor addresses: `http://host:port` or `https://host:port`, and no other form.

use std::net::IpAddr;

use millstream_model::network_policy::NetworkPolicy;
use tonic::transport::Uri;

const LONGEST: usize = 512;

/// Checks the form of an address.
pub(crate) fn check_address(text: &str) -> Result<(), &'static str> {
    const FORM: &str = "must be like http://host:port or https://host:port";
    if text.len() > LONGEST {
        return Err("is too long");
    }
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let plain = uri.path() == "/" && uri.query().is_none() && !text.contains('@');
    match uri.scheme_str() {
        Some("http" | "https") if plain && uri.port_u16().is_some() => Ok(()),
        Some(_) | None => Err(FORM),
    }
}

/// Checks the address of a registration. A host that is an IP address is checked here, so that the caller
/// gets the error; a name is checked when it is resolved for a connection.
pub(crate) fn check_registration(text: &str, policy: &NetworkPolicy) -> Result<(), String> {
    check_address(text)?;
    let uri: Uri = text.parse().map_err(|_| "must be like http://host:port")?;
    match uri.host().and_then(literal_ip).map(|ip| policy.check_address(ip)) {
        Some(Err(why)) => {
            Err(format!("is not allowed: {why} (the operator allows networks by executor_allow)"))
        }
        Some(Ok(())) | None => Ok(()),
    }
}

/// The IP address that is the host of a URI; `None` for a name.
pub(crate) fn literal_ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executor_address_needs_host_and_port() {
        for good in
            ["http://127.0.0.1:7000", "http://executor.local:80/", "http://[::1]:7000", "https://host:7443"]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "executor:7000",
            "127.0.0.1:7000",
            "http://host",
            "http://host:99999",
            "http://a@host:1",
            "http://host:1/path",
            "http://host:1?x",
            "https://host",
            "unix:/tmp/socket",
            "http:// :1",
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn registration_checks_address_policy() {
        let policy = NetworkPolicy::allowing_networks(vec!["10.1.0.0/16".parse().unwrap()]);
        for good in
            ["http://10.1.2.3:7000", "http://1.1.1.1:80", "http://localhost:7000", "http://[2606:4700::1]:1"]
        {
            assert_eq!(check_registration(good, &policy), Ok(()), "{good}");
        }
        for bad in [
            "http://127.0.0.1:6379",
            "http://[::1]:6379",
            "http://[::ffff:127.0.0.1]:6379",
            "http://10.2.0.1:7000",
            "http://169.254.169.254:80",
            "http://168.63.129.16:80",
            "somewhere",
        ] {
            assert!(check_registration(bad, &policy).is_err(), "{bad}");
        }
    }
}
