//! What hostile expressions take from the allocator stays within twice the budget of a step.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use millstream_bench::expressions::{CaseScale, HostileCase, generated_cases, reviewed_cases};
use millstream_expr::{ExprBudget, STEP_BYTES, STEP_UNITS, StopRule};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Per byte of the budget: a text or list that grows has its old and its new place at the same time.
const FACTOR: usize = 2;
/// What a step needs beside its values, for instance the escaped form of one text.
const BESIDE: usize = 768 * 1024;
const SEED: u64 = 20_261_118;

/// Runs every case with the budget of a step, made smaller like the data; gives the largest peak.
fn peak_memory(cases: &[HostileCase], scale: CaseScale) -> usize {
    let (units, bytes) = (STEP_UNITS / scale.0 as u64, STEP_BYTES / scale.0 as u64);
    let mut largest = 0;
    for case in cases {
        let budget = ExprBudget::with_limits(units, bytes, StopRule::NEVER);
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        case.run(&budget);
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        let allowed = FACTOR * usize::try_from(bytes).unwrap() + BESIDE;
        assert!(peak <= allowed, "{} took {peak} bytes, {allowed} are allowed (seed {SEED})", case.name);
        largest = largest.max(peak);
    }
    largest
}

#[test]
fn hostile_steps_stay_within_32_mib() {
    let largest = peak_memory(&reviewed_cases(CaseScale::FULL).unwrap(), CaseScale::FULL);
    assert!(largest <= 32 * 1024 * 1024, "{largest}");
    // The allocator counts: some of them come near to what they may take.
    assert!(largest >= 2 * 1024 * 1024, "{largest}");
}

#[test]
fn generated_steps_stay_within_memory_budget() {
    let scale = CaseScale(16);
    let cases = generated_cases(1_000, SEED, scale).unwrap();
    assert_eq!(cases.len(), 1_000);
    peak_memory(&cases, scale);
}
