//! The client: which server, with which key, how patient.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::ClientError;
use super::retry::Retry;

/// Long enough for a commit under load; what waits for an outcome waits longer by as much as it says.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, and how to talk to it. Cheap to clone; clones share connections.
///
/// Calls are repeated on connection errors, 429 and 503, with growing pauses, where repeating is safe: every event
/// that is sent carries an idempotency key and every start an id, made once and kept over the repeats.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) http: reqwest::Client,
    /// Without a slash at its end.
    pub(super) base: String,
    pub(super) key: Option<String>,
    pub(super) timeout: Duration,
    pub(super) retry: Retry,
}

/// Makes a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    key: Option<String>,
    timeout: Duration,
    retry: Retry,
    ca: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
}

impl Client {
    /// A client of the server at `url`, for example `http://127.0.0.1:7400`.
    pub fn new(url: impl Into<String>) -> Result<Self, ClientError> {
        Self::builder(url).build()
    }

    /// For a client with a key, or with another idea of patience. Proxies that the environment names are not used.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            url: url.into(),
            key: None,
            timeout: TIMEOUT,
            retry: Retry::default(),
            ca: None,
            identity: None,
        }
    }
}

impl ClientBuilder {
    /// An API key, `ms_…`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// How long one attempt at a call may take, beside what it waits for on purpose. 30 s unless said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often and how patiently calls are repeated. Eight attempts within some ten seconds unless said.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// CAs, as PEM, that are trusted beside the public ones.
    #[must_use]
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// A certificate and its key, both as PEM, for a server that asks for one.
    #[must_use]
    pub fn client_certificate(mut self, certificate: &[u8], key: &[u8]) -> Self {
        self.identity = Some([certificate, b"\n", key].concat());
        self
    }

    pub fn build(self) -> Result<Client, ClientError> {
        let Self { url, key, timeout, retry, ca, identity } = self;
        let base = url.trim_end_matches('/').to_owned();
        match url::Url::parse(&base) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => {}
            Ok(_) | Err(_) => {
                return Err(ClientError::Unsendable(format!(
                    "{url:?} is not an http:// or https:// address"
                )));
            }
        }
        // The process may have chosen a provider of its own: then that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder();
        if let Some(pem) = ca {
            let roots = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| unusable("CA certificates", &error))?;
            builder = builder.tls_certs_merge(roots);
        }
        if let Some(pem) = identity {
            let identity =
                reqwest::Identity::from_pem(&pem).map_err(|error| unusable("client certificate", &error))?;
            builder = builder.identity(identity);
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("millstream-sdk/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|source| ClientError::Unreachable { url: base.clone(), source })?;
        Ok(Client { inner: Arc::new(Inner { http, base, key, timeout, retry }) })
    }
}

fn unusable(what: &str, error: &reqwest::Error) -> ClientError {
    ClientError::Unsendable(format!("the {what} cannot be used: {error}"))
}

/// Without the key: what is printed ends up in logs.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.inner.base).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        let builder = Client::builder("http://127.0.0.1:7400").key("ms_secret");
        assert!(!format!("{builder:?}").contains("secret"));
        assert!(!format!("{:?}", builder.build().unwrap().send("x", "pay")).contains("secret"));
    }
}
