//! Assignments of a device: listing them, and waiting for changes.

use std::time::Duration;

use millstream_devices::claim::{OccupiedSeat, RunRecord};
use millstream_model::id::DeviceKey;

use super::DeviceDeps;
use crate::refusal::RequestRefusal;

/// Interval at which a waiting device polls the store. Every writer announces its changes; this covers lost
/// announcements. While the announcer is down, all waiters are woken every second.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A seat with its run.
#[derive(Debug)]
pub(crate) struct DeviceAssignment {
    pub(crate) seat: OccupiedSeat,
    pub(crate) run: RunRecord,
}

/// All assignments of a device, highest priority first.
pub(crate) async fn list_assignments(
    deps: &DeviceDeps,
    key: &DeviceKey,
) -> Result<Vec<DeviceAssignment>, RequestRefusal> {
    let seats = deps.fleet.seats_of(key.clone()).await?;
    let runs = deps.fleet.load_runs(seats.iter().map(|seat| seat.run.clone()).collect()).await?;
    let both = seats.into_iter().zip(runs);
    // A run that was purged or changed between the two reads is left out.
    let all = both.filter_map(|(seat, stored)| {
        let run = stored?.run;
        let is_theirs = run.seat(seat.seat)?.current_holding().is_some_and(|held| held.token == seat.token);
        is_theirs.then_some(DeviceAssignment { seat, run })
    });
    Ok(all.collect())
}

/// Version tag of the list: changes whenever the list does.
pub(crate) fn version_tag(all: &[DeviceAssignment]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for one in all {
        let status = one.run.seat(one.seat.seat).map(millstream_devices::claim::RunSeat::status);
        (&one.seat.run, one.seat.seat, one.seat.token, status, one.run.is_paused()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Waits until the list differs from `seen`; without `seen`, until it is not empty. At most for `wait`.
pub(crate) async fn wait_for_change(
    deps: &DeviceDeps,
    key: &DeviceKey,
    seen: Option<&str>,
    wait: Duration,
) -> Result<Vec<DeviceAssignment>, RequestRefusal> {
    let until = tokio::time::Instant::now() + wait;
    let mut ear = deps.fleet.ears.subscribe_to(key.clone());
    let mut permit = None;
    loop {
        let all = list_assignments(deps, key).await?;
        let is_news = match seen {
            Some(seen) => version_tag(&all) != seen,
            None => !all.is_empty(),
        };
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        if is_news || left.is_zero() || deps.draining.is_cancelled() {
            return Ok(all);
        }
        if permit.is_none() {
            permit = Some(deps.admission.wait_place(&key.tenant)?);
        }
        tokio::select! {
            biased;
            () = ear.wait_for_news(left.min(LOOK_AGAIN)) => {}
            () = deps.draining.cancelled() => {}
        }
    }
}
