//! `webhook`: a notification signed according to Standard Webhooks.
//!
//! `webhook-id` is the same for every attempt, so that a receiver can detect a repetition;
//! `webhook-timestamp` is that of the attempt; `webhook-signature` is `v1,` and the base64 of HMAC-SHA256
//! over `id.timestamp.body`. The secret is `whsec_` and base64, or any text as it is.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use millstream_model::raw::RawJson;
use millstream_model::secrets::{self, MissingSecret, SecretValues};
use millstream_model::time::Timestamp;
use millstream_workflow::definition::HttpMethod;
use millstream_workflow::machine::WebhookInput;
use serde::Serialize;
use sha2::Sha256;

use super::http_request::{HttpRequest, SealedBody, SealedParts};

#[derive(Serialize)]
struct WebhookBody<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: Timestamp,
    data: RawJson,
}

/// The request of one attempt.
pub(crate) fn webhook_request(
    input: &WebhookInput,
    filled: &SecretValues,
    key: &str,
    now: Timestamp,
) -> Result<HttpRequest, MissingSecret> {
    let secret = filled.secret_value(&input.secret).ok_or_else(|| MissingSecret(input.secret.clone()))?;
    let data = secrets::fill_holes(&input.data, &input.data_secrets, filled)?;
    let body = RawJson::from_value(&WebhookBody { event_type: &input.event_type, timestamp: input.at, data });
    let headers = signature_headers(&[secret], key, &body, now);
    Ok(HttpRequest {
        method: HttpMethod::Post,
        url: input.url.fill_secrets(filled)?,
        headers,
        body: Some(body),
        expect: Vec::new(),
        max_response: None,
        sealed: SealedParts { headers: BTreeSet::new(), body: SealedBody::of_holes(&input.data_secrets) },
        at: now,
    })
}

/// Headers that sign a body, one signature per secret: during a rotation of secrets receivers accept either.
pub(crate) fn signature_headers(
    secrets: &[&str],
    key: &str,
    body: &RawJson,
    now: Timestamp,
) -> BTreeMap<String, String> {
    let id = message_id(key);
    let seconds = now.as_millis().div_euclid(1000);
    let signatures: Vec<_> =
        secrets.iter().map(|secret| sign_message(secret, &id, seconds, body.as_str())).collect();
    BTreeMap::from([
        ("webhook-id".to_owned(), id),
        ("webhook-timestamp".to_owned(), seconds.to_string()),
        ("webhook-signature".to_owned(), signatures.join(" ")),
    ])
}

/// Without a full stop, the separator in the signed text.
fn message_id(key: &str) -> String {
    let id = millstream_model::entropy::derived_event_id(&format!("webhook {key}"));
    format!("msg_{}", id.0.simple())
}

fn sign_message(secret: &str, id: &str, seconds: i64, body: &str) -> String {
    let key = match secret.strip_prefix("whsec_").map(|encoded| STANDARD.decode(encoded)) {
        Some(Ok(key)) => key,
        Some(Err(_)) | None => secret.as_bytes().to_vec(),
    };
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_signature_matches_published_example() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let signed = sign_message(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn webhook_is_signed_with_every_secret() {
        let (body, now) = (RawJson::from_value(&1), Timestamp::from_millis(5_999));
        let alone = |secret| signature_headers(&[secret], "k", &body, now)["webhook-signature"].clone();
        let both = signature_headers(&["new", "old"], "k", &body, now);
        assert_eq!(both["webhook-signature"], format!("{} {}", alone("new"), alone("old")));
        assert_eq!(both["webhook-timestamp"], "5");
    }

    #[test]
    fn webhook_id_is_stable_per_action() {
        assert_eq!(message_id("default/o-1/4/tell"), message_id("default/o-1/4/tell"));
        assert_ne!(message_id("default/o-1/4/tell"), message_id("default/o-1/4/tell~1"));
        assert!(!message_id("a.b").contains('.'));
    }
}
