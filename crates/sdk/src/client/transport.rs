//! One request with its retries.
//!
//! A retry sends the same bytes with the same headers. It is allowed depending on what may have happened:
//! after 429, or without a connection, the server did nothing. After any other failure the server may have
//! processed the request, and only idempotent requests are sent again.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Body, Method, Response};
use serde::de::DeserializeOwned;

use super::connect::Client;
use super::retry::ClientRetry;
use crate::client_error::{ClientError, ServerProblem};

/// Whether a request is idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatPolicy {
    /// It only reads, or carries a key or an id.
    Always,
    /// A repetition would be processed twice.
    IfNothingHappened,
}

/// A repeatable request.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    repeat: RepeatPolicy,
    wait: Duration,
}

/// A successful answer.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    url: String,
    body: Bytes,
}

impl ApiRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Bytes::new(),
            repeat: RepeatPolicy::Always,
            wait: Duration::ZERO,
        }
    }

    pub(crate) fn post(path: impl Into<String>, repeat: RepeatPolicy) -> Self {
        Self { method: Method::POST, repeat, ..Self::get(path) }
    }

    /// Idempotent: the last call counts.
    pub(crate) fn put(path: impl Into<String>) -> Self {
        Self { method: Method::PUT, ..Self::get(path) }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(crate) fn add_query(mut self, name: &'static str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    pub(crate) fn add_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn with_body(mut self, media: &'static str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.add_header("content-type", media)
    }

    pub(crate) fn with_json(self, body: Vec<u8>) -> Self {
        self.with_body("application/json", body)
    }

    /// Wait requested from the server, added to the timeout.
    pub(crate) fn with_server_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl ApiResponse {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::Unreadable { url: self.url.clone(), reason: error.to_string() })
    }
}

impl Client {
    /// Sends until there is a final answer or the attempts are used up.
    pub(crate) async fn send_request(&self, ask: &ApiRequest) -> Result<ApiResponse, ClientError> {
        let mut attempt = 1;
        loop {
            let error = match self.send_request_once(ask).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match retry_pause(&self.inner.retry, attempt, &error, ask.repeat, unit_random()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
            attempt += 1;
        }
    }

    pub(crate) async fn send_request_once(&self, ask: &ApiRequest) -> Result<ApiResponse, ClientError> {
        let response = self.open_response(ask, Some(self.inner.timeout + ask.wait)).await?;
        let (status, url) = (response.status().as_u16(), response.url().to_string());
        let body = response
            .bytes()
            .await
            .map_err(|source| ClientError::Unreachable { url: self.inner.base.clone(), source })?;
        Ok(ApiResponse { status, url, body })
    }

    /// One attempt, up to the head of a successful answer. Without a `timeout` its body may be endless.
    pub(crate) async fn open_response(
        &self,
        ask: &ApiRequest,
        timeout: Option<Duration>,
    ) -> Result<Response, ClientError> {
        let has_body = ask.method == Method::POST || ask.method == Method::PUT;
        self.open_response_to(ask, has_body.then(|| Body::from(ask.body.clone())), timeout).await
    }

    /// The same with another body, which may be a stream.
    pub(crate) async fn open_response_to(
        &self,
        ask: &ApiRequest,
        body: Option<Body>,
        timeout: Option<Duration>,
    ) -> Result<Response, ClientError> {
        let inner = &self.inner;
        let mut request = inner.http.request(ask.method.clone(), format!("{}{}", inner.base, ask.path));
        if !ask.query.is_empty() {
            request = request.query(&ask.query);
        }
        if let Some(key) = &inner.key {
            request = request.bearer_auth(key);
        }
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        let unreachable = |source| ClientError::Unreachable { url: inner.base.clone(), source };
        let response = request.send().await.map_err(unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, asked) = (response.status().as_u16(), retry_after(response.headers()));
        let body = response.bytes().await.unwrap_or_default();
        Err(ClientError::Refused(Box::new(ServerProblem::of_response(status, &body, asked))))
    }
}

/// The pause before the next attempt, if one is allowed.
pub(crate) fn retry_pause(
    retry: &ClientRetry,
    attempt: u32,
    error: &ClientError,
    repeat: RepeatPolicy,
    unit: f64,
) -> Option<Duration> {
    let (nothing_happened, asked) = match error {
        ClientError::Unreachable { source, .. } if source.is_builder() => return None,
        ClientError::Unreachable { source, .. } => (source.is_connect(), None),
        ClientError::Closed { .. } => (false, None),
        ClientError::Refused(problem) => match problem.status {
            429 => (true, problem.retry_after),
            502..=504 => (false, problem.retry_after),
            _ => return None,
        },
        ClientError::Unreadable { .. }
        | ClientError::Unsendable(_)
        | ClientError::InvalidSetting { .. }
        | ClientError::TimedOut(_) => return None,
    };
    match (repeat, nothing_happened) {
        (RepeatPolicy::Always, _) | (RepeatPolicy::IfNothingHappened, true) => {
            retry.pause_after(attempt, unit, asked)
        }
        (RepeatPolicy::IfNothingHappened, false) => None,
    }
}

/// A random number in `0.0..1.0`.
pub(crate) fn unit_random() -> f64 {
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    #[expect(clippy::cast_possible_truncation, reason = "32 random bits are enough for jitter")]
    let bits = low as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// `Retry-After` in seconds, the only form that the server sends.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Escapes one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: ClientRetry =
        ClientRetry { attempts: 3, backoff: Duration::from_millis(100), max: Duration::from_secs(1) };

    fn refused(status: u16, retry_after: Option<u64>) -> ClientError {
        ClientError::Refused(Box::new(ServerProblem::of_response(
            status,
            b"",
            retry_after.map(Duration::from_secs),
        )))
    }

    #[test]
    fn unsafe_request_is_not_repeated() {
        let after = |status, repeat| retry_pause(&RETRY, 1, &refused(status, None), repeat, 1.0);
        assert!(after(503, RepeatPolicy::Always).is_some());
        assert_eq!(after(503, RepeatPolicy::IfNothingHappened), None);
        assert!(after(429, RepeatPolicy::IfNothingHappened).is_some());
        assert_eq!(after(422, RepeatPolicy::Always), None);
    }

    #[test]
    fn retry_after_is_honoured() {
        let error = refused(429, Some(2));
        assert_eq!(retry_pause(&RETRY, 1, &error, RepeatPolicy::Always, 0.0), Some(Duration::from_secs(2)));
        assert_eq!(retry_pause(&RETRY, 3, &error, RepeatPolicy::Always, 0.0), None);
    }

    #[test]
    fn path_segment_escapes_any_text() {
        assert_eq!(path_segment("a b/ü+c"), "a%20b%2F%C3%BC%2Bc");
    }
}
