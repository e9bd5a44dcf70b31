//! Devices and runs for cases, decided by the real lifecycle.

use std::collections::BTreeSet;

use millstream_devices::claim::{
    DeviceAction, DeviceReport, RunChange, RunInput, RunRecord, RunRefusal, RunSpec, RunStepOutcome, SeatAct,
    SeatToken, create_run, step_run,
};
use millstream_model::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_model::time::Timestamp;
use millstream_store::action_store::Settlement;
use millstream_store::run_store::{ExpectedVersion, RunUnit, RunVerdict, RunWrite, StoredRun};

use crate::ConformanceBench;
use crate::fixture::{name, raw, tenant};

pub(crate) fn device(id: &str) -> DeviceId {
    DeviceId::parse(id).unwrap()
}

pub(crate) fn device_of(owner: &str, id: &str) -> DeviceKey {
    DeviceKey { tenant: tenant(owner), device: device(id) }
}

/// A run of the tenant `acme`.
pub(crate) fn run_key(id: &str) -> RunKey {
    run_of("acme", id)
}

pub(crate) fn run_of(owner: &str, id: &str) -> RunKey {
    RunKey { tenant: tenant(owner), run: RunId::parse(id).unwrap() }
}

pub(crate) fn new_device(id: &str) -> DeviceReport {
    DeviceReport {
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

pub(crate) fn spec() -> RunSpec {
    RunSpec::with_defaults(name("render"), raw(r#"{"scene":  1.50, "zero": "\u0000"}"#))
}

pub(crate) fn assign(to: &str) -> RunInput {
    RunInput::Assign { seat: 0, device: device(to), decision: None }
}

pub(crate) fn self_claim(by: &str) -> RunInput {
    RunInput::SelfClaim { device: device(by), seat: None, fitness: Ok(()), decision: None }
}

pub(crate) fn act(by: &str, token: i64, doing: DeviceAction) -> RunInput {
    RunInput::Act(SeatAct { device: device(by), seat: 0, token: SeatToken(token) }, doing)
}

pub(crate) fn completes(by: &str, token: i64) -> RunInput {
    act(by, token, DeviceAction::Complete { output: raw(r#"{"frames":24}"#) })
}

/// The change, if the input is accepted.
pub(crate) fn decide(
    run: RunRecord,
    input: &RunInput,
    now: Timestamp,
) -> Result<Option<RunChange>, RunRefusal> {
    Ok(match step_run(run, input, Some("tester"), now)? {
        RunStepOutcome::Changed(change) => Some(*change),
        RunStepOutcome::Already => None,
    })
}

/// All of these one after the other.
pub(crate) fn decided(change: RunChange, inputs: &[RunInput], now: Timestamp) -> RunChange {
    inputs.iter().fold(change, |change, input| {
        let next = step_run(change.run.clone(), input, Some("tester"), now);
        change.merge_next(next.unwrap_or_else(|refusal| panic!("{input:?}: {refusal}")))
    })
}

pub(crate) fn new_write(key: &RunKey, change: RunChange) -> RunWrite {
    RunWrite {
        key: key.clone(),
        expected: ExpectedVersion::Nothing,
        run: change.run,
        log: change.log,
        unheard: change.unheard,
        settlement: None,
    }
}

pub(crate) fn write(seen: &StoredRun, change: RunChange) -> RunWrite {
    RunWrite { expected: ExpectedVersion::Version(seen.version), ..new_write(&seen.key, change) }
}

impl ConformanceBench {
    /// A run after these inputs.
    pub(crate) async fn run_after(&self, key: &RunKey, spec: RunSpec, inputs: &[RunInput]) -> StoredRun {
        self.run_at(key, spec, inputs, self.now().await).await
    }

    pub(crate) async fn run_at(
        &self,
        key: &RunKey,
        spec: RunSpec,
        inputs: &[RunInput],
        now: Timestamp,
    ) -> StoredRun {
        let change = decided(create_run(spec, Some("tester"), now), inputs, now);
        let verdicts = self.commit_units(&[new_write(key, change).into()]).await;
        assert_eq!(verdicts, [RunVerdict::Done { settled: Vec::new() }]);
        self.run(key).await
    }

    pub(crate) async fn run(&self, key: &RunKey) -> StoredRun {
        let keys = std::slice::from_ref(key);
        self.stores.runs.load_runs(keys).await.unwrap().remove(0).expect("the run is there")
    }

    pub(crate) async fn commit_units(&self, units: &[RunUnit]) -> Vec<RunVerdict> {
        let now = self.now().await;
        let committed = self.stores.runs.commit_runs(units, now).await.unwrap();
        assert_eq!(committed.verdicts.len(), units.len(), "one verdict per unit");
        committed.verdicts
    }

    /// Load, decide, write: `None` where the input is refused.
    pub(crate) async fn try_run(&self, key: &RunKey, input: &RunInput, now: Timestamp) -> Option<RunVerdict> {
        let seen = self.run(key).await;
        let change = decide(seen.run.clone(), input, now).ok()??;
        Some(self.commit_units(&[write(&seen, change).into()]).await.remove(0))
    }

    pub(crate) async fn step_run(&self, key: &RunKey, input: &RunInput) -> StoredRun {
        let verdict = self.try_run(key, input, self.now().await).await;
        assert!(matches!(verdict, Some(RunVerdict::Done { .. })), "{input:?}: {verdict:?}");
        self.run(key).await
    }

    /// As `try_run` with what the commit settles.
    pub(crate) async fn end_run(&self, key: &RunKey, input: &RunInput, settlement: Settlement) -> RunVerdict {
        let seen = self.run(key).await;
        let change = decide(seen.run.clone(), input, self.now().await).unwrap().expect("it is news");
        let write = RunWrite { settlement: Some(settlement), ..write(&seen, change) };
        self.commit_units(&[write.into()]).await.remove(0)
    }
}
