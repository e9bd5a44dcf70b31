//! A person who handles incidents: retries everything that failed.
//!
//! Nothing fails after the last fault. At the end only poison events may wait for a person.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::tally::SimCount;
use crate::tenants::SimTenant;
use crate::wire::{IngressSlots, SimWire, get_request, post_json};
use crate::workload::POISON;
use crate::world::SimWorld;

const NAME: &str = "person";

#[derive(Debug)]
pub(crate) struct SimPerson(SimWire);

impl SimPerson {
    pub(crate) fn new(world: &Arc<SimWorld>, doors: &IngressSlots, tenant: SimTenant) -> Self {
        Self(SimWire::of_tenant(world, doors, tenant))
    }

    /// Checks for incidents in an endless loop.
    pub(crate) async fn look_after(self) {
        let Self(wire) = &self;
        loop {
            tokio::time::sleep(wire.dice.millis(1_000, 4_000)).await;
            let found = wire.exchange_request(get_request("/v1/incidents?status=open")).await;
            let open = found.map(|(_, body)| body["items"].as_array().cloned().unwrap_or_default());
            for incident in open.unwrap_or_default() {
                if !self.is_hopeless(&incident).await {
                    self.retry_incident(&incident).await;
                }
            }
        }
    }

    async fn is_hopeless(&self, incident: &Value) -> bool {
        if !incident["action"].is_null() {
            return false;
        }
        let path = format!("/v1/events/{}", incident["event_id"].as_str().unwrap_or_default());
        // An event that cannot be read now is checked again later.
        self.0.exchange_request(get_request(&path)).await.is_none_or(|(_, event)| event["name"] == POISON)
    }

    async fn retry_incident(&self, incident: &Value) {
        let Self(wire) = self;
        let path = format!("/v1/incidents/{}/retry", incident["incident_id"].as_str().unwrap_or_default());
        let heard = wire.until_answered(|| post_json(&path, &json!({ "reason": "again" }))).await;
        wire.world.trace_line(NAME, || {
            let status = heard.as_ref().map(|(status, _)| status.as_u16());
            format!("retry {} → {status:?}", incident["reason"])
        });
        if heard.is_some_and(|(status, _)| status.is_success()) {
            wire.world.count(SimCount::Decided);
        }
    }
}
