//! Line benchmark: the line is filled once, then people ask at a set rate, in each kind of request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use millstream_model::time::Timestamp;
use serde::Deserialize;

use super::watched::run_watched;
use crate::calls::CallFigure;
use crate::error::{BenchError, BenchResult};
use crate::generator::{self, LoadPace, on_own_thread};
use crate::line::{self, LineBench, LineCallers, LineFigure, LineQuestion, LineReport, LineShape};
use crate::lists::{check_deviations, parse_answer};
use crate::target::{EngineStorage, EngineUnderTest, WorkerStart};
use crate::usage::other_cpu_seconds;
use crate::workload::ActionPerformers;
use crate::world::BenchWorld;

/// Requests before the measured ones.
const WARMUP: usize = 100;
/// The people who have had the head are few and their requests are sequential: a lower rate.
const SLOWER: f64 = 10.0;
/// People per item.
const MOST_PER_ITEM: usize = 2;

pub(crate) async fn measure_line(world: &BenchWorld, wanted: &LineBench) -> BenchResult<LineReport> {
    let start = world.new_run(ActionPerformers::Engine);
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = run_line(world, wanted, &mut subject).await;
    world.finish_run(subject, outcome).await
}

async fn run_line(
    world: &BenchWorld,
    wanted: &LineBench,
    subject: &mut EngineUnderTest,
) -> BenchResult<LineReport> {
    let EngineStorage::Postgres { url } = subject.database.clone() else {
        return Err(BenchError::Wrong("a line needs PostgreSQL".to_owned()));
    };
    let (shape, began) = (LineShape { items: wanted.items }, Instant::now());
    let bar = world.plan.progress.start_bar("fill the line", wanted.items);
    line::fill_line(subject.front_connection(), &url, shape, creation_time()).await?;
    drop(bar);
    let fill_seconds = began.elapsed().as_secs_f64();

    let mut given = Vec::new();
    let pace = LoadPace { per_second: wanted.per_second, count: WARMUP };
    ask_at_rate(world, subject, (shape, LineQuestion::OneQueue), pace, &mut given).await?;
    let ((before, _), began) = (world.read_meter(&subject.roles()).await?, Instant::now());
    let mut figures = Vec::new();
    for asking in LineQuestion::ALL {
        let pace = match asking {
            LineQuestion::OneQueue | LineQuestion::AllQueues => {
                LoadPace { per_second: wanted.per_second, count: wanted.call_count() }
            }
            LineQuestion::AfterTheHead => {
                line::bar_from_the_head(&url, shape, &LineShape::all_rounders()).await?;
                LoadPace { per_second: wanted.per_second / SLOWER, count: wanted.call_count().div_ceil(10) }
            }
        };
        figures.push(ask_at_rate(world, subject, (shape, asking), pace, &mut given).await?);
    }
    let (after, _) = world.read_meter(&subject.roles()).await?;
    let cores_taken_by_others =
        other_cpu_seconds(&after, &before).map(|seconds| seconds / began.elapsed().as_secs_f64());
    verify_line(subject, &given).await?;
    Ok(LineReport { items: wanted.items, fill_seconds, figures, cores_taken_by_others })
}

/// Creation time of the items of the line.
fn creation_time() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0))
}

async fn ask_at_rate(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    (shape, asking): (LineShape, LineQuestion),
    pace: LoadPace,
    all: &mut Vec<(usize, usize)>,
) -> BenchResult<LineFigure> {
    let (bar, done) = (world.plan.progress.start_bar(asking.label_words(), pace.count), AtomicUsize::new(0));
    let (address, callers) = (subject.address.clone(), LineCallers::for_shape(shape, asking));
    let asking_them = on_own_thread(move || generator::run_open_loop(address, callers, pace));
    let (opened, callers) = run_watched(subject, (&bar, &done), asking_them).await?;
    let (given, nothing) = (callers.given.into_inner(), callers.nothing.get());
    if nothing > 0 && shape.is_long_enough() {
        return Err(BenchError::Wrong(format!(
            "{}: {nothing} of {} requests got no item, with {} items in line",
            asking.label_words(),
            pace.count,
            shape.items
        )));
    }
    let figure = LineFigure {
        per_second: pace.per_second,
        asked: CallFigure::from_latencies(asking.label_words(), &opened.sent.latencies),
        given: given.len(),
        nothing,
        pushed_back: opened.sent.pushed_back,
        send_delay_p50_ms: opened.delay.percentiles().p50_ms,
    };
    all.extend(given);
    Ok(figure)
}

#[derive(Debug, Deserialize)]
struct LineStats {
    items: Vec<LineTotals>,
}

#[derive(Debug, Deserialize)]
struct LineTotals {
    pending: usize,
    in_progress: usize,
    completed: usize,
}

/// Verifies that a person had no item twice, no item went to more people than it needs, and every assignment
/// is completed.
async fn verify_line(subject: &mut EngineUnderTest, given: &[(usize, usize)]) -> BenchResult<()> {
    judge_assignments(given).map_err(|text| BenchError::Wrong(format!("the line: {text}")))?;
    let path = "/v1/queue_stats?by=queue";
    let stats: LineStats = parse_answer(path, &subject.front_connection().get(path).await?)?;
    let completed: usize = stats.items.iter().map(|queue| queue.completed).sum();
    let open: usize = stats.items.iter().map(|queue| queue.pending + queue.in_progress).sum();
    if (completed, open) == (given.len(), 0) {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "the line: {} assignments were given and handed in; the totals say {completed} completed, {open} open",
        given.len()
    )))
}

fn judge_assignments(given: &[(usize, usize)]) -> std::result::Result<(), String> {
    let mut by_item: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (item, person) in given {
        if !by_item.entry(*item).or_default().insert(*person) {
            wrong.push(format!("i-{item} was given to p{person} twice"));
        }
    }
    let too_often = by_item.iter().filter(|(_, people)| people.len() > MOST_PER_ITEM);
    // The barred people of an item are recorded in the line alone, and each assignment of the item overwrites
    // that record. Only the first person of an item has certainly been checked against it.
    let barred =
        by_item.iter().filter(|(item, people)| people.iter().eq([&LineShape::barred_person(**item)]));
    wrong.extend(
        barred.map(|(item, people)| format!("i-{item} was given to {people:?}, who may not have it")),
    );
    wrong.extend(too_often.map(|(item, people)| format!("i-{item} was given to {} people", people.len())));
    check_deviations(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_item_goes_to_two_people() {
        assert_eq!(judge_assignments(&[(1, 1), (1, 2), (2, 1)]), Ok(()));
        assert!(judge_assignments(&[(1, 1), (1, 1)]).unwrap_err().contains("i-1 was given to p1 twice"));
        let barred = LineShape::barred_person(1);
        assert!(judge_assignments(&[(1, barred)]).unwrap_err().contains("who may not have it"));
        assert_eq!(judge_assignments(&[(1, barred + 1), (1, barred)]), Ok(()), "it was given before");
        assert!(
            judge_assignments(&[(1, 1), (1, 2), (1, 3)]).unwrap_err().contains("i-1 was given to 3 people")
        );
    }
}
