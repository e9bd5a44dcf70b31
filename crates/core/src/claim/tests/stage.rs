//! The fixture: a run, its log, and a clock that the test moves.

use std::time::Duration;

use crate::claim::{
    Act, Change, Doing, Entry, Failure, FailureKind, Input, Progress, Refusal, Run, RunSpec, Status, Stepped,
    Token, create, replay, step, summary, table,
};
use crate::id::{ActionKey, DeviceId, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use crate::raw::RawJson;
use crate::time::Timestamp;

pub(super) fn device(text: &str) -> DeviceId {
    DeviceId::parse(text).unwrap()
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(super) fn spec() -> RunSpec {
    RunSpec::of(name("render"), RawJson::parse("{\"scene\":1}").unwrap())
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

pub(super) fn error(message: &str) -> Failure {
    Failure { kind: FailureKind::Error, message: message.to_owned(), class: None }
}

pub(super) fn progress(step: u64) -> Progress {
    Progress { step, total: 10, note: None }
}

pub(super) fn output() -> RawJson {
    RawJson::parse("{\"frames\":24}").unwrap()
}

/// A run with the history of its changes.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) run: Run,
    pub(super) log: Vec<Entry>,
    pub(super) now: Timestamp,
    pub(super) last: Option<Change>,
}

impl Stage {
    pub(super) fn of(spec: RunSpec) -> Self {
        let change = create(spec, Some("ann"), at(0));
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
    pub(super) fn try_step(&mut self, input: &Input) -> Result<Stepped, Refusal> {
        let before = self.run.clone();
        let stepped = step(self.run.clone(), input, None, self.now)?;
        match &stepped {
            Stepped::Already => assert_eq!(before, self.run),
            Stepped::Changed(change) => {
                for entry in &change.log {
                    let from = entry.from.expect("only creation has no previous status");
                    assert!(table::leads(from, entry.word, entry.to), "not in the table: {entry:?}");
                }
                self.run = change.run.clone();
                self.log.extend(change.log.clone());
                self.last = Some((**change).clone());
                assert_eq!(replay(&self.log), summary(&self.run), "the log does not replay to the run");
                let written = RawJson::of(&self.run);
                assert_eq!(written.decode::<Run>().unwrap(), self.run, "it does not survive serialisation");
            }
        }
        Ok(stepped)
    }

    pub(super) fn step(&mut self, input: &Input) -> &mut Self {
        let stepped = self.try_step(input).unwrap_or_else(|refusal| panic!("{input:?}: {refusal}"));
        assert_ne!(stepped, Stepped::Already, "{input:?}");
        self
    }

    pub(super) fn refused(&mut self, input: &Input) -> Refusal {
        match self.try_step(input) {
            Err(refusal) => refusal,
            Ok(stepped) => panic!("{input:?} is possible: {stepped:?}"),
        }
    }

    pub(super) fn already(&mut self, input: &Input) {
        assert_eq!(self.try_step(input).unwrap(), Stepped::Already, "{input:?}");
    }

    pub(super) fn status(&self) -> Status {
        self.run.status()
    }

    /// An act of the device that holds the first seat, with its valid token.
    pub(super) fn by_holder(&self, doing: Doing) -> Input {
        self.by_holder_of(0, doing)
    }

    pub(super) fn by_holder_of(&self, seat: u16, doing: Doing) -> Input {
        let act = match self.run.seats[usize::from(seat)].held() {
            Some(held) => Act { device: held.device.clone(), seat, token: held.token },
            None => Act { device: device("stranger"), seat, token: Token(999) },
        };
        Input::Act(act, doing)
    }

    pub(super) fn does(&mut self, doing: Doing) -> &mut Self {
        let input = self.by_holder(doing);
        self.step(&input)
    }

    pub(super) fn assign(&mut self, to: &str) -> &mut Self {
        self.step(&assign(0, to))
    }

    /// Leads a run to this status by the shortest path.
    pub(super) fn reach(status: Status) -> Self {
        let mut stage = Self::new();
        match status {
            Status::Created => {}
            Status::Assigned => {
                stage.assign("d1");
            }
            Status::Claimed => {
                stage.assign("d1").does(Doing::Accept);
            }
            Status::Processing => {
                stage.assign("d1").does(Doing::Accept).does(Doing::Start);
            }
            Status::Reassigning => {
                stage.assign("d1").does(Doing::Decline { reason: None });
            }
            Status::Completed => {
                stage.assign("d1").does(Doing::Accept).does(Doing::Start);
                stage.does(Doing::Complete { output: output() });
            }
            Status::Failed => {
                stage.assign("d1").does(Doing::Accept).does(Doing::Start);
                stage.does(Doing::Fail { failure: error("no"), retryable: false });
            }
            Status::AssigningToSelf | Status::AssigningToOther => panic!("no run is stored as {status}"),
        }
        assert_eq!(stage.status(), status);
        stage
    }
}

pub(super) fn assign(seat: u16, to: &str) -> Input {
    Input::Assign { seat, device: device(to), decision: None }
}

pub(super) fn self_claim(by: &str) -> Input {
    Input::SelfClaim { device: device(by), seat: None, fitness: Ok(()), decision: None }
}

pub(super) fn act(by: &str, token: i64, doing: Doing) -> Input {
    Input::Act(Act { device: device(by), seat: 0, token: Token(token) }, doing)
}
