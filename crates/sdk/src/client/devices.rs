//! Devices: registration, heartbeats, and queries.

use millstream_api::devices::{
    DeviceHeard, DeviceHeartbeat, DeviceView, DeviceVitals, NewDevice, RunHeartbeat, RunHeartbeatAnswer,
};
use millstream_api::run_assignments::RunAssignment;
use millstream_api::runs::RunProgress;

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

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
        let runs = runs.iter().map(|(run, progress)| RunHeartbeat {
            run_id: run.run_id.clone(),
            seat: run.seat,
            token: run.token,
            progress: progress.cloned(),
        });
        let body = json::json_body(&DeviceHeartbeat { vitals: *vitals, runs: runs.collect() })?;
        let ask = ApiRequest::post(device_path(id, "/heartbeat"), RepeatPolicy::Always).with_json(body);
        Ok(self.send_request(&ask).await?.json::<DeviceHeard>()?.runs)
    }
}

pub(super) fn device_path(id: &str, rest: &str) -> String {
    format!("/v1/devices/{}{rest}", path_segment(id))
}
