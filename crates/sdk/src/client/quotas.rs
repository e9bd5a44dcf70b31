//! Quotas of a tenant and its usage.

use millstream_api::quotas::{NewTenantQuota, TenantQuota, TenantUsage};

use super::connect::Client;
use super::json;
use super::transport::{ApiRequest, path_segment};
use crate::client_error::ClientError;

impl Client {
    /// Every quota of a tenant, with its value and the source of the value.
    pub async fn quota(&self, tenant: &str) -> Result<TenantQuota, ClientError> {
        self.send_request(&ApiRequest::get(tenant_path(tenant, "/quota"))).await?.json()
    }

    /// Replaces the quotas that are set for a tenant; a name that is left out falls back to the settings. In
    /// force everywhere within 5 s. The last call counts.
    pub async fn put_quota(&self, tenant: &str, quota: &NewTenantQuota) -> Result<TenantQuota, ClientError> {
        let ask = ApiRequest::put(tenant_path(tenant, "/quota")).with_json(json::json_body(quota)?);
        self.send_request(&ask).await?.json()
    }

    /// The usage of a tenant: rows of the store, and its share of the process that answers.
    pub async fn usage(&self, tenant: &str) -> Result<TenantUsage, ClientError> {
        self.send_request(&ApiRequest::get(tenant_path(tenant, "/usage"))).await?.json()
    }
}

fn tenant_path(tenant: &str, rest: &str) -> String {
    format!("/v1/tenants/{}{rest}", path_segment(tenant))
}
