//! Dependencies of devices and their runs.

use std::sync::Arc;

use millstream_model::entropy::Entropy;
use millstream_store::clock::Clock;
use millstream_store::device_store::DeviceStore;
use tokio_util::sync::CancellationToken;

use super::batcher::DeviceBatcher;
use crate::admission::AdmissionControl;

pub(crate) struct DeviceDeps {
    pub(crate) fleet: DeviceBatcher,
    pub(crate) devices: Arc<dyn DeviceStore>,
    pub(crate) admission: Arc<AdmissionControl>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) draining: CancellationToken,
}
