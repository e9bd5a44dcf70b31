//! The devices: registration, capabilities, heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::error::{BenchError, BenchResult};
use crate::wire::{BenchConnection, ServerAddress};

/// Number of capabilities; every device has one or two of them.
const CAPABILITIES: usize = 10;
/// Concurrent requests during registration.
const HANDS: usize = 8;
/// Heartbeat interval of each device: the engine's default.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Devices `{prefix}{number}`.
#[derive(Debug, Clone)]
pub(crate) struct BenchRoster {
    pub(crate) prefix: String,
    pub(crate) devices: usize,
}

impl BenchRoster {
    pub(crate) fn device_name(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The capability that the run of this number requires.
    pub(crate) fn required_capability(run: usize) -> String {
        format!("c{}", run % CAPABILITIES)
    }

    /// Whether a device belongs to the roster and can perform the run of this number.
    pub(crate) fn can_perform(&self, device: &str, run: usize) -> bool {
        let number = device.strip_prefix(&self.prefix).and_then(|text| text.parse::<usize>().ok());
        let number = number.filter(|number| *number < self.devices);
        number.is_some_and(|number| device_capabilities(number).contains(&(run % CAPABILITIES)))
    }

    /// Registers all devices.
    pub(crate) async fn register_all(&self, address: &ServerAddress) -> BenchResult<()> {
        self.for_each_device(address, |roster, number| {
            let [one, other] = device_capabilities(number);
            let (path, body) = (
                format!("/v1/devices/{}", roster.device_name(number)),
                format!(
                    "{{\"capabilities\":[\"c{one}\",\"c{other}\"],\"capability\":{},\"capacity\":1000,\"quality\":0.{}}}",
                    number % 7,
                    number % 10
                ),
            );
            (path, Some(body))
        })
        .await
    }

    /// Removes them from an engine that keeps running.
    pub(crate) async fn remove_all(&self, address: &ServerAddress) -> BenchResult<()> {
        self.for_each_device(address, |roster, number| {
            (format!("/v1/devices/{}", roster.device_name(number)), None)
        })
        .await
    }

    /// PUTs a body for each device, or DELETEs it.
    async fn for_each_device(
        &self,
        address: &ServerAddress,
        request: impl Fn(&Self, usize) -> (String, Option<String>) + Copy + Send + 'static,
    ) -> BenchResult<()> {
        let mut hands = tokio::task::JoinSet::new();
        for hand in 0..HANDS {
            let (roster, mut line) = (self.clone(), BenchConnection::to_server(address));
            hands.spawn(async move {
                for number in (hand..roster.devices).step_by(HANDS) {
                    let (path, body) = request(&roster, number);
                    match body {
                        Some(body) => line.put(&path, body.as_bytes(), &[200, 201]).await.map(|_| ())?,
                        None => line.delete(&path).await?,
                    }
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(ended) = hands.join_next().await {
            ended.map_err(|error| BenchError::Wrong(format!("the roster stopped: {error}")))??;
        }
        Ok(())
    }
}

/// Capabilities of the device of this number.
const fn device_capabilities(number: usize) -> [usize; 2] {
    [number % CAPABILITIES, number / CAPABILITIES % CAPABILITIES]
}

/// Sends heartbeats of all devices in turn, until dropped.
#[derive(Debug)]
pub(crate) struct RosterHeartbeats {
    task: JoinHandle<BenchResult<()>>,
    heard: Arc<AtomicUsize>,
}

impl RosterHeartbeats {
    pub(crate) fn start(roster: &BenchRoster, address: &ServerAddress) -> Self {
        let heard = Arc::new(AtomicUsize::new(0));
        let (roster, mut line, counted) =
            (roster.clone(), BenchConnection::to_server(address), heard.clone());
        let every = HEARTBEAT / u32::try_from(roster.devices.max(1)).unwrap_or(u32::MAX);
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(every.max(Duration::from_micros(100)));
            let mut buffer = Vec::new();
            for number in (0..roster.devices).cycle() {
                tick.tick().await;
                let path = format!("/v1/devices/{}/heartbeat", roster.device_name(number));
                line.call_with_retry(&mut buffer, &path, b"{}", &[200]).await?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { task, heard }
    }

    /// Stops, and returns the number of heartbeats; fails if one was refused.
    pub(crate) async fn stop(self) -> BenchResult<usize> {
        let heard = self.heard.load(Ordering::Relaxed);
        if self.task.is_finished() {
            match self.task.await {
                Ok(ended) => ended?,
                Err(error) => return Err(BenchError::Wrong(format!("the heartbeats stopped: {error}"))),
            }
        } else {
            self.task.abort();
        }
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roster_matches_run_requirements() {
        let roster = BenchRoster { prefix: "d-".to_owned(), devices: 100 };
        assert!(
            roster.can_perform("d-3", 13) && roster.can_perform("d-35", 13) && roster.can_perform("d-33", 3)
        );
        assert!(
            !roster.can_perform("d-12", 13)
                && !roster.can_perform("d-103", 3)
                && !roster.can_perform("e-3", 3)
        );
        assert_eq!(BenchRoster::required_capability(13), "c3");
        for run in 0..CAPABILITIES {
            assert_eq!(
                (0..100).filter(|number| roster.can_perform(&roster.device_name(*number), run)).count(),
                19
            );
        }
    }
}
