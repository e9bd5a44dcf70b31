//! Maps the name of an attack to its implementation.

use super::{AttackScene, anonymous_calls, bodies, definitions, idle_connections, noise, quota, waiting};
use crate::neighbours::attack::NeighbourAttack;

/// Performs the attack until its time is over. All its connections are closed when this returns.
pub(in crate::neighbours) async fn perform_attack(attack: NeighbourAttack, scene: &AttackScene) {
    match attack {
        NeighbourAttack::None => scene.sleep_until_over().await,
        NeighbourAttack::Paths => anonymous_calls::send_paths(scene).await,
        NeighbourAttack::IdleHttp2 => idle_connections::open_idle_connections(scene).await,
        NeighbourAttack::EmptyCalls => anonymous_calls::open_empty_calls(scene).await,
        NeighbourAttack::HealthWatches => anonymous_calls::open_health_watches(scene).await,
        NeighbourAttack::UnknownKeys => anonymous_calls::guess_keys(scene).await,
        NeighbourAttack::SlowBodies => bodies::send_slow_bodies(scene).await,
        NeighbourAttack::Tails => waiting::open_tails(scene).await,
        NeighbourAttack::LongPolls => waiting::open_long_polls(scene).await,
        NeighbourAttack::Expressions => definitions::evaluate_hostile_expressions(scene).await,
        NeighbourAttack::SelfStart => definitions::start_recursively(scene).await,
        NeighbourAttack::TarpitActions => definitions::call_tarpit(scene).await,
        NeighbourAttack::AtQuota => quota::work_at_quota(scene).await,
        NeighbourAttack::Burst => noise::send_burst(scene).await,
        NeighbourAttack::BurstWithFaults => noise::burst_with_faults(scene).await,
    }
}
