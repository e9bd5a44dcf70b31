//! Parses `/metrics`: sums over the series of a name.

/// Prometheus text, as a process renders it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricsExposition {
    text: String,
}

impl MetricsExposition {
    pub(crate) fn from_body(body: Vec<u8>) -> Self {
        Self { text: String::from_utf8_lossy(&body).into_owned() }
    }

    /// The sum of all series of `name` whose labels contain `label` (`verdict="applied"`; empty: all).
    pub(crate) fn sum_series(&self, name: &str, label: &str) -> f64 {
        self.text.lines().filter_map(|line| series_value(line, name, label)).sum()
    }

    /// Number of observations of a histogram, and their sum.
    pub(crate) fn histogram_totals(&self, name: &str) -> (f64, f64) {
        (self.sum_series(&format!("{name}_count"), ""), self.sum_series(&format!("{name}_sum"), ""))
    }
}

fn series_value(line: &str, name: &str, label: &str) -> Option<f64> {
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
        let seen = MetricsExposition::from_body(TEXT.as_bytes().to_vec());
        assert_eq!(seen.sum_series("decided_total", ""), 42.0);
        assert_eq!(seen.sum_series("decided_total", "verdict=\"applied\""), 40.0);
        assert_eq!(seen.sum_series("up", ""), 1.0);
        assert_eq!(seen.sum_series("odd", ""), 3.0);
        assert_eq!(seen.sum_series("missing", ""), 0.0);
        assert_eq!(seen.histogram_totals("batch"), (10.0, 30.0));
    }
}
