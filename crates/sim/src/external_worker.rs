//! An external worker: leases tasks at the ingresses, performs them at the sink, and reports the outcome.
//!
//! It may stop answering, like a crashed worker; it may be slower than its lease, and then the ingress
//! refuses its report and the sink its token.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::sink::SinkServed;
use crate::tally::SimCount;
use crate::wire::{IngressSlots, SimWire, post_json};
use crate::world::SimWorld;

#[derive(Debug)]
pub(crate) struct SimExternalWorker {
    wire: SimWire,
    name: String,
}

impl SimExternalWorker {
    pub(crate) fn new(world: &Arc<SimWorld>, doors: &IngressSlots, number: usize) -> Self {
        Self { wire: SimWire::new(world, doors), name: format!("h{number}") }
    }

    /// Works for ever.
    pub(crate) async fn lease_and_complete(self) {
        let wish = |max: u64| json!({ "types": ["sort"], "max": max, "wait": 2, "worker": self.name });
        loop {
            let wish = wish(1 + self.wire.dice.below(2));
            let heard = self.wire.exchange_request(post_json("/v1/tasks/lease", &wish)).await;
            let tasks = heard.map(|(_, body)| body["tasks"].as_array().cloned().unwrap_or_default());
            let tasks = tasks.unwrap_or_default();
            if tasks.is_empty() {
                tokio::time::sleep(self.wire.dice.millis(20, 300)).await;
            }
            for task in tasks {
                self.wire.world.count(SimCount::TasksTaken);
                self.perform_task(&task).await;
            }
        }
    }

    async fn perform_task(&self, task: &Value) {
        let (world, dice) = (&self.wire.world, &self.wire.dice);
        let (Some(key), Some(token)) = (task["key"].as_str(), task["token"].as_i64()) else { return };
        let rates = &world.plan.rates;
        if world.draws_fault(rates.sink_silent * 2) {
            world.count(SimCount::TasksDropped);
            world.trace_line(&self.name, || format!("drops {key} #{token}"));
            return;
        }
        if world.draws_fault(rates.sink_refused) {
            let told = json!({ "token": token, "message": "busy", "retry_after": "50ms" });
            return self.report_task(key, "fail", &told).await;
        }
        if world.draws_fault(rates.sink_failed) {
            let told = json!({ "token": token, "message": "no", "class": "hopeless", "then": "fail" });
            return self.report_task(key, "fail", &told).await;
        }
        if !world.is_calm() && dice.one_in(4) {
            self.report_task(key, "heartbeat", &json!({ "token": token, "progress": token })).await;
            tokio::time::sleep(dice.millis(0, 1_200)).await;
        }
        match world.sink.serve_call(world, key, token) {
            SinkServed::Done { again } => {
                let result = json!({ "body": { "token": token, "again": again } });
                self.report_task(key, "complete", &json!({ "token": token, "result": result })).await;
            }
            // Another worker has the task.
            SinkServed::OldToken => {}
        }
    }

    async fn report_task(&self, key: &str, word: &str, body: &Value) {
        let path = format!("/v1/tasks/{}/{word}", key.replace('/', "%2F"));
        let heard = self.wire.until_answered(|| post_json(&path, body)).await;
        let status = heard.map(|(status, _)| status.as_u16());
        self.wire.world.trace_line(&self.name, || format!("{word} {key} {body} → {status:?}"));
        match (word, status) {
            ("complete", Some(200)) => self.wire.world.count(SimCount::TasksDone),
            (_, Some(409)) => self.wire.world.count(SimCount::TasksRefused),
            (_, _) => {}
        }
    }
}
