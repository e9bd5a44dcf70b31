//! C11: an accepted event is decided soon, whatever the backlog of other tenants.

use millstream_model::status::{EventStatus, ExecutionStatus};

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimEvent, SimExecution, SimHistory};
use crate::process::RECLAIM_IDLE;
use crate::tenants::SimTenant;
use crate::workload::{POISON, POISON_CAP};

/// The age at which the overdue sweep rings again for an event; see `process.rs`.
pub(crate) const OVERDUE_MILLIS: i64 = 1_500;
/// Additional wait of an event once the faults are over: a sweeper that dies keeps its duty lease for this
/// long. In production the age is 10 s, and both together are less than twice that; here the age is shorter
/// and the duty lease is not.
const TURN_MILLIS: i64 = 15_000;
/// Additional wait in a run with a poison event: an innocent event in its company waits until the workers that
/// it kills are replaced, one per counted attempt, and the poison event is tried alone.
const POISON_MILLIS: i64 = (POISON_CAP as i64 + 1) * RECLAIM_IDLE.as_millis().cast_signed() as i64;
/// A lost doorbell behind the tenant's own backlog is found at the next doubling of `overdue` that the queueing
/// delay of the tenant does not explain; the highest one below the first is this.
const BACKLOG_MILLIS: i64 = 16 * OVERDUE_MILLIS;

/// Events of executions that wait for a person are left out: only the person knows how long that takes.
pub(super) fn decided_in_time(history: &SimHistory) -> Vec<SimViolation> {
    let waits = |execution: &SimExecution| !waits_for_a_person(execution);
    let has_poison = history.executions.iter().flat_map(|execution| &execution.events);
    let poison = if has_poison.clone().any(|event| event.name == POISON) { POISON_MILLIS } else { 0 };
    let own_backlog = if history.tenant == SimTenant::Busy.id().as_str() { BACKLOG_MILLIS } else { 0 };
    let longest = OVERDUE_MILLIS + TURN_MILLIS + poison + own_backlog;
    let late = |execution: &SimExecution| {
        let late =
            execution.events.iter().filter_map(|event| Some((event, calm_wait(event, history.calm_at)?)));
        let late = late.filter(|(_, wait)| *wait > longest);
        let accuse = |(event, wait): (&SimEvent, i64)| {
            let what = format!("{} {} waited {wait} ms after the last fault", event.name, event.id);
            SimViolation::new(SimCheck::C11, &execution.id, what)
        };
        late.map(accuse).collect::<Vec<_>>()
    };
    history.executions.iter().filter(|execution| waits(execution)).flat_map(late).collect()
}

/// From acceptance, or from the end of the faults, until the decision. A deferred event waits for its state,
/// and an undecided one is left to C1 and C7.
fn calm_wait(event: &SimEvent, calm_at: i64) -> Option<i64> {
    let deferred = event.name == crate::workload::DEFERRED;
    let decided_at = event.decided_at.filter(|_| !deferred)?;
    Some(decided_at - event.accepted_at.max(calm_at))
}

fn waits_for_a_person(execution: &SimExecution) -> bool {
    let buried = |event: &SimEvent| matches!(event.status, EventStatus::Dead | EventStatus::Failed);
    execution.status == ExecutionStatus::Paused || execution.events.iter().any(buried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_history(accepted_at: i64, decided_at: Option<i64>, status: EventStatus) -> SimHistory {
        let event = SimEvent {
            id: "e-1".to_owned(),
            name: "add".to_owned(),
            accept_no: 1,
            accepted_at,
            decided_at,
            status,
            seq: Some(1),
            attempts: 0,
            marker: None,
            about: None,
            outcome: None,
            actor: None,
            error: None,
        };
        let execution = SimExecution {
            id: "counter0".to_owned(),
            status: ExecutionStatus::Active,
            state: "counting".to_owned(),
            context: std::collections::BTreeMap::new(),
            parent: None,
            log: Vec::new(),
            events: vec![event],
            actions: Vec::new(),
            nodes: Vec::new(),
            timers: Vec::new(),
            mismatches: Vec::new(),
        };
        SimHistory { executions: vec![execution], calm_at: 100_000, ..SimHistory::default() }
    }

    fn late_violations(accepted_at: i64, decided_at: i64) -> usize {
        decided_in_time(&sample_history(accepted_at, Some(decided_at), EventStatus::Completed)).len()
    }

    #[test]
    fn wait_counts_from_last_fault() {
        assert_eq!(late_violations(20_000, 116_500), 0);
        assert_eq!(late_violations(20_000, 116_501), 1);
    }

    #[test]
    fn wait_counts_from_later_acceptance() {
        assert_eq!(late_violations(105_000, 121_500), 0);
        assert_eq!(late_violations(105_000, 121_501), 1);
    }

    #[test]
    fn poison_events_and_own_backlog_prolong_wait() {
        let mut history = sample_history(20_000, Some(123_000), EventStatus::Completed);
        assert_eq!(decided_in_time(&history).len(), 1, "nothing explains the wait");
        let poison =
            SimEvent { name: POISON.to_owned(), decided_at: None, ..history.executions[0].events[0].clone() };
        history.executions.push(SimExecution { events: vec![poison], ..history.executions[0].clone() });
        assert_eq!(decided_in_time(&history), Vec::new());
        history.executions.pop();
        history.tenant = SimTenant::Busy.id().to_string();
        assert_eq!(decided_in_time(&history), Vec::new());
        history.executions[0].events[0].decided_at = Some(141_000);
        assert_eq!(decided_in_time(&history).len(), 1, "the next doubling has found it");
    }

    #[test]
    fn events_behind_dead_letter_are_excluded() {
        assert_eq!(decided_in_time(&sample_history(0, Some(900_000), EventStatus::Dead)), Vec::new());
    }

    #[test]
    fn wait_check_ignores_undecided_events() {
        assert_eq!(decided_in_time(&sample_history(0, None, EventStatus::Pending)), Vec::new());
    }
}
