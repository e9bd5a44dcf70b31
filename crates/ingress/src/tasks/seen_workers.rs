//! External workers that requested tasks lately, until they are recorded in the store.
//!
//! Workers choose their own names, so the number and size of the names per tenant are bounded. A worker
//! beyond the bound is not recorded this time and still gets its tasks; only `why` does not list it.

use std::collections::BTreeMap;

use millstream_model::id::{Name, TenantId};
use millstream_store::task_board::{ExternalWorkerReport, TASK_WORKERS_KEPT};

/// Upper bound of the presence data of one tenant's workers, in bytes.
const MOST_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct SeenWorkers(BTreeMap<TenantId, SeenOfTenant>);

#[derive(Debug, Default)]
struct SeenOfTenant {
    workers: BTreeMap<String, ExternalWorkerReport>,
    bytes: usize,
}

impl SeenWorkers {
    /// Records a worker; its latest presence wins.
    pub(super) fn add_worker(&mut self, presence: ExternalWorkerReport) {
        let seen = self.0.entry(presence.tenant.clone()).or_default();
        let before = seen.workers.get(&presence.name).map(presence_bytes);
        let after = seen.bytes - before.unwrap_or(0) + presence_bytes(&presence);
        let is_new = before.is_none();
        if after > MOST_BYTES || (is_new && seen.workers.len() >= TASK_WORKERS_KEPT) {
            return;
        }
        seen.bytes = after;
        seen.workers.insert(presence.name.clone(), presence);
    }

    pub(super) fn into_presences(self) -> Vec<ExternalWorkerReport> {
        self.0.into_values().flat_map(|seen| seen.workers.into_values()).collect()
    }
}

fn presence_bytes(presence: &ExternalWorkerReport) -> usize {
    let names = presence.kinds.iter().chain(&presence.labels).map(Name::as_str).map(str::len);
    presence.name.len() + names.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(tenant: &str, name: &str, kinds: usize) -> ExternalWorkerReport {
        let kind = |n: usize| Name::parse(format!("{}-{n:04}", "k".repeat(55))).unwrap();
        ExternalWorkerReport {
            tenant: TenantId::parse(tenant).unwrap(),
            name: name.to_owned(),
            kinds: (0..kinds).map(kind).collect(),
            labels: Default::default(),
        }
    }

    #[test]
    fn worker_names_are_bounded_per_tenant() {
        let mut seen = SeenWorkers::default();
        for n in 0..TASK_WORKERS_KEPT + 5 {
            seen.add_worker(presence("noisy", &format!("w{n}"), 0));
        }
        seen.add_worker(presence("quiet", "w", 0));
        seen.add_worker(presence("noisy", "w0", 1));
        let told = seen.into_presences();
        assert_eq!(told.len(), TASK_WORKERS_KEPT + 1);
        let first = told.iter().find(|presence| presence.name == "w0").unwrap();
        assert_eq!(first.kinds.len(), 1, "one that is known says something new");
    }

    #[test]
    fn worker_presence_bytes_are_bounded() {
        let mut seen = SeenWorkers::default();
        for n in 0..2_000 {
            seen.add_worker(presence("noisy", &format!("w{n}"), 64));
            // The same words again are no more of them.
            seen.add_worker(presence("noisy", &format!("w{n}"), 64));
        }
        let told = seen.into_presences();
        let total: usize = told.iter().map(presence_bytes).sum();
        assert!(total <= MOST_BYTES && total > MOST_BYTES - 4_096, "{total}");
    }
}
