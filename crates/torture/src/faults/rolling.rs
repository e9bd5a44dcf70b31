//! Rolling restart: every process is replaced, one after another, under load. No other fault is active
//! meanwhile, so that a request that failed at both ingresses is due to the restart.

use std::time::Duration;

use super::{FaultEffect, FaultGround, processes};
use crate::check::{TortureCheck, TortureViolation};

/// Minimum ready time of a process before the next one is replaced.
const MINIMUM_READY: Duration = Duration::from_millis(500);

pub(super) async fn restart_fleet(ground: &FaultGround<'_>) -> FaultEffect {
    // Earlier disturbances must be over: the ingresses are ready, and no client is retrying.
    for ingress in &ground.stage.ingresses {
        ground.stage.until_ready(ingress).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = ground.record.post_tries();
    let mut restarted = 0;
    for process in ground.stage.ingresses.iter().chain(&ground.stage.workers) {
        let _busy = process.busy.lock().await;
        let old = process.pid();
        process.ask_to_end();
        for _ in 0..1_200 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            if process.is_running() && process.pid() != old {
                break;
            }
        }
        processes::until_started(process).await?;
        if process.pid() == old {
            return Err(format!("{} did not end when it was asked to", process.name));
        }
        ground.stage.until_ready(process).await;
        // As in a real rollout: rejected clients must have returned before the next process is replaced.
        tokio::time::sleep(MINIMUM_READY).await;
        restarted += 1;
    }
    let after = ground.record.post_tries();
    let stranded = after.stranded - before.stranded;
    if stranded > 0 {
        ground.record_violation(TortureViolation::new_violation(
            TortureCheck::Rolling,
            "fleet",
            format!("{stranded} posts failed at both doors while one process at a time was replaced"),
        ));
    }
    Ok(format!(
        "{restarted} processes were replaced; of {} requests {} had to go to the other door and {stranded} failed",
        after.requests - before.requests,
        (after.unanswered + after.put_off) - (before.unanswered + before.put_off),
    ))
}
