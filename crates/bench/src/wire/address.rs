//! Address of a server: a plain `http://host:port`, and the key sent with every request.

use url::Url;

use crate::error::{BenchError, BenchResult};

/// A server, and the headers of every request to it.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    /// `host:port`, for connecting and for the `Host` header.
    authority: String,
    /// Complete header lines, each with its line end.
    headers: String,
}

impl ServerAddress {
    /// Only plain HTTP without a path: TLS and proxies would distort the measurement.
    pub(crate) fn parse_url(url: &str, key: &str) -> BenchResult<Self> {
        let wrong = |why: &str| BenchError::Usage(format!("the url {url:?} {why}"));
        let parsed = Url::parse(url).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        if parsed.scheme() != "http" {
            return Err(wrong("is not http://…: the generator speaks plain HTTP to the ingress itself"));
        }
        if !matches!(parsed.path(), "" | "/") {
            return Err(wrong("has a path: give the address of the ingress alone"));
        }
        let host = parsed.host_str().ok_or_else(|| wrong("has no host"))?;
        let authority = format!("{host}:{}", parsed.port_or_known_default().unwrap_or(80));
        let key = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
        if key.bytes().filter(|byte| matches!(byte, b'\r' | b'\n')).count() > 2 {
            return Err(BenchError::Usage("the key contains a line break".to_owned()));
        }
        Ok(Self { headers: format!("Host: {authority}\r\n{key}"), authority })
    }

    /// A port on loopback.
    pub(crate) fn on_loopback(port: u16) -> Self {
        let authority = format!("127.0.0.1:{port}");
        Self { headers: format!("Host: {authority}\r\n"), authority }
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn headers(&self) -> &str {
        &self.headers
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_accepts_plain_ingress_url() {
        let address = ServerAddress::parse_url("http://127.0.0.1:7400", "ms_x").unwrap();
        assert_eq!(address.authority(), "127.0.0.1:7400");
        assert_eq!(address.headers(), "Host: 127.0.0.1:7400\r\nAuthorization: Bearer ms_x\r\n");
        assert_eq!(ServerAddress::parse_url("http://[::1]/", "").unwrap().authority(), "[::1]:80");
        for url in ["https://a.example", "http://a.example/v1", "a.example:7400", "", "http://"] {
            assert!(ServerAddress::parse_url(url, "").is_err(), "{url}");
        }
        assert!(ServerAddress::parse_url("http://a.example", "x\r\nEvil: yes").is_err());
    }
}
