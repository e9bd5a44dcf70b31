//! The parameters of a seed: number of processes and clients, duration, and fault rates.
//!
//! Each seed omits some kinds of faults (a run in which everything fails makes no progress, and some bugs
//! need one fault alone), and draws the rates of the others.

use std::time::Duration;

use crate::dice::SimDice;
use crate::tenants::SimTenant;

#[derive(Debug, Clone)]
pub(crate) struct SimPlan {
    pub(crate) tenants: &'static [SimTenant],
    pub(crate) ingresses: usize,
    pub(crate) workers: usize,
    /// Actions that a worker performs at the same time.
    pub(crate) slots: usize,
    /// Duration of the faults.
    pub(crate) faulty_for: Duration,
    /// Maximum offset of a process's clock, in milliseconds, until it has asked the store.
    pub(crate) skew: u64,
    pub(crate) rates: FaultRates,
    pub(crate) delays: SimDelays,
}

/// Per hundred thousand calls, or occasions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultRates {
    pub(crate) refused: u32,
    pub(crate) in_doubt: u32,
    pub(crate) contention: u32,
    pub(crate) hang: u32,
    pub(crate) kill_before: u32,
    pub(crate) kill_after: u32,
    pub(crate) late: u32,
    pub(crate) posthumous: u32,
    pub(crate) lost_ring: u32,
    pub(crate) ring_twice: u32,
    pub(crate) lost_request: u32,
    pub(crate) lost_answer: u32,
    pub(crate) sink_refused: u32,
    pub(crate) sink_failed: u32,
    pub(crate) sink_silent: u32,
    /// Rate per draw; draws happen twice a second.
    pub(crate) stall: u32,
    pub(crate) kill: u32,
    pub(crate) drain: u32,
    pub(crate) amnesia: u32,
}

/// How long calls take, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimDelays {
    pub(crate) usual: u64,
    pub(crate) slow: u64,
    /// Per hundred thousand calls.
    pub(crate) slowness: u32,
}

impl SimPlan {
    pub(crate) fn for_seed(seed: u64, dice: &SimDice) -> Self {
        // A third of the kinds is left out; the rest is rare, usual or frequent.
        let rate = |usual: u32| match dice.below(6) {
            0 | 1 => 0,
            2 => usual / 3,
            3 | 4 => usual,
            _ => usual * 4,
        };
        let rates = FaultRates {
            refused: rate(800),
            in_doubt: rate(800),
            contention: rate(800),
            hang: rate(60),
            kill_before: rate(150),
            kill_after: rate(150),
            late: rate(500),
            posthumous: rate(100),
            lost_ring: rate(4_000),
            ring_twice: rate(4_000),
            lost_request: rate(4_000),
            lost_answer: rate(4_000),
            sink_refused: rate(15_000),
            sink_failed: rate(3_000),
            sink_silent: rate(3_000),
            stall: rate(4_000),
            kill: rate(2_000),
            drain: rate(2_000),
            amnesia: rate(1_500),
        };
        let delays = SimDelays {
            usual: dice.pick(&[0, 2, 5, 20]).unwrap_or(0),
            slow: dice.pick(&[50, 200, 800]).unwrap_or(50),
            slowness: rate(3_000),
        };
        let alone = seed.is_multiple_of(2);
        Self {
            tenants: if alone { &[SimTenant::Quiet] } else { &[SimTenant::Quiet, SimTenant::Busy] },
            ingresses: 1 + dice.index(2),
            workers: 2 + dice.index(3),
            slots: 1 + dice.index(3),
            faulty_for: dice.millis(5_000, 9_000),
            skew: dice.pick(&[0, 0, 50, 2_500]).unwrap_or(0),
            rates,
            delays,
        }
    }
}
