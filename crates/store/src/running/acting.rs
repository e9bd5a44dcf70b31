//! Something is done to a run that exists.

use millstream_core::claim::{
    Change, Due, Input, Refusal, Run, Stepped, Told, WaitingAction, fit_to_take, overdue, step,
};
use millstream_core::id::{DeviceId, DeviceKey, RunKey};
use millstream_core::time::Timestamp;

use super::around::Around;
use super::placing::placed;
use super::writing::{Draft, Outcome, Settle, TRIES, contended};
use crate::run_store::{Expected, StoredRun};
use crate::{Result, StoreError};

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Ask {
    Input(Input),
    /// A device takes a seat by itself: this one, or the first that nobody has.
    Take {
        device: DeviceId,
        seat: Option<u16>,
    },
    /// Everything whose time has come.
    Due,
    /// The action that waits is leased anew. If the run has ended, whoever asks tells it.
    Adopt(WaitingAction),
}

#[derive(Debug)]
pub enum Acted {
    /// Written, or done before: the run as it is now, and what the one who waits for it is to be told, if whoever
    /// asked does that.
    Done {
        run: Box<Run>,
        told: Option<Told>,
    },
    Refused(Refusal),
    NoSuchRun,
    NoSuchDevice,
}

pub async fn act(around: &dyn Around, key: &RunKey, ask: &Ask, by: Option<&str>) -> Result<Acted> {
    for _ in 0..TRIES {
        let found = around.stores().runs.load_runs(std::slice::from_ref(key)).await?;
        let Some(stored) = found.into_iter().flatten().next() else { return Ok(Acted::NoSuchRun) };
        let StoredRun { version, run, .. } = stored;
        let now = around.now();
        let stepped = match ask {
            Ask::Input(input) => step(run.clone(), input, by, now),
            Ask::Take { device, seat } => {
                let Some(input) = taking(around, key, &run, device, *seat, now).await? else {
                    return Ok(Acted::NoSuchDevice);
                };
                step(run.clone(), &input, by, now)
            }
            Ask::Due => Ok(all_due(run.clone(), by, now)),
            Ask::Adopt(waiting) => step(run.clone(), &Input::Adopt { waiting: waiting.clone() }, by, now),
        };
        let change = match stepped {
            Ok(Stepped::Changed(change)) => *change,
            Ok(Stepped::Already) => return Ok(Acted::Done { run: Box::new(run), told: None }),
            Err(refusal) => return Ok(Acted::Refused(refusal)),
        };
        let (change, others) = placed(around, key, change, by, now).await?;
        let settle = match ask {
            Ask::Input(_) | Ask::Take { .. } | Ask::Due => Settle::Here,
            Ask::Adopt(_) => Settle::Caller,
        };
        let draft = Draft { key: key.clone(), expected: Expected::Version(version), change, others };
        match draft.write(around, settle, now).await {
            Ok(Outcome::Done) => {
                let Change { run, told, .. } = draft.change;
                return Ok(Acted::Done {
                    run: Box::new(run),
                    told: told.filter(|_| settle == Settle::Caller),
                });
            }
            Ok(Outcome::Faster { .. }) | Err(StoreError::Contention(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(contended(key))
}

/// `None` where there is no such device.
async fn taking(
    around: &dyn Around,
    key: &RunKey,
    run: &Run,
    device: &DeviceId,
    seat: Option<u16>,
    now: Timestamp,
) -> Result<Option<Input>> {
    let asked = DeviceKey { tenant: key.tenant.clone(), device: device.clone() };
    let found = around.stores().devices.devices(&[asked]).await?;
    let Some(candidate) = found.into_iter().flatten().next() else { return Ok(None) };
    let open = || run.numbered().find(|(_, seat)| seat.status().is_open()).map(|(number, _)| number);
    let fitness = fit_to_take(run, seat.or_else(open).unwrap_or(0), &candidate, now);
    Ok(Some(Input::SelfClaim { device: device.clone(), seat, fitness, decision: None }))
}

/// What the monitor does: one step after the other, to be written together. Seats are placed afterwards.
fn all_due(run: Run, by: Option<&str>, now: Timestamp) -> Stepped {
    let untouched = || Change { run: run.clone(), log: Vec::new(), told: None, unheard: Vec::new() };
    let mut change: Option<Change> = None;
    for (seat, what) in overdue(&run, now) {
        let input = match what {
            Due::Place => {
                // To be placed is all there is to do.
                change.get_or_insert_with(untouched);
                continue;
            }
            Due::AssignmentTimeout => Input::AssignmentTimeout { seat },
            Due::ClaimExpiry => Input::ClaimExpiry { seat },
            Due::HeartbeatTimeout => Input::HeartbeatTimeout { seat },
            Due::BackoffOver => Input::BackoffOver { seat },
        };
        let before = change.take().unwrap_or_else(untouched);
        change = Some(match step(before.run.clone(), &input, by, now) {
            Ok(next) => before.then(next),
            // What came before it has ended the run.
            Err(_) => before,
        });
    }
    change.map_or(Stepped::Already, |change| Stepped::Changed(Box::new(change)))
}
