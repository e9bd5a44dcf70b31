//! The compiled pattern of `matches()` and its cost.
//!
//! The regex engine takes time proportional to the text and, if a pattern defeats its automaton, also to the
//! number of positions in the pattern. The cost model assumes the worst case, so that costs depend on pattern
//! and text alone and not on the caches of the engine.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// Memory limit of one compiled pattern.
const MAX_COMPILED_BYTES: usize = 64 * 1024;
/// Memory limit of the engine's cache per pattern and thread.
const MAX_CACHED_BYTES: usize = 64 * 1024;
/// Pattern positions that one byte of text is matched against per unit.
const PLACES_PER_UNIT: u64 = 8;
/// Estimated memory of the smallest pattern, and of each position.
const BASE_WEIGHT: usize = 8 * 1024;
const PLACE_WEIGHT: usize = 256;

/// Memory limit of all patterns of one definition or one graph, which also bounds their compile time.
pub const MAX_PATTERN_WEIGHT: usize = 8 * 1024 * 1024;
pub const PATTERNS_TOO_HEAVY: &str = "the patterns of all matches() need more than 8 MiB together";

#[derive(Debug, Clone)]
pub(super) struct CompiledPattern {
    regex: Arc<Regex>,
    /// Number of positions: literal bytes and classes, with repetitions expanded.
    places: u64,
}

impl CompiledPattern {
    /// `None` if the pattern is invalid or too large.
    pub(super) fn compile(source: &str) -> Option<Self> {
        let places = count_places(&regex_syntax::parse(source).ok()?);
        let regex = RegexBuilder::new(source)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_CACHED_BYTES)
            .build()
            .ok()?;
        Some(Self { regex: Arc::new(regex), places })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Cost of one search in a text of `len` bytes.
    pub(super) fn search_units(&self, len: usize) -> u64 {
        1 + (len as u64).saturating_mul(2 + self.places) / PLACES_PER_UNIT
    }

    /// Cost of compiling it.
    pub(super) fn compile_units(&self) -> u64 {
        500 + 20 * self.places
    }

    /// Estimated memory size.
    pub(super) fn memory_weight(&self) -> usize {
        let places = usize::try_from(self.places).unwrap_or(usize::MAX);
        BASE_WEIGHT.saturating_add(PLACE_WEIGHT.saturating_mul(places).min(4 * MAX_COMPILED_BYTES))
    }
}

fn count_places(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 2,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1));
            count_places(&repetition.sub).saturating_mul(u64::from(times).max(1))
        }
        HirKind::Capture(capture) => count_places(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(count_places).fold(1, u64::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_cost_expands_repetitions() {
        let price = |source: &str| CompiledPattern::compile(source).unwrap().search_units(8_000);
        assert!(price("a{200}") > 50 * price("a"));
        assert!(price("(a|b|c){40}") > price("a{40}"));
    }

    #[test]
    fn oversized_pattern_is_refused() {
        assert!(CompiledPattern::compile("(a{100}){100}").is_none());
        assert!(CompiledPattern::compile("(").is_none());
    }
}
