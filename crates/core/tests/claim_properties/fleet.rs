//! Five devices and a run, with its invariants.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_core::claim::{
    Act, Assign, Backoff, Candidate, Change, Creator, Device, Doing, Due, Entry, Failure, FailureKind, Input,
    MAX_PREVIOUS, Progress, Run, RunSpec, Settings, Stepped, Token, Weights, create, due, overdue, place,
    replay, step, summary, table,
};
use millstream_core::id::{DeviceId, Name, RunId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use super::dice::Dice;

pub(crate) struct Fleet {
    run: Option<Run>,
    log: Vec<Entry>,
    now: Timestamp,
    devices: Vec<Candidate>,
    /// Every token ever issued, with its device and seat.
    given: BTreeSet<(DeviceId, u16, Token)>,
    last_token: Token,
}

impl Fleet {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let devices: Vec<Candidate> = (0..5).map(|number| device(number, dice)).collect();
        let creator = dice.one(&devices).filter(|_| dice.once_in(2));
        let spec = RunSpec {
            priority: 3,
            devices: 1 + u16::try_from(dice.of(3)).unwrap(),
            assign: if dice.once_in(4) { Assign::Manual } else { Assign::Auto },
            requires: if dice.once_in(3) { [name("gpu")].into() } else { BTreeSet::new() },
            settings: Settings {
                max_reassignments: u32::try_from(dice.of(12)).unwrap(),
                backoff: Backoff { rounds: u32::try_from(dice.of(4)).unwrap(), ..Backoff::default() },
                ..Settings::default()
            },
            creator: creator.map(|one| Creator { device: one.device.id, willing: dice.once_in(2) }),
            ..RunSpec::of(name("render"), RawJson::null())
        };
        let now = Timestamp::from_millis(1_000_000);
        let mut fleet = Self {
            run: None,
            log: Vec::new(),
            now,
            devices,
            given: BTreeSet::new(),
            last_token: Token::NONE,
        };
        let created = create(spec, None, now);
        let placed = if dice.once_in(2) { fleet.placed(created, dice.next()) } else { created };
        fleet.write(placed);
        fleet
    }

    pub(crate) fn run(&self) -> &Run {
        self.run.as_ref().expect("it was created")
    }

    fn placed(&self, change: Change, rotation: u64) -> Change {
        place(
            change,
            &mut self.devices.iter().cloned().collect(),
            &Weights::default(),
            rotation,
            None,
            self.now,
        )
    }

    pub(crate) fn make_move(&mut self, dice: &mut Dice) {
        self.now = self.now.plus(Duration::from_secs([0, 0, 1, 10, 40, 100, 400][dice.of(7)]));
        let seat = u16::try_from(dice.of(self.run().seats.len())).unwrap();
        let who = dice.one(&self.devices).expect("there are five").device.id;
        let input = match dice.of(24) {
            0..=11 => {
                let Some(act) = self.right(dice) else { return };
                Input::Act(act, doing(dice))
            }
            12..=13 => {
                self.watch(dice.next());
                return;
            }
            14 => Input::SelfClaim {
                device: who,
                seat: dice.once_in(2).then_some(seat),
                fitness: Ok(()),
                decision: None,
            },
            15 => Input::Assign { seat, device: who, decision: None },
            16..=17 => {
                let Some(act) = self.right(dice) else { return };
                Input::OfflineClaim(act)
            }
            18 => Input::Preempt { seat, by: RunId::parse("r-9").unwrap(), priority: 4 },
            19 => Input::DeviceGone { device: who },
            20 => Input::Pause,
            21 => Input::Resume,
            22 => {
                for number in 0..self.devices.len() {
                    let seen = if dice.once_in(3) { Timestamp::EPOCH } else { self.now };
                    self.devices[number].device.seen_at = seen;
                    self.devices[number].open = u32::try_from(dice.of(3)).unwrap();
                }
                return;
            }
            _ if dice.once_in(6) => Input::Cancel { reason: None },
            _ => Input::Retry,
        };
        self.step(&input);
    }

    /// A token that was issued at some time, or one that never was.
    fn right(&self, dice: &mut Dice) -> Option<Act> {
        let current: Vec<Act> = self
            .run()
            .numbered()
            .filter_map(|(seat, one)| {
                let held = one.held()?;
                Some(Act { device: held.device.clone(), seat, token: held.token })
            })
            .collect();
        if !dice.once_in(4) && !current.is_empty() {
            return dice.one(&current);
        }
        let given: Vec<_> = self.given.iter().cloned().collect();
        let (device, seat, token) = dice.one(&given)?;
        Some(Act { device, seat, token: if dice.once_in(9) { Token(token.0 + 1) } else { token } })
    }

    /// The work of the monitor.
    fn watch(&mut self, rotation: u64) {
        for (seat, what) in overdue(self.run(), self.now) {
            let input = match what {
                Due::AssignmentTimeout => Input::AssignmentTimeout { seat },
                Due::ClaimExpiry => Input::ClaimExpiry { seat },
                Due::HeartbeatTimeout => Input::HeartbeatTimeout { seat },
                Due::BackoffOver => Input::BackoffOver { seat },
                Due::Place => continue,
            };
            // An earlier action may have ended the run.
            if let Some((seat, what)) =
                overdue(self.run(), self.now).into_iter().find(|one| *one == (seat, what))
            {
                let before = self.run().clone();
                self.step(&input);
                assert_ne!(before, *self.run(), "{what} was due for seat {seat} and changed nothing");
            }
        }
        let unchanged = Change { run: self.run().clone(), log: Vec::new(), told: None, unheard: Vec::new() };
        let placed = self.placed(unchanged, rotation);
        self.write(placed);
    }

    fn step(&mut self, input: &Input) {
        let before = self.run().clone();
        let stepped = step(before.clone(), input, None, self.now);
        assert_eq!(
            stepped,
            step(before.clone(), input, None, self.now),
            "decided differently the second time"
        );
        match stepped {
            Ok(Stepped::Changed(change)) => self.write(*change),
            Ok(Stepped::Already) => {}
            Err(refusal) => assert_eq!(refusal.input, input.word(), "{refusal}"),
        }
    }

    fn write(&mut self, change: Change) {
        for entry in &change.log {
            if let Some(from) = entry.from {
                assert!(table::leads(from, entry.word, entry.to), "not in the table: {entry:?}");
            }
            if let (Some(device), Some(seat), Some(token)) = (&entry.device, entry.seat, entry.token) {
                self.given.insert((device.clone(), seat, token));
            }
        }
        self.log.extend(change.log);
        self.run = Some(RawJson::of(&change.run).decode().expect("it is read back"));
        assert_eq!(*self.run(), change.run);
        self.check();
    }

    fn check(&mut self) {
        let run = self.run().clone();
        let mut told = replay(&self.log);
        for seat in told.values_mut() {
            let beyond = seat.former.len().saturating_sub(MAX_PREVIOUS);
            seat.former.drain(..beyond);
        }
        assert_eq!(told, summary(&run), "the log does not replay to the run");
        assert!(run.token >= self.last_token, "tokens go back");
        self.last_token = run.token;
        let tokens: BTreeSet<Token> = self.given.iter().map(|(_, _, token)| *token).collect();
        assert_eq!(tokens.len(), self.given.len(), "two have the same token: {:?}", self.given);
        let occupants: Vec<&DeviceId> = run.seats.iter().filter_map(|seat| seat.occupant()).collect();
        let distinct: BTreeSet<&&DeviceId> = occupants.iter().collect();
        assert_eq!(distinct.len(), occupants.len(), "a device has two seats: {occupants:?}");
        for (seat, one) in run.numbered() {
            let valid: Vec<_> =
                self.given.iter().filter(|right| right.1 == seat && self.is_valid(right)).collect();
            assert!(valid.len() <= 1, "two valid tokens for one seat: {valid:?}");
            let held = one.held().map(|held| (&held.device, held.token));
            assert_eq!(valid.first().map(|(device, _, token)| (device, *token)), held);
            let is_watched = due(&run, seat).is_some();
            let waits_visibly = run.is_paused() || run.assign == Assign::Manual;
            assert!(one.status().is_ended() || is_watched || waits_visibly, "stuck: {one:?}");
            assert!(!one.status().is_ended() || !is_watched, "what has ended is watched");
        }
    }

    /// Whether the token permits any act of a holder.
    fn is_valid(&self, (device, seat, token): &(DeviceId, u16, Token)) -> bool {
        let act = Act { device: device.clone(), seat: *seat, token: *token };
        let changes = |doing| {
            let stepped = step(self.run().clone(), &Input::Act(act.clone(), doing), None, self.now);
            matches!(stepped, Ok(Stepped::Changed(_)))
        };
        changes(Doing::Accept)
            || changes(Doing::Heartbeat)
            || changes(Doing::Complete { output: RawJson::null() })
    }

    /// Devices neither answer nor send heartbeats any more; a manually assigned run is cancelled.
    pub(crate) fn fall_silent(&mut self) {
        self.step(&Input::Resume);
        for candidate in &mut self.devices {
            candidate.device.seen_at = Timestamp::EPOCH;
        }
        for _ in 0..2_000 {
            let run = self.run();
            let next = run.numbered().filter_map(|(seat, _)| due(run, seat)).map(|(at, _)| at).min();
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.watch(0);
        }
        if self.run().assign == Assign::Manual && !self.run().status().is_ended() {
            self.step(&Input::Cancel { reason: None });
        }
    }

    /// All devices are present and do their work.
    pub(crate) fn work_on(&mut self) {
        self.step(&Input::Resume);
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
            for (seat, one) in run.numbered() {
                if let Some(held) = one.held() {
                    let act = Act { device: held.device.clone(), seat, token: held.token };
                    for doing in [Doing::Accept, Doing::Start, Doing::Complete { output: RawJson::null() }] {
                        self.step(&Input::Act(act.clone(), doing));
                    }
                } else if one.status().is_open() && run.assign == Assign::Manual {
                    let free = self.devices.iter().find(|one| run.seat_of(&one.device.id).is_none());
                    let device = free.expect("five for three").device.id.clone();
                    self.step(&Input::SelfClaim {
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

fn device(number: usize, dice: &mut Dice) -> Candidate {
    let device = Device {
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
    Candidate { device, open: 0 }
}

fn doing(dice: &mut Dice) -> Doing {
    let failure = Failure { kind: FailureKind::Error, message: "no".to_owned(), class: None };
    match dice.of(14) {
        0..=2 => Doing::Accept,
        3..=5 => Doing::Start,
        6 => Doing::Heartbeat,
        7 => Doing::Progress(Progress { step: 1, total: 2, note: None }),
        8 => Doing::Complete { output: RawJson::null() },
        9 => Doing::Decline { reason: None },
        10 => Doing::Release { reason: None },
        11 => Doing::Abort { reason: None },
        12 => Doing::Fail { failure, retryable: true },
        _ if dice.once_in(4) => Doing::Fail { failure, retryable: false },
        _ => Doing::Heartbeat,
    }
}
