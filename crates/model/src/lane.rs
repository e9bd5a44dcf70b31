//! Lanes: tenant sharding of doorbells over a fixed number of streams.
//!
//! Tenants are hashed onto the lanes, and readers take a bounded number of entries from each, so that
//! one tenant's backlog does not block the other tenants. The hash is written out here because it must
//! never change between builds.

use crate::id::TenantId;

/// How many lanes there are. Changing it means draining the old ones first.
pub const LANES: u8 = 16;

/// One of the [`LANES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u8);

impl Lane {
    pub fn of_tenant(tenant: &TenantId) -> Self {
        // FNV-1a: small, stable, good enough to spread names.
        let hash = tenant.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below LANES")]
        Self((hash % u64::from(LANES)) as u8)
    }

    pub fn all() -> impl Iterator<Item = Lane> {
        (0..LANES).map(Lane)
    }

    pub fn number(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_hash_is_stable() {
        assert_eq!(Lane::of_tenant(&TenantId::default_tenant()).number(), 14);
    }

    #[test]
    fn tenants_spread_over_all_lanes() {
        let mut seen = [0u32; LANES as usize];
        for n in 0..1600 {
            let tenant = TenantId::parse(format!("tenant-{n}")).unwrap();
            seen[usize::from(Lane::of_tenant(&tenant).number())] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
    }
}
