//! Caps on what a definition asks for: the time of one attempt that holds a worker's slot, and attempts.

use std::time::Duration;

use super::effective::EffectiveQuota;
use super::name::QuotaName;
use super::refusal::QuotaRefusal;
use crate::definition::{ActionKind, Definition};
use crate::duration;
use crate::problem::Problem;

/// What of a definition is beyond the quota. Versions that are stored already run on: see [`attempt_within`].
pub fn definition_problems(definition: &Definition, quota: &EffectiveQuota) -> Vec<Problem> {
    let mut problems = Vec::new();
    let timeout = quota.get(QuotaName::MaxActionTimeout);
    let attempts = quota.get(QuotaName::MaxAttempts);
    for (name, action) in definition.actions() {
        let asked = action.timeouts.start_to_close;
        if holds_a_slot(&action.kind) && timeout.value.length().is_some_and(|most| asked > most) {
            let refusal = QuotaRefusal::lasting(QuotaName::MaxActionTimeout, timeout);
            let message = format!("{} is too long: {refusal}", duration::format(asked));
            problems.push(Problem::new(format!("actions.{name}.timeout"), message));
        }
        let asked = u64::from(action.retry.attempts);
        if attempts.value.at_most().is_some_and(|most| asked > most) {
            let refusal = QuotaRefusal::lasting(QuotaName::MaxAttempts, attempts);
            let message = format!("{asked} are too many: {refusal}");
            problems.push(Problem::new(format!("actions.{name}.retry.attempts"), message));
        }
    }
    problems
}

/// How long an attempt of a stored version may take, whatever its definition says.
pub fn attempt_within(asked: Duration, kind: &ActionKind, quota: &EffectiveQuota) -> Duration {
    let most = quota.value(QuotaName::MaxActionTimeout).length();
    match most {
        Some(most) if holds_a_slot(kind) => asked.min(most),
        Some(_) | None => asked,
    }
}

/// Whether an attempt holds a slot of a worker until it has its outcome. The others wait for an external worker, a
/// device, a person, a child or a time, and hold none meanwhile.
const fn holds_a_slot(kind: &ActionKind) -> bool {
    match kind {
        ActionKind::Log { .. }
        | ActionKind::Http(_)
        | ActionKind::Call { .. }
        | ActionKind::Emit(_)
        | ActionKind::Webhook(_)
        | ActionKind::Noop { .. } => true,
        ActionKind::Task(_)
        | ActionKind::Device(_)
        | ActionKind::TaskFor(_)
        | ActionKind::Start(_)
        | ActionKind::Wait(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Format, parse};
    use crate::id::TenantId;
    use crate::quota::{QuotaSet, QuotaSettings, QuotaValue};

    fn definition(action: &str) -> Definition {
        let text = format!(
            "{{name: x, initial: a, states: {{a: {{on: {{go: {{to: b, do: [act]}}}}}}, b: {{final: true}}}}, \
             actions: {{act: {action}}}}}"
        );
        parse(&text, Format::Yaml).unwrap()
    }

    fn quota(row: &QuotaSet) -> EffectiveQuota {
        EffectiveQuota::of(&TenantId::default_tenant(), Some(row), &QuotaSettings::default())
    }

    #[test]
    fn an_attempt_of_a_hundred_years_is_too_long_and_a_persons_task_may_wait() {
        let http = definition("{http: {url: 'http://h.example/'}, timeout: 36500d}");
        let problems = definition_problems(&http, &quota(&QuotaSet::default()));
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "actions.act.timeout: 36500d is too long: the tenant is at its quota max_action_timeout = 1d (built in)"
            ]
        );
        let task = definition("{task: {type: review}, timeout: 36500d}");
        assert_eq!(definition_problems(&task, &quota(&QuotaSet::default())), []);
    }

    #[test]
    fn attempts_beyond_the_quota_are_too_many_and_unlimited_is_anything() {
        let http = definition("{http: {url: 'http://h.example/'}, timeout: 2d, retry: {attempts: 9}}");
        let row = QuotaSet::default()
            .with(QuotaName::MaxAttempts, QuotaValue::AtMost(8))
            .with(QuotaName::MaxActionTimeout, QuotaValue::Unlimited);
        let problems = definition_problems(&http, &quota(&row));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, "actions.act.retry.attempts");
    }

    #[test]
    fn an_attempt_of_a_stored_version_ends_at_the_quota() {
        let http = definition("{http: {url: 'http://h.example/'}, timeout: 36500d}");
        let action = http.actions().values().next().unwrap();
        let row = QuotaSet::default().with(QuotaName::MaxActionTimeout, QuotaValue::AtMost(90_000));
        let within = |asked| attempt_within(Duration::from_secs(asked), &action.kind, &quota(&row));
        assert_eq!(within(3_153_600_000), Duration::from_secs(90));
        assert_eq!(within(10), Duration::from_secs(10));
    }
}
