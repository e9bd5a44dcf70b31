//! Set-up before the clock starts: the people, a queue, and the import of its items.

use std::fmt::Write;
use std::time::Instant;

use serde::Deserialize;

use crate::error::{BenchError, BenchResult};
use crate::lists::parse_answer;
use crate::wire::{BenchConnection, short_excerpt};

/// Lines per import request.
const LINES: usize = 100_000;

/// A queue with items `{queue}-{number}` for people `{queue}-p{number}`.
#[derive(Debug, Clone)]
pub(crate) struct BenchQueue {
    pub(crate) name: String,
    pub(crate) items: usize,
    pub(crate) overlap: usize,
    pub(crate) people: usize,
}

#[derive(Debug, Deserialize)]
struct BenchImport {
    created: usize,
}

impl BenchQueue {
    pub(crate) fn item_name(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    pub(crate) fn person_name(&self, number: usize) -> String {
        format!("{}-p{number}", self.name)
    }

    /// Creates the queue and its people.
    pub(crate) async fn create_queue(&self, front: &mut BenchConnection) -> BenchResult<()> {
        let config = format!("{{\"overlap\":{}}}", self.overlap);
        front.put(&format!("/v1/queues/{}", self.name), config.as_bytes(), &[200, 201]).await?;
        for number in 0..self.people {
            let path = format!("/v1/people/{}", self.person_name(number));
            front.put(&path, b"{\"skills\":[]}", &[200, 201]).await?;
        }
        Ok(())
    }

    /// Imports the items; returns the seconds it took.
    pub(crate) async fn import_items(&self, front: &mut BenchConnection) -> BenchResult<f64> {
        let (path, mut seconds) = (format!("/v1/queues/{}/items", self.name), 0.0);
        for first in (0..self.items).step_by(LINES) {
            let count = LINES.min(self.items - first);
            let body = self.item_lines(first, count);
            let began = Instant::now();
            let answer = front.post(&path, "application/x-ndjson", body.as_bytes(), &[200]).await?;
            seconds += began.elapsed().as_secs_f64();
            let imported: BenchImport = parse_answer(&path, &answer)?;
            if imported.created != count {
                let answer = String::from_utf8_lossy(&answer);
                return Err(BenchError::Wrong(format!(
                    "of {count} items {} were imported: {}",
                    imported.created,
                    short_excerpt(&answer)
                )));
            }
        }
        Ok(seconds)
    }

    fn item_lines(&self, first: usize, count: usize) -> String {
        let mut lines = String::new();
        for number in first..first + count {
            // Writing to a String does not fail.
            let _ = writeln!(
                lines,
                "{{\"item_id\":\"{}\",\"payload\":{{\"number\":{number}}}}}",
                self.item_name(number)
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_has_one_line_per_item() {
        let queue = BenchQueue { name: "bench_1".to_owned(), items: 9, overlap: 1, people: 1 };
        let lines: Vec<serde_json::Value> =
            queue.item_lines(7, 2).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            lines,
            [
                serde_json::json!({ "item_id": "bench_1-7", "payload": { "number": 7 } }),
                serde_json::json!({ "item_id": "bench_1-8", "payload": { "number": 8 } }),
            ]
        );
    }
}
