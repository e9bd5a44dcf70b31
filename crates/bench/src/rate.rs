//! Rates at which latency is measured: events per second, or a fraction of the engine's capacity.

use serde::Serialize;

use crate::error::{BenchError, BenchResult};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadRate {
    PerSecond(f64),
    /// Fraction of the measured capacity, between 0 and 1.
    OfCapacity(f64),
}

impl LoadRate {
    /// A comma-separated list like `100,50%`.
    pub fn parse_list(text: &str) -> BenchResult<Vec<Self>> {
        let rates: Vec<Self> = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(Self::parse)
            .collect::<BenchResult<_>>()?;
        if rates.is_empty() { Err(invalid_rate(text)) } else { Ok(rates) }
    }

    fn parse(word: &str) -> BenchResult<Self> {
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        match word.strip_suffix('%') {
            Some(percent) => number(percent)
                .filter(|percent| *percent <= 100.0)
                .map(|percent| Self::OfCapacity(percent / 100.0))
                .ok_or_else(|| invalid_rate(word)),
            None => number(word)
                .filter(|rate| *rate <= 100_000.0)
                .map(Self::PerSecond)
                .ok_or_else(|| invalid_rate(word)),
        }
    }

    /// Events per second for the given capacity of the engine.
    pub(crate) fn per_second(self, capacity: f64) -> f64 {
        match self {
            Self::PerSecond(rate) => rate,
            Self::OfCapacity(part) => (capacity * part).max(1.0),
        }
    }

    pub(crate) fn needs_capacity(self) -> bool {
        match self {
            Self::PerSecond(_) => false,
            Self::OfCapacity(_) => true,
        }
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::PerSecond(rate) => format!("{rate}/s"),
            Self::OfCapacity(part) => format!("{:.0} % of capacity", part * 100.0),
        }
    }
}

fn invalid_rate(word: &str) -> BenchError {
    BenchError::Usage(format!(
        "--rate: {word:?} is neither a number of events per second nor a part of the capacity like 50%"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_or_parts() {
        assert_eq!(
            LoadRate::parse_list("100, 50%").unwrap(),
            [LoadRate::PerSecond(100.0), LoadRate::OfCapacity(0.5)]
        );
        for text in ["", "fast", "0", "-1", "150%", "0%", "1e9", "NaN", "inf", "%"] {
            assert!(LoadRate::parse_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn capacity_fraction_is_at_least_one() {
        assert_eq!(LoadRate::OfCapacity(0.5).per_second(8000.0), 4000.0);
        assert_eq!(LoadRate::OfCapacity(0.5).per_second(0.0), 1.0);
        assert_eq!(LoadRate::PerSecond(7.0).per_second(8000.0), 7.0);
    }
}
