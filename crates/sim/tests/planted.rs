//! Each planted bug is found by the check of its guarantee.
//!
//! A bug is planted for the lifetime of a process, so each test runs the command in a separate process.

#![expect(clippy::expect_used, reason = "test code beside the test functions")]

use std::process::Command;

use millstream_model::mutation::Mutation;

/// Runs at most 200 seeds with this bug in the engine.
fn is_found(bug: Mutation, by: &str) {
    let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--bug", bug.name(), "--seeds", "200", "--threads", "1", "--lines", "0"])
        .output()
        .expect("the command runs");
    let told = String::from_utf8_lossy(&sim.stdout);
    let verdict = told.find("\n\nseed ").map_or(&*told, |at| &told[at..]);
    assert_eq!(sim.status.code(), Some(1), "{} was not found in 200 seeds", bug.name());
    assert!(verdict.contains(by), "{} was found, but not by {by}:{verdict}", bug.name());
    assert!(!told.contains("did not repeat itself"), "{verdict}");
}

#[test]
fn early_ack_leaves_poison_uncounted() {
    is_found(Mutation::AckBeforeCommit, "[C1 acknowledged] counter0 poison");
}

#[test]
fn unfenced_commit_applies_twice() {
    is_found(Mutation::NoFence, "[C2 exactly once]");
}

#[test]
fn tokenless_lock_is_released_by_others() {
    is_found(Mutation::LockWithoutToken, "[lock]");
}

#[test]
fn missing_overdue_sweep_loses_events() {
    is_found(Mutation::NoOverdueSweep, "[C7 quiet]");
}

#[test]
fn unlocked_settlements_leave_action_waiting() {
    is_found(Mutation::SettleWithoutLock, "is waiting");
}

#[test]
fn stale_timer_fires_in_wrong_state() {
    is_found(Mutation::StaleTimer, "fired after its state was left");
}

#[test]
fn uncounted_poison_kills_for_ever() {
    is_found(Mutation::AttemptNotCounted, "[C1 acknowledged] counter0 poison");
}

#[test]
fn old_lease_still_acts() {
    is_found(Mutation::AnyToken, "[lease]");
}

#[test]
fn every_bug_has_a_test_here() {
    // Two bugs are about devices, which are not simulated: the device torture finds them.
    assert_eq!(Mutation::ALL.len(), 8 + 2, "a new bug needs a test, and this number");
}
