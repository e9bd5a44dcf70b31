//! Devices: registration, heartbeats, and queries.

use std::collections::BTreeSet;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::run_acts::{RunAssignment, RunProgress};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A device, as it registers itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewDevice {
    #[serde(skip)]
    pub(crate) id: String,
    capabilities: BTreeSet<String>,
    capability: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u32>,
    load: f64,
    quality: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    battery: Option<u8>,
    on_battery: bool,
    coordinator: bool,
}

/// A registered device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceView {
    pub device_id: String,
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// How many seats it takes at once; unlimited if absent.
    #[serde(default)]
    pub capacity: Option<u32>,
    #[serde(default)]
    pub load: f64,
    #[serde(default)]
    pub battery: Option<u8>,
    /// An operator has paused it: it gets no new runs.
    #[serde(default)]
    pub paused: bool,
    /// Seats that are assigned or offered to it.
    #[serde(default)]
    pub open: u32,
    pub seen_at: Timestamp,
}

/// State of a device. Omitted fields keep their last value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct DeviceVitals {
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Quality of the connection, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<f64>,
    /// In percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_battery: Option<bool>,
}

/// The server's answer to a heartbeat for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunHeartbeatAnswer {
    pub run_id: String,
    pub seat: u16,
    pub token: i64,
    /// Whether the run is assigned or offered to the device.
    pub held: bool,
    /// The device must release it.
    pub release: bool,
    pub paused: bool,
    /// Deadline of the next heartbeat.
    #[serde(default)]
    pub until: Option<Timestamp>,
}

impl NewDevice {
    /// Without capabilities, for any number of runs at once.
    pub fn of(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            capabilities: BTreeSet::new(),
            capability: 0,
            capacity: None,
            load: 0.0,
            quality: 1.0,
            battery: None,
            on_battery: false,
            coordinator: false,
        }
    }

    /// Adds a capability: the device gets runs whose `requires` it covers completely.
    #[must_use]
    pub fn can(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.insert(capability.into());
        self
    }

    /// How many seats it takes at once.
    #[must_use]
    pub fn capacity(mut self, seats: u32) -> Self {
        self.capacity = Some(seats);
        self
    }

    /// Rank in the election of the coordinator: the highest comes first.
    #[must_use]
    pub fn capability(mut self, capability: u32) -> Self {
        self.capability = capability;
        self
    }

    /// 0 to 1.
    #[must_use]
    pub fn load(mut self, load: f64) -> Self {
        self.load = load;
        self
    }

    /// Quality of its connection, 0 to 1. 1 by default.
    #[must_use]
    pub fn quality(mut self, quality: f64) -> Self {
        self.quality = quality;
        self
    }

    /// It runs on battery, with this charge left.
    #[must_use]
    pub fn on_battery(mut self, percent: u8) -> Self {
        (self.battery, self.on_battery) = (Some(percent), true);
        self
    }

    /// It may be elected coordinator.
    #[must_use]
    pub fn coordinator(mut self) -> Self {
        self.coordinator = true;
        self
    }
}

#[derive(Serialize)]
struct DeviceHeartbeatBody<'a> {
    #[serde(flatten)]
    vitals: &'a DeviceVitals,
    runs: Vec<RunHeartbeatBody<'a>>,
}

#[derive(Serialize)]
struct RunHeartbeatBody<'a> {
    run_id: &'a str,
    seat: u16,
    token: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RunProgress>,
}

impl Client {
    /// Registers a device, or replaces its registration. The last call counts.
    pub async fn register_device(&self, device: &NewDevice) -> Result<DeviceView, ClientError> {
        let ask = ApiRequest::put(device_path(&device.id, "")).with_json(json::json_body(device)?);
        self.send_request(&ask).await?.json()
    }

    pub async fn device(&self, id: &str) -> Result<DeviceView, ClientError> {
        self.send_request(&ApiRequest::get(device_path(id, ""))).await?.json()
    }

    /// All devices in the order of their ids.
    pub fn devices(&self) -> PagedList<DeviceView> {
        PagedList::new(self, ApiRequest::get("/v1/devices"))
    }

    /// Pauses a device: it gets no new runs and keeps those that it has.
    pub async fn pause_device(&self, id: &str) -> Result<DeviceView, ClientError> {
        self.send_request(
            &ApiRequest::post(device_path(id, "/pause"), RepeatPolicy::Always).with_json(b"{}".to_vec()),
        )
        .await?
        .json()
    }

    /// Resumes a paused device.
    pub async fn resume_device(&self, id: &str) -> Result<DeviceView, ClientError> {
        self.send_request(
            &ApiRequest::post(device_path(id, "/resume"), RepeatPolicy::Always).with_json(b"{}".to_vec()),
        )
        .await?
        .json()
    }

    /// Removes a device; its runs are reassigned.
    pub async fn remove_device(&self, id: &str) -> Result<(), ClientError> {
        self.send_request(&ApiRequest::delete(device_path(id, ""))).await.map(|_| ())
    }

    /// Sends a heartbeat with the device's state, its runs and their progress. Returns for each run, in the
    /// given order, whether the device still has it.
    pub async fn heartbeat_device(
        &self,
        id: &str,
        vitals: &DeviceVitals,
        runs: &[(&RunAssignment, Option<&RunProgress>)],
    ) -> Result<Vec<RunHeartbeatAnswer>, ClientError> {
        #[derive(Deserialize)]
        struct DeviceHeartbeatAnswer {
            runs: Vec<RunHeartbeatAnswer>,
        }
        let runs = runs.iter().map(|(run, progress)| RunHeartbeatBody {
            run_id: &run.run_id,
            seat: run.seat,
            token: run.token,
            progress: *progress,
        });
        let body = json::json_body(&DeviceHeartbeatBody { vitals, runs: runs.collect() })?;
        let ask = ApiRequest::post(device_path(id, "/heartbeat"), RepeatPolicy::Always).with_json(body);
        Ok(self.send_request(&ask).await?.json::<DeviceHeartbeatAnswer>()?.runs)
    }
}

pub(super) fn device_path(id: &str, rest: &str) -> String {
    format!("/v1/devices/{}{rest}", path_segment(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_device_matches_api() {
        let device = NewDevice::of("phone").can("render").capacity(2).on_battery(80);
        assert_eq!(
            serde_json::to_string(&device).unwrap(),
            r#"{"capabilities":["render"],"capability":0,"capacity":2,"load":0.0,"quality":1.0,"battery":80,"on_battery":true,"coordinator":false}"#
        );
    }
}
