//! Report of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::check::{TortureCheck, TortureEvidence, TortureViolation};
use crate::drill::DrillRecovery;
use crate::fault_kind::FaultKind;
use crate::faults::InjectedFault;
use crate::load::PostVerdict;
use crate::stage::{DeathCause, ProcessDeath};

/// Maximum number of shown violations per check.
const SHOWN: usize = 10;

#[derive(Debug)]
pub struct TortureReport {
    pub seed: u64,
    pub length: Duration,
    pub faults: Vec<InjectedFault>,
    pub recoveries: Vec<DrillRecovery>,
    pub quiet_after: Duration,
    pub violations: Vec<TortureViolation>,
    pub deaths: Vec<ProcessDeath>,
    pub evidence: TortureEvidence,
}

/// Number of injections of a kind, of those with an effect, and the last evidence.
#[derive(Debug, Default)]
struct FaultTally<'a> {
    injected: usize,
    bit: usize,
    seen: &'a str,
}

impl TortureReport {
    pub fn accepted(&self) -> usize {
        let posts = &self.evidence.clients.posts;
        posts.iter().filter(|post| matches!(post.told, PostVerdict::Accepted { .. })).count()
    }

    fn tallies(&self) -> BTreeMap<FaultKind, FaultTally<'_>> {
        let mut tallies: BTreeMap<FaultKind, FaultTally<'_>> = BTreeMap::new();
        for fault in &self.faults {
            let tally = tallies.entry(fault.kind).or_default();
            tally.injected += 1;
            match &fault.bite {
                Ok(seen) => {
                    tally.bit += 1;
                    tally.seen = seen;
                }
                Err(why) if tally.bit == 0 => tally.seen = why,
                Err(_) => {}
            }
        }
        tallies
    }

    /// The checks with violations, and their number.
    pub fn caught_by(&self) -> BTreeMap<TortureCheck, usize> {
        let mut caught = BTreeMap::new();
        for violation in &self.violations {
            *caught.entry(violation.check).or_default() += 1;
        }
        caught
    }

    pub fn print(&self) {
        let evidence = &self.evidence;
        let bit = self.faults.iter().filter(|fault| fault.bite.is_ok()).count();
        println!(
            "\nfaults: {} injected, {bit} seen to bite, of {} kinds",
            self.faults.len(),
            self.tallies().len()
        );
        for (kind, tally) in self.tallies() {
            println!(
                "  {:22} {:3} injected {:3} bit   {}",
                kind.name(),
                tally.injected,
                tally.bit,
                tally.seen
            );
        }
        for recovery in &self.recoveries {
            println!(
                "recovery: {:42} {:6.2?} of {:4.1?} allowed; {}",
                recovery.what, recovery.took, recovery.allowed, recovery.detail
            );
        }
        let tries = evidence.clients.tries;
        println!(
            "clients: {} events accepted, {} posts unanswered to the end, {} requests ({} without an answer, {} put off), {} repeats",
            self.accepted(),
            evidence.clients.posts.iter().filter(|post| post.told == PostVerdict::Nothing).count(),
            tries.requests,
            tries.unanswered,
            tries.put_off,
            tries.repeats,
        );
        let (book, history) = (&evidence.target, &evidence.history);
        println!(
            "history: {} executions, {} events, {} transitions, {} actions; target: {} calls under {} keys",
            history.executions.len(),
            history.events.len(),
            history.transitions.values().map(Vec::len).sum::<usize>(),
            history.actions.len(),
            book.calls.len(),
            book.keys.len(),
        );
        let of = |cause: DeathCause| self.deaths.iter().filter(|death| death.cause == cause).count();
        println!(
            "processes: {} ended by faults, {} of poison, {} gave up and were started again, {} died by themselves",
            of(DeathCause::Us),
            of(DeathCause::Drill),
            of(DeathCause::GaveUp),
            of(DeathCause::Itself)
        );
        println!("quiet {:.1?} after the last post", self.quiet_after);
        for (check, count) in self.caught_by() {
            println!("\n{}: {count} violations", check.name());
            for violation in self.violations.iter().filter(|violation| violation.check == check).take(SHOWN) {
                println!("  {}: {}", violation.subject, violation.what);
            }
        }
        let verdict = if self.violations.is_empty() { "nothing was lost" } else { "VIOLATIONS" };
        println!("\nseed {}: {verdict} ({:.0?})", self.seed, self.length);
    }

    pub fn json(&self) -> Value {
        let kinds: BTreeMap<&str, Value> = self
            .tallies()
            .into_iter()
            .map(|(kind, tally)| {
                (kind.name(), json!({ "injected": tally.injected, "bit": tally.bit, "seen": tally.seen }))
            })
            .collect();
        let recovery = |recovery: &DrillRecovery| {
            json!({ "what": recovery.what, "seconds": recovery.took.as_secs_f64(),
                    "allowed": recovery.allowed.as_secs_f64(), "detail": recovery.detail })
        };
        let violations: Vec<Value> = self
            .violations
            .iter()
            .map(|found| json!({ "check": found.check.name(), "subject": found.subject, "what": found.what }))
            .collect();
        json!({
            "seed": self.seed,
            "seconds": self.length.as_secs_f64(),
            "accepted": self.accepted(),
            "faults": self.faults.len(),
            "bit": self.faults.iter().filter(|fault| fault.bite.is_ok()).count(),
            "kinds": kinds,
            "recoveries": self.recoveries.iter().map(recovery).collect::<Vec<_>>(),
            "violations": violations,
        })
    }
}
