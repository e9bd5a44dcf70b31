//! Line benchmark: the line is filled once, then people ask at a set rate, in each kind of request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use millstream_core::time::Timestamp;
use serde::Deserialize;

use super::watched::watched;
use crate::calls::CallFigure;
use crate::error::{BenchError, Result};
use crate::generator::{self, Pace, on_own_thread};
use crate::line::{self, Asking, Callers, Line, LineFigure, LineReport, Shape};
use crate::lists::{nothing_wrong, read};
use crate::target::{Data, Subject, Workers};
use crate::usage::others;
use crate::workload::Hands;
use crate::world::World;

/// Requests before the measured ones.
const WARMUP: usize = 100;
/// The people who have had the head are few and their requests are sequential: a lower rate.
const SLOWER: f64 = 10.0;
/// People per item.
const MOST_PER_ITEM: usize = 2;

pub(crate) async fn measure(world: &World, wanted: &Line) -> Result<LineReport> {
    let start = world.new_run(Hands::Engine);
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = course(world, wanted, &mut subject).await;
    world.finish(subject, outcome).await
}

async fn course(world: &World, wanted: &Line, subject: &mut Subject) -> Result<LineReport> {
    let Data::Postgres { url } = subject.database.clone() else {
        return Err(BenchError::Wrong("a line needs PostgreSQL".to_owned()));
    };
    let (shape, began) = (Shape { items: wanted.items }, Instant::now());
    let bar = world.plan.progress.bar("fill the line", wanted.items);
    line::fill(subject.front(), &url, shape, now()).await?;
    drop(bar);
    let fill_seconds = began.elapsed().as_secs_f64();

    let mut given = Vec::new();
    let pace = Pace { per_second: wanted.per_second, count: WARMUP };
    ask(world, subject, (shape, Asking::OneQueue), pace, &mut given).await?;
    let ((before, _), began) = (world.meter(&subject.roles()).await?, Instant::now());
    let mut figures = Vec::new();
    for asking in Asking::ALL {
        let pace = match asking {
            Asking::OneQueue | Asking::AllQueues => {
                Pace { per_second: wanted.per_second, count: wanted.calls() }
            }
            Asking::AfterTheHead => {
                line::bar_from_the_head(&url, shape, &Shape::all_rounders()).await?;
                Pace { per_second: wanted.per_second / SLOWER, count: wanted.calls().div_ceil(10) }
            }
        };
        figures.push(ask(world, subject, (shape, asking), pace, &mut given).await?);
    }
    let (after, _) = world.meter(&subject.roles()).await?;
    let cores_taken_by_others =
        others(&after, &before).map(|seconds| seconds / began.elapsed().as_secs_f64());
    verify(subject, &given).await?;
    Ok(LineReport { items: wanted.items, fill_seconds, figures, cores_taken_by_others })
}

/// Creation time of the items of the line.
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0))
}

async fn ask(
    world: &World,
    subject: &mut Subject,
    (shape, asking): (Shape, Asking),
    pace: Pace,
    all: &mut Vec<(usize, usize)>,
) -> Result<LineFigure> {
    let (bar, done) = (world.plan.progress.bar(asking.words(), pace.count), AtomicUsize::new(0));
    let (address, callers) = (subject.address.clone(), Callers::of(shape, asking));
    let asking_them = on_own_thread(move || generator::open(address, callers, pace));
    let (opened, callers) = watched(subject, (&bar, &done), asking_them).await?;
    let (given, nothing) = (callers.given.into_inner(), callers.nothing.get());
    if nothing > 0 && shape.suffices() {
        return Err(BenchError::Wrong(format!(
            "{}: {nothing} of {} requests got no item, with {} items in line",
            asking.words(),
            pace.count,
            shape.items
        )));
    }
    let figure = LineFigure {
        per_second: pace.per_second,
        asked: CallFigure::of(asking.words(), &opened.sent.latencies),
        given: given.len(),
        nothing,
        pushed_back: opened.sent.pushed_back,
        send_delay_p50_ms: opened.delay.percentiles().p50_ms,
    };
    all.extend(given);
    Ok(figure)
}

#[derive(Debug, Deserialize)]
struct Stats {
    items: Vec<Totals>,
}

#[derive(Debug, Deserialize)]
struct Totals {
    pending: usize,
    in_progress: usize,
    completed: usize,
}

/// Verifies that a person had no item twice, no item went to more people than it needs, and every assignment
/// is completed.
async fn verify(subject: &mut Subject, given: &[(usize, usize)]) -> Result<()> {
    judge(given).map_err(|text| BenchError::Wrong(format!("the line: {text}")))?;
    let path = "/v1/queue_stats?by=queue";
    let stats: Stats = read(path, &subject.front().get(path).await?)?;
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

fn judge(given: &[(usize, usize)]) -> std::result::Result<(), String> {
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
    let barred = by_item.iter().filter(|(item, people)| people.iter().eq([&Shape::barred(**item)]));
    wrong.extend(
        barred.map(|(item, people)| format!("i-{item} was given to {people:?}, who may not have it")),
    );
    wrong.extend(too_often.map(|(item, people)| format!("i-{item} was given to {} people", people.len())));
    nothing_wrong(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_goes_to_two_different_people_at_the_most() {
        assert_eq!(judge(&[(1, 1), (1, 2), (2, 1)]), Ok(()));
        assert!(judge(&[(1, 1), (1, 1)]).unwrap_err().contains("i-1 was given to p1 twice"));
        let barred = Shape::barred(1);
        assert!(judge(&[(1, barred)]).unwrap_err().contains("who may not have it"));
        assert_eq!(judge(&[(1, barred + 1), (1, barred)]), Ok(()), "it was given before");
        assert!(judge(&[(1, 1), (1, 2), (1, 3)]).unwrap_err().contains("i-1 was given to 3 people"));
    }
}
