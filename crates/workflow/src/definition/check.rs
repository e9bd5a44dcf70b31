//! Name resolution: checks that every name refers to a declaration.
//!
//! Runs on partially read definitions, so that one wrong name does not hide another. A misspelled target
//! state counts as the state that it resembles; otherwise every typo would be reported a second time as an
//! unreachable state.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::Name;
use millstream_model::problem::ValidationProblem;
use millstream_model::suggest::{did_you_mean, nearest_candidate};

use super::actions::{ActionSpec, FailureRule};
use super::limits::MAX_ALTERNATIVES;
use super::model::{Definition, StateKind, StateSpec, TransitionAlternative};

pub(crate) fn check_definition(definition: &Definition, problems: &mut Vec<ValidationProblem>) {
    let mut check = DefinitionCheck {
        definition,
        events: definition.states.values().flat_map(|state| state.on.keys()).collect(),
        problems,
    };
    check.check_initial();
    for (name, state) in &definition.states {
        check.check_state(&format!("states.{name}"), state);
    }
    for (name, action) in &definition.actions {
        check.check_action(&format!("actions.{name}"), action);
    }
    check.check_needs_cycles();
    check.check_reachability();
    let alternatives: usize =
        definition.states.values().flat_map(|state| state.on.values()).map(Vec::len).sum();
    if alternatives > MAX_ALTERNATIVES {
        check.add_problem(
            "states".to_owned(),
            format!("have {alternatives} alternatives in all, at most {MAX_ALTERNATIVES} are allowed"),
        );
    }
}

/// `states.paid.on.ship`, or with the index in the list if there are several.
pub(crate) fn alternative_path(state: &Name, event: &Name, place: usize, count: usize) -> String {
    if count > 1 {
        format!("states.{state}.on.{event}[{place}]")
    } else {
        format!("states.{state}.on.{event}")
    }
}

struct DefinitionCheck<'a> {
    definition: &'a Definition,
    /// Every event that some state handles.
    events: BTreeSet<&'a Name>,
    problems: &'a mut Vec<ValidationProblem>,
}

impl DefinitionCheck<'_> {
    fn add_problem(&mut self, path: String, message: String) {
        self.problems.push(ValidationProblem { path, message });
    }

    /// A field that `read` could not parse holds a reserved name and has already been reported.
    fn check_initial(&mut self) {
        let initial = &self.definition.initial;
        if !initial.is_reserved() && !self.definition.states.contains_key(initial) {
            let hint = did_you_mean(initial.as_str(), self.definition.states.keys().map(Name::as_str));
            self.add_problem("initial".to_owned(), format!("no state {:?}{hint}", initial.as_str()));
        }
    }

    fn check_state(&mut self, path: &str, state: &StateSpec) {
        match state.kind {
            StateKind::Final(_) => {
                for (field, given) in [
                    ("on", !state.on.is_empty()),
                    ("after", !state.after.is_empty()),
                    ("defer", !state.defer.is_empty()),
                ] {
                    if given {
                        self.add_problem(
                            format!("{path}.{field}"),
                            "is not allowed in a final state".to_owned(),
                        );
                    }
                }
            }
            StateKind::Working if state.on.is_empty() => {
                self.add_problem(
                    path.to_owned(),
                    "is a dead end: it handles no event and is not final".to_owned(),
                );
            }
            StateKind::Working => {}
        }
        for (event, alternatives) in &state.on {
            self.check_alternatives(path, event, alternatives);
        }
        for (n, timer) in state.after.iter().enumerate() {
            self.check_event(format!("{path}.after[{n}].send"), &timer.send);
        }
        for event in &state.defer {
            if state.on.contains_key(event) {
                self.add_problem(
                    format!("{path}.defer"),
                    format!("{:?} is handled by this state and cannot be deferred", event.as_str()),
                );
            }
            self.check_event(format!("{path}.defer"), event);
        }
    }

    fn check_alternatives(&mut self, state: &str, event: &Name, alternatives: &[TransitionAlternative]) {
        for (n, alternative) in alternatives.iter().enumerate() {
            let path = if alternatives.len() > 1 {
                format!("{state}.on.{event}[{n}]")
            } else {
                format!("{state}.on.{event}")
            };
            if let Some(to) = &alternative.to
                && !self.definition.states.contains_key(to)
            {
                let hint = did_you_mean(to.as_str(), self.definition.states.keys().map(Name::as_str));
                self.add_problem(format!("{path}.to"), format!("no state {:?}{hint}", to.as_str()));
            }
            if n > 0 && alternatives[n - 1].guard.is_none() {
                self.add_problem(
                    path.clone(),
                    "is never tried: the alternative before it has no `if`".to_owned(),
                );
            }
            self.check_action_list(&path, &alternative.actions);
        }
    }

    fn check_action_list(&mut self, path: &str, actions: &[Name]) {
        for (n, name) in actions.iter().enumerate() {
            let path = format!("{path}.do[{n}]");
            if actions[..n].contains(name) {
                self.add_problem(path.clone(), format!("{:?} is in this list twice", name.as_str()));
            }
            let Some(action) = self.definition.actions.get(name) else {
                let hint = did_you_mean(name.as_str(), self.definition.actions.keys().map(Name::as_str));
                self.add_problem(path, format!("no action {:?}{hint}", name.as_str()));
                continue;
            };
            for needed in &action.needs {
                if self.definition.actions.contains_key(needed) && !actions.contains(needed) {
                    self.add_problem(
                        path.clone(),
                        format!("{:?} needs {:?}, which is not in this list", name.as_str(), needed.as_str()),
                    );
                }
            }
        }
    }

    /// `send`, `defer`, `on_success` and `on_failure` name events that some state handles.
    fn check_event(&mut self, path: String, event: &Name) {
        if !self.events.contains(event) {
            let hint = did_you_mean(event.as_str(), self.events.iter().map(|event| event.as_str()));
            self.add_problem(path, format!("no state handles {:?}{hint}", event.as_str()));
        }
    }

    fn check_action(&mut self, path: &str, action: &ActionSpec) {
        for (n, needed) in action.needs.iter().enumerate() {
            let path = format!("{path}.needs[{n}]");
            if action.needs[..n].contains(needed) {
                self.add_problem(path.clone(), "appears twice".to_owned());
            }
            if !self.definition.actions.contains_key(needed) {
                let hint = did_you_mean(needed.as_str(), self.definition.actions.keys().map(Name::as_str));
                self.add_problem(path, format!("no action {:?}{hint}", needed.as_str()));
            }
        }
        if let Some(event) = &action.policy.on_success {
            self.check_event(format!("{path}.on_success"), event);
        }
        match &action.policy.failure {
            FailureRule::Incident => {}
            FailureRule::Emit(event) => self.check_event(format!("{path}.on_failure"), event),
            FailureRule::Compensate(event) => self.check_event(format!("{path}.compensate"), event),
        }
        if let Some(undo) = &action.undo {
            let path = format!("{path}.undo");
            match self.definition.actions.get(undo) {
                None => {
                    let hint = did_you_mean(undo.as_str(), self.definition.actions.keys().map(Name::as_str));
                    self.add_problem(path, format!("no action {:?}{hint}", undo.as_str()));
                }
                Some(_) if *undo == action.name => {
                    self.add_problem(path, "an action cannot undo itself".to_owned());
                }
                Some(_) => {}
            }
        }
        if let Some(undone) = &action.undoes {
            self.check_undo(path, action, undone);
        }
    }

    /// An undo action runs only in the compensation of its transition.
    fn check_undo(&mut self, path: &str, action: &ActionSpec, undone: &Name) {
        let is_done = |alternative: &TransitionAlternative| alternative.actions.contains(&action.name);
        let mut alternatives = self.definition.states.values().flat_map(|state| state.on.values()).flatten();
        if alternatives.any(is_done) {
            self.add_problem(
                path.to_owned(),
                format!("is the undo action of {:?} and cannot be in a `do` list", undone.as_str()),
            );
        }
        for (field, given) in [
            ("needs", !action.needs.is_empty()),
            ("undo", action.undo.is_some()),
            ("on_success", action.policy.on_success.is_some()),
            ("on_failure", matches!(action.policy.failure, FailureRule::Emit(_))),
            ("compensate", matches!(action.policy.failure, FailureRule::Compensate(_))),
        ] {
            if given {
                let message = format!("is not allowed in an undo action (it undoes {:?})", undone.as_str());
                self.add_problem(format!("{path}.{field}"), message);
            }
        }
    }

    /// Topological sort: removes actions whose needs are met until none is left; the remaining ones form a
    /// cycle or depend on one.
    fn check_needs_cycles(&mut self) {
        let mut open: BTreeMap<&Name, BTreeSet<&Name>> = self
            .definition
            .actions
            .iter()
            .map(|(name, action)| {
                let known =
                    action.needs.iter().filter(|needed| self.definition.actions.contains_key(*needed));
                (name, known.collect())
            })
            .collect();
        loop {
            let met: Vec<&Name> =
                open.iter().filter(|(_, needs)| needs.is_empty()).map(|(name, _)| *name).collect();
            if met.is_empty() {
                break;
            }
            for name in met {
                open.remove(name);
                for needs in open.values_mut() {
                    needs.remove(name);
                }
            }
        }
        let mut reported = BTreeSet::new();
        for start in open.keys().copied().collect::<Vec<_>>() {
            if reported.contains(start) {
                continue;
            }
            let mut walk = vec![start];
            while let Some(next) =
                walk.last().and_then(|last| open.get(*last)).and_then(|needs| needs.first())
            {
                if let Some(at) = walk.iter().position(|name| name == next) {
                    let cycle = &walk[at..];
                    if reported.insert(cycle[0]) {
                        let names: Vec<_> = cycle.iter().chain([next]).map(|name| name.as_str()).collect();
                        self.problems.push(ValidationProblem::new(
                            format!("actions.{}.needs", cycle[0]),
                            format!("dependency cycle: {}", names.join(" → ")),
                        ));
                    }
                    break;
                }
                walk.push(next);
            }
            reported.extend(walk);
        }
    }

    fn check_reachability(&mut self) {
        let states = &self.definition.states;
        let meant = |name: &Name| {
            if states.contains_key(name) {
                return Some(name.clone());
            }
            nearest_candidate(name.as_str(), states.keys().map(Name::as_str))
                .and_then(|name| Name::parse(name).ok())
        };
        let Some(initial) = meant(&self.definition.initial) else { return };
        let mut reached = BTreeSet::from([initial.clone()]);
        let mut open = vec![initial];
        while let Some(name) = open.pop() {
            let Some(state) = states.get(&name) else { continue };
            for target in state.on.values().flatten().filter_map(|alternative| alternative.to.as_ref()) {
                if let Some(target) = meant(target)
                    && reached.insert(target.clone())
                {
                    open.push(target);
                }
            }
        }
        for name in states.keys().filter(|name| !reached.contains(*name)) {
            let message = format!("cannot be reached from {:?}", self.definition.initial.as_str());
            self.problems.push(ValidationProblem::new(format!("states.{name}"), message));
        }
    }
}
