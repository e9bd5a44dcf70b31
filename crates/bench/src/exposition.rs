//! Parses `/metrics`: sums over the series of a name.

/// Prometheus text, as a process renders it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    pub(crate) fn of(body: Vec<u8>) -> Self {
        Self { text: String::from_utf8_lossy(&body).into_owned() }
    }

    /// The sum of all series of `name` whose labels contain `label` (`verdict="applied"`; empty: all).
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        self.text.lines().filter_map(|line| series(line, name, label)).sum()
    }

    /// Number of observations of a histogram, and their sum.
    pub(crate) fn histogram(&self, name: &str) -> (f64, f64) {
        (self.sum(&format!("{name}_count"), ""), self.sum(&format!("{name}_sum"), ""))
    }
}

fn series(line: &str, name: &str, label: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once('}')?,
        None => ("", rest.strip_prefix(' ')?),
    };
    if !labels.contains(label) {
        return None;
    }
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP decided_total Events\n# TYPE decided_total counter\n\
        decided_total{verdict=\"applied\"} 40\ndecided_total{verdict=\"rejected\"} 2\n\
        decided_total_more 100\nup 1\nbatch_sum 30\nbatch_count 10\nodd{path=\"/a} b\"} 3\n";

    #[test]
    fn sums_the_series_of_one_name() {
        let seen = Exposition::of(TEXT.as_bytes().to_vec());
        assert_eq!(seen.sum("decided_total", ""), 42.0);
        assert_eq!(seen.sum("decided_total", "verdict=\"applied\""), 40.0);
        assert_eq!(seen.sum("up", ""), 1.0);
        assert_eq!(seen.sum("odd", ""), 3.0);
        assert_eq!(seen.sum("missing", ""), 0.0);
        assert_eq!(seen.histogram("batch"), (10.0, 30.0));
    }
}
