//! Leader election as a deterministic order: each process computes it locally, without communication.
//!
//! The most capable member comes first; equal capability is ordered by the smallest id. There are no rounds
//! and no terms: the same member list always gives the same order.

/// A candidate of the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElectionMember<'a, Id> {
    pub id: &'a Id,
    pub capability: u64,
}

/// All members, the leader first.
pub fn election_order<'a, Id: Ord>(members: impl IntoIterator<Item = ElectionMember<'a, Id>>) -> Vec<&'a Id> {
    let mut members: Vec<ElectionMember<'a, Id>> = members.into_iter().collect();
    members.sort_by(|one, other| other.capability.cmp(&one.capability).then_with(|| one.id.cmp(other.id)));
    members.into_iter().map(|member| member.id).collect()
}

/// The leader: the first member of the order.
pub fn elect_coordinator<'a, Id: Ord>(
    members: impl IntoIterator<Item = ElectionMember<'a, Id>>,
) -> Option<&'a Id> {
    election_order(members).first().copied()
}

/// The position in an order of `of` members, scaled: the first has 1, the last 0, a single member 1.
pub fn scaled_rank(place: usize, of: usize) -> f64 {
    if of <= 1 {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "member counts stay far below 2^53")]
    let behind = place.min(of - 1) as f64 / (of - 1) as f64;
    1.0 - behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members<'a>(all: &'a [(&'static str, u64)]) -> Vec<ElectionMember<'a, &'static str>> {
        all.iter().map(|(id, capability)| ElectionMember { id, capability: *capability }).collect()
    }

    #[test]
    fn election_orders_by_capability_then_id() {
        let all = members(&[("c", 8), ("b", 16), ("a", 8), ("d", 0)]);
        assert_eq!(election_order(all.clone()), [&"b", &"a", &"c", &"d"]);
        assert_eq!(elect_coordinator(all), Some(&"b"));
        assert_eq!(elect_coordinator(members(&[])), None);
    }

    #[test]
    fn election_ignores_member_order() {
        let mut all = members(&[("x", 1), ("y", 1), ("z", 3), ("w", 2)]);
        let first = election_order(all.clone());
        for _ in 0..all.len() {
            all.rotate_left(1);
            assert_eq!(election_order(all.clone()), first);
        }
    }

    #[test]
    fn election_ranks_scale_to_zero() {
        assert_eq!([scaled_rank(0, 3), scaled_rank(1, 3), scaled_rank(2, 3)], [1.0, 0.5, 0.0]);
        assert_eq!((scaled_rank(0, 1), scaled_rank(0, 0), scaled_rank(9, 2)), (1.0, 1.0, 0.0));
    }
}
