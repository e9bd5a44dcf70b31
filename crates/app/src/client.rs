//! HTTP client of the client commands; its errors suggest a remedy.

use anyhow::{Context, Result, bail};
use millstream_runtime::config::Config;
use millstream_runtime::pem_files::ClientTls;
use reqwest::{Certificate, Identity, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::failure::{CommandFailure, ExitCode};

/// A server's base URL and the HTTP client for it.
#[derive(Debug, Clone)]
pub(crate) struct ApiClient {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl ApiClient {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        Self::with_tls(&config.url, &config.key, &ClientTls::read(config)?)
    }

    fn with_tls(url: &str, key: &str, tls: &ClientTls) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        url::Url::parse(&base).with_context(|| format!("the setting `url` is not a URL: {url:?}"))?;
        let mut builder = reqwest::Client::builder();
        if let Some(ca) = &tls.ca {
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(ca).context("tls.ca_file")?);
        }
        if let Some((certificate, key)) = &tls.identity {
            let identity = Identity::from_pem(&[certificate.as_slice(), b"\n", key].concat());
            builder = builder.identity(identity.context("tls.client_certificate and tls.client_key")?);
        }
        let http = builder
            .no_proxy()
            .connect_timeout(std::time::Duration::from_secs(5))
            .user_agent(concat!("millstream/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, base, key: key.to_owned() })
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        if self.key.is_empty() { request } else { request.bearer_auth(&self.key) }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.send_for_json(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send_for_json(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request; reads a JSON answer, or turns a refusal into an error.
    pub(crate) async fn send_for_json(&self, request: RequestBuilder) -> Result<Value> {
        self.send(request).await?.json().await.context("the server's answer is not JSON")
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.unreachable_failure(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let problem: Value = response.json().await.unwrap_or(Value::Null);
        bail!(refusal_failure(status, &problem));
    }

    /// All items of a list, up to `limit`, page by page.
    pub(crate) async fn list_pages(
        &self,
        path: &str,
        query: &[(&str, String)],
        limit: usize,
    ) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let mut request = self
                .request(Method::GET, path)
                .query(query)
                .query(&[("limit", (limit - items.len()).min(200).to_string())]);
            if let Some(cursor) = &cursor {
                request = request.query(&[("cursor", cursor)]);
            }
            let mut page = self.send_for_json(request).await?;
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        Ok(items)
    }

    fn unreachable_failure(&self, error: &reqwest::Error) -> CommandFailure {
        let causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
        let cause = causes.last().map_or_else(String::new, ToString::to_string);
        let hint = if cause.contains("certificate") {
            "\na private CA is named by the setting tls.ca_file, a client certificate by tls.client_certificate (docs/TLS.md)"
        } else {
            "\nis it running? start one with `millstream dev`, or name another with --url or MILLSTREAM_URL"
        };
        CommandFailure::new(ExitCode::Unreachable, format!("cannot reach {}: {cause}{hint}", self.base))
    }
}

fn refusal_failure(status: StatusCode, problem: &Value) -> CommandFailure {
    let code = match status.as_u16() {
        400 | 413 | 415 | 422 => ExitCode::Invalid,
        429 | 500.. => ExitCode::Unreachable,
        _ => ExitCode::Refused,
    };
    let title = problem["title"].as_str().unwrap_or_else(|| status.canonical_reason().unwrap_or("refused"));
    let mut message = format!("{title} ({})", status.as_u16());
    if let Some(detail) = problem["detail"].as_str() {
        message = format!("{message}: {detail}");
    }
    for item in problem["problems"].as_array().into_iter().flatten() {
        let (path, text) = (item["path"].as_str().unwrap_or(""), item["message"].as_str().unwrap_or(""));
        message.push_str(&if path.is_empty() {
            format!("\n  {text}")
        } else {
            format!("\n  {path}: {text}")
        });
    }
    if status == StatusCode::UNAUTHORIZED {
        message.push_str("\nset MILLSTREAM_KEY; `millstream keys create NAME --role ROLE` makes a key");
    }
    CommandFailure::new(code, message)
}

/// Encodes user input as a path segment.
pub(crate) fn path_segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
