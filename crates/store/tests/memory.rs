//! The conformance suite on the in-memory reference.

use millstream_store::Stores;
use millstream_store::conformance::Bench;
use millstream_store::memory::Memory;

fn fresh() -> Bench {
    Bench::new(Stores::of(Memory::new()))
}

millstream_store::conformance_tests!(fresh());
