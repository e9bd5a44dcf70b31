//! Each planted bug is found by the check of its guarantee.
//!
//! A bug is planted for the lifetime of a process, so each test runs the command in a separate process.

#![expect(clippy::expect_used, reason = "test code beside the test functions")]

use std::process::Command;

use millstream_core::planted::Bug;

/// Runs at most 200 seeds with this bug in the engine.
fn is_found(bug: Bug, by: &str) {
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
fn a_doorbell_acknowledged_too_early_leaves_a_killer_uncounted() {
    is_found(Bug::AckBeforeCommit, "[C1 acknowledged] counter0 poison");
}

#[test]
fn a_commit_without_a_fence_applies_twice() {
    is_found(Bug::NoFence, "[C2 exactly once]");
}

#[test]
fn a_lock_without_a_token_is_released_by_others() {
    is_found(Bug::LockWithoutToken, "[lock]");
}

#[test]
fn without_the_overdue_sweep_an_event_is_never_decided() {
    is_found(Bug::NoOverdueSweep, "[C7 quiet]");
}

#[test]
fn two_settlements_that_do_not_see_each_other_leave_a_third_action_waiting() {
    is_found(Bug::SettleWithoutLock, "is waiting");
}

#[test]
fn a_timer_fires_in_a_state_that_did_not_arm_it() {
    is_found(Bug::StaleTimer, "fired after its state was left");
}

#[test]
fn what_kills_its_worker_uncounted_kills_for_ever() {
    is_found(Bug::AttemptNotCounted, "[C1 acknowledged] counter0 poison");
}

#[test]
fn a_lease_that_has_passed_on_still_acts() {
    is_found(Bug::AnyToken, "[lease]");
}

#[test]
fn every_bug_has_a_test_here() {
    // Two bugs are about devices, which are not simulated: the device torture finds them.
    assert_eq!(Bug::ALL.len(), 8 + 2, "a new bug needs a test, and this number");
}
