//! What is said of a device before it begins to work.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::RunContext;
use super::error::RunError;
use super::{performing, serving};
use crate::client::{Client, ClientError, NewDevice, RunAssignment, Vitals};

/// Does runs: registers, waits for them, keeps them alive, and hands each to your function.
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
    pub(super) willing: Willing,
    pub(super) vitals: Arc<dyn Fn() -> Vitals + Send + Sync>,
    pub(super) beat_every: Duration,
    pub(super) grace: Duration,
}

pub(super) type Willing = Arc<dyn Fn(&RunAssignment) -> Result<(), String> + Send + Sync>;

impl Device {
    pub fn new(client: Client, device: NewDevice) -> Self {
        Self {
            client,
            device,
            willing: Arc::new(|_| Ok(())),
            vitals: Arc::new(Vitals::default),
            beat_every: Duration::from_secs(15),
            grace: Duration::from_secs(30),
        }
    }

    /// Whether it takes a run that it is asked about; the error is the reason why not, and another device is asked.
    pub fn willing(
        mut self,
        willing: impl Fn(&RunAssignment) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.willing = Arc::new(willing);
        self
    }

    /// How the device is, asked at every heartbeat.
    pub fn vitals(mut self, vitals: impl Fn() -> Vitals + Send + Sync + 'static) -> Self {
        self.vitals = Arc::new(vitals);
        self
    }

    /// How often it is heard of while it has nothing to do: 15 s unless said. What it works on may want more.
    pub fn beat_every(mut self, every: Duration) -> Self {
        self.beat_every = every;
        self
    }

    /// How long it may take to finish what it has when it is told to stop: 30 s unless said. What is left then is given
    /// back.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works for ever, or until the server refuses the device (its key, or somebody has removed it). A server that
    /// cannot be reached is tried again and again.
    pub async fn serve<F, I, O, Fut>(self, perform: F) -> Result<(), ClientError>
    where
        F: Fn(RunContext, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, RunError>> + Send + 'static,
    {
        self.serve_until(std::future::pending(), perform).await
    }

    /// The same until `shutdown` resolves. Then it asks for nothing more, finishes what it has, and gives back what it
    /// cannot finish in time.
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
        serving::serve(self, performing::erase(perform), shutdown).await
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("device", &self.device).finish_non_exhaustive()
    }
}
