//! Invariants of graphs under random outcomes, edits and cancellations.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

#[path = "graph_properties/dice.rs"]
mod dice;
#[path = "graph_properties/scratch.rs"]
mod scratch;
#[path = "graph_properties/world.rs"]
mod world;

use millstream_core::expr::Budget;
use millstream_core::graph::{Edit, NodeStatus, create, patch};
use millstream_core::id::{EventId, Name};
use millstream_core::log::Outcome;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use dice::Dice;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_graph_keeps_its_promises_until_it_ends(shape in any::<u64>(), moves in prop::collection::vec(any::<u64>(), 0..40)) {
        let spec = dice::graph(&mut Dice(shape));
        let (applied, state) =
            create(spec, None, EventId(Uuid::nil()), None, Timestamp::from_millis(0)).expect("it is valid");
        let mut world = World::created(applied, state);
        world.event(Name::begin(), RawJson::null());
        for number in moves {
            if world.state.phase.is_ended() {
                break;
            }
            make_move(&mut world, &mut Dice(number));
        }
        // From any state, answering the running nodes leads to the end, within a bounded number of steps.
        let most = 4 * 20 * (world.graph().nodes.len() + 200);
        for _ in 0..most {
            let Some((node, attempt)) = world.running().into_iter().next() else { break };
            world.answer(&node, attempt, NodeStatus::Pass, Some("3"), Vec::new());
        }
        prop_assert!(world.state.phase.is_ended(), "it does not end: {:?}", world.state);
        world.finish();
    }

    #[test]
    fn what_is_no_valid_graph_is_refused_and_nothing_panics(shape in any::<u64>()) {
        let mut dice = Dice(shape);
        let mut spec = dice::graph(&mut dice);
        dice::spoil(&mut dice, &mut spec);
        let _ = create(spec, None, EventId(Uuid::nil()), None, Timestamp::EPOCH);
    }
}

fn make_move(world: &mut World, dice: &mut Dice) {
    let running = world.running();
    match dice.of(20) {
        0..=11 => {
            if let Some((node, attempt)) = dice.one(&running) {
                let status = dice.one(&STATUSES).unwrap();
                let result = dice.one(&["1", "5", "[1,2,3]", r#"{"list":[1,2],"n":4}"#, "null"]);
                world.answer(&node, attempt, status, result, Vec::new());
            }
        }
        12 => {
            // Stale, early, or about unknown nodes.
            let nodes: Vec<Name> = world.graph().nodes.keys().cloned().collect();
            let node = dice.one(&nodes).unwrap();
            let attempt = world.graph().nodes[&node].attempt.wrapping_sub(1);
            let before = world.state.clone();
            let outcome = world.answer(&node, attempt, NodeStatus::Pass, None, Vec::new());
            assert!(matches!(outcome, Outcome::Rejected { .. }), "{outcome:?}");
            assert_eq!(before, world.state);
        }
        13 => {
            if let Some((node, _)) = dice.one(&running) {
                let class = dice.one(&["timeout", "network", "input", "child"]).unwrap();
                let error = format!(r#"{{"action":"{node}","error":{{"class":"{class}","message":"x"}}}}"#);
                world.event(Name::node_outcome(), RawJson::parse(&error).unwrap());
            }
        }
        14..=16 => {
            let edits = dice::edits(dice, world.graph());
            let is_valid = patch(world.graph(), &edits, &Budget::default()).is_ok();
            let edit = Edit { expected_revision: world.graph().revision, edits, known: Vec::new() };
            let before = world.state.clone();
            match world.event(Name::edit(), RawJson::of(&edit)) {
                Outcome::Applied(_) => assert!(is_valid),
                Outcome::Rejected { .. } | Outcome::Deferred => {
                    assert!(!is_valid);
                    assert_eq!(before, world.state, "an invalid edit has changed the graph");
                }
            }
        }
        17..=18 => {
            if let Some((node, attempt)) = dice.one(&running) {
                let edits = dice::edits(dice, world.graph());
                let valid = patch(world.graph(), &edits, &Budget::default()).is_ok();
                let shape = |world: &World| {
                    let nodes = world.graph().nodes.values();
                    nodes.filter(|node| node.of.is_none()).map(|node| node.spec.clone()).collect::<Vec<_>>()
                };
                let before = shape(world);
                world.answer(&node, attempt, NodeStatus::Pass, Some("3"), edits);
                if !valid {
                    assert_eq!(before, shape(world), "invalid edits have changed the graph");
                    assert_ne!(world.graph().nodes[&node].status, NodeStatus::Pass);
                }
            }
        }
        _ => {
            if dice.of(4) == 0 {
                world.event(if dice.of(2) == 0 { Name::cancel() } else { Name::fail() }, RawJson::null());
            }
        }
    }
}

const STATUSES: [NodeStatus; 8] = [
    NodeStatus::Pass,
    NodeStatus::Pass,
    NodeStatus::Pass,
    NodeStatus::Fail,
    NodeStatus::Crash,
    NodeStatus::Timeout,
    NodeStatus::TaskError,
    NodeStatus::Filtered,
];
