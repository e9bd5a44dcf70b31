//! Rates at which latency is measured: events per second, or a fraction of the engine's capacity.

use serde::Serialize;

use crate::error::{BenchError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    PerSecond(f64),
    /// Fraction of the measured capacity, between 0 and 1.
    OfCapacity(f64),
}

impl Rate {
    /// A comma-separated list like `100,50%`.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let rates: Vec<Self> = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(Self::parse)
            .collect::<Result<_>>()?;
        if rates.is_empty() { Err(wrong(text)) } else { Ok(rates) }
    }

    fn parse(word: &str) -> Result<Self> {
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        match word.strip_suffix('%') {
            Some(percent) => number(percent)
                .filter(|percent| *percent <= 100.0)
                .map(|percent| Self::OfCapacity(percent / 100.0))
                .ok_or_else(|| wrong(word)),
            None => {
                number(word).filter(|rate| *rate <= 100_000.0).map(Self::PerSecond).ok_or_else(|| wrong(word))
            }
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

fn wrong(word: &str) -> BenchError {
    BenchError::Usage(format!(
        "--rate: {word:?} is neither a number of events per second nor a part of the capacity like 50%"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_or_parts() {
        assert_eq!(Rate::list("100, 50%").unwrap(), [Rate::PerSecond(100.0), Rate::OfCapacity(0.5)]);
        for text in ["", "fast", "0", "-1", "150%", "0%", "1e9", "NaN", "inf", "%"] {
            assert!(Rate::list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_part_of_the_capacity_is_at_least_one_per_second() {
        assert_eq!(Rate::OfCapacity(0.5).per_second(8000.0), 4000.0);
        assert_eq!(Rate::OfCapacity(0.5).per_second(0.0), 1.0);
        assert_eq!(Rate::PerSecond(7.0).per_second(8000.0), 7.0);
    }
}
