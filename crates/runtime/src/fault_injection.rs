//! Fault injection for tests: crash points, crashes on an event, planted bugs, clock jumps, a claimed
//! release. Only builds with debug assertions obey. Other builds refuse to start: a test must not pass
//! because its fault was ignored.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use millstream_model::crash::CrashPoint;
use millstream_model::duration;
use millstream_model::id::Name;
use millstream_model::mutation::{self, Mutation};
use millstream_store::clock::{Clock, StoreClock};
use millstream_store::schema::Release;
use tokio::signal::unix::{SignalKind, signal};

const CRASH_AT: &str = "MILLSTREAM_CRASH_AT";
const CRASH_ON: &str = "MILLSTREAM_CRASH_ON";
const PLANT: &str = "MILLSTREAM_PLANT";
const CLOCK_JUMP: &str = "MILLSTREAM_CLOCK_JUMP";
const RELEASE: &str = "MILLSTREAM_RELEASE";

/// Environment variables that are not settings.
pub const NAMES: &[&str] = &[CRASH_AT, CRASH_ON, PLANT, CLOCK_JUMP, RELEASE];

/// The crash point at which this process dies, the first time that it is reached.
pub fn crash_point() -> Result<Option<CrashPoint>> {
    let Some(name) = drill_setting(CRASH_AT)? else { return Ok(None) };
    match CrashPoint::parse(&name) {
        Some(point) => Ok(Some(point)),
        None => bail!("{CRASH_AT}: there is no crash point {name:?}"),
    }
}

/// The event that kills the worker that is about to decide it.
pub fn crash_on() -> Result<Option<Name>> {
    let Some(name) = drill_setting(CRASH_ON)? else { return Ok(None) };
    Name::parse(&name).map(Some).map_err(|error| anyhow!("{CRASH_ON}: {error}"))
}

/// Plants the requested bug; called before any other part of the process is created.
pub fn plant_bug() -> Result<()> {
    let Some(name) = drill_setting(PLANT)? else { return Ok(()) };
    let Some(bug) = Mutation::parse(&name) else { bail!("{PLANT}: there is no bug {name:?}") };
    mutation::activate_mutation(bug);
    Ok(())
}

/// The release that this process claims in comparisons with the release in the database.
pub fn claimed_release() -> Result<Release> {
    let Some(text) = drill_setting(RELEASE)? else { return Ok(Release::OURS) };
    Release::parse(&text).ok_or_else(|| anyhow!("{RELEASE}: {text:?} is no release"))
}

/// Catches SIGUSR2 from the start: before [`jumping_clock`] listens, its default action would end the
/// process.
pub fn expect_clock_signals() -> Result<()> {
    if drill_setting(CLOCK_JUMP)?.is_some() {
        // The handler stays installed after the stream is dropped.
        drop(signal(SignalKind::user_defined2()).context("cannot listen for signals")?);
    }
    Ok(())
}

/// Moves the clock at every SIGUSR2 by the given duration: forth first, then back, and so on. The clock duty,
/// which measures the store's time, corrects it.
pub fn jumping_clock(clock: &Arc<StoreClock>) -> Result<()> {
    let Some(text) = drill_setting(CLOCK_JUMP)? else { return Ok(()) };
    let jump = duration::parse(&text).map_err(|error| anyhow!("{CLOCK_JUMP}: {error}"))?;
    let mut told = signal(SignalKind::user_defined2()).context("cannot listen for signals")?;
    let clock = Arc::clone(clock);
    tokio::spawn(async move {
        let mut forth = true;
        while told.recv().await.is_some() {
            let now = clock.now();
            clock.adjust(if forth { now.plus(jump) } else { now.minus(jump) }, Duration::ZERO);
            tracing::warn!(forth, jump = ?jump, "the clock of this process jumps");
            forth = !forth;
        }
    });
    Ok(())
}

fn drill_setting(name: &str) -> Result<Option<String>> {
    let Ok(value) = std::env::var(name) else { return Ok(None) };
    if !cfg!(debug_assertions) {
        bail!("{name} is set, but fault injection needs a build with debug assertions");
    }
    Ok(Some(value))
}
