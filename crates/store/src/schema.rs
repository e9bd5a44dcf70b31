//! Whether this build may work with the schema of the database.
//!
//! Migrations are additive: an older release works on tables that a newer one has changed, until `migrate
//! --finish` ends that. The database records the oldest release that may still run.
//!
//! ```text
//! migrate (new release)   older and newer processes work side by side; going back means starting the old one
//! migrate --finish        oldest release := this one; anything older refuses to start
//! ```

use std::fmt;

/// A release of Millstream, from its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Release {
    /// Of this build.
    pub const OURS: Self = Self {
        major: parse_decimal(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: parse_decimal(env!("CARGO_PKG_VERSION_MINOR")),
        patch: parse_decimal(env!("CARGO_PKG_VERSION_PATCH")),
    };

    /// Reads `1.2.3`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
        let mut next = || parts.next().flatten();
        let release = Self { major: next()?, minor: next()?, patch: next()? };
        parts.next().is_none().then_some(release)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Cargo's version numbers: decimal digits only.
const fn parse_decimal(text: &str) -> u32 {
    let (bytes, mut at, mut number) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        number = number * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    number
}

/// The schema state that a database records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaState {
    /// Migrations of this build that the database lacks, by number and description.
    pub pending: Vec<String>,
    /// Applied migrations that this build does not know: a newer release has migrated the database.
    pub unknown: Vec<i64>,
    /// `None` before the migration that records it.
    pub oldest_release: Option<Release>,
}

/// The judgement of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaFit {
    /// The schema is this build's own.
    Exact,
    /// A newer release has added to it; this one may work on it.
    Newer { unknown: Vec<i64> },
    /// Migrations of this build are missing.
    Behind { pending: Vec<String> },
    /// A finished upgrade requires a newer build.
    Finished { oldest: Release },
}

impl SchemaState {
    /// Whether a build of this release may work here.
    pub fn judge_release(&self, release: Release) -> SchemaFit {
        match self.oldest_release {
            Some(oldest) if oldest > release => SchemaFit::Finished { oldest },
            Some(_) | None if !self.pending.is_empty() => SchemaFit::Behind { pending: self.pending.clone() },
            Some(_) | None if !self.unknown.is_empty() => SchemaFit::Newer { unknown: self.unknown.clone() },
            Some(_) | None => SchemaFit::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        Release::parse(text).unwrap()
    }

    #[test]
    fn releases_are_ordered_by_number() {
        assert!(release("0.9.0") < release("0.10.0"));
        assert!(release("1.0.0") > release("0.99.99"));
        assert_eq!(release("1.2.3").to_string(), "1.2.3");
        assert_eq!(Release::OURS.to_string(), env!("CARGO_PKG_VERSION"));
        for text in ["", "1", "1.2", "1.2.3.4", "1.2.x", "v1.2.3"] {
            assert_eq!(Release::parse(text), None, "{text}");
        }
    }

    #[test]
    fn build_refuses_finished_upgrade_accepts_newer_tables() {
        let state = |oldest: &str, pending: &[&str], unknown: &[i64]| SchemaState {
            pending: pending.iter().map(|text| (*text).to_owned()).collect(),
            unknown: unknown.to_vec(),
            oldest_release: Release::parse(oldest),
        };
        let fit = |state: SchemaState| state.judge_release(release("1.4.0"));
        assert_eq!(fit(state("1.4.0", &[], &[])), SchemaFit::Exact);
        assert_eq!(fit(state("", &[], &[])), SchemaFit::Exact);
        assert_eq!(fit(state("1.3.0", &[], &[99])), SchemaFit::Newer { unknown: vec![99] });
        assert_eq!(fit(state("1.4.1", &[], &[99])), SchemaFit::Finished { oldest: release("1.4.1") });
        assert_eq!(fit(state("1.4.1", &["0012 x"], &[])), SchemaFit::Finished { oldest: release("1.4.1") });
        let behind = SchemaFit::Behind { pending: vec!["0012 x".to_owned()] };
        assert_eq!(fit(state("1.3.0", &["0012 x"], &[99])), behind);
    }
}
