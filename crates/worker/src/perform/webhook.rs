//! `webhook`: a notification signed according to Standard Webhooks.
//!
//! `webhook-id` is the same for every attempt, so that a receiver can detect a repetition;
//! `webhook-timestamp` is that of the attempt; `webhook-signature` is `v1,` and the base64 of HMAC-SHA256
//! over `id.timestamp.body`. The secret is `whsec_` and base64, or any text as it is.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use millstream_core::definition::Method;
use millstream_core::machine::WebhookInput;
use millstream_core::raw::RawJson;
use millstream_core::sealed::{self, Filled, MissingSecret};
use millstream_core::time::Timestamp;
use serde::Serialize;
use sha2::Sha256;

use super::errand::{HttpRequest, Sealed, SealedBody};

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: Timestamp,
    data: RawJson,
}

/// The request of one attempt.
pub(crate) fn request(
    input: &WebhookInput,
    filled: &Filled,
    key: &str,
    now: Timestamp,
) -> Result<HttpRequest, MissingSecret> {
    let secret = filled.value(&input.secret).ok_or_else(|| MissingSecret(input.secret.clone()))?;
    let data = sealed::fill(&input.data, &input.data_secrets, filled)?;
    let body = RawJson::of(&Body { event_type: &input.event_type, timestamp: input.at, data });
    let headers = signed(&[secret], key, &body, now);
    Ok(HttpRequest {
        method: Method::Post,
        url: input.url.fill(filled)?,
        headers,
        body: Some(body),
        expect: Vec::new(),
        max_response: None,
        sealed: Sealed { headers: BTreeSet::new(), body: SealedBody::of(&input.data_secrets) },
        at: now,
    })
}

/// Headers that sign a body, one signature per secret: during a rotation of secrets receivers accept either.
pub(crate) fn signed(
    secrets: &[&str],
    key: &str,
    body: &RawJson,
    now: Timestamp,
) -> BTreeMap<String, String> {
    let id = message_id(key);
    let seconds = now.as_millis().div_euclid(1000);
    let signatures: Vec<_> = secrets.iter().map(|secret| sign(secret, &id, seconds, body.as_str())).collect();
    BTreeMap::from([
        ("webhook-id".to_owned(), id),
        ("webhook-timestamp".to_owned(), seconds.to_string()),
        ("webhook-signature".to_owned(), signatures.join(" ")),
    ])
}

/// Without a full stop, the separator in the signed text.
fn message_id(key: &str) -> String {
    let id = millstream_core::entropy::derived_event_id(&format!("webhook {key}"));
    format!("msg_{}", id.0.simple())
}

fn sign(secret: &str, id: &str, seconds: i64, body: &str) -> String {
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
    fn the_signature_is_that_of_the_published_example() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn several_secrets_sign_side_by_side() {
        let (body, now) = (RawJson::of(&1), Timestamp::from_millis(5_999));
        let alone = |secret| signed(&[secret], "k", &body, now)["webhook-signature"].clone();
        let both = signed(&["new", "old"], "k", &body, now);
        assert_eq!(both["webhook-signature"], format!("{} {}", alone("new"), alone("old")));
        assert_eq!(both["webhook-timestamp"], "5");
    }

    #[test]
    fn the_id_is_the_same_on_every_attempt_and_of_no_other_action() {
        assert_eq!(message_id("default/o-1/4/tell"), message_id("default/o-1/4/tell"));
        assert_ne!(message_id("default/o-1/4/tell"), message_id("default/o-1/4/tell~1"));
        assert!(!message_id("a.b").contains('.'));
    }
}
