//! Number of accepted events of the hostile tenant, over all attacks.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Method;
use serde_json::Value;

use super::AttackScene;

/// Answers to posts of events. Starts are not included.
#[derive(Debug, Default)]
pub(in crate::neighbours) struct AttackLedger {
    accepted: AtomicU64,
    /// Events of requests without a known answer.
    in_doubt: AtomicU64,
}

impl AttackLedger {
    pub(in crate::neighbours) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(in crate::neighbours) fn in_doubt(&self) -> u64 {
        self.in_doubt.load(Ordering::Relaxed)
    }

    pub(super) fn accept(&self, events: u64) {
        self.accepted.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn doubt(&self, events: u64) {
        self.in_doubt.fetch_add(events, Ordering::Relaxed);
    }
}

/// Result of a request with events: accepted events, and possibly accepted ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PostedBatch {
    pub(super) accepted: u64,
    pub(super) in_doubt: u64,
}

/// Posts one or several events, and records the accepted ones.
pub(super) async fn post_events(scene: &AttackScene, path: &str, events: &Value) -> PostedBatch {
    let count = events.as_array().map_or(1, |events| events.len() as u64);
    let answer = scene.fleet.hostile.request(Method::POST, path).json(events).send().await;
    scene.add_status(&answer);
    let answer = match answer {
        Ok(answer) => (answer.status().as_u16(), answer.json::<Value>().await.ok()),
        Err(_) => (0, None),
    };
    let posted = match answer {
        (status, Some(body)) => PostedBatch { accepted: accepted_events(status, &body), in_doubt: 0 },
        (_, None) => PostedBatch { accepted: 0, in_doubt: count },
    };
    scene.ledger.accept(posted.accepted);
    scene.ledger.doubt(posted.in_doubt);
    scene.add_count("events accepted", posted.accepted);
    posted
}

/// Of one event, or of each of several.
fn accepted_events(status: u16, body: &Value) -> u64 {
    let is_accepted = |item: &&Value| item["event_id"].is_string();
    match body["items"].as_array() {
        _ if !(200..300).contains(&status) => 0,
        Some(items) => items.iter().filter(is_accepted).count() as u64,
        None => u64::from(is_accepted(&body)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ledger_counts_items_with_id() {
        let items = json!({"items": [{"event_id": "a"}, {"problem": {"status": 429}}, {"event_id": "b"}]});
        assert_eq!(accepted_events(202, &items), 2);
        assert_eq!(accepted_events(202, &json!({"event_id": "a"})), 1);
        assert_eq!(accepted_events(429, &json!({"type": "quota-throttled"})), 0);
    }
}
