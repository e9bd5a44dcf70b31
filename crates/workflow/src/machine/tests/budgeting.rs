//! Tests of the shared expression budget of a step.

use std::collections::BTreeMap;

use millstream_expr::{BudgetEnd, ExprBudget, STEP_UNITS, StopRule};
use millstream_model::id::EventId;
use millstream_model::status::PauseState;
use uuid::Uuid;

use super::cases::*;
use crate::log::{EventOutcome, UnfinishedReason};
use crate::machine::{
    CreationError, ExecutionCreation, RenderError, create_execution, create_execution_within,
    create_executions, decide_mailbox_within, render_deferred_input, step, step_within,
};
use crate::visit_limits::VisitLimits;

/// A machine whose event has `count` alternatives that do not hold, and one that does.
fn guarded(count: usize, guard: &str) -> super::super::Machine {
    let guards = format!("        - {{ if: \"{guard}\", set: {{ k: 1 }} }}\n").repeat(count);
    machine(&format!(
        "name: hostile\ninitial: a\nstates:\n  a:\n    on:\n      e:\n{guards}        - set: {{ done: true }}\n"
    ))
}

fn list(items: usize) -> String {
    format!("[{}1]", "1,".repeat(items - 1))
}

#[test]
fn conditions_share_one_budget() {
    let guard = "event.payload.exists(x, x > 1)";
    let few = guarded(2, guard);
    let payload = list(20_000);
    assert!(matches!(
        step(&few, &start(&few, "{}"), &event(1, "e", &payload), at(1)),
        EventOutcome::Applied(_)
    ));
    let many = guarded(300, guard);
    let refused = reason(step(&many, &start(&many, "{}"), &event(1, "e", &payload), at(1)));
    assert!(refused.ends_with("the expressions take too much work on this data"), "{refused}");
}

#[test]
fn text_reads_cost_by_length() {
    let text = format!(r#"{{"s":"{}","l":{}}}"#, "7".repeat(200_000), list(20_000));
    let spent = |guard: &str| {
        let machine = guarded(1, guard);
        let budget = ExprBudget::default();
        step_within(&machine, &start(&machine, "{}"), &event(1, "e", &text), at(1), &budget);
        (budget.spent(), budget.end())
    };
    let (once, _) = spent("event.payload.s < 'a' && false");
    assert!(once > 200_000 / 32, "{once}");
    for guard in [
        "event.payload.l.all(x, event.payload.s <= event.payload.s)",
        "event.payload.l.all(x, event.payload.s == event.payload.s)",
        "event.payload.l.all(x, size(event.payload.s) > 1)",
        "event.payload.l.all(x, event.payload.s.contains('8') == false)",
        "event.payload.l.all(x, (event.payload.s + 'x').endsWith('x'))",
        "event.payload.l.all(x, !event.payload.s.startsWith('8'))",
        "event.payload.l.all(x, !event.payload.s.endsWith('8'))",
        "event.payload.l.all(x, !event.payload.s.matches('8'))",
        "event.payload.l.all(x, dyn(event.payload.s + 'x') != 1)",
        "event.payload.l.all(x, dyn(event.payload.s.lowerAscii()) != 1)",
        "event.payload.l.all(x, dyn(event.payload.s.trim()) != 1)",
        "event.payload.l.all(x, event.payload.l + event.payload.l != [])",
    ] {
        assert_eq!(spent(guard).1, Some(BudgetEnd::Work), "{guard}");
    }
    // Too long for a number: refused by its length, without parsing.
    let (refused, end) = spent("event.payload.l.exists(x, int(event.payload.s) == 7) || true");
    assert!(end.is_none() || refused >= STEP_UNITS, "{refused}");
}

/// The text to parse, padded with the given zeros.
type TextOf = fn(&str) -> String;

#[test]
fn scalar_parsing_costs_by_length() {
    let spent = |text: &str, guard: &str| {
        let machine = guarded(1, guard);
        let budget = ExprBudget::default();
        let payload = format!(r#"{{"s":"{text}"}}"#);
        let outcome = step_within(&machine, &start(&machine, "{}"), &event(1, "e", &payload), at(1), &budget);
        assert!(matches!(outcome, EventOutcome::Applied(_)), "{guard}: {outcome:?}");
        budget.spent()
    };
    let zeros = |count: usize| "0".repeat(count);
    let texts: [(&str, TextOf); 5] = [
        ("int(event.payload.s) == 1", |zeros| format!("{zeros}1")),
        ("double(event.payload.s) == 1.0", |zeros| format!("{zeros}1")),
        ("bool(event.payload.s)", |zeros| format!("{zeros}true")),
        ("timestamp(event.payload.s) > now", |zeros| format!("2000-01-01T00:00:00.{zeros}Z")),
        ("duration(event.payload.s) > duration('2h')", |zeros| format!("{zeros}1h")),
    ];
    for (guard, text) in texts {
        let guard = format!("{guard} || true");
        let parsing = |text: &str| spent(text, &guard) - spent(text, "dyn(event.payload.s) == 1 || true");
        let short = parsing(&text(&zeros(900)));
        assert!(short >= 900 / 4, "{guard}: {short}");
        let long = text(&zeros(200_000));
        assert!((250..1_000).contains(&parsing(&long)), "{guard}: {}", parsing(&long));
        let is_parsed = guarded(1, &guard.replace(" || true", " || false"));
        let payload = format!(r#"{{"s":"{long}"}}"#);
        let refused = reason(step(&is_parsed, &start(&is_parsed, "{}"), &event(1, "e", &payload), at(1)));
        assert!(refused.contains("the string is n"), "{guard}: {refused}");
    }
}

#[test]
fn expression_memory_is_bounded() {
    let machine = machine(
        "name: h\ninitial: a\nstates:\n  a:\n    on:\n      e: { set: { k: \"event.payload.l.map(x, event.payload.s + 'y')\" } }\n",
    );
    let payload = format!(r#"{{"s":"{}","l":{}}}"#, "x".repeat(200_000), list(20_000));
    let budget = ExprBudget::default();
    let outcome = step_within(&machine, &start(&machine, "{}"), &event(1, "e", &payload), at(1), &budget);
    assert!(reason(outcome).contains("need too much memory"));
    assert_eq!(budget.end(), Some(BudgetEnd::Bytes));
}

#[test]
fn exhausted_budget_rejects_handled_errors() {
    let nested = "event.payload.all(a, event.payload.all(b, a == b)) || true";
    let machine = guarded(1, nested);
    let refused = reason(step(&machine, &start(&machine, "{}"), &event(1, "e", &list(5_000)), at(1)));
    assert!(refused.contains("too much work"), "{refused}");
}

#[test]
fn input_over_budget_rejects_event() {
    let machine = machine(
        "name: h\ninitial: a\nactions:\n  n: { noop: \"event.payload.map(a, event.payload.map(b, a + b)).size()\" }\nstates:\n  a:\n    on:\n      e: { do: [n] }\n",
    );
    let refused = reason(step(&machine, &start(&machine, "{}"), &event(1, "e", &list(5_000)), at(1)));
    assert!(refused.contains("too much"), "{refused}");
}

#[test]
fn stop_rule_leaves_event_undecided() {
    let machine = guarded(1, "event.payload.exists(x, x > 1)");
    let mailbox = [event(1, "e", "[]"), event(2, "e", &list(20_000)), event(3, "e", "[]")];
    let limits = VisitLimits { units: u64::MAX, stop: StopRule { units: 5_000, ..StopRule::NEVER } };
    let turn =
        decide_mailbox_within(&machine, start(&machine, "{}"), &mailbox, PauseState::Running, at(1), limits);
    assert_eq!(turn.outcomes.len(), 1, "the events behind it wait");
    assert_eq!(turn.unfinished, Some(UnfinishedReason::Abandoned(mailbox[1].event_id)));
}

#[test]
fn limited_visit_keeps_its_decisions() {
    let machine = guarded(1, "event.payload.exists(x, x > 1)");
    let mailbox: Vec<_> = (1..=10).map(|n| event(n, "e", &list(1_000))).collect();
    let whole = run(&machine, start(&machine, "{}"), &mailbox);
    assert_eq!((whole.outcomes.len(), whole.unfinished), (10, None));
    let limits = VisitLimits { units: 10_000, stop: StopRule::NEVER };
    let part =
        decide_mailbox_within(&machine, start(&machine, "{}"), &mailbox, PauseState::Running, at(1), limits);
    assert_eq!(part.unfinished, Some(UnfinishedReason::Rest));
    let decided = part.outcomes.len();
    assert!((1..10).contains(&decided), "{decided}");
    assert_eq!(part.outcomes, whole.outcomes[..decided]);
}

/// A creation whose `correlate` compares every pair of the list in its input.
fn correlated(n: u128, items: usize) -> ExecutionCreation {
    let machine = machine(
        "name: h\ninitial: a\ncorrelate: \"context.l.all(a, context.l.all(b, a == b)) ? 'same' : 'other'\"\nstates:\n  a: { final: true }\n",
    );
    let input = json(&format!(r#"{{"l":{}}}"#, list(items)));
    ExecutionCreation { machine: machine.into(), event_id: EventId(Uuid::from_u128(n)), input, now: at(1) }
}

#[test]
fn stop_rule_leaves_creation_undecided() {
    let ExecutionCreation { machine, event_id, input, now } = correlated(1, 300);
    assert!(create_execution(&machine, event_id, &input, now).is_ok());
    let budget = ExprBudget::of_step(StopRule { units: 1_000, ..StopRule::NEVER });
    let stopped = create_execution_within(&machine, event_id, &input, None, now, &budget);
    assert_eq!(stopped.unwrap_err(), CreationError::Stopped);
}

#[test]
fn correlation_over_budget_rejects_creation() {
    let ExecutionCreation { machine, event_id, input, now } = correlated(1, 5_000);
    let rejected = create_execution(&machine, event_id, &input, now).unwrap_err();
    assert_eq!(
        rejected,
        CreationError::Rejected("correlate: the expressions take too much work on this data".to_owned())
    );
}

#[test]
fn creations_are_rejected_independently() {
    let creations: Vec<_> = (1..=10).map(|n| correlated(n, if n == 3 { 5_000 } else { 100 })).collect();
    let whole = create_executions(&creations, VisitLimits::NONE);
    let rejected: Vec<usize> = (0..whole.len()).filter(|&at| whole[at].is_err()).collect();
    assert_eq!((whole.len(), rejected), (10, vec![2]), "each has the budget of a step");

    let limits = VisitLimits { units: STEP_UNITS, stop: StopRule::NEVER };
    let part = create_executions(&creations, limits);
    assert_eq!(part, whole[..3], "no further one is begun");

    let limits = VisitLimits { units: u64::MAX, stop: StopRule { units: STEP_UNITS / 2, ..StopRule::NEVER } };
    assert_eq!(
        create_executions(&creations, limits),
        whole[..2],
        "the third is stopped, and those behind it wait"
    );
}

#[test]
fn deferred_rendering_has_own_budget() {
    let machine = machine(
        "name: h\ninitial: a\nactions:\n  f: { noop: 1 }\n  n: { needs: [f], noop: \"event.payload.map(a, event.payload.map(b, a + b)).size()\" }\nstates:\n  a:\n    on:\n      e: { do: [f, n] }\n",
    );
    let planned = applied(step(&machine, &start(&machine, "{}"), &event(1, "e", &list(5_000)), at(1)));
    let Some(crate::log::ActionPlan::Waiting { scope }) = planned.actions.get(1).map(|action| &action.plan)
    else {
        panic!("{:?}", planned.actions)
    };
    let rendered = |stop| render_deferred_input(&machine, &name("n"), scope, &BTreeMap::new(), at(1), stop);
    assert!(matches!(rendered(StopRule::NEVER), Err(RenderError::Failed(why)) if why.contains("too much")));
    assert_eq!(rendered(StopRule { units: 100, ..StopRule::NEVER }), Err(RenderError::Stopped));
}

#[test]
fn definition_pattern_memory_is_bounded() {
    let with = |count: usize| {
        let guard = "        - { if: \"event.payload.matches('a{20}b')\", set: { k: 1 } }\n".repeat(count);
        let source = format!("name: p\ninitial: a\nstates:\n  a:\n    on:\n      e:\n{guard}");
        crate::definition_parser::parse(&source, millstream_model::document::SourceFormat::Yaml)
            .and_then(super::super::Machine::compile)
    };
    assert!(with(50).is_ok());
    assert!(with(1_500).unwrap_err().to_string().contains("8 MiB"));
}

#[test]
fn exhausted_budget_ends_loop() {
    let nested = "event.payload.all(a, event.payload.all(b, a == b && b == a))";
    let machine = guarded(1, nested);
    let budget = ExprBudget::default();
    let payload = list(20_000);
    step_within(&machine, &start(&machine, "{}"), &event(1, "e", &payload), at(1), &budget);
    assert_eq!(budget.end(), Some(BudgetEnd::Work));
    assert!(budget.spent() < STEP_UNITS + 5_000, "{}", budget.spent());
}

#[test]
fn payload_fetches_cost_by_length() {
    let payload = format!(r#"{{"n":1,"s":"{}"}}"#, "x".repeat(160_000));
    let spent = |guard: &str| {
        let machine = guarded(1, guard);
        let budget = ExprBudget::default();
        step_within(&machine, &start(&machine, "{}"), &event(1, "e", &payload), at(1), &budget);
        (budget.spent(), budget.peak_bytes())
    };
    let (number, _) = spent("event.payload.n == 2");
    assert!(number >= 160_000 / 16, "{number}");
    let (text, bytes) = spent("dyn(event.payload.s) == 2");
    assert!(text >= number + 160_000 / 32 && bytes >= 160_000, "{text} units, {bytes} bytes");
}

#[test]
fn list_memory_is_charged_per_copy() {
    let machine = guarded(1, "event.payload.map(x, x) == []");
    let budget = ExprBudget::default();
    let payload = list(20_000);
    step_within(&machine, &start(&machine, "{}"), &event(1, "e", &payload), at(1), &budget);
    assert!(budget.peak_bytes() >= 3 * 20_000 * 40, "{}", budget.peak_bytes());
}
