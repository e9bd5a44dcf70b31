//! The client and its builder: server address, API key, TLS, timeouts, retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::retry::ClientRetry;
use crate::client_error::{ClientError, ClientSetting};

/// Long enough for a commit under load; a call that waits for an outcome adds its own wait.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, and the connection settings. Cheap to clone; clones share connections.
///
/// Calls are retried with back-off on connection errors, 429 and 503, where a repetition is safe: every event
/// carries an idempotency key and every start an id, created once and kept over the retries.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<ClientInner>,
}

pub(super) struct ClientInner {
    pub(super) http: reqwest::Client,
    /// Without a trailing slash.
    pub(super) base: String,
    pub(super) key: Option<String>,
    pub(super) timeout: Duration,
    pub(super) retry: ClientRetry,
    pub(super) reconnect: ClientRetry,
}

/// Builds a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    key: Option<String>,
    user_agent: String,
    timeout: Duration,
    retry: ClientRetry,
    reconnect: Option<ClientRetry>,
    ca: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
}

impl Client {
    /// A client of the server at `url`, for example `http://127.0.0.1:7400`.
    pub fn new(url: impl Into<String>) -> Result<Self, ClientError> {
        Self::builder(url).build()
    }

    /// Builder of a client with a key, or with other timeouts. Proxies from the environment are ignored.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            url: url.into(),
            key: None,
            user_agent: concat!("millstream-sdk/", env!("CARGO_PKG_VERSION")).to_owned(),
            timeout: TIMEOUT,
            retry: ClientRetry::default(),
            reconnect: None,
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

    /// Time limit of one attempt at a call, in addition to an intended wait. 30 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Retry policy of calls. Eight attempts within about ten seconds by default.
    #[must_use]
    pub fn retry(mut self, retry: ClientRetry) -> Self {
        self.retry = retry;
        self
    }

    /// Retry policy of a stream (a tail, a watch) that was connected once. By default that of calls.
    #[must_use]
    pub fn reconnect(mut self, reconnect: ClientRetry) -> Self {
        self.reconnect = Some(reconnect);
        self
    }

    /// The header `User-Agent` of all requests. `millstream-sdk/VERSION` by default.
    #[must_use]
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// CAs, as PEM, that are trusted in addition to the public ones.
    #[must_use]
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// A client certificate and its key, both as PEM, for a server that requires one.
    #[must_use]
    pub fn client_certificate(mut self, certificate: &[u8], key: &[u8]) -> Self {
        self.identity = Some([certificate, b"\n", key].concat());
        self
    }

    pub fn build(self) -> Result<Client, ClientError> {
        let Self { url, key, user_agent, timeout, retry, reconnect, ca, identity } = self;
        let base = url.trim_end_matches('/').to_owned();
        match url::Url::parse(&base) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => {}
            Ok(_) => {
                let reason = format!("{url:?} is not an http:// or https:// address");
                return Err(invalid_setting(ClientSetting::Url, reason));
            }
            Err(error) => return Err(invalid_setting(ClientSetting::Url, error)),
        }
        // The process may already have installed a provider, which then remains.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder();
        if let Some(pem) = ca {
            let roots = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| invalid_setting(ClientSetting::CaCertificates, error))?;
            builder = builder.tls_certs_merge(roots);
        }
        if let Some(pem) = identity {
            let identity = reqwest::Identity::from_pem(&pem)
                .map_err(|error| invalid_setting(ClientSetting::ClientCertificate, error))?;
            builder = builder.identity(identity);
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(user_agent)
            .build()
            .map_err(|source| ClientError::Unreachable { url: base.clone(), source })?;
        let reconnect = reconnect.unwrap_or(retry);
        Ok(Client { inner: Arc::new(ClientInner { http, base, key, timeout, retry, reconnect }) })
    }
}

fn invalid_setting(setting: ClientSetting, reason: impl fmt::Display) -> ClientError {
    ClientError::InvalidSetting { setting, reason: reason.to_string() }
}

/// Without the key: debug output ends up in logs.
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
    fn client_debug_hides_key() {
        let builder = Client::builder("http://127.0.0.1:7400").key("ms_secret");
        assert!(!format!("{builder:?}").contains("secret"));
        assert!(!format!("{:?}", builder.build().unwrap().send("x", "pay")).contains("secret"));
    }
}
