//! An external worker: leases tasks at the ingresses, performs them at the sink, and reports the outcome.
//!
//! It may stop answering, like a crashed worker; it may be slower than its lease, and then the ingress
//! refuses its report and the sink its token.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::sink::Served;
use crate::tally::Count;
use crate::wire::{Doors, Wire, post_json};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Hand {
    wire: Wire,
    name: String,
}

impl Hand {
    pub(crate) fn new(world: &Arc<World>, doors: &Doors, number: usize) -> Self {
        Self { wire: Wire::new(world, doors), name: format!("h{number}") }
    }

    /// Works for ever.
    pub(crate) async fn work(self) {
        let wish = |max: u64| json!({ "types": ["sort"], "max": max, "wait": 2, "worker": self.name });
        loop {
            let wish = wish(1 + self.wire.dice.below(2));
            let heard = self.wire.exchange(post_json("/v1/tasks/lease", &wish)).await;
            let tasks = heard.map(|(_, body)| body["tasks"].as_array().cloned().unwrap_or_default());
            let tasks = tasks.unwrap_or_default();
            if tasks.is_empty() {
                tokio::time::sleep(self.wire.dice.millis(20, 300)).await;
            }
            for task in tasks {
                self.wire.world.count(Count::TasksTaken);
                self.perform(&task).await;
            }
        }
    }

    async fn perform(&self, task: &Value) {
        let (world, dice) = (&self.wire.world, &self.wire.dice);
        let (Some(key), Some(token)) = (task["key"].as_str(), task["token"].as_i64()) else { return };
        let rates = &world.plan.rates;
        if world.strikes(rates.sink_silent * 2) {
            world.count(Count::TasksDropped);
            world.line(&self.name, || format!("drops {key} #{token}"));
            return;
        }
        if world.strikes(rates.sink_refused) {
            let told = json!({ "token": token, "message": "busy", "retry_after": "50ms" });
            return self.tell(key, "fail", &told).await;
        }
        if world.strikes(rates.sink_failed) {
            let told = json!({ "token": token, "message": "no", "class": "hopeless", "then": "fail" });
            return self.tell(key, "fail", &told).await;
        }
        if !world.is_calm() && dice.one_in(4) {
            self.tell(key, "heartbeat", &json!({ "token": token, "progress": token })).await;
            tokio::time::sleep(dice.millis(0, 1_200)).await;
        }
        match world.sink.serve(world, key, token) {
            Served::Done { again } => {
                let result = json!({ "body": { "token": token, "again": again } });
                self.tell(key, "complete", &json!({ "token": token, "result": result })).await;
            }
            // Another worker has the task.
            Served::OldToken => {}
        }
    }

    async fn tell(&self, key: &str, word: &str, body: &Value) {
        let path = format!("/v1/tasks/{}/{word}", key.replace('/', "%2F"));
        let heard = self.wire.until_answered(|| post_json(&path, body)).await;
        let status = heard.map(|(status, _)| status.as_u16());
        self.wire.world.line(&self.name, || format!("{word} {key} {body} → {status:?}"));
        match (word, status) {
            ("complete", Some(200)) => self.wire.world.count(Count::TasksDone),
            (_, Some(409)) => self.wire.world.count(Count::TasksRefused),
            (_, _) => {}
        }
    }
}
