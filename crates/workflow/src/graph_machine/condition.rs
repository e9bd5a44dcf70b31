//! Evaluates the expressions of a node: conditions on its edges, and the list of a fan-out.

use std::collections::{BTreeMap, BTreeSet};

use millstream_expr::{CelProgram, CelValue, EventScope, ExprBudget, ExprScope, ExprVocabulary};
use millstream_model::context::ExecutionContext;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use crate::graph::limits::MAX_KEPT_BYTES;
use crate::graph::{NodeId, NodeSpec, NodeStatus, find_mentions};

static NOTHING: ExecutionContext = ExecutionContext::new();

/// The scope of the expressions of one node.
pub(super) struct NodeScope<'a, F> {
    parents: BTreeSet<&'a str>,
    input: &'a RawJson,
    /// Looks up a parent: its status and the kept part of its result.
    parent: F,
    budget: &'a ExprBudget<'a>,
}

impl<'a, F> NodeScope<'a, F>
where
    F: Fn(&str) -> Option<(NodeStatus, Option<RawJson>)>,
{
    pub(super) fn of_node(
        node: &'a NodeSpec,
        input: &'a RawJson,
        budget: &'a ExprBudget<'a>,
        parent: F,
    ) -> Self {
        let parents = node.parents.iter().map(|edge| edge.from.as_str()).collect();
        Self { parents, input, parent, budget }
    }

    pub(super) fn is_true(&self, condition: &str) -> Result<bool, String> {
        match self.run_program(condition, |program, scope| program.evaluate(scope).map_err(|e| e.to_string()))
        {
            Ok(CelValue::Bool(truth)) => Ok(truth),
            Ok(other) => Err(format!("true or false is needed, not {}", other.kind())),
            Err(error) => Err(error),
        }
    }

    pub(super) fn evaluate_value(&self, source: &str) -> Result<RawJson, String> {
        self.run_program(source, |program, scope| program.evaluate_json(scope).map_err(|e| e.to_string()))
    }

    fn run_program<T>(
        &self,
        source: &str,
        evaluate: impl Fn(&CelProgram, &ExprScope<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let vocabulary = ExprVocabulary::Graph { parents: &self.parents };
        let program = CelProgram::compile_within(source, vocabulary, self.budget)
            .map_err(|messages| messages.join("; "))?;
        let results = self.visible_results(source)?;
        let now = Timestamp::EPOCH;
        let event = EventScope { name: "", payload: self.input, time: now };
        let scope = ExprScope {
            context: &NOTHING,
            event,
            now,
            results: &results,
            response: None,
            budget: self.budget,
        };
        evaluate(&program, &scope)
    }

    fn visible_results(&self, source: &str) -> Result<BTreeMap<NodeId, RawJson>, String> {
        let mut results = BTreeMap::new();
        for name in find_mentions(source).filter(|name| self.parents.contains(name)) {
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
