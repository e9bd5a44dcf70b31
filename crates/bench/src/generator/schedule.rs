//! Schedule of an open loop, and a thread that keeps to it.
//!
//! The runtime's timers tick in milliseconds, the scale of the measured latencies. A sleeping thread is late
//! by its timer slack, fifty microseconds unless it requests less.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::error::{BenchError, BenchResult};

/// `count` requests at equal intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadSchedule {
    began: Instant,
    per_second: f64,
    count: usize,
}

impl LoadSchedule {
    pub(crate) fn new(began: Instant, per_second: f64, count: usize) -> BenchResult<Self> {
        if !per_second.is_finite() || per_second <= 0.0 {
            return Err(BenchError::Usage(format!("{per_second} events per second is not a rate")));
        }
        Ok(Self { began, per_second, count })
    }

    /// Due time of the request of this number. Multiplied, not accumulated: no error adds up.
    pub(crate) fn due_time(&self, number: usize) -> Instant {
        self.began + Duration::from_secs_f64(crate::usage::as_f64(number) / self.per_second)
    }

    /// Sends each number at its due time. A late one is sent at once, not left out.
    pub(super) fn send_due_numbers(self, due: &mpsc::UnboundedSender<usize>) {
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_timerslack(1);
        for number in 0..self.count {
            let wait = self.due_time(number).saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            if due.send(number).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_accumulates_no_error() {
        let began = Instant::now();
        let schedule = LoadSchedule::new(began, 3.0, 10).unwrap();
        assert_eq!(schedule.due_time(0), began);
        assert_eq!(schedule.due_time(3_000_000), began + Duration::from_secs(1_000_000));
        assert!(schedule.due_time(1) > began && schedule.due_time(2) > schedule.due_time(1));
    }

    #[test]
    fn late_requests_are_still_sent() {
        let (sender, mut due) = mpsc::unbounded_channel();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        LoadSchedule::new(long_ago, 1000.0, 50).unwrap().send_due_numbers(&sender);
        drop(sender);
        let sent: Vec<usize> = std::iter::from_fn(|| due.try_recv().ok()).collect();
        assert_eq!(sent, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn load_rate_must_be_positive() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LoadSchedule::new(Instant::now(), rate, 1).is_err(), "{rate}");
        }
    }
}
