//! Registration of a device: its self-description is checked and recorded.

use std::collections::BTreeSet;

use millstream_devices::claim::{DeviceReport, RunSpec};
use millstream_model::id::{DeviceId, DeviceKey, Name, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::CountedQuota;
use millstream_model::time::Timestamp;

use super::DeviceDeps;
use crate::refusal::RequestRefusal;

/// A device as it describes itself.
#[derive(Debug)]
pub(crate) struct DeviceRegistration {
    pub(crate) capabilities: BTreeSet<Name>,
    pub(crate) capability: u32,
    pub(crate) capacity: Option<u32>,
    pub(crate) load: f64,
    pub(crate) quality: f64,
    pub(crate) battery: Option<u8>,
    pub(crate) on_battery: bool,
    pub(crate) coordinator: bool,
}

/// The largest number that every store can keep.
const MOST: u32 = 1_000_000_000;

impl DeviceRegistration {
    pub(crate) fn into_device(self, id: DeviceId, seen_at: Timestamp) -> Result<DeviceReport, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut wrong = |path: &str, message: String| faults.push(Fault::new(path, message));
        if self.capabilities.len() > RunSpec::MAX_CAPABILITIES {
            let most = RunSpec::MAX_CAPABILITIES;
            wrong(
                "capabilities",
                format!("has {} names, at most {most} are allowed", self.capabilities.len()),
            );
        }
        if self.capability > MOST {
            wrong("capability", format!("must be between 0 and {MOST}"));
        }
        if self.capacity.is_some_and(|capacity| capacity == 0 || capacity > MOST) {
            wrong("capacity", format!("must be between 1 and {MOST}, or left out"));
        }
        faults.extend(fraction_faults(self.load, self.quality, self.battery));
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(DeviceReport {
            id,
            capabilities: self.capabilities,
            capability: self.capability,
            capacity: self.capacity,
            load: self.load,
            quality: self.quality,
            battery: self.battery,
            on_battery: self.on_battery,
            coordinates: self.coordinator,
            paused: false,
            seen_at,
        })
    }
}

/// Validates the numbers that are fractions or percentages.
pub(super) fn fraction_faults(load: f64, quality: f64, battery: Option<u8>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, value) in [("load", load), ("quality", quality)] {
        if !(0.0..=1.0).contains(&value) {
            faults.push(Fault::new(path, "must be between 0 and 1"));
        }
    }
    if battery.is_some_and(|percent| percent > 100) {
        faults.push(Fault::new("battery", "is a percentage: 0 to 100"));
    }
    faults
}

/// Records a device's self-description. A new device counts against the tenant's quota.
pub(crate) async fn register_device(
    deps: &DeviceDeps,
    tenant: &TenantId,
    device: DeviceReport,
) -> Result<(), RequestRefusal> {
    let key = DeviceKey { tenant: tenant.clone(), device: device.id.clone() };
    let known = async { Ok(deps.fleet.find_device(key).await?.is_some()) };
    deps.admission.admit_known(tenant, CountedQuota::Devices, known).await?;
    Ok(deps.fleet.record_device(tenant.clone(), device).await?)
}
