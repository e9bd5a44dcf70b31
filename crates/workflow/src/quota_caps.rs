//! Caps on definitions and graphs: number of attempts, and the duration of an attempt that occupies a worker
//! slot.

use std::time::Duration;

use millstream_model::duration;
use millstream_model::problem::ValidationProblem;
use millstream_model::quota::effective::EffectiveQuota;
use millstream_model::quota::name::QuotaName;
use millstream_model::quota::refusal::QuotaRefusal;

use crate::definition::{ActionKind, Definition};
use crate::graph::{GraphSpec, NodeEdit, NodeOptions, NodeSpec};
use crate::machine::ActionInput;

/// Violations of the quota by a definition. Stored versions keep running: see [`attempt_within`].
pub fn definition_problems(definition: &Definition, quota: &EffectiveQuota) -> Vec<ValidationProblem> {
    let mut problems = Vec::new();
    for (name, action) in definition.actions() {
        let timeout = Some(action.policy.timeouts.start_to_close).filter(|_| occupies_slot(&action.kind));
        check_cap(
            timeout,
            Some(action.policy.retry.attempts),
            &format!("actions.{name}"),
            quota,
            &mut problems,
        );
    }
    problems
}

/// Violations of the quota by a graph, nested graphs included. A node that is a graph or an execution
/// occupies no slot while it waits.
pub fn graph_problems(graph: &GraphSpec, quota: &EffectiveQuota) -> Vec<ValidationProblem> {
    let mut problems = Vec::new();
    check_graph(graph, "", quota, &mut problems);
    problems
}

/// Violations of the quota by the nodes of edits.
pub fn edit_problems(edits: &[NodeEdit], quota: &EffectiveQuota) -> Vec<ValidationProblem> {
    let mut problems = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        match edit {
            NodeEdit::Insert(node) => {
                check_node(node, &format!("edits[{at}].insert"), quota, &mut problems);
            }
            NodeEdit::Update(node) => {
                check_node(node, &format!("edits[{at}].update"), quota, &mut problems);
            }
            NodeEdit::Delete(_) => {}
        }
    }
    problems
}

fn check_graph(graph: &GraphSpec, path: &str, quota: &EffectiveQuota, problems: &mut Vec<ValidationProblem>) {
    let NodeOptions { timeout, retry } = &graph.options.node;
    let attempts = retry.as_ref().map(|retry| retry.attempts);
    check_cap(*timeout, attempts, &format!("{path}options.node"), quota, problems);
    for (at, node) in graph.nodes.iter().enumerate() {
        check_node(node, &format!("{path}nodes[{at}]"), quota, problems);
    }
}

fn check_node(node: &NodeSpec, path: &str, quota: &EffectiveQuota, problems: &mut Vec<ValidationProblem>) {
    let NodeOptions { timeout, retry } = &node.options;
    let holds_a_slot = node.graph.is_none() && node.execution.is_none();
    let attempts = retry.as_ref().map(|retry| retry.attempts);
    let path_of_options = format!("{path}.options");
    check_cap(timeout.filter(|_| holds_a_slot), attempts, &path_of_options, quota, problems);
    if let Some(graph) = &node.graph {
        check_graph(graph, &format!("{path}.graph."), quota, problems);
    }
}

/// Maximum number of problems reported for one graph.
const MOST_PROBLEMS: usize = 100;

fn check_cap(
    timeout: Option<Duration>,
    attempts: Option<u32>,
    path: &str,
    quota: &EffectiveQuota,
    problems: &mut Vec<ValidationProblem>,
) {
    if problems.len() >= MOST_PROBLEMS {
        return;
    }
    let longest = quota.get(QuotaName::MaxActionTimeout);
    if let Some(asked) = timeout
        && longest.value.as_duration().is_some_and(|longest| asked > longest)
    {
        let refusal = QuotaRefusal::without_retry(QuotaName::MaxActionTimeout, longest);
        let message = format!("{} is too long: {refusal}", duration::format_duration(asked));
        problems.push(ValidationProblem::new(format!("{path}.timeout"), message));
    }
    let most = quota.get(QuotaName::MaxAttempts);
    if let Some(asked) = attempts
        && most.value.at_most().is_some_and(|most| u64::from(asked) > most)
    {
        let refusal = QuotaRefusal::without_retry(QuotaName::MaxAttempts, most);
        let message = format!("{asked} are too many: {refusal}");
        problems.push(ValidationProblem::new(format!("{path}.retry.attempts"), message));
    }
}

/// The time limit of an attempt of a stored version: that of its definition, capped by the quota.
pub fn attempt_within(asked: Duration, input: &ActionInput, quota: &EffectiveQuota) -> Duration {
    let most = quota.value(QuotaName::MaxActionTimeout).as_duration();
    match most {
        Some(most) if holds_slot(input) => asked.min(most),
        Some(_) | None => asked,
    }
}

/// The time limit of a call to an executor: that of the node, capped by the quota. A node whose executor
/// accepted it and answers later occupies no slot and keeps its own time limit.
pub fn call_within(asked: Duration, quota: &EffectiveQuota) -> Duration {
    quota.value(QuotaName::MaxActionTimeout).as_duration().map_or(asked, |most| asked.min(most))
}

/// Whether an attempt occupies a worker slot until its outcome. The others wait for an external worker, a
/// device, a person, a child or a time, and occupy none.
const fn occupies_slot(kind: &ActionKind) -> bool {
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

/// The same of an attempt under way, internal actions included. A node waits for capacity at an executor
/// first, and its call ends at the cap by itself.
const fn holds_slot(input: &ActionInput) -> bool {
    match input {
        ActionInput::Log(_)
        | ActionInput::Http(_)
        | ActionInput::Call(_)
        | ActionInput::Emit(_)
        | ActionInput::Webhook(_)
        | ActionInput::Noop(_)
        | ActionInput::Return(_)
        | ActionInput::CloseChildren => true,
        ActionInput::Task(_)
        | ActionInput::Device(_)
        | ActionInput::TaskFor(_)
        | ActionInput::Start(_)
        | ActionInput::Wait(_)
        | ActionInput::Node(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;
    use millstream_model::id::TenantId;
    use millstream_model::quota::{QuotaSet, QuotaSettings, QuotaValue};
    use millstream_model::raw::RawJson;

    use super::*;
    use crate::definition_parser::parse;

    fn definition(action: &str) -> Definition {
        let text = format!(
            "{{name: x, initial: a, states: {{a: {{on: {{go: {{to: b, do: [act]}}}}}}, b: {{final: true}}}}, \
             actions: {{act: {action}}}}}"
        );
        parse(&text, SourceFormat::Yaml).unwrap()
    }

    fn quota(row: &QuotaSet) -> EffectiveQuota {
        EffectiveQuota::from_layers(&TenantId::default_tenant(), Some(row), &QuotaSettings::default())
    }

    #[test]
    fn action_timeout_is_capped_except_waiting() {
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
    fn action_attempts_are_capped() {
        let http = definition("{http: {url: 'http://h.example/'}, timeout: 2d, retry: {attempts: 9}}");
        let row = QuotaSet::default()
            .with(QuotaName::MaxAttempts, QuotaValue::AtMost(8))
            .with(QuotaName::MaxActionTimeout, QuotaValue::Unlimited);
        let problems = definition_problems(&http, &quota(&row));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, "actions.act.retry.attempts");
    }

    fn graph(text: &str) -> GraphSpec {
        crate::graph::read_graph(text, SourceFormat::Yaml).unwrap()
    }

    #[test]
    fn nested_graph_nodes_are_capped() {
        let asked = graph(
            "{name: g, options: {node: {timeout: 2d}}, nodes: [{id: a, options: {timeout: 36500d}}, \
             {id: b, options: {retry: {attempts: 9}}}, \
             {id: c, options: {timeout: 30d}, graph: {name: h, nodes: [{id: a, options: {timeout: 25h}}]}}, \
             {id: d, options: {timeout: 30d}, execution: {definition: x}}]}",
        );
        let row = QuotaSet::default().with(QuotaName::MaxAttempts, QuotaValue::AtMost(8));
        let problems = graph_problems(&asked, &quota(&row));
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "options.node.timeout",
                "nodes[0].options.timeout",
                "nodes[1].options.retry.attempts",
                "nodes[2].graph.nodes[0].options.timeout"
            ]
        );
        let modest = graph("{name: g, nodes: [{id: a, options: {timeout: 1d}}]}");
        assert_eq!(graph_problems(&modest, &quota(&row)), []);
    }

    #[test]
    fn edited_nodes_are_capped() {
        let node = |text: &str| std::sync::Arc::new(graph(text).nodes.remove(0));
        let patient = node("{name: g, nodes: [{id: a, options: {timeout: 2d}}]}");
        let edits = [NodeEdit::Update(patient.clone()), NodeEdit::Insert(patient)];
        let problems = edit_problems(&edits, &quota(&QuotaSet::default()));
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["edits[0].update.options.timeout", "edits[1].insert.options.timeout"]);
    }

    #[test]
    fn executor_call_ends_at_quota() {
        let row = QuotaSet::default().with(QuotaName::MaxActionTimeout, QuotaValue::AtMost(90_000));
        let within = |asked| call_within(Duration::from_secs(asked), &quota(&row));
        assert_eq!([within(3_153_600_000), within(10)], [90, 10].map(Duration::from_secs));
    }

    #[test]
    fn stored_version_attempt_ends_at_quota() {
        let row = QuotaSet::default().with(QuotaName::MaxActionTimeout, QuotaValue::AtMost(90_000));
        let within = |asked| {
            attempt_within(Duration::from_secs(asked), &ActionInput::Noop(RawJson::null()), &quota(&row))
        };
        assert_eq!(within(3_153_600_000), Duration::from_secs(90));
        assert_eq!(within(10), Duration::from_secs(10));
    }
}
