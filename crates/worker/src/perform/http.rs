//! `http`: one outgoing request, with the address guard at every hop.
//!
//! No system proxies (they would bypass the address check), no automatic redirects (each hop is checked and
//! counted here), a bounded answer. [`super::http_answer`] interprets the answer; `workflow` decides about retries.

use std::error::Error;
use std::sync::Arc;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Certificate, Client, Method, Response, StatusCode};
use url::Url;

use super::address_guard::{AddressGuard, ForbiddenTarget};
use super::attempt_contract::AttemptCredentials;
use super::http_answer;
use super::http_request::{HttpRequest, PerformHttp, SealedBody, SealedParts};
use crate::error::WorkerFailure;
use crate::options::HttpOptions;

#[derive(Debug)]
pub(crate) struct HttpPerformer {
    client: Client,
    guard: AddressGuard,
    max_response: usize,
    max_redirects: usize,
}

impl HttpPerformer {
    pub(crate) fn new(options: &HttpOptions) -> Result<Self, WorkerFailure> {
        let guard = AddressGuard::new(&options.allow);
        let roots = options.private_roots.iter().map(|root| Certificate::from_der(root));
        let roots =
            roots.collect::<Result<Vec<_>, _>>().map_err(|error| WorkerFailure::Http(error.to_string()))?;
        let client = Client::builder()
            .tls_certs_merge(roots)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Arc::new(guard.clone()))
            .connect_timeout(options.connect_timeout)
            .user_agent(concat!("millstream/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| WorkerFailure::Http(error.to_string()))?;
        Ok(Self { client, guard, max_response: options.max_response, max_redirects: options.max_redirects })
    }

    async fn follow_redirects(
        &self,
        request: &HttpRequest,
        credentials: &AttemptCredentials,
    ) -> Result<AttemptOutcome, AttemptOutcome> {
        let mut hop = HttpHop::first_hop(request, Some(credentials))?;
        for _ in 0..=self.max_redirects {
            let response = self.send_hop(&hop).await?;
            let is_wanted = http_answer::is_named(&request.expect, response.status());
            match if is_wanted { None } else { hop.next_hop(&response)? } {
                Some(next) => hop = next,
                None => return self.read_answer(request, response).await,
            }
        }
        Err(permanent_failure(ErrorClass::Response, format!("more than {} redirects", self.max_redirects)))
    }

    /// Sends a request that belongs to no action: only the status of the answer counts, and a redirect is a
    /// failure.
    pub(crate) async fn deliver_request(&self, request: &HttpRequest) -> Result<(), AttemptOutcome> {
        let response = self.send_hop(&HttpHop::first_hop(request, None)?).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(self.read_answer(request, response).await?)
    }

    async fn send_hop(&self, hop: &HttpHop) -> Result<Response, AttemptOutcome> {
        self.guard
            .check_url(&hop.url)
            .map_err(|error| permanent_failure(ErrorClass::Forbidden, error.to_string()))?;
        let mut outgoing =
            self.client.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            outgoing = outgoing.body(body.clone());
        }
        outgoing.send().await.map_err(|error| no_answer(&error))
    }

    async fn read_answer(
        &self,
        request: &HttpRequest,
        mut response: Response,
    ) -> Result<AttemptOutcome, AttemptOutcome> {
        let (longest, whose) = match request.max_response {
            Some(own) if own < self.max_response => (own, "http.max_response"),
            Some(_) | None => (self.max_response, "worker.http_max_response"),
        };
        let expected = http_answer::is_expected(&request.expect, response.status());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(&error))? {
            let within = if expected { longest } else { longest.max(http_answer::LOOKED_AT) };
            if body.len() + chunk.len() <= within {
                body.extend_from_slice(&chunk);
            } else if expected {
                let message = format!("the answer is longer than {longest} bytes ({whose})");
                return Err(permanent_failure(ErrorClass::Response, message));
            } else {
                // The status is sufficient; of the text only the beginning is shown.
                body.extend_from_slice(&chunk[..within - body.len()]);
                break;
            }
        }
        Ok(http_answer::judge_answer(
            &request.expect,
            response.status(),
            response.headers(),
            &body,
            request.at,
        ))
    }
}

#[async_trait::async_trait]
impl PerformHttp for HttpPerformer {
    async fn send_request(&self, request: &HttpRequest, credentials: &AttemptCredentials) -> AttemptOutcome {
        match self.follow_redirects(request, credentials).await {
            Ok(attempt) | Err(attempt) => attempt,
        }
    }
}

/// One request of a chain of redirects.
struct HttpHop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<String>,
    sealed: SealedParts,
}

impl HttpHop {
    fn first_hop(
        request: &HttpRequest,
        credentials: Option<&AttemptCredentials>,
    ) -> Result<Self, AttemptOutcome> {
        let bad = |what: &str| permanent_failure(ErrorClass::Input, format!("{what} cannot be sent"));
        let url = Url::parse(&request.url).map_err(|error| {
            // Without the URL itself: it may hold a secret.
            permanent_failure(ErrorClass::Input, format!("invalid url: {error}"))
        })?;
        let mut headers = HeaderMap::new();
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| bad("a header value"));
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, text) in &request.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("a header name"))?;
            headers.insert(name, value(text)?);
        }
        if let Some(credentials) = credentials {
            headers.insert("idempotency-key", value(&credentials.idempotency_key)?);
            headers.insert("millstream-fencing-token", HeaderValue::from(credentials.fencing_token));
            headers.insert("traceparent", value(&credentials.traceparent)?);
        }
        let method = Method::from_bytes(request.method.as_str().as_bytes()).map_err(|_| bad("the method"))?;
        let body = request.body.as_ref().map(|body| body.as_str().to_owned());
        Ok(Self { method, url, headers, body, sealed: request.sealed.clone() })
    }

    /// The next request, if the answer asks for one. As in browsers, 307 and 308 repeat the request, and 303
    /// (and 301 and 302 after a POST) fetch the answer elsewhere; credentials and all parts that hold a
    /// secret stay with their origin.
    fn next_hop(&self, response: &Response) -> Result<Option<Self>, AttemptOutcome> {
        let repeat = match response.status() {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method != Method::POST,
            StatusCode::SEE_OTHER => self.method == Method::HEAD,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
        let bad = || permanent_failure(ErrorClass::Response, "redirected to an invalid URL".to_owned());
        let url = self.url.join(location.to_str().map_err(|_| bad())?).map_err(|_| bad())?;
        let mut headers = self.headers.clone();
        if url.origin() != self.url.origin() {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
            for name in &self.sealed.headers {
                headers.remove(name);
            }
            if repeat && self.sealed.body == SealedBody::Sealed {
                let message = "redirected to another origin; the body contains secrets and is not sent there";
                return Err(permanent_failure(ErrorClass::Forbidden, message.to_owned()));
            }
        }
        let sealed = self.sealed.clone();
        if repeat {
            let (method, body) = (self.method.clone(), self.body.clone());
            return Ok(Some(Self { method, url, headers, body, sealed }));
        }
        headers.remove(CONTENT_TYPE);
        Ok(Some(Self { method: Method::GET, url, headers, body: None, sealed }))
    }
}

fn permanent_failure(class: ErrorClass, message: String) -> AttemptOutcome {
    AttemptOutcome::Permanent { error: ActionFailure { class, message, status: None } }
}

/// No answer, or only a part of one.
fn no_answer(error: &reqwest::Error) -> AttemptOutcome {
    // The URL may hold a secret, and its target is in the input.
    let mut message = match error.url().and_then(Url::host_str) {
        Some(host) => format!("no answer from {host}"),
        None => "no answer".to_owned(),
    };
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<ForbiddenTarget>() {
            return permanent_failure(ErrorClass::Forbidden, forbidden.to_string());
        }
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    if error.is_builder() {
        return permanent_failure(ErrorClass::Input, message);
    }
    let class = if error.is_timeout() { ErrorClass::Timeout } else { ErrorClass::Network };
    AttemptOutcome::Transient { error: ActionFailure { class, message, status: None }, retry_after: None }
}
