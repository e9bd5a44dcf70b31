//! A small HTTP client whose assertions show the whole answer.
//!
//! It does not know the API: paths and bodies belong to the test. It follows no redirects and uses no proxy,
//! so that a test sees the server's own answer.

use std::sync::Once;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, header::HeaderMap};
use serde_json::Value;

use crate::certificates::{TestCa, TestCertificate};

const TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug, Clone)]
pub struct TestClient {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

/// A complete answer. The accessors panic with the answer when it is not the expected one.
#[derive(Debug, Clone)]
pub struct TestReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl TestClient {
    pub fn new(base: &str) -> Self {
        install_crypto();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .expect("build an HTTP client");
        Self { http, base: base.trim_end_matches('/').into(), key: None }
    }

    /// A client that trusts a private CA alone, and perhaps presents a certificate.
    pub fn with_tls(base: &str, ca: &TestCa, identity: Option<&TestCertificate>) -> Self {
        Self { http: tls_client(ca, identity), ..Self::new(base) }
    }

    /// The same client, presenting an API key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> TestReply {
        send_request(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> TestReply {
        send_request(self.request(Method::POST, path).json(body)).await
    }

    /// A body as it is, with its content type.
    pub async fn post_raw(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> TestReply {
        send_request(self.request(Method::POST, path).header("content-type", content_type).body(body)).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> TestReply {
        let request = self.request(Method::POST, path).json(body);
        send_request(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
    }
}

/// A new HTTP client, with no connection yet, that trusts a private CA alone.
pub fn tls_client(ca: &TestCa, identity: Option<&TestCertificate>) -> reqwest::Client {
    install_crypto();
    let root = reqwest::Certificate::from_pem(ca.pem.as_bytes()).expect("a CA");
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(TIMEOUT)
        .tls_certs_only([root]);
    if let Some(identity) = identity {
        let identity = reqwest::Identity::from_pem(identity.identity_pem().as_bytes()).expect("an identity");
        builder = builder.identity(identity);
    }
    builder.build().expect("build an HTTP client")
}

/// Sends a request; a connection that fails is a failed test.
pub async fn send_request(request: RequestBuilder) -> TestReply {
    try_send(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
}

/// Sends a request to a server that may be down.
pub async fn try_send(request: RequestBuilder) -> Result<TestReply, reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(TestReply { status, headers, body: response.text().await? })
}

impl TestReply {
    /// The body as JSON, if the status is the expected one.
    #[track_caller]
    pub fn expect_status(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "unexpected answer: {}", self.body);
        self.json()
    }

    /// The body of an error, if it has the expected status and is a proper problem document.
    #[track_caller]
    pub fn expect_problem(&self, status: u16) -> Value {
        let problem = self.expect_status(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{problem}");
        assert_eq!(problem["status"], status, "the document repeats the status: {problem}");
        for field in ["type", "title"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {problem}");
        }
        problem
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}), status {}: {}", self.status, self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

pub fn install_crypto() {
    static INSTALL: Once = Once::new();
    // An error means that the test binary has installed a provider already, which serves as well.
    INSTALL.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
