//! Counters of the generator: answers, latencies, and accepted events over time.

use std::time::{Duration, Instant};

use crate::error::{BenchError, BenchResult};
use crate::latency::LatencyHistogram;
use crate::wire::short_excerpt;

/// Sampling interval of the course of a run.
const BUCKET: Duration = Duration::from_millis(100);

/// Counters of a load in progress.
#[derive(Debug)]
pub(crate) struct LoadTally {
    began: Instant,
    latencies: LatencyHistogram,
    accepted: usize,
    pushed_back: usize,
    /// Accepted events per bucket.
    course: Vec<usize>,
    last: Instant,
}

/// Counters of a finished load.
#[derive(Debug, Clone)]
pub(crate) struct SentLoad {
    pub(crate) began: Instant,
    /// Time of the last answer.
    pub(crate) ended: Instant,
    pub(crate) latencies: LatencyHistogram,
    pub(crate) accepted: usize,
    /// Answers with 429 or 503 (backpressure), after which the request was sent again.
    pub(crate) pushed_back: usize,
    /// (seconds since the start, events accepted until then).
    pub(crate) course: Vec<(f64, usize)>,
}

impl LoadTally {
    pub(crate) fn new() -> BenchResult<Self> {
        let now = Instant::now();
        Ok(Self {
            began: now,
            latencies: LatencyHistogram::new()?,
            accepted: 0,
            pushed_back: 0,
            course: Vec::new(),
            last: now,
        })
    }

    /// Records `events` accepted by one answer with this latency.
    pub(crate) fn record_accepted(&mut self, events: usize, latency: Duration, at: Instant) {
        self.latencies.record(latency);
        self.accepted += events;
        self.last = at;
        let bucket =
            usize::try_from(at.duration_since(self.began).as_millis() / BUCKET.as_millis()).unwrap_or(0);
        if self.course.len() <= bucket {
            self.course.resize(bucket + 1, 0);
        }
        self.course[bucket] += events;
    }

    pub(crate) fn pushed_back(&mut self) {
        self.pushed_back += 1;
    }

    pub(crate) fn finish(self) -> SentLoad {
        let mut sum = 0;
        let course = self.course.iter().zip(1u32..).map(|(count, bucket)| {
            sum += count;
            ((BUCKET * bucket).as_secs_f64(), sum)
        });
        SentLoad {
            began: self.began,
            ended: self.last,
            course: course.collect(),
            latencies: self.latencies,
            accepted: self.accepted,
            pushed_back: self.pushed_back,
        }
    }
}

impl SentLoad {
    /// Events written to the store directly: nothing was timed.
    pub(crate) fn written_directly(events: usize, at: Instant) -> BenchResult<Self> {
        Ok(Self {
            began: at,
            ended: at,
            latencies: LatencyHistogram::new()?,
            accepted: events,
            pushed_back: 0,
            course: Vec::new(),
        })
    }
}

/// Classification of an answer to a submission.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SubmissionVerdict {
    Accepted,
    /// Backpressure: retry the same request later.
    PushedBack,
}

/// Classifies an answer; any other answer ends the run.
pub(crate) fn classify_answer(status: u16, body: &[u8]) -> BenchResult<SubmissionVerdict> {
    match status {
        // A batch is accepted as a whole, with a problem for each refused item.
        200 | 202 if !contains_bytes(body, b"\"problem\"") => Ok(SubmissionVerdict::Accepted),
        429 | 503 => Ok(SubmissionVerdict::PushedBack),
        _ => Err(BenchError::Wrong(format!(
            "an event was refused with {status}: {}",
            short_excerpt(&String::from_utf8_lossy(body))
        ))),
    }
}

fn contains_bytes(bytes: &[u8], pattern: &[u8]) -> bool {
    // The first byte is rare in the searched text: far cheaper than comparing windows.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'p') {
        if at > 0 && rest[at - 1..].starts_with(pattern) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clean_202_counts_as_accepted() {
        assert_eq!(
            classify_answer(202, b"{\"items\":[{\"event_id\":\"pp\"}]}").unwrap(),
            SubmissionVerdict::Accepted
        );
        assert_eq!(classify_answer(503, b"").unwrap(), SubmissionVerdict::PushedBack);
        assert_eq!(classify_answer(429, b"").unwrap(), SubmissionVerdict::PushedBack);
        assert!(classify_answer(202, b"{\"items\":[{\"event_id\":\"a\"},{\"problem\":{}}]}").is_err());
        assert!(classify_answer(422, b"{}").is_err());
    }

    #[test]
    fn the_course_adds_up() {
        let mut tally = LoadTally::new().unwrap();
        let began = tally.began;
        for millis in [10, 20, 350] {
            tally.record_accepted(5, Duration::from_millis(1), began + Duration::from_millis(millis));
        }
        let sent = tally.finish();
        assert_eq!(sent.course, [(0.1, 10), (0.2, 10), (0.3, 10), (0.4, 15)]);
        assert_eq!(sent.ended.duration_since(sent.began), Duration::from_millis(350));
    }
}
