//! Devices and runs for cases, decided by the real lifecycle.

use std::collections::BTreeSet;

use millstream_core::claim::{
    Act, Change, Device, Doing, Input, Refusal, Run, RunSpec, Stepped, Token, create, step,
};
use millstream_core::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_core::time::Timestamp;

use super::Bench;
use super::fixture::{name, raw, tenant};
use crate::action_store::Settlement;
use crate::run_store::{Expected, RunVerdict, RunWrite, StoredRun, Unit};

pub(super) fn device(id: &str) -> DeviceId {
    DeviceId::parse(id).unwrap()
}

pub(super) fn device_of(owner: &str, id: &str) -> DeviceKey {
    DeviceKey { tenant: tenant(owner), device: device(id) }
}

/// A run of the tenant `acme`.
pub(super) fn run_key(id: &str) -> RunKey {
    run_of("acme", id)
}

pub(super) fn run_of(owner: &str, id: &str) -> RunKey {
    RunKey { tenant: tenant(owner), run: RunId::parse(id).unwrap() }
}

pub(super) fn new_device(id: &str) -> Device {
    Device {
        id: device(id),
        capabilities: BTreeSet::from([name("ffmpeg"), name("gpu")]),
        capability: 7,
        capacity: Some(3),
        load: 0.25,
        quality: 0.75,
        battery: Some(80),
        on_battery: true,
        coordinates: true,
        paused: false,
        seen_at: Timestamp::EPOCH,
    }
}

pub(super) fn spec() -> RunSpec {
    RunSpec::of(name("render"), raw(r#"{"scene":  1.50, "zero": "\u0000"}"#))
}

pub(super) fn assign(to: &str) -> Input {
    Input::Assign { seat: 0, device: device(to), decision: None }
}

pub(super) fn self_claim(by: &str) -> Input {
    Input::SelfClaim { device: device(by), seat: None, fitness: Ok(()), decision: None }
}

pub(super) fn act(by: &str, token: i64, doing: Doing) -> Input {
    Input::Act(Act { device: device(by), seat: 0, token: Token(token) }, doing)
}

pub(super) fn completes(by: &str, token: i64) -> Input {
    act(by, token, Doing::Complete { output: raw(r#"{"frames":24}"#) })
}

/// The change, if the input is accepted.
pub(super) fn decide(run: Run, input: &Input, now: Timestamp) -> Result<Option<Change>, Refusal> {
    Ok(match step(run, input, Some("tester"), now)? {
        Stepped::Changed(change) => Some(*change),
        Stepped::Already => None,
    })
}

/// All of these one after the other.
pub(super) fn decided(change: Change, inputs: &[Input], now: Timestamp) -> Change {
    inputs.iter().fold(change, |change, input| {
        let next = step(change.run.clone(), input, Some("tester"), now);
        change.then(next.unwrap_or_else(|refusal| panic!("{input:?}: {refusal}")))
    })
}

pub(super) fn new_write(key: &RunKey, change: Change) -> RunWrite {
    RunWrite {
        key: key.clone(),
        expected: Expected::Nothing,
        run: change.run,
        log: change.log,
        unheard: change.unheard,
        settlement: None,
    }
}

pub(super) fn write(seen: &StoredRun, change: Change) -> RunWrite {
    RunWrite { expected: Expected::Version(seen.version), ..new_write(&seen.key, change) }
}

impl Bench {
    /// A run after these inputs.
    pub(super) async fn run_after(&self, key: &RunKey, spec: RunSpec, inputs: &[Input]) -> StoredRun {
        self.run_at(key, spec, inputs, self.now().await).await
    }

    pub(super) async fn run_at(
        &self,
        key: &RunKey,
        spec: RunSpec,
        inputs: &[Input],
        now: Timestamp,
    ) -> StoredRun {
        let change = decided(create(spec, Some("tester"), now), inputs, now);
        let verdicts = self.commit_units(&[new_write(key, change).into()]).await;
        assert_eq!(verdicts, [RunVerdict::Done { settled: Vec::new() }]);
        self.run(key).await
    }

    pub(super) async fn run(&self, key: &RunKey) -> StoredRun {
        let keys = std::slice::from_ref(key);
        self.stores.runs.load_runs(keys).await.unwrap().remove(0).expect("the run is there")
    }

    pub(super) async fn commit_units(&self, units: &[Unit]) -> Vec<RunVerdict> {
        let now = self.now().await;
        let committed = self.stores.runs.commit_runs(units, now).await.unwrap();
        assert_eq!(committed.verdicts.len(), units.len(), "one verdict per unit");
        committed.verdicts
    }

    /// Load, decide, write: `None` where the input is refused.
    pub(super) async fn try_run(&self, key: &RunKey, input: &Input, now: Timestamp) -> Option<RunVerdict> {
        let seen = self.run(key).await;
        let change = decide(seen.run.clone(), input, now).ok()??;
        Some(self.commit_units(&[write(&seen, change).into()]).await.remove(0))
    }

    pub(super) async fn step_run(&self, key: &RunKey, input: &Input) -> StoredRun {
        let verdict = self.try_run(key, input, self.now().await).await;
        assert!(matches!(verdict, Some(RunVerdict::Done { .. })), "{input:?}: {verdict:?}");
        self.run(key).await
    }

    /// As `try_run` with what the commit settles.
    pub(super) async fn end_run(&self, key: &RunKey, input: &Input, settlement: Settlement) -> RunVerdict {
        let seen = self.run(key).await;
        let change = decide(seen.run.clone(), input, self.now().await).unwrap().expect("it is news");
        let write = RunWrite { settlement: Some(settlement), ..write(&seen, change) };
        self.commit_units(&[write.into()]).await.remove(0)
    }
}
