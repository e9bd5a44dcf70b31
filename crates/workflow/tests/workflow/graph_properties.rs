//! Invariants of graphs under random outcomes, edits and cancellations.

mod dice;
mod scratch;
mod world;

use dice::GraphDice;
use millstream_expr::ExprBudget;
use millstream_model::id::{EventId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::graph::{GraphEdit, NodeStatus, build_patch};
use millstream_workflow::graph_machine::create_graph;
use millstream_workflow::log::EventOutcome;
use proptest::prelude::*;
use uuid::Uuid;
use world::GraphWorld;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graph_invariants_hold_until_it_ends(shape in any::<u64>(), moves in prop::collection::vec(any::<u64>(), 0..40)) {
        let spec = dice::graph(&mut GraphDice(shape));
        let (applied, state) =
            create_graph(spec, None, EventId(Uuid::nil()), None, Timestamp::from_millis(0)).expect("it is valid");
        let mut world = GraphWorld::created(applied, state);
        world.event(Name::begin(), RawJson::null());
        for number in moves {
            if world.state.phase.is_ended() {
                break;
            }
            make_move(&mut world, &mut GraphDice(number));
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
    fn invalid_random_graph_never_panics(shape in any::<u64>()) {
        let mut dice = GraphDice(shape);
        let mut spec = dice::graph(&mut dice);
        dice::spoil(&mut dice, &mut spec);
        let _ = create_graph(spec, None, EventId(Uuid::nil()), None, Timestamp::EPOCH);
    }
}

fn make_move(world: &mut GraphWorld, dice: &mut GraphDice) {
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
            assert!(matches!(outcome, EventOutcome::Rejected { .. }), "{outcome:?}");
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
            let is_valid = build_patch(world.graph(), &edits, &ExprBudget::default()).is_ok();
            let edit = GraphEdit { expected_revision: world.graph().revision, edits, known: Vec::new() };
            let before = world.state.clone();
            match world.event(Name::edit(), RawJson::from_value(&edit)) {
                EventOutcome::Applied(_) => assert!(is_valid),
                EventOutcome::Rejected { .. } | EventOutcome::Deferred => {
                    assert!(!is_valid);
                    assert_eq!(before, world.state, "an invalid edit has changed the graph");
                }
            }
        }
        17..=18 => {
            if let Some((node, attempt)) = dice.one(&running) {
                let edits = dice::edits(dice, world.graph());
                let valid = build_patch(world.graph(), &edits, &ExprBudget::default()).is_ok();
                let shape = |world: &GraphWorld| {
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
                world.event(
                    if dice.of(2) == 0 { Name::cancel_event() } else { Name::fail_event() },
                    RawJson::null(),
                );
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
