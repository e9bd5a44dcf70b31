//! The fixture: a run, its log, and a clock that the test moves.

use std::time::Duration;

use millstream_model::id::{
    ActionKey, DeviceId, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId,
};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use crate::claim::{
    DeviceAction, RunChange, RunInput, RunLogEntry, RunRecord, RunRefusal, RunSpec, RunStepOutcome, SeatAct,
    SeatFailure, SeatFailureKind, SeatProgress, SeatStatus, SeatToken, create_run, outline_seats,
    replay_seats, step_run, table,
};

pub(super) fn device(text: &str) -> DeviceId {
    DeviceId::parse(text).unwrap()
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(super) fn spec() -> RunSpec {
    RunSpec::with_defaults(name("render"), RawJson::parse("{\"scene\":1}").unwrap())
}

pub(super) fn at(second: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_secs(second))
}

pub(super) fn waiting() -> crate::claim::WaitingAction {
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("e-1").unwrap() };
    crate::claim::WaitingAction {
        key: ActionKey { execution, seq: Seq(2), action: name("render") },
        epoch: Epoch::FIRST,
        event_id: EventId(uuid::Uuid::nil()),
    }
}

pub(super) fn error(message: &str) -> SeatFailure {
    SeatFailure { kind: SeatFailureKind::Error, message: message.to_owned(), class: None }
}

pub(super) fn progress(step: u64) -> SeatProgress {
    SeatProgress { step, total: 10, note: None }
}

pub(super) fn output() -> RawJson {
    RawJson::parse("{\"frames\":24}").unwrap()
}

/// A run with the history of its changes.
#[derive(Debug, Clone)]
pub(super) struct RunFixture {
    pub(super) run: RunRecord,
    pub(super) log: Vec<RunLogEntry>,
    pub(super) now: Timestamp,
    pub(super) last: Option<RunChange>,
}

impl RunFixture {
    pub(super) fn of(spec: RunSpec) -> Self {
        let change = create_run(spec, Some("ann"), at(0));
        Self { run: change.run.clone(), log: change.log.clone(), now: at(0), last: Some(change) }
    }

    pub(super) fn new() -> Self {
        Self::of(spec())
    }

    pub(super) fn pass(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self
    }

    /// Applies an input; checks that every transition is in the table and that the log replays to the run.
    pub(super) fn try_step(&mut self, input: &RunInput) -> Result<RunStepOutcome, RunRefusal> {
        let before = self.run.clone();
        let stepped = step_run(self.run.clone(), input, None, self.now)?;
        match &stepped {
            RunStepOutcome::Already => assert_eq!(before, self.run),
            RunStepOutcome::Changed(change) => {
                for entry in &change.log {
                    let from = entry.from.expect("only creation has no previous status");
                    assert!(table::is_transition(from, entry.word, entry.to), "not in the table: {entry:?}");
                }
                self.run = change.run.clone();
                self.log.extend(change.log.clone());
                self.last = Some((**change).clone());
                assert_eq!(
                    replay_seats(&self.log),
                    outline_seats(&self.run),
                    "the log does not replay to the run"
                );
                let written = RawJson::from_value(&self.run);
                assert_eq!(
                    written.decode::<RunRecord>().unwrap(),
                    self.run,
                    "it does not survive serialisation"
                );
            }
        }
        Ok(stepped)
    }

    pub(super) fn step(&mut self, input: &RunInput) -> &mut Self {
        let stepped = self.try_step(input).unwrap_or_else(|refusal| panic!("{input:?}: {refusal}"));
        assert_ne!(stepped, RunStepOutcome::Already, "{input:?}");
        self
    }

    pub(super) fn refused(&mut self, input: &RunInput) -> RunRefusal {
        match self.try_step(input) {
            Err(refusal) => refusal,
            Ok(stepped) => panic!("{input:?} is possible: {stepped:?}"),
        }
    }

    pub(super) fn already(&mut self, input: &RunInput) {
        assert_eq!(self.try_step(input).unwrap(), RunStepOutcome::Already, "{input:?}");
    }

    pub(super) fn status(&self) -> SeatStatus {
        self.run.status()
    }

    /// An act of the device that holds the first seat, with its valid token.
    pub(super) fn by_holder(&self, doing: DeviceAction) -> RunInput {
        self.by_holder_of(0, doing)
    }

    pub(super) fn by_holder_of(&self, seat: u16, doing: DeviceAction) -> RunInput {
        let act = match self.run.seats[usize::from(seat)].current_holding() {
            Some(held) => SeatAct { device: held.device.clone(), seat, token: held.token },
            None => SeatAct { device: device("stranger"), seat, token: SeatToken(999) },
        };
        RunInput::Act(act, doing)
    }

    pub(super) fn does(&mut self, doing: DeviceAction) -> &mut Self {
        let input = self.by_holder(doing);
        self.step(&input)
    }

    pub(super) fn assign(&mut self, to: &str) -> &mut Self {
        self.step(&assign(0, to))
    }

    /// Leads a run to this status by the shortest path.
    pub(super) fn reach(status: SeatStatus) -> Self {
        let mut stage = Self::new();
        match status {
            SeatStatus::Created => {}
            SeatStatus::Assigned => {
                stage.assign("d1");
            }
            SeatStatus::Claimed => {
                stage.assign("d1").does(DeviceAction::Accept);
            }
            SeatStatus::Processing => {
                stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
            }
            SeatStatus::Reassigning => {
                stage.assign("d1").does(DeviceAction::Decline { reason: None });
            }
            SeatStatus::Completed => {
                stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
                stage.does(DeviceAction::Complete { output: output() });
            }
            SeatStatus::Failed => {
                stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
                stage.does(DeviceAction::Fail { failure: error("no"), retryable: false });
            }
            SeatStatus::AssigningToSelf | SeatStatus::AssigningToOther => {
                panic!("no run is stored as {status}")
            }
        }
        assert_eq!(stage.status(), status);
        stage
    }
}

pub(super) fn assign(seat: u16, to: &str) -> RunInput {
    RunInput::Assign { seat, device: device(to), decision: None }
}

pub(super) fn self_claim(by: &str) -> RunInput {
    RunInput::SelfClaim { device: device(by), seat: None, fitness: Ok(()), decision: None }
}

pub(super) fn act(by: &str, token: i64, doing: DeviceAction) -> RunInput {
    RunInput::Act(SeatAct { device: device(by), seat: 0, token: SeatToken(token) }, doing)
}
