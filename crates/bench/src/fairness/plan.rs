//! Size of the backlog, and names of the tenants.

use millstream_model::id::TenantId;
use millstream_model::lane::Lane;

use super::report::LaneChoice;
use crate::error::{BenchError, BenchResult};
use crate::plan::BenchTarget;

/// The tenant with the backlog.
pub(crate) const BUSY: &str = "busy";

/// What `millstream bench fairness` measures.
#[derive(Debug, Clone)]
pub struct FairnessBench {
    /// Waiting events of the busy tenant, and the same number of HTTP actions.
    pub backlog: usize,
    /// Events that the quiet tenant sends on an idle engine.
    pub idle: usize,
}

impl FairnessBench {
    pub(crate) fn validate_plan(&self, target: &BenchTarget) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !matches!(target, BenchTarget::Fleet { .. }) {
            return usage(
                "fairness is about tenants, and the bench stops the workers for it: it needs --fleet N",
            );
        }
        if !(1..=10_000_000).contains(&self.backlog) {
            return usage("--backlog: between 1 and 10,000,000");
        }
        if !(1..=100_000).contains(&self.idle) {
            return usage("--idle: between 1 and 100,000");
        }
        Ok(())
    }
}

/// Name of a tenant that shares the lane of the busy one, or of one that does not.
pub(crate) fn quiet_tenant(lane: LaneChoice) -> BenchResult<String> {
    let lane_of = |name: &str| TenantId::parse(name).map(|tenant| Lane::of_tenant(&tenant)).ok();
    let busy = lane_of(BUSY);
    (0..1_000)
        .map(|number| format!("quiet-{number}"))
        .find(|name| match lane {
            LaneChoice::Same => lane_of(name) == busy,
            LaneChoice::Other => lane_of(name) != busy,
        })
        .ok_or_else(|| BenchError::Wrong("no tenant has such a lane".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_tenant_has_requested_lane() {
        let lane = |name: &str| Lane::of_tenant(&TenantId::parse(name).unwrap());
        assert_eq!(lane(&quiet_tenant(LaneChoice::Same).unwrap()), lane(BUSY));
        assert_ne!(lane(&quiet_tenant(LaneChoice::Other).unwrap()), lane(BUSY));
    }
}
