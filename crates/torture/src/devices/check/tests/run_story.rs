//! A fixture: the history of one run, made with the rules of the engine.

use std::time::Duration;

use millstream_devices::claim::{
    CreatingDevice, DeviceAction, RunChange, RunInput, RunInputKind, RunRecord, RunSeat, RunSettings,
    RunSpec, RunStepOutcome, SeatAct as ClaimAct, SeatProgress, SeatState, create_run, step_run,
};
use millstream_model::id::{DeviceId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::super::evidence::{DeviceBounds, DeviceEvidence, RunSeen, SeatSeen};
use crate::devices::record::{DeviceAct, DeviceAnswer, DeviceRecordState};

pub(super) const BEGAN: u64 = 1_000_000;

pub(super) fn device_id(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

/// History of one run, made with the engine's own rules, with the answers to its devices.
pub(super) struct RunStory {
    pub(super) run: RunRecord,
    pub(super) log: Vec<millstream_devices::claim::RunLogEntry>,
    pub(super) now: u64,
    pub(super) acts: Vec<DeviceAct>,
}

impl RunStory {
    pub(super) fn new() -> Self {
        Self::with_devices(1)
    }

    pub(super) fn with_devices(devices: u16) -> Self {
        let settings = RunSettings {
            assignment_timeout: Duration::from_secs(1),
            claim_timeout: Duration::from_secs(2),
            heartbeat: Duration::from_millis(500),
            heartbeat_timeout: Duration::from_secs(2),
            ..RunSettings::default()
        };
        let kind = Name::parse("job").unwrap();
        let spec = RunSpec { devices, settings, ..RunSpec::with_defaults(kind, RawJson::null()) };
        assert_eq!(spec.creator, None::<CreatingDevice>);
        let RunChange { run, log, .. } = create_run(spec, None, timestamp_at(BEGAN));
        Self { run, log, now: BEGAN, acts: Vec::new() }
    }

    pub(super) fn pass_time(&mut self, millis: u64) -> &mut Self {
        self.now += millis;
        self
    }

    pub(super) fn apply_input(&mut self, input: &RunInput) -> &mut Self {
        let stepped = step_run(self.run.clone(), input, None, timestamp_at(self.now)).unwrap();
        if let RunStepOutcome::Changed(change) = stepped {
            self.run = change.run;
            self.log.extend(change.log);
        }
        self
    }

    pub(super) fn assign_seat(&mut self, seat: u16, name: &str) -> &mut Self {
        self.apply_input(&RunInput::Assign { seat, device: device_id(name), decision: None })
    }

    /// A device performs an input on its assignment, and it is accepted.
    pub(super) fn apply_device_input(&mut self, name: &str, seat: u16, doing: DeviceAction) -> &mut Self {
        let token = self.run.seat(seat).and_then(RunSeat::current_holding).unwrap().token;
        let word =
            RunInput::Act(ClaimAct { device: device_id(name), seat, token }, doing.clone()).input_kind();
        self.record_answer(name, seat, token.0, word, DeviceAnswer::Done { token: Some(token.0) });
        self.apply_input(&RunInput::Act(ClaimAct { device: device_id(name), seat, token }, doing))
    }

    /// A device's request now, and the answer to it.
    pub(super) fn record_answer(
        &mut self,
        name: &str,
        seat: u16,
        token: i64,
        word: RunInputKind,
        told: DeviceAnswer,
    ) -> &mut Self {
        let sent = i64::try_from(self.now).unwrap();
        let (device, run) = (name.to_owned(), "run-1".to_owned());
        self.acts.push(DeviceAct { device, run, seat, token, word, sent, answered: sent + 5, told });
        self
    }

    pub(super) fn finish_seat(&mut self, name: &str, seat: u16) -> &mut Self {
        self.apply_device_input(name, seat, DeviceAction::Accept)
            .pass_time(10)
            .apply_device_input(name, seat, DeviceAction::Start)
            .pass_time(10);
        self.apply_device_input(name, seat, DeviceAction::Complete { output: RawJson::null() })
    }

    /// The first holder falls silent, the second one ends the run.
    pub(super) fn taken_over() -> Self {
        let mut story = Self::new();
        story
            .assign_seat(0, "a")
            .pass_time(10)
            .apply_device_input("a", 0, DeviceAction::Accept)
            .pass_time(10)
            .apply_device_input("a", 0, DeviceAction::Start);
        story.pass_time(100).apply_device_input(
            "a",
            0,
            DeviceAction::Progress(SeatProgress { step: 1, total: 2, note: None }),
        );
        story
            .pass_time(2_900)
            .apply_input(&RunInput::HeartbeatTimeout { seat: 0 })
            .assign_seat(0, "b")
            .pass_time(20)
            .finish_seat("b", 0);
        story
    }

    pub(super) fn run_seen(&self) -> RunSeen {
        RunSeen {
            id: "run-1".to_owned(),
            status: self.run.status(),
            assign: self.run.assign,
            settings: self.run.settings.clone(),
            seats: self.run.seats.iter().map(seat_seen).collect(),
            execution: None,
            log: self.log.clone(),
        }
    }

    pub(super) fn evidence(&self) -> DeviceEvidence {
        let clients = DeviceRecordState {
            acts: self.acts.clone(),
            runs: ["run-1".to_owned()].into(),
            ..DeviceRecordState::default()
        };
        let bounds = DeviceBounds { monitor: 1_000, allowance: 500, clock: 50, write: 0 };
        DeviceEvidence { clients, runs: vec![self.run_seen()], executions: Vec::new(), bounds }
    }
}

pub(super) fn timestamp_at(millis: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_millis(millis))
}

fn seat_seen(seat: &RunSeat) -> SeatSeen {
    let held = match &seat.state {
        SeatState::Completed { held, .. } => Some(held),
        SeatState::Failed { last, .. } => last.as_ref(),
        SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. } => seat.current_holding(),
    };
    let error = match &seat.state {
        SeatState::Failed { failure, .. } => Some((failure.kind.to_string(), failure.message.clone())),
        SeatState::Completed { .. }
        | SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. } => None,
    };
    SeatSeen {
        status: seat.status(),
        device: held.map(|held| held.device.to_string()),
        token: held.map(|held| held.token.0),
        error,
        previous: seat.previous.clone(),
    }
}
