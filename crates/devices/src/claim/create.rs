//! Creation of a run.

use std::collections::BTreeSet;

use millstream_model::id::{DeviceId, Name};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::change::{RunChange, RunLogEntry};
use super::input_kind::RunInputKind;
use super::run::{FORMAT, RunAssignMode, RunRecord, WaitingAction};
use super::seat::{RunSeat, SeatToken};
use super::settings::RunSettings;
use super::status::SeatStatus;

/// The request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    pub kind: Name,
    pub input: RawJson,
    pub requires: BTreeSet<Name>,
    pub prefer: BTreeSet<Name>,
    pub priority: i32,
    pub preempt: bool,
    pub prefer_coordinator: bool,
    pub min_battery: Option<u8>,
    pub assign: RunAssignMode,
    /// Number of devices that work on it in parallel.
    pub devices: u16,
    pub settings: RunSettings,
    pub creator: Option<CreatingDevice>,
    pub waiting: Option<WaitingAction>,
}

/// The device that created the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatingDevice {
    pub device: DeviceId,
    /// Whether it is willing to take the run itself.
    pub willing: bool,
}

impl RunSpec {
    /// Upper bound on devices per run.
    pub const MAX_DEVICES: u16 = 100;
    pub const MAX_CAPABILITIES: usize = 100;

    /// A run with defaults: one device, any device.
    pub fn with_defaults(kind: Name, input: RawJson) -> Self {
        Self {
            kind,
            input,
            requires: BTreeSet::new(),
            prefer: BTreeSet::new(),
            priority: 0,
            preempt: false,
            prefer_coordinator: false,
            min_battery: None,
            assign: RunAssignMode::Auto,
            devices: 1,
            settings: RunSettings::default(),
            creator: None,
            waiting: None,
        }
    }

    /// Validation problems, each with its path.
    pub fn find_problems(&self) -> Vec<ValidationProblem> {
        let mut problems = Vec::new();
        let mut wrong = |path: &str, message: String| problems.push(ValidationProblem::new(path, message));
        if self.devices == 0 || self.devices > Self::MAX_DEVICES {
            wrong("devices", format!("is {}, must be 1 to {}", self.devices, Self::MAX_DEVICES));
        }
        if self.min_battery.is_some_and(|percent| percent > 100) {
            wrong("min_battery", "is a percentage: 0 to 100".to_owned());
        }
        for (path, names) in [("requires", &self.requires), ("prefer", &self.prefer)] {
            if names.len() > Self::MAX_CAPABILITIES {
                let most = Self::MAX_CAPABILITIES;
                wrong(path, format!("has {} capabilities, at most {most} are allowed", names.len()));
            }
        }
        if self.settings.heartbeat >= self.settings.heartbeat_timeout {
            wrong("settings.heartbeat", "must be shorter than heartbeat_timeout".to_owned());
        }
        problems
    }
}

impl RunRecord {
    /// Whether the same request created this run, which makes a repetition idempotent. The lease under which
    /// an action waits may differ.
    pub fn asks_for(&self, spec: &RunSpec) -> bool {
        let creator = self.created_by.as_ref().map(|device| (device, self.creator_willing));
        let waits = |waiting: &Option<WaitingAction>| waiting.as_ref().map(|it| it.key.clone());
        self.kind == spec.kind
            && self.input == spec.input
            && self.requires == spec.requires
            && self.prefer == spec.prefer
            && self.priority == spec.priority
            && self.preempt == spec.preempt
            && self.prefer_coordinator == spec.prefer_coordinator
            && self.min_battery == spec.min_battery
            && self.assign == spec.assign
            && self.seats.len() == usize::from(spec.devices)
            && self.settings == spec.settings
            && creator == spec.creator.as_ref().map(|creator| (&creator.device, creator.willing))
            && waits(&self.waiting) == waits(&spec.waiting)
    }
}

/// The run in its initial state, to be placed before the first write. A number of devices outside the limits
/// of [`RunSpec::find_problems`] is clamped.
pub fn create_run(spec: RunSpec, by: Option<&str>, now: Timestamp) -> RunChange {
    let seats = spec.devices.clamp(1, RunSpec::MAX_DEVICES);
    let creator = spec.creator;
    let device = creator.as_ref().map(|creator| creator.device.clone());
    let run = RunRecord {
        format: FORMAT,
        kind: spec.kind,
        input: spec.input,
        requires: spec.requires,
        prefer: spec.prefer,
        priority: spec.priority,
        preempt: spec.preempt,
        prefer_coordinator: spec.prefer_coordinator,
        min_battery: spec.min_battery,
        assign: spec.assign,
        settings: spec.settings,
        created_by: device.clone(),
        creator_willing: creator.is_some_and(|creator| creator.willing),
        created_at: now,
        token: SeatToken::NONE,
        seats: (0..seats).map(|_| RunSeat::new()).collect(),
        paused_at: None,
        waiting: spec.waiting,
    };
    let entry = |seat| RunLogEntry {
        at: now,
        seat: Some(seat),
        word: RunInputKind::Create,
        from: None,
        to: SeatStatus::Created,
        device: device.clone(),
        token: None,
        ended: None,
        why: None,
        by: by.map(str::to_owned),
        detail: None,
    };
    RunChange { run, log: (0..seats).map(entry).collect(), told: None, unheard: Vec::new() }
}
