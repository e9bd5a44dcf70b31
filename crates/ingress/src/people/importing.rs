//! Bulk import of items into a queue: read one by one, written in batches, and counted.

use std::sync::Arc;

use millstream_api::item_import::{ItemProblem, RefusedItem};
use millstream_model::id::{ItemId, ItemKey, Name, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::CountedQuota;
use millstream_model::raw::RawJson;
use millstream_people::assignment::NewQueueItem;
use millstream_people::assignment::item::ItemOverrides;
use millstream_people::assignment::limits::MAX_PAYLOAD_BYTES;
use millstream_store::clock::Clock;
use millstream_store::item_store::{ImportVerdict, ItemRef, ItemStore};
use serde::Serialize;

use super::item_metrics;
use crate::quotas::TenantQuotas;
use crate::refusal::RequestRefusal;
use crate::request_hash::hash_parts;

/// Size of an item beside its payload.
const ENVELOPE_BYTES: usize = 16 * 1024;
/// Upper bound of one item as text.
pub(crate) const LINE_BYTES: usize = MAX_PAYLOAD_BYTES + ENVELOPE_BYTES;
/// Items in one transaction.
const BATCH: usize = 500;
/// Bytes of payloads in one transaction, unless one item alone has more.
const BATCH_BYTES: usize = 1024 * 1024;
/// Memory of one import, in KiB: a batch, a line, and their parsed forms.
pub(crate) const HELD_KIB: usize = 4 * 1024;
/// Refusals that are listed; further ones are only counted.
const TOLD: usize = 1_000;

/// Counts of an import.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct ImportTally {
    pub(crate) read: u64,
    pub(crate) created: u64,
    pub(crate) repeated: u64,
    pub(crate) refused: u64,
}

/// An item that cannot be read: its id where that can be read, and its faults.
pub(crate) type UnreadableItem = (Option<ItemId>, Vec<Fault>);

/// Dependencies of an import.
pub(crate) struct ImportDeps {
    pub(crate) items: Arc<dyn ItemStore>,
    pub(crate) quotas: Arc<TenantQuotas>,
    pub(crate) clock: Arc<dyn Clock>,
}

pub(crate) struct ItemImport {
    deps: ImportDeps,
    pub(crate) tenant: TenantId,
    pub(crate) queue: Name,
    waiting: Vec<(u64, NewQueueItem)>,
    bytes: usize,
    lines: bool,
    pub(crate) tally: ImportTally,
    pub(crate) refused: Vec<RefusedItem>,
    /// Ids of the items that are in the queue now, where the caller asked for them.
    pub(crate) ids: Option<Vec<ItemId>>,
}

/// Format of the items: refusals of lines name the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImportFormat {
    Json,
    Lines,
}

impl ItemImport {
    pub(crate) fn new(deps: ImportDeps, tenant: TenantId, queue: Name, form: ImportFormat) -> Self {
        let lines = form == ImportFormat::Lines;
        Self {
            deps,
            tenant,
            queue,
            waiting: Vec::new(),
            bytes: 0,
            lines,
            tally: ImportTally::default(),
            refused: Vec::new(),
            ids: (!lines).then(Vec::new),
        }
    }

    /// Adds an item. The item that fills the batch triggers the import; returns whether it did.
    pub(crate) async fn take_item(
        &mut self,
        item: Result<NewQueueItem, UnreadableItem>,
    ) -> Result<bool, RequestRefusal> {
        let index = self.tally.read;
        self.tally.read += 1;
        match item {
            Ok(item) => {
                self.bytes += item.payload.len();
                self.waiting.push((index, item));
            }
            Err((item_id, problems)) => self.refuse_item(index, item_id, problems),
        }
        let full = self.waiting.len() >= BATCH || self.bytes >= BATCH_BYTES;
        if full {
            self.flush_batch().await?;
        }
        Ok(full)
    }

    /// Counts an item that cannot be read.
    pub(crate) fn skip_item(&mut self, why: String) {
        let index = self.tally.read;
        self.tally.read += 1;
        self.refuse_item(index, None, vec![Fault::new("", why)]);
    }

    fn refuse_item(&mut self, index: u64, item_id: Option<ItemId>, problems: Vec<Fault>) {
        self.tally.refused += 1;
        if self.refused.len() < TOLD {
            let line = self.lines.then_some(index + 1);
            let item_id = item_id.map(|id| id.to_string());
            let problems = problems.into_iter().map(|Fault { path, message }| ItemProblem { path, message });
            self.refused.push(RefusedItem { index, line, item_id, problems: problems.collect() });
        }
    }

    pub(crate) async fn flush_batch(&mut self) -> Result<(), RequestRefusal> {
        let (places, items): (Vec<u64>, Vec<NewQueueItem>) =
            std::mem::take(&mut self.waiting).into_iter().unzip();
        self.bytes = 0;
        if items.is_empty() {
            return Ok(());
        }
        self.admit_items(&items).await?;
        let now = self.deps.clock.now();
        let verdicts = self.deps.items.import_items(&self.tenant, &self.queue, &items, now).await?;
        let mut created = 0;
        for ((index, item), verdict) in places.into_iter().zip(items).zip(verdicts) {
            let problems = match verdict {
                ImportVerdict::Created => {
                    created += 1;
                    self.ids.iter_mut().for_each(|ids| ids.push(item.id.clone()));
                    continue;
                }
                ImportVerdict::Repeat => {
                    self.tally.repeated += 1;
                    self.ids.iter_mut().for_each(|ids| ids.push(item.id.clone()));
                    continue;
                }
                ImportVerdict::Taken => vec![Fault::new("item_id", "another item with this id exists")],
                ImportVerdict::Refused(problems) => problems,
                ImportVerdict::NoQueue => return Err(RequestRefusal::not_found("queue", &self.queue)),
            };
            self.refuse_item(index, Some(item.id), problems);
        }
        self.tally.created += created;
        item_metrics::count_imported(created);
        Ok(())
    }
}

impl ItemImport {
    /// Checks that the tenant may have `items` more; existing items may be imported again.
    async fn admit_items(&self, items: &[NewQueueItem]) -> Result<(), RequestRefusal> {
        let (quotas, tenant) = (&self.deps.quotas, &self.tenant);
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        let bytes: usize = items.iter().map(|item| item.payload.len()).sum();
        let refused = match quotas.admit_rows(tenant, CountedQuota::QueueItems, count).await {
            Ok(()) => {
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                quotas.admit_rows(tenant, CountedQuota::StoredBytes, bytes).await
            }
            refused => refused,
        };
        let Err(refusal) = refused else { return Ok(()) };
        let keys = items.iter().map(|item| ItemKey { tenant: tenant.clone(), item: item.id.clone() });
        let keys: Vec<ItemRef> = keys.map(ItemRef::Item).collect();
        let known = self.deps.items.load_items(&keys).await?;
        if known.iter().all(Option::is_some) { Ok(()) } else { Err(refusal) }
    }
}

/// The id of an item without an explicit one, derived from its content: the same content in the same queue
/// is the same item, so that an import can be repeated.
pub(crate) fn derive_item_id(
    tenant: &TenantId,
    queue: &Name,
    payload: &RawJson,
    own: &ItemOverrides,
) -> Option<ItemId> {
    let own = RawJson::from_value(own);
    let parts: [&[u8]; 5] = [
        b"item",
        tenant.as_str().as_bytes(),
        queue.as_str().as_bytes(),
        payload.as_str().as_bytes(),
        own.as_str().as_bytes(),
    ];
    let digits: String = hash_parts(&parts).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    ItemId::parse(format!("auto-{digits}")).ok()
}
