//! Five devices and a run, with its invariants.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_devices::claim::{
    CreatingDevice, DeviceAction, DeviceCandidate, DeviceReport, MAX_PREVIOUS, RunAssignMode, RunChange,
    RunInput, RunLogEntry, RunRecord, RunSettings, RunSpec, RunStepOutcome, SeatAct, SeatBackoff, SeatDue,
    SeatFailure, SeatFailureKind, SeatProgress, SeatToken, SelectionWeights, create_run, next_due,
    outline_seats, overdue_seats, place_run, replay_seats, step_run, table,
};
use millstream_model::id::{DeviceId, Name, RunId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::dice::RunDice;

pub(crate) struct DeviceFleet {
    run: Option<RunRecord>,
    log: Vec<RunLogEntry>,
    now: Timestamp,
    devices: Vec<DeviceCandidate>,
    /// Every token ever issued, with its device and seat.
    given: BTreeSet<(DeviceId, u16, SeatToken)>,
    last_token: SeatToken,
}

impl DeviceFleet {
    pub(crate) fn new(dice: &mut RunDice) -> Self {
        let devices: Vec<DeviceCandidate> = (0..5).map(|number| device(number, dice)).collect();
        let creator = dice.one(&devices).filter(|_| dice.once_in(2));
        let spec = RunSpec {
            priority: 3,
            devices: 1 + u16::try_from(dice.of(3)).unwrap(),
            assign: if dice.once_in(4) { RunAssignMode::Manual } else { RunAssignMode::Auto },
            requires: if dice.once_in(3) { [name("gpu")].into() } else { BTreeSet::new() },
            settings: RunSettings {
                max_reassignments: u32::try_from(dice.of(12)).unwrap(),
                backoff: SeatBackoff { rounds: u32::try_from(dice.of(4)).unwrap(), ..SeatBackoff::default() },
                ..RunSettings::default()
            },
            creator: creator.map(|one| CreatingDevice { device: one.device.id, willing: dice.once_in(2) }),
            ..RunSpec::with_defaults(name("render"), RawJson::null())
        };
        let now = Timestamp::from_millis(1_000_000);
        let mut fleet = Self {
            run: None,
            log: Vec::new(),
            now,
            devices,
            given: BTreeSet::new(),
            last_token: SeatToken::NONE,
        };
        let created = create_run(spec, None, now);
        let placed = if dice.once_in(2) { fleet.placed(created, dice.next()) } else { created };
        fleet.write(placed);
        fleet
    }

    pub(crate) fn run(&self) -> &RunRecord {
        self.run.as_ref().expect("it was created")
    }

    fn placed(&self, change: RunChange, rotation: u64) -> RunChange {
        place_run(
            change,
            &mut self.devices.iter().cloned().collect(),
            &SelectionWeights::default(),
            rotation,
            None,
            self.now,
        )
    }

    pub(crate) fn make_move(&mut self, dice: &mut RunDice) {
        self.now = self.now.plus(Duration::from_secs([0, 0, 1, 10, 40, 100, 400][dice.of(7)]));
        let seat = u16::try_from(dice.of(self.run().seats.len())).unwrap();
        let who = dice.one(&self.devices).expect("there are five").device.id;
        let input = match dice.of(24) {
            0..=11 => {
                let Some(act) = self.right(dice) else { return };
                RunInput::Act(act, doing(dice))
            }
            12..=13 => {
                self.watch(dice.next());
                return;
            }
            14 => RunInput::SelfClaim {
                device: who,
                seat: dice.once_in(2).then_some(seat),
                fitness: Ok(()),
                decision: None,
            },
            15 => RunInput::Assign { seat, device: who, decision: None },
            16..=17 => {
                let Some(act) = self.right(dice) else { return };
                RunInput::OfflineClaim(act)
            }
            18 => RunInput::Preempt { seat, by: RunId::parse("r-9").unwrap(), priority: 4 },
            19 => RunInput::DeviceGone { device: who },
            20 => RunInput::Pause,
            21 => RunInput::Resume,
            22 => {
                for number in 0..self.devices.len() {
                    let seen = if dice.once_in(3) { Timestamp::EPOCH } else { self.now };
                    self.devices[number].device.seen_at = seen;
                    self.devices[number].open = u32::try_from(dice.of(3)).unwrap();
                }
                return;
            }
            _ if dice.once_in(6) => RunInput::Cancel { reason: None },
            _ => RunInput::Retry,
        };
        self.step(&input);
    }

    /// A token that was issued at some time, or one that never was.
    fn right(&self, dice: &mut RunDice) -> Option<SeatAct> {
        let current: Vec<SeatAct> = self
            .run()
            .numbered_seats()
            .filter_map(|(seat, one)| {
                let held = one.current_holding()?;
                Some(SeatAct { device: held.device.clone(), seat, token: held.token })
            })
            .collect();
        if !dice.once_in(4) && !current.is_empty() {
            return dice.one(&current);
        }
        let given: Vec<_> = self.given.iter().cloned().collect();
        let (device, seat, token) = dice.one(&given)?;
        Some(SeatAct { device, seat, token: if dice.once_in(9) { SeatToken(token.0 + 1) } else { token } })
    }

    /// The work of the monitor.
    fn watch(&mut self, rotation: u64) {
        for (seat, what) in overdue_seats(self.run(), self.now) {
            let input = match what {
                SeatDue::AssignmentTimeout => RunInput::AssignmentTimeout { seat },
                SeatDue::ClaimExpiry => RunInput::ClaimExpiry { seat },
                SeatDue::HeartbeatTimeout => RunInput::HeartbeatTimeout { seat },
                SeatDue::BackoffOver => RunInput::BackoffOver { seat },
                SeatDue::Place => continue,
            };
            // An earlier action may have ended the run.
            if let Some((seat, what)) =
                overdue_seats(self.run(), self.now).into_iter().find(|one| *one == (seat, what))
            {
                let before = self.run().clone();
                self.step(&input);
                assert_ne!(before, *self.run(), "{what} was due for seat {seat} and changed nothing");
            }
        }
        let unchanged =
            RunChange { run: self.run().clone(), log: Vec::new(), told: None, unheard: Vec::new() };
        let placed = self.placed(unchanged, rotation);
        self.write(placed);
    }

    fn step(&mut self, input: &RunInput) {
        let before = self.run().clone();
        let stepped = step_run(before.clone(), input, None, self.now);
        assert_eq!(
            stepped,
            step_run(before.clone(), input, None, self.now),
            "decided differently the second time"
        );
        match stepped {
            Ok(RunStepOutcome::Changed(change)) => self.write(*change),
            Ok(RunStepOutcome::Already) => {}
            Err(refusal) => assert_eq!(refusal.input, input.input_kind(), "{refusal}"),
        }
    }

    fn write(&mut self, change: RunChange) {
        for entry in &change.log {
            if let Some(from) = entry.from {
                assert!(table::is_transition(from, entry.word, entry.to), "not in the table: {entry:?}");
            }
            if let (Some(device), Some(seat), Some(token)) = (&entry.device, entry.seat, entry.token) {
                self.given.insert((device.clone(), seat, token));
            }
        }
        self.log.extend(change.log);
        self.run = Some(RawJson::from_value(&change.run).decode().expect("it is read back"));
        assert_eq!(*self.run(), change.run);
        self.check();
    }

    fn check(&mut self) {
        let run = self.run().clone();
        let mut told = replay_seats(&self.log);
        for seat in told.values_mut() {
            let beyond = seat.former.len().saturating_sub(MAX_PREVIOUS);
            seat.former.drain(..beyond);
        }
        assert_eq!(told, outline_seats(&run), "the log does not replay to the run");
        assert!(run.token >= self.last_token, "tokens go back");
        self.last_token = run.token;
        let tokens: BTreeSet<SeatToken> = self.given.iter().map(|(_, _, token)| *token).collect();
        assert_eq!(tokens.len(), self.given.len(), "two have the same token: {:?}", self.given);
        let occupants: Vec<&DeviceId> = run.seats.iter().filter_map(|seat| seat.occupant()).collect();
        let distinct: BTreeSet<&&DeviceId> = occupants.iter().collect();
        assert_eq!(distinct.len(), occupants.len(), "a device has two seats: {occupants:?}");
        for (seat, one) in run.numbered_seats() {
            let valid: Vec<_> =
                self.given.iter().filter(|right| right.1 == seat && self.is_valid(right)).collect();
            assert!(valid.len() <= 1, "two valid tokens for one seat: {valid:?}");
            let held = one.current_holding().map(|held| (&held.device, held.token));
            assert_eq!(valid.first().map(|(device, _, token)| (device, *token)), held);
            let is_watched = next_due(&run, seat).is_some();
            let waits_visibly = run.is_paused() || run.assign == RunAssignMode::Manual;
            assert!(one.status().is_ended() || is_watched || waits_visibly, "stuck: {one:?}");
            assert!(!one.status().is_ended() || !is_watched, "what has ended is watched");
        }
    }

    /// Whether the token permits any act of a holder.
    fn is_valid(&self, (device, seat, token): &(DeviceId, u16, SeatToken)) -> bool {
        let act = SeatAct { device: device.clone(), seat: *seat, token: *token };
        let changes = |doing| {
            let stepped = step_run(self.run().clone(), &RunInput::Act(act.clone(), doing), None, self.now);
            matches!(stepped, Ok(RunStepOutcome::Changed(_)))
        };
        changes(DeviceAction::Accept)
            || changes(DeviceAction::Heartbeat)
            || changes(DeviceAction::Complete { output: RawJson::null() })
    }

    /// Devices neither answer nor send heartbeats any more; a manually assigned run is cancelled.
    pub(crate) fn fall_silent(&mut self) {
        self.step(&RunInput::Resume);
        for candidate in &mut self.devices {
            candidate.device.seen_at = Timestamp::EPOCH;
        }
        for _ in 0..2_000 {
            let run = self.run();
            let next =
                run.numbered_seats().filter_map(|(seat, _)| next_due(run, seat)).map(|(at, _)| at).min();
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.watch(0);
        }
        if self.run().assign == RunAssignMode::Manual && !self.run().status().is_ended() {
            self.step(&RunInput::Cancel { reason: None });
        }
    }

    /// All devices are present and do their work.
    pub(crate) fn work_on(&mut self) {
        self.step(&RunInput::Resume);
        for _ in 0..2_000 {
            for candidate in &mut self.devices {
                candidate.device.seen_at = self.now;
                candidate.open = 0;
            }
            self.watch(0);
            let run = self.run().clone();
            if run.status().is_ended() {
                break;
            }
            for (seat, one) in run.numbered_seats() {
                if let Some(held) = one.current_holding() {
                    let act = SeatAct { device: held.device.clone(), seat, token: held.token };
                    for doing in [
                        DeviceAction::Accept,
                        DeviceAction::Start,
                        DeviceAction::Complete { output: RawJson::null() },
                    ] {
                        self.step(&RunInput::Act(act.clone(), doing));
                    }
                } else if one.status().is_open() && run.assign == RunAssignMode::Manual {
                    let free = self.devices.iter().find(|one| run.seat_of_device(&one.device.id).is_none());
                    let device = free.expect("five for three").device.id.clone();
                    self.step(&RunInput::SelfClaim {
                        device,
                        seat: Some(seat),
                        fitness: Ok(()),
                        decision: None,
                    });
                }
            }
            self.now = self.now.plus(Duration::from_secs(1));
        }
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn device(number: usize, dice: &mut RunDice) -> DeviceCandidate {
    let device = DeviceReport {
        id: DeviceId::parse(format!("d{number}")).unwrap(),
        capabilities: if dice.once_in(3) && number > 2 { BTreeSet::new() } else { [name("gpu")].into() },
        capability: u32::try_from(dice.of(3)).unwrap(),
        capacity: [None, Some(1), Some(2)][dice.of(3)],
        load: 0.5,
        quality: 0.5,
        battery: None,
        on_battery: false,
        coordinates: dice.once_in(2),
        paused: dice.once_in(9) && number > 2,
        seen_at: Timestamp::from_millis(1_000_000),
    };
    DeviceCandidate { device, open: 0 }
}

fn doing(dice: &mut RunDice) -> DeviceAction {
    let failure = SeatFailure { kind: SeatFailureKind::Error, message: "no".to_owned(), class: None };
    match dice.of(14) {
        0..=2 => DeviceAction::Accept,
        3..=5 => DeviceAction::Start,
        6 => DeviceAction::Heartbeat,
        7 => DeviceAction::Progress(SeatProgress { step: 1, total: 2, note: None }),
        8 => DeviceAction::Complete { output: RawJson::null() },
        9 => DeviceAction::Decline { reason: None },
        10 => DeviceAction::Release { reason: None },
        11 => DeviceAction::Abort { reason: None },
        12 => DeviceAction::Fail { failure, retryable: true },
        _ if dice.once_in(4) => DeviceAction::Fail { failure, retryable: false },
        _ => DeviceAction::Heartbeat,
    }
}
