//! The conformance suite on the in-memory reference.

use millstream_store::Stores;
use millstream_store_conformance::ConformanceBench;
use millstream_store_memory::MemoryStore;

fn fresh() -> ConformanceBench {
    ConformanceBench::new(Stores::from_backend(MemoryStore::new()))
}

millstream_store_conformance::conformance_tests!(fresh());
