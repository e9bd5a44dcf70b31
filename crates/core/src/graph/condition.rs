//! Evaluates the expressions of a node: conditions on its edges, and the list of a fan-out.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::MAX_KEPT_BYTES;
use super::mention::mentions;
use super::spec::{NodeId, NodeSpec};
use super::status::NodeStatus;
use crate::expr::{Budget, EventScope, Program, Scope, Value, Vocabulary};
use crate::log::Context;
use crate::raw::RawJson;
use crate::time::Timestamp;

static NOTHING: Context = Context::new();

/// The scope of the expressions of one node.
pub(super) struct Sight<'a, F> {
    parents: BTreeSet<&'a str>,
    input: &'a RawJson,
    /// Looks up a parent: its status and the kept part of its result.
    parent: F,
    budget: &'a Budget<'a>,
}

impl<'a, F> Sight<'a, F>
where
    F: Fn(&str) -> Option<(NodeStatus, Option<RawJson>)>,
{
    pub(super) fn of(node: &'a NodeSpec, input: &'a RawJson, budget: &'a Budget<'a>, parent: F) -> Self {
        let parents = node.parents.iter().map(|edge| edge.from.as_str()).collect();
        Self { parents, input, parent, budget }
    }

    pub(super) fn holds(&self, condition: &str) -> Result<bool, String> {
        match self.run(condition, |program, scope| program.evaluate(scope).map_err(|e| e.to_string())) {
            Ok(Value::Bool(truth)) => Ok(truth),
            Ok(other) => Err(format!("true or false is needed, not {}", other.kind())),
            Err(error) => Err(error),
        }
    }

    pub(super) fn value(&self, source: &str) -> Result<RawJson, String> {
        self.run(source, |program, scope| program.evaluate_json(scope).map_err(|e| e.to_string()))
    }

    fn run<T>(
        &self,
        source: &str,
        evaluate: impl Fn(&Program, &Scope<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let vocabulary = Vocabulary::Graph { parents: &self.parents };
        let program = Program::compile_within(source, vocabulary, self.budget)
            .map_err(|messages| messages.join("; "))?;
        let results = self.results(source)?;
        let now = Timestamp::EPOCH;
        let event = EventScope { name: "", payload: self.input, time: now };
        let scope =
            Scope { context: &NOTHING, event, now, results: &results, response: None, budget: self.budget };
        evaluate(&program, &scope)
    }

    fn results(&self, source: &str) -> Result<BTreeMap<NodeId, RawJson>, String> {
        let mut results = BTreeMap::new();
        for name in mentions(source).filter(|name| self.parents.contains(name)) {
            match (self.parent)(name) {
                Some((_, Some(result))) => {
                    let id = NodeId::parse(name).map_err(|error| error.to_string())?;
                    results.insert(id, result);
                }
                Some((NodeStatus::Pass, None)) => {
                    let limit = MAX_KEPT_BYTES / 1024;
                    return Err(format!(
                        "the result of {name} is not available: its size exceeds {limit} KiB"
                    ));
                }
                // Absent: an expression can test it with `has()`.
                Some(_) | None => {}
            }
        }
        Ok(results)
    }
}
