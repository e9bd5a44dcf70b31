//! A compiled definition: built once per version, shared by every step.

use std::collections::{BTreeMap, BTreeSet};

use millstream_expr::template::CompiledTemplate;
use millstream_expr::{CelProgram, ExprVocabulary, MAX_PATTERN_WEIGHT, PATTERNS_TOO_HEAVY};
use millstream_model::id::Name;
use millstream_model::problem::{ValidationProblem, ValidationProblems};

use super::compiled_action::CompiledAction;
use crate::definition::{ActionKind, ActionSpec, Definition, StateSpec, TransitionAlternative};

/// The compiled state machine of one definition version, shared by all its executions. Callers keep it in an
/// `Arc`.
#[derive(Debug)]
pub struct Machine {
    definition: Definition,
    /// Parallel to [`Definition::states`]: per event the compiled expressions of each alternative.
    handlers: BTreeMap<Name, BTreeMap<Name, Vec<CompiledAlternative>>>,
    actions: BTreeMap<Name, CompiledAction>,
    events: BTreeSet<Name>,
    correlate: Option<CelProgram>,
    pattern_weight: usize,
}

/// Estimated memory of a parsed and compiled definition per byte of its source.
const WEIGHT_PER_SOURCE_BYTE: usize = 16;

/// The compiled expressions of an [`TransitionAlternative`].
#[derive(Debug)]
pub(super) struct CompiledAlternative {
    pub(super) guard: Option<CelProgram>,
    pub(super) set: Vec<(String, CompiledTemplate)>,
}

impl CompiledAlternative {
    fn pattern_weight(&self) -> usize {
        let set = self.set.iter().map(|(_, value)| value.pattern_weight());
        self.guard.as_ref().map_or(0, CelProgram::pattern_weight) + set.sum::<usize>()
    }
}

impl Machine {
    /// Compiles every expression. A definition that [`crate::definition_parser::parse`] accepted has no
    /// problem here, unless this build understands fewer expressions than the one that accepted it.
    pub fn compile(definition: Definition) -> Result<Machine, ValidationProblems> {
        let mut problems = Vec::new();
        let mut handlers: BTreeMap<Name, BTreeMap<Name, Vec<CompiledAlternative>>> = BTreeMap::new();
        for (name, state) in definition.states() {
            handlers.insert(name.clone(), compile_state(name, state, &mut problems));
        }
        let actions: BTreeMap<Name, CompiledAction> = definition
            .actions()
            .iter()
            .map(|(name, spec)| (name.clone(), CompiledAction::compile(spec, &mut problems)))
            .collect();
        let correlate = definition.correlate().and_then(|source| {
            CelProgram::compile(source, ExprVocabulary::Context)
                .map_err(|messages| {
                    problems
                        .extend(messages.into_iter().map(|text| ValidationProblem::new("correlate", text)));
                })
                .ok()
        });
        if !problems.is_empty() {
            return Err(ValidationProblems(problems));
        }
        let weight = handlers
            .values()
            .flat_map(BTreeMap::values)
            .flatten()
            .map(CompiledAlternative::pattern_weight)
            .chain(actions.values().map(CompiledAction::pattern_weight))
            .chain(correlate.as_ref().map(CelProgram::pattern_weight))
            .sum();
        if weight > MAX_PATTERN_WEIGHT {
            return Err(ValidationProblems(vec![ValidationProblem::new("", PATTERNS_TOO_HEAVY)]));
        }
        let events = definition.states().values().flat_map(|state| state.on.keys().cloned()).collect();
        Ok(Self { definition, handlers, actions, events, correlate, pattern_weight: weight })
    }

    /// Estimated memory size; `source` is the length of the source text.
    pub fn estimated_memory(&self, source: usize) -> usize {
        source.saturating_mul(WEIGHT_PER_SOURCE_BYTE).saturating_add(self.pattern_weight)
    }

    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Whether any state handles the event. Includes every event of timers, deferrals and action outcomes,
    /// because a definition that names any other event is refused.
    pub fn knows_event(&self, event: &Name) -> bool {
        self.events.contains(event)
    }

    /// Whether the state handles the event (conditions aside) or defers it.
    pub fn handles_event(&self, state: &Name, event: &Name) -> bool {
        self.definition
            .states()
            .get(state)
            .is_some_and(|state| state.on.contains_key(event) || state.defer.contains(event))
    }

    pub fn action_spec(&self, name: &Name) -> Option<&ActionSpec> {
        self.definition.actions().get(name)
    }

    /// Whether executions of this definition may have dependents: child executions, device runs or items.
    pub(super) fn has_dependents(&self) -> bool {
        let begins = |kind: &ActionKind| {
            matches!(kind, ActionKind::Start(_) | ActionKind::Device(_) | ActionKind::TaskFor(_))
        };
        self.definition.actions().values().any(|spec| begins(&spec.kind))
    }

    pub(super) fn correlate_program(&self) -> Option<&CelProgram> {
        self.correlate.as_ref()
    }

    /// The alternatives of an event in a state, each with its compiled expressions.
    pub(super) fn alternatives_of(
        &self,
        state: &Name,
        event: &Name,
    ) -> Option<Vec<(&TransitionAlternative, &CompiledAlternative)>> {
        let declared = self.definition.states().get(state)?.on.get(event)?;
        let compiled = self.handlers.get(state)?.get(event)?;
        Some(declared.iter().zip(compiled).collect())
    }

    pub(super) fn compiled_action(&self, name: &Name) -> Option<&CompiledAction> {
        self.actions.get(name)
    }
}

fn compile_state(
    name: &Name,
    state: &StateSpec,
    problems: &mut Vec<ValidationProblem>,
) -> BTreeMap<Name, Vec<CompiledAlternative>> {
    let mut handlers = BTreeMap::new();
    for (event, alternatives) in &state.on {
        let path = format!("states.{name}.on.{event}");
        let compiled =
            alternatives.iter().map(|alternative| compile_alternative(&path, alternative, problems));
        handlers.insert(event.clone(), compiled.collect());
    }
    handlers
}

fn compile_alternative(
    path: &str,
    alternative: &TransitionAlternative,
    problems: &mut Vec<ValidationProblem>,
) -> CompiledAlternative {
    let guard = alternative.guard.as_ref().and_then(|source| {
        CelProgram::compile(source, ExprVocabulary::Decision)
            .map_err(|messages| {
                problems.extend(
                    messages.into_iter().map(|text| ValidationProblem::new(format!("{path}.if"), text)),
                );
            })
            .ok()
    });
    let mut found = Vec::new();
    let set = alternative
        .set
        .iter()
        .map(|(key, template)| {
            let path = format!("{path}.set.{key}");
            (key.clone(), CompiledTemplate::compile(template, ExprVocabulary::Decision, &path, &mut found))
        })
        .collect();
    problems.extend(found.into_iter().map(|(path, message)| ValidationProblem::new(path, message)));
    CompiledAlternative { guard, set }
}
