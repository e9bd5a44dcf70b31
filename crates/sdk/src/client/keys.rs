//! API keys: listed, created, rotated, revoked. The caller needs a key with the role `admin`, or `operator` for
//! every tenant.

use std::future::Future;
use std::pin::Pin;

use millstream_api::keys::{ApiKey, ApiKeyRotation, IssuedApiKey, NewApiKey};

use super::connect::Client;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A list of API keys, newest first. Set filters, then [`stream`](ApiKeyList::stream) it or await all of them.
#[derive(Debug)]
pub struct ApiKeyList(PagedList<ApiKey>);

impl Client {
    /// API keys without their secrets, newest first, including expired and revoked ones.
    pub fn keys(&self) -> ApiKeyList {
        ApiKeyList(PagedList::new(self, ApiRequest::get("/v1/keys")))
    }

    /// Creates a key. Its secret is shown only in this answer; a lost answer is not requested again.
    pub async fn create_key(&self, key: &NewApiKey) -> Result<IssuedApiKey, ClientError> {
        let ask = ApiRequest::post("/v1/keys", RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(json::json_body(key)?)).await?.json()
    }

    /// Creates the successor of a key, which expires after the overlap. The secret of the successor is shown
    /// only in this answer; a lost answer is not requested again.
    pub async fn rotate_key(
        &self,
        key_id: &str,
        rotation: &ApiKeyRotation,
    ) -> Result<IssuedApiKey, ClientError> {
        let ask = ApiRequest::post(key_path(key_id, "/rotate"), RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(json::json_body(rotation)?)).await?.json()
    }

    /// Revokes a key. Idempotent.
    pub async fn revoke_key(&self, key_id: &str) -> Result<ApiKey, ClientError> {
        self.send_request(&ApiRequest::delete(key_path(key_id, ""))).await?.json()
    }
}

impl ApiKeyList {
    /// Only keys of this tenant; for operators, who see all keys by default.
    #[must_use]
    pub fn tenant(self, tenant: &str) -> Self {
        Self(self.0.add_query("tenant", tenant))
    }

    /// Number of keys per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> PagedStream<ApiKey> {
        self.0.stream()
    }
}

impl IntoFuture for ApiKeyList {
    type Output = Result<Vec<ApiKey>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

fn key_path(key_id: &str, rest: &str) -> String {
    format!("/v1/keys/{}{rest}", path_segment(key_id))
}
