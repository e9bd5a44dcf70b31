//! Load balancing: selects the executor for a node, the least loaded one that matches and has free capacity.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use millstream_model::id::Name;

/// An executor with a recent heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorCandidate {
    pub name: Name,
    /// Empty: any role.
    pub roles: BTreeSet<String>,
    pub labels: BTreeSet<Name>,
    /// Maximum number of concurrent nodes.
    pub capacity: u32,
    pub in_flight: u32,
}

/// The requirements of a dispatch.
#[derive(Debug, Clone, Copy)]
pub struct DispatchRequirements<'a> {
    /// Empty: any executor will do.
    pub role: &'a str,
    pub labels: &'a BTreeSet<Name>,
    /// Executors that are taken only if no other one matches.
    pub avoid: &'a [String],
    /// Round robin: this number breaks ties between equally loaded executors.
    pub turn: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorChoice {
    /// Index into the candidates.
    pub at: usize,
    pub executor: Name,
    /// The explanation of the choice, for users.
    pub reason: String,
}

/// The least loaded executor with free capacity; `None` if all matching executors are busy, or none matches.
pub fn choose_executor(
    candidates: &[ExecutorCandidate],
    request: &DispatchRequirements<'_>,
) -> Option<ExecutorChoice> {
    let able: Vec<(usize, &ExecutorCandidate)> =
        candidates.iter().enumerate().filter(|(_, candidate)| candidate.can_perform(request)).collect();
    let is_avoided =
        |candidate: &ExecutorCandidate| request.avoid.iter().any(|name| name == candidate.name.as_str());
    let (avoided, preferred): (Vec<_>, Vec<_>) =
        able.iter().copied().partition(|(_, candidate)| is_avoided(candidate));
    // An executor that crashed on this node is used only if it is the sole match; otherwise the node waits
    // for others.
    let (chosen, note) = match preferred.is_empty() {
        false if avoided.is_empty() => (preferred, String::new()),
        false => (preferred, format!(", avoiding {}", join_names(&avoided))),
        true => (avoided, ", although it failed before: no other executor matches".to_owned()),
    };
    let mut free: Vec<(usize, &ExecutorCandidate)> =
        chosen.into_iter().filter(|(_, candidate)| candidate.in_flight < candidate.capacity).collect();
    free.sort_by(|(_, a), (_, b)| a.compare_load(b).then_with(|| a.name.cmp(&b.name)));
    let least = free.first().map(|(_, candidate)| *candidate)?;
    let equals = free.iter().take_while(|(_, other)| other.compare_load(least) == Ordering::Equal).count();
    let (at, candidate) = free.get(request.turn % equals.max(1)).copied()?;
    let ExecutorCandidate { name, in_flight, capacity, .. } = candidate;
    let reason = format!("{in_flight} of {capacity} busy, least of {} with room{note}", free.len());
    Some(ExecutorChoice { at, executor: name.clone(), reason })
}

/// The explanation for users why no executor was selected.
pub fn explain_no_executor(candidates: &[ExecutorCandidate], request: &DispatchRequirements<'_>) -> String {
    if candidates.is_empty() {
        return "no executor is registered".to_owned();
    }
    let in_role: Vec<&ExecutorCandidate> =
        candidates.iter().filter(|candidate| candidate.has_role(request.role)).collect();
    if in_role.is_empty() {
        return format!("none of {} executors has the role {:?}", candidates.len(), request.role);
    }
    let able = in_role.iter().filter(|candidate| candidate.can_perform(request)).count();
    if able == 0 {
        let labels: Vec<&str> = request.labels.iter().map(Name::as_str).collect();
        return format!(
            "none of {} executors in the role has the labels {}",
            in_role.len(),
            labels.join(", ")
        );
    }
    if able == 1 {
        "the only matching executor is busy".to_owned()
    } else {
        format!("all {able} matching executors are busy")
    }
}

/// Whether an executor with these roles and labels meets the requested role and labels.
pub fn meets_requirements(
    (roles, labels): (&BTreeSet<String>, &BTreeSet<Name>),
    (role, wanted): (&str, &BTreeSet<Name>),
) -> bool {
    has_role(roles, role) && wanted.is_subset(labels)
}

fn has_role(roles: &BTreeSet<String>, role: &str) -> bool {
    role.is_empty() || roles.is_empty() || roles.contains(role)
}

impl ExecutorCandidate {
    pub fn can_perform(&self, request: &DispatchRequirements<'_>) -> bool {
        meets_requirements((&self.roles, &self.labels), (request.role, request.labels))
    }

    fn has_role(&self, role: &str) -> bool {
        has_role(&self.roles, role)
    }

    /// Compares the used shares of capacity, without division.
    fn compare_load(&self, other: &Self) -> Ordering {
        let share = |one: &Self, of: &Self| u64::from(one.in_flight) * u64::from(of.capacity);
        share(self, other).cmp(&share(other, self))
    }
}

fn join_names(candidates: &[(usize, &ExecutorCandidate)]) -> String {
    candidates.iter().map(|(_, candidate)| candidate.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(name: &str, role: &str, in_flight: u32, capacity: u32) -> ExecutorCandidate {
        ExecutorCandidate {
            name: Name::parse(name).unwrap(),
            roles: if role.is_empty() { BTreeSet::new() } else { BTreeSet::from([role.to_owned()]) },
            labels: BTreeSet::new(),
            capacity,
            in_flight,
        }
    }

    fn choice(candidates: &[ExecutorCandidate], role: &str, avoid: &[&str], turn: usize) -> Option<String> {
        let avoid: Vec<String> = avoid.iter().map(|name| (*name).to_owned()).collect();
        let request = DispatchRequirements { role, labels: &BTreeSet::new(), avoid: &avoid, turn };
        choose_executor(candidates, &request).map(|choice| choice.executor.to_string())
    }

    #[test]
    fn least_loaded_executor_is_chosen() {
        let candidates = [executor("a", "", 2, 4), executor("b", "", 3, 10), executor("c", "", 1, 2)];
        assert_eq!(choice(&candidates, "", &[], 0).as_deref(), Some("b"));
    }

    #[test]
    fn equal_executors_are_chosen_round_robin() {
        let candidates = [executor("b", "", 1, 2), executor("a", "", 2, 4), executor("c", "", 3, 4)];
        let chosen: Vec<_> = (0..4).filter_map(|turn| choice(&candidates, "", &[], turn)).collect();
        assert_eq!(chosen, ["a", "b", "a", "b"]);
    }

    #[test]
    fn executor_must_match_role_and_labels() {
        let mut gpu = executor("a", "writer", 0, 1);
        gpu.labels = BTreeSet::from([Name::parse("gpu").unwrap()]);
        let candidates = [gpu, executor("b", "reader", 0, 1), executor("c", "", 0, 1)];
        assert_eq!(choice(&candidates, "writer", &[], 1).as_deref(), Some("c"));
        let labels = BTreeSet::from([Name::parse("gpu").unwrap()]);
        let request = DispatchRequirements { role: "", labels: &labels, avoid: &[], turn: 1 };
        assert_eq!(choose_executor(&candidates, &request).unwrap().at, 0);
    }

    #[test]
    fn crashed_executor_is_avoided_if_possible() {
        let mut candidates = vec![executor("a", "", 0, 9), executor("b", "", 5, 9)];
        assert_eq!(choice(&candidates, "", &["a"], 0).as_deref(), Some("b"));
        candidates.pop();
        assert_eq!(choice(&candidates, "", &["a"], 0).as_deref(), Some("a"));
    }

    #[test]
    fn full_executors_are_explained() {
        let busy = [executor("a", "writer", 1, 1)];
        assert_eq!(choice(&busy, "writer", &[], 0), None);
        let labels = BTreeSet::from([Name::parse("gpu").unwrap()]);
        let why = |candidates: &[ExecutorCandidate], role, labels| {
            explain_no_executor(candidates, &DispatchRequirements { role, labels, avoid: &[], turn: 0 })
        };
        assert_eq!(why(&[], "", &labels), "no executor is registered");
        assert_eq!(why(&busy, "reader", &labels), "none of 1 executors has the role \"reader\"");
        assert_eq!(why(&busy, "", &labels), "none of 1 executors in the role has the labels gpu");
        assert_eq!(why(&busy, "writer", &BTreeSet::new()), "the only matching executor is busy");
    }

    #[test]
    fn executor_without_capacity_is_ignored() {
        assert_eq!(choice(&[executor("a", "", 0, 0)], "", &[], 7), None);
    }
}
