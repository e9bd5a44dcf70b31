//! Bulk resolution of incidents.

use std::sync::{Arc, Mutex};

use millstream_model::error_class::ErrorClass;
use millstream_model::id::{IncidentId, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentView, Incidents, ResolveVerdict,
};
use millstream_store::intervention::DecisionRecord;
use millstream_store::{StoreResult, Stores};
use serde_json::{Value, json};

use crate::bench::{Bench, key, open_options, with_type};
use crate::failed_actions::{PAYMENT, fail_all};

/// Records the size of each batch of decisions, and may fail all of it again.
struct Watched {
    inner: Arc<dyn Incidents>,
    batches: Arc<Mutex<Vec<usize>>>,
    again: Option<Stores>,
}

#[async_trait::async_trait]
impl Incidents for Watched {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        self.inner.list_incidents(tenant, filter, after, limit).await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        self.inner.incident_groups(tenant, limit).await
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        self.inner.find_incidents(keys).await
    }

    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>> {
        self.batches.lock().unwrap().push(batch.len());
        let verdicts = self.inner.resolve_incidents(tenant, batch, by, now).await;
        if let Some(stores) = &self.again {
            fail_all(stores, now, ErrorClass::Status).await;
        }
        verdicts
    }
}

async fn failed(bench: &Bench, ids: std::ops::Range<usize>, class: ErrorClass) {
    for id in ids {
        bench.pay(&format!("p-{id}")).await;
    }
    while !bench.lease_is_empty(class.clone()).await {}
}

impl Bench {
    /// Fails every ready action; returns whether there was none.
    async fn lease_is_empty(&self, class: ErrorClass) -> bool {
        let before = open(self).await;
        self.fail_all(class).await;
        open(self).await == before
    }
}

async fn open(bench: &Bench) -> u64 {
    let groups = bench.get("/v1/incidents/groups").await.json();
    groups["items"].as_array().unwrap().iter().map(|group| group["count"].as_u64().unwrap()).sum()
}

async fn fingerprint(bench: &Bench, class: &str) -> String {
    let groups = bench.get("/v1/incidents/groups").await.json();
    let of = |group: &&Value| group["class"] == class;
    let found = groups["items"].as_array().unwrap().iter().find(of).unwrap();
    found["fingerprint"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn group_retry_runs_in_batches() {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let bench = Bench::with(open_options(), |mut stores, streams| {
        let (inner, batches) = (stores.incidents.clone(), batches.clone());
        stores.incidents = Arc::new(Watched { inner, batches, again: None });
        (stores, streams)
    });
    bench.define(PAYMENT).await;
    failed(&bench, 0..300, ErrorClass::Status).await;
    failed(&bench, 300..302, ErrorClass::Network).await;
    let path = format!("/v1/incidents/groups/{}/retry", fingerprint(&bench, "status").await);
    let answer = bench.post(&path, &json!({"reason": "the bank is back"})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({"resolved": 300, "remaining": 0}));
    assert_eq!(*batches.lock().unwrap(), [256, 44]);
    assert_eq!(open(&bench).await, 2);
    let recorded = bench.stores.interventions.list_decisions(&key("p-7")).await.unwrap().pop().unwrap();
    assert_eq!((recorded.kind.as_str(), recorded.reason.as_deref()), ("retry", Some("the bank is back")));
    let again = bench.post(&path, &json!({})).await;
    assert_eq!((again.status.as_u16(), again.json()), (202, json!({"resolved": 0, "remaining": 0})));
}

#[tokio::test]
async fn group_retry_may_be_limited() {
    let bench = Bench::with_payment().await;
    failed(&bench, 0..5, ErrorClass::Status).await;
    let path = format!("/v1/incidents/groups/{}/retry", fingerprint(&bench, "status").await);
    let answer = bench.post(&path, &json!({"limit": 2})).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (202, json!({"resolved": 2, "remaining": 3})));
}

#[tokio::test]
async fn group_retry_skips_new_incidents() {
    let bench = Bench::with(open_options(), |mut stores, streams| {
        let (inner, again) = (stores.incidents.clone(), Some(stores.clone()));
        stores.incidents = Arc::new(Watched { inner, batches: Arc::default(), again });
        (stores, streams)
    });
    bench.define(PAYMENT).await;
    failed(&bench, 0..3, ErrorClass::Status).await;
    let path = format!("/v1/incidents/groups/{}/retry", fingerprint(&bench, "status").await);
    let answer = bench.post(&path, &json!({})).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (202, json!({"resolved": 3, "remaining": 3})));
}

#[tokio::test]
async fn group_cancel_ends_every_execution() {
    let bench = Bench::with_payment().await;
    for (ids, word, ended) in [(0..2, "fail", "failed"), (2..4, "cancel", "cancelled")] {
        failed(&bench, ids.clone(), ErrorClass::Status).await;
        let path = format!("/v1/incidents/groups/{}/{word}", fingerprint(&bench, "status").await);
        let answer = bench.post(&path, &json!({"reason": "hopeless"})).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["resolved"]), (202, &json!(2)), "{answer:?}");
        for id in ids {
            bench.decide(&format!("p-{id}")).await;
            let execution = bench.get(&format!("/v1/executions/p-{id}")).await.json();
            assert_eq!(execution["status"], ended, "{execution}");
        }
    }
}

#[tokio::test]
async fn invalid_group_resolution_is_rejected() {
    let bench = Bench::with_payment().await;
    failed(&bench, 0..1, ErrorClass::Status).await;
    let good = fingerprint(&bench, "status").await;
    for word in ["retry", "fail", "cancel"] {
        for bad in
            ["0000000000000000", "nonsense", &good.to_uppercase(), "%00", "..%2f..", &"a".repeat(4_000)]
        {
            let path = format!("/v1/incidents/groups/{bad}/{word}");
            bench.post(&path, &json!({})).await.problem(404, "not-found");
        }
        let path = format!("/v1/incidents/groups/{good}/{word}");
        for body in [
            json!({"limit": 0}),
            json!({"limit": 10_001}),
            json!({"limit": "2"}),
            json!({"limit": 1.5}),
            json!({"result": 1}),
            json!({"input": {}}),
            json!({"reason": "x".repeat(4_001)}),
        ] {
            bench.post(&path, &body).await.problem(422, "invalid");
        }
        bench.send(with_type(&path, "text/plain", "all")).await.problem(415, "unsupported-media-type");
    }
    bench.post(&format!("/v1/incidents/groups/{good}/skip"), &json!({})).await.problem(404, "no-such-route");
    assert_eq!(open(&bench).await, 1);
}
