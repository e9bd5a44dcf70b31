//! Invariants of runs under random inputs of devices, operators and time.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

#[path = "claim_properties/dice.rs"]
mod dice;
#[path = "claim_properties/fleet.rs"]
mod fleet;

use proptest::prelude::*;

use dice::RunDice;
use fleet::DeviceFleet;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_invariants_hold_until_it_ends(
        shape in any::<u64>(),
        moves in prop::collection::vec(any::<u64>(), 0..120),
    ) {
        let mut fleet = DeviceFleet::new(&mut RunDice(shape));
        for number in moves {
            fleet.make_move(&mut RunDice(number));
        }
        // From any state, without further answers, time alone ends the run.
        fleet.fall_silent();
        prop_assert!(fleet.run().status().is_ended(), "it does not end: {:?}", fleet.run());
    }

    #[test]
    fn working_fleet_completes_every_run(
        shape in any::<u64>(),
        moves in prop::collection::vec(any::<u64>(), 0..60),
    ) {
        let mut fleet = DeviceFleet::new(&mut RunDice(shape));
        for number in moves {
            fleet.make_move(&mut RunDice(number));
        }
        fleet.work_on();
        prop_assert!(fleet.run().status().is_ended(), "it does not end: {:?}", fleet.run());
    }
}
