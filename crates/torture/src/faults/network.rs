//! Network faults between two processes.

use std::time::{Duration, Instant};

use millstream_testkit::TestProxy;
use millstream_testkit::proxy::NetworkWeather;

use super::inject::random_duration;
use super::{FaultEffect, FaultGround};
use crate::chance::TortureRandom;
use crate::fault_kind::FaultKind;

pub(super) async fn change_weather(
    kind: FaultKind,
    ground: &FaultGround<'_>,
    chance: &mut TortureRandom,
) -> FaultEffect {
    let links = proxied_links(ground);
    let (name, proxy) = chance.pick(&links);
    let length = random_duration(chance, 600, 3_500);
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the four kinds of this lane, and what they have in common"
    )]
    let weather = match kind {
        FaultKind::NetSlow => NetworkWeather::Slow(Duration::from_millis(20 + chance.below(300))),
        FaultKind::NetHalfOpen => NetworkWeather::Deaf,
        FaultKind::NetReset => NetworkWeather::Cut,
        _ => NetworkWeather::Stalled,
    };
    let (from, before) = (Instant::now(), proxy.totals_so_far());
    proxy.set_weather(weather);
    tokio::time::sleep(length).await;
    let during = proxy.totals_so_far();
    proxy.set_weather(NetworkWeather::Clear);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = proxy.totals_so_far();
    if std::ptr::eq(*proxy, &ground.stage.sink_network) {
        ground.delayed_since(from);
    }
    let seen = match weather {
        NetworkWeather::Slow(delay) => {
            nothing_or(during.delayed - before.delayed, &format!("chunks came {delay:?} late"))
        }
        NetworkWeather::Deaf => nothing_or(during.swallowed - before.swallowed, "bytes were swallowed"),
        NetworkWeather::Cut => nothing_or(during.reset - before.reset, "connections were reset"),
        NetworkWeather::Stalled | NetworkWeather::Clear => {
            // Stalled bytes arrive as soon as the weather clears.
            nothing_or(after.passed - during.passed, "bytes came through only when it was over")
        }
    };
    seen.map(|what| format!("{name} for {length:.1?}: {what}")).map_err(|why| format!("{name}: {why}"))
}

fn nothing_or(count: u64, what: &str) -> FaultEffect {
    if count == 0 { Err("no bytes were on their way".to_owned()) } else { Ok(format!("{count} {what}")) }
}

/// Every pair of communicating processes.
fn proxied_links<'a>(ground: &'a FaultGround<'_>) -> Vec<(String, &'a TestProxy)> {
    let mut links = vec![("workers → target".to_owned(), &ground.stage.sink_network)];
    for process in ground.stage.processes() {
        links.push((format!("{} → postgres", process.name), &process.postgres));
        links.push((format!("{} → redis", process.name), &process.redis));
        if let Some(front) = &process.front {
            links.push((format!("clients → {}", process.name), front));
        }
    }
    links
}
