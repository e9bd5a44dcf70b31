//! Maps the name of an attack to its implementation.

use super::{AttackScene, anonymous_calls, bodies, definitions, idle_connections, noise, quota, waiting};
use crate::neighbours::attack::Attack;

/// Performs the attack until its time is over. All its connections are closed when this returns.
pub(in crate::neighbours) async fn perform(attack: Attack, scene: &AttackScene) {
    match attack {
        Attack::None => scene.sleep_until_over().await,
        Attack::Paths => anonymous_calls::send_paths(scene).await,
        Attack::IdleHttp2 => idle_connections::open_idle_connections(scene).await,
        Attack::EmptyCalls => anonymous_calls::open_empty_calls(scene).await,
        Attack::HealthWatches => anonymous_calls::open_health_watches(scene).await,
        Attack::UnknownKeys => anonymous_calls::guess_keys(scene).await,
        Attack::SlowBodies => bodies::send_slow_bodies(scene).await,
        Attack::Tails => waiting::open_tails(scene).await,
        Attack::LongPolls => waiting::open_long_polls(scene).await,
        Attack::Expressions => definitions::evaluate_hostile_expressions(scene).await,
        Attack::SelfStart => definitions::start_recursively(scene).await,
        Attack::TarpitActions => definitions::call_tarpit(scene).await,
        Attack::AtQuota => quota::work_at_quota(scene).await,
        Attack::Burst => noise::burst(scene).await,
        Attack::BurstWithFaults => noise::burst_with_faults(scene).await,
    }
}
