//! Builder of a device.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::RunContext;
use super::error::RunError;
use super::{device_loop, perform_run};
use crate::client::{Client, ClientError, DeviceVitals, NewDevice, RunAssignment};

/// A device that performs runs: it registers, waits for runs, sends heartbeats, and passes each run to your
/// function.
///
/// ```no_run
/// use millstream_sdk::client::NewDevice;
/// use millstream_sdk::{Client, Device, RunContext, RunError};
///
/// # async fn run() -> Result<(), millstream_sdk::ClientError> {
/// let client = Client::new("http://127.0.0.1:7400")?;
/// Device::new(client, NewDevice::of("phone-7").can("render").capacity(2))
///     .serve(async |run: RunContext, frames: u64| {
///         let done = run.last_progress().map_or(0, |progress| progress.step);
///         for frame in done..frames {
///             if run.is_lost() {
///                 return Err(RunError::release("another device has it"));
///             }
///             // … draw the frame …
///             run.progress(frame + 1, frames);
///         }
///         Ok(frames)
///     })
///     .await
/// # }
/// ```
#[must_use = "nothing runs before `serve`"]
pub struct Device {
    pub(super) client: Client,
    pub(super) device: NewDevice,
    pub(super) willing: OfferFilter,
    pub(super) vitals: Arc<dyn Fn() -> DeviceVitals + Send + Sync>,
    pub(super) beat_every: Duration,
    pub(super) grace: Duration,
}

pub(super) type OfferFilter = Arc<dyn Fn(&RunAssignment) -> Result<(), String> + Send + Sync>;

impl Device {
    pub fn new(client: Client, device: NewDevice) -> Self {
        Self {
            client,
            device,
            willing: Arc::new(|_| Ok(())),
            vitals: Arc::new(DeviceVitals::default),
            beat_every: Duration::from_secs(15),
            grace: Duration::from_secs(30),
        }
    }

    /// Decides whether it accepts an offered run; the error is the reason for declining, and another device
    /// is asked.
    pub fn willing(
        mut self,
        willing: impl Fn(&RunAssignment) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.willing = Arc::new(willing);
        self
    }

    /// State of the device, read at every heartbeat.
    pub fn vitals(mut self, vitals: impl Fn() -> DeviceVitals + Send + Sync + 'static) -> Self {
        self.vitals = Arc::new(vitals);
        self
    }

    /// Heartbeat period while idle: 15 s by default. A run may require a shorter one.
    pub fn beat_every(mut self, every: Duration) -> Self {
        self.beat_every = every;
        self
    }

    /// Time limit for finishing the current runs at a shutdown: 30 s by default. The rest is released.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works until the server refuses the device (invalid key, or the device was removed). An unreachable
    /// server is retried without limit.
    pub async fn serve<F, I, O, Fut>(self, perform: F) -> Result<(), ClientError>
    where
        F: Fn(RunContext, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, RunError>> + Send + 'static,
    {
        self.serve_until(std::future::pending(), perform).await
    }

    /// The same until `shutdown` resolves. Then it accepts no more runs, finishes the current ones, and
    /// releases those that it cannot finish in time.
    pub async fn serve_until<F, I, O, Fut>(
        self,
        shutdown: impl Future<Output = ()>,
        perform: F,
    ) -> Result<(), ClientError>
    where
        F: Fn(RunContext, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, RunError>> + Send + 'static,
    {
        device_loop::serve_device(self, perform_run::erase_run_function(perform), shutdown).await
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("device", &self.device).finish_non_exhaustive()
    }
}
