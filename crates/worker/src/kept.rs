//! The doorbells in a worker's hands, by execution.
//!
//! A doorbell is held from the moment it is read until it is acknowledged. All doorbells of one
//! execution are one piece of work: at most one visit to an execution is under way, those that
//! arrive meanwhile wait for the next visit (their event may be younger than what the visit loaded),
//! and those that could not be decided are kept and tried again together.
//!
//! Waits: a busy lock 1 → 50 ms, an unavailable store 100 ms → 5 s, an error 100 ms → 5 s, all with
//! jitter. Nothing in here reads a clock, and nothing stops the reading of other executions until
//! the worker holds as much as it may.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use millstream_core::id::ExecutionKey;
use millstream_stream::doorbell::EntryId;

/// An execution to be visited.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) execution: ExecutionKey,
    /// The doorbells that this visit answers.
    pub(crate) entries: Vec<EntryId>,
    pub(crate) suspicion: Suspicion,
    /// Visits that came to nothing before this one.
    pub(crate) tries: u32,
}

/// Whether a visit was cut short before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Suspicion {
    None,
    /// A crash or an error: count an attempt, go alone.
    Cut {
        why: String,
    },
}

/// How a visit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The store knows what is left and the doorbells are acknowledged.
    Answered,
    /// To be tried again.
    Kept(Why),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// Another worker is at it.
    Busy,
    /// A service is unavailable; not the execution's fault.
    Unavailable,
    /// It failed, and trying the same again in company could fail others.
    Failed { why: String },
}

#[derive(Debug, Default)]
pub(crate) struct Kept {
    held: HashMap<ExecutionKey, Held>,
    ready: VecDeque<ExecutionKey>,
    waiting: BTreeSet<(Instant, ExecutionKey)>,
    entries: HashSet<EntryId>,
}

#[derive(Debug)]
struct Held {
    entries: Vec<EntryId>,
    /// Arrived during the visit that is under way.
    later: Vec<EntryId>,
    suspicion: Suspicion,
    tries: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready,
    Visited,
    Waiting { until: Instant },
}

impl Kept {
    /// A doorbell, or word of the execution from elsewhere (`None`).
    pub(crate) fn arrive(&mut self, execution: ExecutionKey, entry: Option<EntryId>, suspicion: Suspicion) {
        if let Some(entry) = &entry
            && !self.entries.insert(entry.clone())
        {
            // Our own entry, read or reclaimed a second time.
            return;
        }
        if let Some(held) = self.held.get_mut(&execution) {
            match held.place {
                Place::Ready | Place::Waiting { .. } => held.entries.extend(entry),
                Place::Visited => held.later.extend(entry),
            }
            if held.suspicion == Suspicion::None {
                held.suspicion = suspicion;
            }
            return;
        }
        self.ready.push_back(execution.clone());
        let held = Held {
            entries: entry.into_iter().collect(),
            later: Vec::new(),
            suspicion,
            tries: 0,
            place: Place::Ready,
        };
        self.held.insert(execution, held);
    }

    /// Up to `max` executions whose time has come.
    pub(crate) fn take(&mut self, max: usize, now: Instant) -> Vec<Visit> {
        while let Some((until, _)) = self.waiting.first()
            && *until <= now
            && let Some((_, execution)) = self.waiting.pop_first()
        {
            if let Some(held) = self.held.get_mut(&execution) {
                held.place = Place::Ready;
                self.ready.push_back(execution);
            }
        }
        let mut visits = Vec::new();
        while visits.len() < max
            && let Some(execution) = self.ready.pop_front()
        {
            let Some(held) = self.held.get_mut(&execution) else { continue };
            held.place = Place::Visited;
            visits.push(Visit {
                execution,
                entries: held.entries.clone(),
                suspicion: std::mem::replace(&mut held.suspicion, Suspicion::None),
                tries: held.tries,
            });
        }
        visits
    }

    /// A visit has ended. `unit` is in `0.0..1.0`.
    pub(crate) fn ended(&mut self, visit: Visit, end: End, now: Instant, unit: f64) {
        let Some(held) = self.held.get_mut(&visit.execution) else { return };
        match end {
            End::Answered => {
                for entry in &visit.entries {
                    self.entries.remove(entry);
                }
                if held.later.is_empty() {
                    self.held.remove(&visit.execution);
                } else {
                    held.entries = std::mem::take(&mut held.later);
                    held.tries = 0;
                    held.place = Place::Ready;
                    self.ready.push_back(visit.execution);
                }
            }
            End::Kept(why) => {
                let wait = wait(&why, held.tries, unit);
                held.tries = held.tries.saturating_add(1);
                held.entries.append(&mut held.later);
                match why {
                    // The attempt was not made: what was suspected still is.
                    Why::Busy | Why::Unavailable if held.suspicion == Suspicion::None => {
                        held.suspicion = visit.suspicion;
                    }
                    Why::Busy | Why::Unavailable => {}
                    Why::Failed { why } => held.suspicion = Suspicion::Cut { why },
                }
                held.place = Place::Waiting { until: now + wait };
                self.waiting.insert((now + wait, visit.execution));
            }
        }
    }

    /// When the next kept execution is to be tried again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len().max(self.held.len())
    }

    /// Every doorbell held, to be kept fresh.
    pub(crate) fn entries(&self) -> Vec<EntryId> {
        self.entries.iter().cloned().collect()
    }

    /// Everything that is left, to be handed back.
    pub(crate) fn hand_back(&mut self) -> Vec<(ExecutionKey, Vec<EntryId>)> {
        self.ready.clear();
        self.waiting.clear();
        self.entries.clear();
        let left = |(execution, mut held): (ExecutionKey, Held)| {
            held.entries.append(&mut held.later);
            (execution, held.entries)
        };
        self.held.drain().map(left).collect()
    }
}

fn wait(why: &Why, tries: u32, unit: f64) -> Duration {
    let (first, longest) = match why {
        Why::Busy => (Duration::from_millis(1), Duration::from_millis(50)),
        Why::Unavailable | Why::Failed { .. } => (Duration::from_millis(100), Duration::from_secs(5)),
    };
    let ceiling = first.saturating_mul(1 << tries.min(20)).min(longest);
    ceiling.mul_f64(0.5 + unit / 2.0)
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{ExecutionId, TenantId};
    use millstream_core::lane::Lane;

    use super::*;

    fn key(id: &str) -> ExecutionKey {
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
    }

    fn entry(id: &str) -> Option<EntryId> {
        Some(EntryId { lane: Lane::of(&TenantId::default_tenant()), id: id.to_owned() })
    }

    fn ring(kept: &mut Kept, execution: &str, id: &str) {
        kept.arrive(key(execution), entry(id), Suspicion::None);
    }

    #[test]
    fn doorbells_of_one_execution_are_one_visit() {
        let mut kept = Kept::default();
        ring(&mut kept, "a", "1");
        ring(&mut kept, "a", "2");
        ring(&mut kept, "b", "3");
        let visits = kept.take(10, Instant::now());
        assert_eq!(visits.iter().map(|visit| visit.entries.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(kept.take(10, Instant::now()).is_empty());
    }

    #[test]
    fn a_doorbell_that_arrives_during_a_visit_is_not_answered_by_it() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        ring(&mut kept, "a", "1");
        let visit = kept.take(1, now).remove(0);
        ring(&mut kept, "a", "2");
        assert!(kept.take(1, now).is_empty(), "visited twice at once");
        kept.ended(visit, End::Answered, now, 0.5);
        let visit = kept.take(1, now).remove(0);
        assert_eq!(visit.entries, [entry("2").unwrap()]);
        kept.ended(visit, End::Answered, now, 0.5);
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn a_busy_execution_is_retried_once_for_all_its_doorbells_and_others_go_on() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        ring(&mut kept, "a", "1");
        let visit = kept.take(1, now).remove(0);
        kept.ended(visit, End::Kept(Why::Busy), now, 1.0);
        ring(&mut kept, "a", "2");
        ring(&mut kept, "b", "3");
        let visits = kept.take(10, now);
        assert_eq!(visits.len(), 1);
        assert_eq!(visits[0].execution, key("b"));
        let later = kept.next().unwrap();
        assert!(later <= now + Duration::from_millis(50));
        let visits = kept.take(10, later);
        assert_eq!(visits[0].entries.len(), 2);
        assert_eq!(visits[0].tries, 1);
    }

    #[test]
    fn waits_grow_and_are_capped() {
        assert_eq!(wait(&Why::Busy, 0, 1.0), Duration::from_millis(1));
        assert_eq!(wait(&Why::Busy, 30, 1.0), Duration::from_millis(50));
        assert_eq!(wait(&Why::Unavailable, 30, 1.0), Duration::from_secs(5));
    }

    #[test]
    fn a_suspicion_survives_a_visit_that_was_not_made() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        let cut = Suspicion::Cut { why: "its worker died".to_owned() };
        kept.arrive(key("a"), entry("1"), cut.clone());
        let visit = kept.take(1, now).remove(0);
        assert_eq!(visit.suspicion, cut);
        kept.ended(visit, End::Kept(Why::Busy), now, 1.0);
        let visit = kept.take(1, kept.next().unwrap()).remove(0);
        assert_eq!(visit.suspicion, cut);
    }

    #[test]
    fn an_entry_is_held_once_however_often_it_is_delivered() {
        let mut kept = Kept::default();
        ring(&mut kept, "a", "1");
        kept.arrive(key("a"), entry("1"), Suspicion::Cut { why: "reclaimed from ourselves".to_owned() });
        let visit = kept.take(1, Instant::now()).remove(0);
        assert_eq!((visit.entries.len(), visit.suspicion), (1, Suspicion::None));
    }

    #[test]
    fn everything_held_is_handed_back() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        for (execution, id) in [("a", "1"), ("b", "2"), ("c", "3")] {
            ring(&mut kept, execution, id);
        }
        let visit = kept.take(1, now).remove(0);
        kept.ended(visit, End::Kept(Why::Unavailable), now, 1.0);
        let back = kept.hand_back();
        assert_eq!(back.iter().map(|(_, entries)| entries.len()).sum::<usize>(), 3);
        assert_eq!(kept.len(), 0);
    }
}
