//! The quota cache over the memory store.

use millstream_model::id::TenantId;
use millstream_model::quota::{QuotaName, QuotaSet, QuotaSettings, QuotaSource, QuotaValue};
use millstream_model::time::Timestamp;
use millstream_store::quota_cache::QuotaCache;
use millstream_store::quota_store::QuotaStore;
use millstream_store_memory::MemoryStore;

fn devices(most: u64) -> QuotaSet {
    QuotaSet::default().with(QuotaName::Devices, QuotaValue::AtMost(most))
}

#[tokio::test]
async fn refreshed_quota_row_overrides_settings() {
    let (acme, other) = (TenantId::parse("acme").unwrap(), TenantId::parse("other").unwrap());
    let settings = QuotaSettings { tenants: [(acme.clone(), devices(2))].into(), ..Default::default() };
    let (book, store) = (QuotaCache::from_settings(settings), MemoryStore::new());
    let shown = |tenant| {
        let quota = book.effective_quota(tenant).get(QuotaName::Devices);
        (quota.value, quota.source)
    };
    assert_eq!(shown(&acme), (QuotaValue::AtMost(2), QuotaSource::TenantSettings));
    store.put_quota(&acme, &devices(3), Timestamp::EPOCH).await.unwrap();
    assert_eq!(shown(&acme).0, QuotaValue::AtMost(2));
    book.refresh(&*store).await.unwrap();
    assert_eq!(shown(&acme), (QuotaValue::AtMost(3), QuotaSource::Row));
    assert_eq!(shown(&other).1, QuotaSource::BuiltIn);
    store.put_quota(&acme, &QuotaSet::default(), Timestamp::EPOCH).await.unwrap();
    book.refresh(&*store).await.unwrap();
    assert_eq!(shown(&acme), (QuotaValue::AtMost(2), QuotaSource::TenantSettings));
}
