//! Where an executor is: `http://host:port`, and nothing else.

use tonic::transport::Uri;

const LONGEST: usize = 512;

/// Why a text is no address.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    const FORM: &str = "must be like http://host:port";
    if text.len() > LONGEST {
        return Err("is too long");
    }
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let plain = uri.path() == "/" && uri.query().is_none() && !text.contains('@');
    match uri.scheme_str() {
        Some("http") if plain && uri.port_u16().is_some() => Ok(()),
        Some("https") => Err("https is not spoken: put a proxy between"),
        Some(_) | None => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["http://127.0.0.1:7000", "http://executor.local:80/", "http://[::1]:7000"] {
            assert_eq!(check(good), Ok(()), "{good}");
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
            "https://host:1",
            "unix:/tmp/socket",
            "http:// :1",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
