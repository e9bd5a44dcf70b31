//! Quotas against a real engine; API keys over a stub, because the first key is created on the store.

use std::time::Duration;

use millstream_sdk::client::{
    ApiKeyRole, ApiKeyRotation, ApiKeyStatus, NewApiKey, NewTenantQuota, QuotaAmount, QuotaName, QuotaSource,
    UsageScope,
};
use serde_json::{Value, json};

use crate::stub::StubServer;
use crate::world::{SdkWorld, persistent};

#[tokio::test]
async fn tenant_quotas_are_set_and_shown() {
    let client = &SdkWorld::new().await.client;
    let built_in = client.quota("default").await.unwrap();
    assert!(built_in.items.iter().all(|quota| quota.name != QuotaName::Unknown));
    let waits = built_in.items.iter().find(|quota| quota.name == QuotaName::Waits).unwrap();
    assert_eq!((&waits.value, waits.source), (&QuotaAmount::from("3/4"), QuotaSource::BuiltIn));
    let wanted = NewTenantQuota::default().with(QuotaName::Devices, 5).with(QuotaName::Waits, "1/2");
    let set = client.put_quota("default", &wanted).await.unwrap();
    let devices = set.items.iter().find(|quota| quota.name == QuotaName::Devices).unwrap();
    assert_eq!((&devices.value, devices.source), (&QuotaAmount::Number(5), QuotaSource::Row));
    let usage = client.usage("default").await.unwrap();
    let definitions = usage.items.iter().find(|usage| usage.name == QuotaName::Definitions).unwrap();
    assert_eq!((definitions.used, definitions.scope), (1, UsageScope::Store));
}

const KEY: &str = r#"{"key_id":"0123456789abcdef01234567","tenant":"default","name":"ci","role":"read","status":"current",
    "bound_to":null,"created_at":"2026-01-01T00:00:00.000Z","created_by":"root","last_used_at":null,
    "expires_at":"2026-01-02T00:00:00.000Z","revoked_at":null}"#;

#[tokio::test]
async fn api_keys_are_created_rotated_and_revoked() {
    let issued = KEY.replacen('{', r#"{"key":"ms_1","#, 1);
    let page = format!(r#"{{"items":[{KEY}],"next_cursor":null}}"#);
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let (issued, page) = (leak(issued), leak(page));
    let answers = [(201, issued), (503, "{}"), (201, issued), (200, page), (503, "{}"), (200, KEY)];
    let stub = StubServer::answering(&answers).await;
    let client = persistent(stub.address);
    let wanted = NewApiKey::named("ci", ApiKeyRole::Read).expires_in(Duration::from_secs(86_400));
    let created = client.create_key(&wanted).await.unwrap();
    assert_eq!((created.key.as_str(), created.view.status), ("ms_1", ApiKeyStatus::Current));
    // A lost answer contains the only copy of the secret: the request is not repeated.
    assert_eq!(client.create_key(&wanted).await.unwrap_err().problem().unwrap().status, 503);
    let id = &created.view.key_id;
    let rotation = ApiKeyRotation { overlap: Some("1h".to_owned()), expires_in: None };
    assert_eq!(client.rotate_key(id, &rotation).await.unwrap(), created);
    assert_eq!(client.keys().tenant("default").await.unwrap(), std::slice::from_ref(&created.view));
    assert_eq!(client.revoke_key(id).await.unwrap(), created.view);
    let asked = stub.asked();
    let bodies: Vec<Value> =
        asked.iter().map(|ask| serde_json::from_str(&ask.body).unwrap_or_default()).collect();
    assert_eq!(bodies[0], json!({ "name": "ci", "role": "read", "expires_in": "1d" }));
    assert_eq!(
        (asked[2].path.as_str(), &bodies[2]),
        ("/v1/keys/0123456789abcdef01234567/rotate", &json!({ "overlap": "1h" }))
    );
    assert!(asked[3].path.starts_with("/v1/keys"));
    assert_eq!(asked[4].path, "/v1/keys/0123456789abcdef01234567");
}
