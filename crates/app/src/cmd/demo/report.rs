//! The demo's result, counted from the database and the till rather than from memory.

use std::time::Duration;

use anyhow::{Result, bail};
use millstream_model::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_store::Stores;
use millstream_store::views::EventFilter;
use millstream_worker::replay::{ReplayUntil, replay_execution};
use serde_json::json;

use super::till::DemoTill;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;

/// Per order: start, pay, charged, ship.
const TRANSITIONS_PER_ORDER: u64 = 4;

#[derive(Debug)]
pub(super) struct DemoFacts {
    orders: usize,
    transitions: u64,
    /// Orders whose log is not exactly the four transitions, or differs from the snapshot.
    wrong: Vec<String>,
    undecided: usize,
    charges: usize,
    calls: u32,
    took: Duration,
}

pub(super) async fn collect_facts(
    stores: &Stores,
    till: &DemoTill,
    orders: usize,
    took: Duration,
) -> Result<DemoFacts> {
    let tenant = TenantId::default_tenant();
    let (mut transitions, mut wrong) = (0, Vec::new());
    for n in 1..=orders {
        let execution = ExecutionId::parse(format!("order-{n}"))?;
        let key = ExecutionKey { tenant: tenant.clone(), execution };
        let replayed = replay_execution(stores, &key, ReplayUntil::End).await?;
        transitions += replayed.transitions;
        if replayed.transitions != TRANSITIONS_PER_ORDER || !replayed.mismatches.is_empty() {
            wrong.push(key.execution.to_string());
        }
    }
    let mut undecided = 0;
    for status in millstream_model::status::EventStatus::ALL.iter().filter(|status| !status.is_final()) {
        let filter = EventFilter { status: Some(*status), ..EventFilter::default() };
        undecided += stores.event_views.list_events(&tenant, &filter, None, 1000).await?.len();
    }
    let (charges, calls) = till.counts();
    Ok(DemoFacts { orders, transitions, wrong, undecided, charges, calls, took })
}

pub(super) fn show_facts(facts: &DemoFacts, output: CliOutput) -> Result<()> {
    let lost = facts.wrong.len() + facts.undecided + facts.orders.abs_diff(facts.charges);
    let value = json!({
        "orders": facts.orders,
        "transitions": facts.transitions,
        "wrong": facts.wrong,
        "unfinished_events": facts.undecided,
        "charges": facts.charges,
        "calls": facts.calls,
        "seconds": facts.took.as_secs_f64(),
        "lost": lost,
    });
    output.show(&value, |_| {
        let repeats = u64::from(facts.calls) - facts.charges as u64;
        format!(
            "{} orders shipped in {:.1} s, with a worker loop killed half-way.\n\n  {} transitions in the log: {} for every order, each applied once, in order\n  {} calls at the till for {} charges; {repeats} were repeats (the till's own failures, and what\n  the killed loop could not record), each under the key of the first\n  {} events left unfinished\n  the log of every order, replayed, equals what is stored: {}\n",
            facts.orders,
            facts.took.as_secs_f64(),
            facts.transitions,
            TRANSITIONS_PER_ORDER,
            facts.calls,
            facts.charges,
            facts.undecided,
            if facts.wrong.is_empty() { "yes" } else { "NO" },
        ) + if lost == 0 { "\nNothing was lost." } else { "\nSomething is wrong; please report it." }
    })?;
    if lost > 0 {
        bail!(CommandFailure::new(ExitCode::Different, format!("wrong: {}", facts.wrong.join(", "))));
    }
    Ok(())
}
