//! Network faults between two processes.

use std::time::{Duration, Instant};

use millstream_testkit::Proxy;
use millstream_testkit::proxy::Weather;

use super::inject::between;
use super::{Bite, Ground};
use crate::chance::Chance;
use crate::kind::Kind;

pub(super) async fn weather(kind: Kind, ground: &Ground<'_>, chance: &mut Chance) -> Bite {
    let links = links(ground);
    let (name, proxy) = chance.pick(&links);
    let length = between(chance, 600, 3_500);
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the four kinds of this lane, and what they have in common"
    )]
    let weather = match kind {
        Kind::NetSlow => Weather::Slow(Duration::from_millis(20 + chance.below(300))),
        Kind::NetHalfOpen => Weather::Deaf,
        Kind::NetReset => Weather::Cut,
        _ => Weather::Stalled,
    };
    let (from, before) = (Instant::now(), proxy.done());
    proxy.set(weather);
    tokio::time::sleep(length).await;
    let during = proxy.done();
    proxy.set(Weather::Clear);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = proxy.done();
    if std::ptr::eq(*proxy, &ground.stage.sink_network) {
        ground.delayed_since(from);
    }
    let seen = match weather {
        Weather::Slow(delay) => {
            nothing_or(during.delayed - before.delayed, &format!("chunks came {delay:?} late"))
        }
        Weather::Deaf => nothing_or(during.swallowed - before.swallowed, "bytes were swallowed"),
        Weather::Cut => nothing_or(during.reset - before.reset, "connections were reset"),
        Weather::Stalled | Weather::Clear => {
            // Stalled bytes arrive as soon as the weather clears.
            nothing_or(after.passed - during.passed, "bytes came through only when it was over")
        }
    };
    seen.map(|what| format!("{name} for {length:.1?}: {what}")).map_err(|why| format!("{name}: {why}"))
}

fn nothing_or(count: u64, what: &str) -> Bite {
    if count == 0 { Err("no bytes were on their way".to_owned()) } else { Ok(format!("{count} {what}")) }
}

/// Every pair of communicating processes.
fn links<'a>(ground: &'a Ground<'_>) -> Vec<(String, &'a Proxy)> {
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
