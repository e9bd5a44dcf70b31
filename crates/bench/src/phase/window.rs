//! The measured window of a run: all counters and clocks are read before and after it.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::batches::{BatchStatistics, HistogramReading};
use crate::completion::CompletionCourse;
use crate::cost::WorkCost;
use crate::error::{BenchError, BenchResult};
use crate::generator::SentLoad;
use crate::redis_server::RedisFacts;
use crate::report::{CoursePoint, RunReport};
use crate::target::{EngineStorage, EngineUnderTest};
use crate::usage::{CpuMeter, GENERATOR, RoleUsage, as_f64, other_cpu_seconds};
use crate::world::BenchWorld;
use crate::{postgres, sqlite};

/// Readings at the beginning.
#[derive(Debug)]
pub(super) struct MeasuredWindow {
    meter: CpuMeter,
    redis: Option<RedisFacts>,
    size: Option<u64>,
    batches: HistogramReading,
}

/// Differences over the window.
#[derive(Debug)]
pub(super) struct WindowUsage {
    pub(super) roles: Vec<RoleUsage>,
    /// CPU seconds used by other programs.
    pub(super) others_seconds: Option<f64>,
    pub(super) database_bytes_per_event: Option<f64>,
    pub(super) batches: BTreeMap<String, BatchStatistics>,
    redis_before: Option<u64>,
    redis_after: Option<u64>,
}

impl MeasuredWindow {
    pub(super) async fn open_window(world: &BenchWorld, subject: &mut EngineUnderTest) -> BenchResult<Self> {
        let (size, batches) =
            (storage_size(&subject.database).await?, HistogramReading::read_engine(subject).await?);
        let (meter, redis) = world.read_meter(&subject.roles()).await?;
        Ok(Self { meter, redis, size, batches })
    }

    /// For an engine that starts with the measurement: its counters and clocks are zero.
    pub(super) async fn from_zero(world: &BenchWorld, subject: &EngineUnderTest) -> BenchResult<Self> {
        let (meter, redis) = world.read_meter(&[]).await?;
        Ok(Self {
            meter,
            redis,
            size: storage_size(&subject.database).await?,
            batches: HistogramReading::default(),
        })
    }

    /// Reads everything again, after this number of events.
    pub(super) async fn usage_since_open(
        self,
        world: &BenchWorld,
        subject: &mut EngineUnderTest,
        events: usize,
    ) -> BenchResult<WindowUsage> {
        let (meter, redis) = world.read_meter(&subject.roles()).await?;
        let batches = HistogramReading::read_engine(subject).await?.since(&self.batches);
        let size = storage_size(&subject.database).await?;
        Ok(WindowUsage {
            roles: meter.usage_since(&self.meter, events),
            others_seconds: other_cpu_seconds(&meter, &self.meter),
            database_bytes_per_event: per_event(self.size, size, events),
            batches,
            redis_before: self.redis.map(|facts| facts.used_memory),
            redis_after: redis.map(|facts| facts.used_memory),
        })
    }

    /// Reads everything again. `began` is the start of the clock.
    pub(super) async fn close_window(
        self,
        world: &BenchWorld,
        subject: &mut EngineUnderTest,
        sent: &SentLoad,
        quiet: &CompletionCourse,
        began: Instant,
    ) -> BenchResult<RunReport> {
        let spent = self.usage_since_open(world, subject, sent.accepted).await?;
        let ended = quiet.at.ok_or_else(|| {
            BenchError::Wrong("no progress, and the store still has unfinished work".to_owned())
        })?;
        let submit_seconds = (sent.ended - sent.began).as_secs_f64();
        let end_to_end_seconds = (ended - began).as_secs_f64();
        Ok(RunReport {
            events: sent.accepted,
            executions: 0,
            submit_seconds,
            submit_per_second: per_second(sent.accepted, submit_seconds),
            submit_latency: sent.latencies.percentiles(),
            pushed_back: sent.pushed_back,
            end_to_end_seconds,
            end_to_end_per_second: per_second(sent.accepted, end_to_end_seconds),
            cores_taken_by_others: spent.others_seconds.map(|seconds| seconds / end_to_end_seconds),
            cpu_micros_per_event: spent.cpu_micros_per_event(|role| role != GENERATOR),
            database_bytes_per_event: spent.database_bytes_per_event,
            redis_used_memory_before: spent.redis_before,
            redis_used_memory_after: spent.redis_after,
            redis_bytes_per_event: per_event(spent.redis_before, spent.redis_after, sent.accepted),
            roles: spent.roles,
            batches: spent.batches,
            history: None,
            course: course_points(sent, quiet, began),
        })
    }
}

impl WindowUsage {
    /// Cost per unit of work over this number of seconds. The usage of an engine that was not started here is
    /// unknown.
    pub(super) fn work_cost(self, engine: &[String], seconds: f64) -> WorkCost {
        let cpu = |of: &dyn Fn(&str) -> bool| (!engine.is_empty()).then(|| self.cpu_micros_per_event(of));
        WorkCost {
            engine_cpu_micros: cpu(&|role| engine.iter().any(|own| own == role)),
            cpu_micros: cpu(&|role| role != GENERATOR),
            cores_taken_by_others: self.others_seconds.map(|others| others / seconds),
            database_bytes: self.database_bytes_per_event,
            roles: self.roles,
            batches: self.batches,
        }
    }

    /// Sum over the roles with these names.
    pub(super) fn cpu_micros_per_event(&self, of: impl Fn(&str) -> bool) -> f64 {
        self.roles.iter().filter(|role| of(&role.role)).map(|role| role.cpu_micros_per_event).sum()
    }
}

fn per_event(before: Option<u64>, after: Option<u64>, events: usize) -> Option<f64> {
    let (before, after) = (as_f64(before? as usize), as_f64(after? as usize));
    Some((after - before) / as_f64(events.max(1)))
}

/// 0 for zero events.
pub(super) fn per_second(events: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { as_f64(events) / seconds } else { 0.0 }
}

async fn storage_size(data: &EngineStorage) -> BenchResult<Option<u64>> {
    match data {
        EngineStorage::Postgres { url } => postgres::database_size(url).await.map(Some),
        EngineStorage::Sqlite { file } => Ok(Some(sqlite::file_size(file))),
        EngineStorage::Unknown => Ok(None),
    }
}

fn course_points(sent: &SentLoad, quiet: &CompletionCourse, began: Instant) -> Vec<CoursePoint> {
    let accepted = sent.course.iter().map(|(seconds, accepted)| CoursePoint {
        seconds: *seconds,
        accepted: Some(*accepted),
        decided: None,
    });
    let decided = quiet.course.iter().filter(|(at, _)| *at >= began).map(|(at, counters)| CoursePoint {
        seconds: (*at - began).as_secs_f64(),
        accepted: None,
        decided: Some(counters.decided),
    });
    accepted.chain(decided).collect()
}
