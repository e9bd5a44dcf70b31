//! Executions with permanently failed actions, for tests of operator decisions.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{IncidentId, TenantId, WorkerId};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::action_store::{AfterFailure, LeasedAction, SettleOutcome, Settlement};
use millstream_store::execution_store::LeaseGrant;
use serde_json::{Value, json};

use crate::bench::{Bench, yaml};

/// One action that can fail, and one that depends on it.
pub(crate) const PAYMENT: &str = r#"
name: payment
initial: open
states:
  open: { on: { pay: { to: paying, do: [charge, receipt] } } }
  paying: { on: { charged: { to: paid }, noted: {} } }
  paid: { final: true }
actions:
  charge:
    http: { method: POST, url: "http://127.0.0.1:9/charge", body: { amount: event.payload.amount } }
    on_success: charged
  receipt: { noop: null, needs: [charge] }
"#;

pub(crate) fn grant(queue: ActionQueue) -> LeaseGrant {
    LeaseGrant { slots: 100, ttl: Duration::from_secs(15), queues: Arc::new([queue]) }
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::parse("bench").unwrap()
}

impl Bench {
    pub(crate) async fn with_payment() -> Self {
        let bench = Self::open();
        bench.define(PAYMENT).await;
        bench
    }

    pub(crate) async fn define(&self, source: &str) {
        let answer = self.send(yaml("/v1/definitions", source)).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }

    /// Starts a payment whose charge is ready.
    pub(crate) async fn pay(&self, id: &str) {
        let events = json!([{"name": "pay", "payload": {"amount": 7}}]);
        let body = json!({"definition": "payment", "execution_id": id, "events": events});
        let started = self.post("/v1/executions", &body).await;
        assert_eq!(started.status, 201, "{started:?}");
        self.decide(id).await;
    }

    pub(crate) async fn lease(&self) -> Vec<LeasedAction> {
        lease(&self.stores, self.clock.now()).await
    }

    /// Every ready action fails permanently.
    pub(crate) async fn fail_all(&self, class: ErrorClass) {
        fail_all(&self.stores, self.clock.now(), class).await;
    }

    /// A payment whose charge has failed: its incident.
    pub(crate) async fn incident(&self, id: &str) -> Value {
        self.pay(id).await;
        self.fail_all(ErrorClass::Status).await;
        let found = self.get(&format!("/v1/incidents?status=open&execution_id={id}")).await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
        found["items"][0].clone()
    }
}

async fn lease(stores: &Stores, now: Timestamp) -> Vec<LeasedAction> {
    stores
        .actions
        .lease(&worker(), &grant(ActionQueue::engine_of(&TenantId::default_tenant())), now)
        .await
        .unwrap()
}

/// Every ready action fails permanently.
pub(crate) async fn fail_all(stores: &Stores, now: Timestamp, class: ErrorClass) {
    let failed = |action: LeasedAction| {
        let id = IncidentId(uuid_of(&action));
        let reason = format!("action {} failed: {class}: 503", action.lease.key.action);
        let incident = NewIncident { id, class: class.clone(), reason };
        let error = RawJson::from_value(&json!({"class": class.as_str(), "message": "503"}));
        let outcome = SettleOutcome::Failed { error, then: AfterFailure::Incident(incident) };
        Settlement { lease: action.lease, event_id: action.event_id, outcome }
    };
    let batch: Vec<Settlement> = lease(stores, now).await.into_iter().map(failed).collect();
    stores
        .actions
        .settle_actions(&worker(), &batch, &grant(ActionQueue::engine_of(&TenantId::default_tenant())), now)
        .await
        .unwrap();
}

/// A different key for each lease.
fn uuid_of(action: &LeasedAction) -> uuid::Uuid {
    let text = format!("{}#{}", action.lease.key, action.lease.epoch);
    millstream_model::entropy::derived_event_id(&text).0
}

/// The path of a resolution of an incident.
pub(crate) fn decision(incident: &Value, word: &str) -> String {
    format!("/v1/incidents/{}/{word}", incident["incident_id"].as_str().unwrap())
}
