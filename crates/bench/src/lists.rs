//! Reads cursor-paginated lists to their end.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{BenchError, BenchResult};
use crate::wire::BenchConnection;

const PAGE: usize = 500;

#[derive(Debug, Deserialize)]
struct BenchPage<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// All items of a path with a query.
pub(crate) async fn read_all_pages<T: DeserializeOwned>(
    front: &mut BenchConnection,
    path: &str,
) -> BenchResult<Vec<T>> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let body = front.get(&format!("{path}&limit={PAGE}{cursor}")).await?;
        let page: BenchPage<T> = parse_answer(path, &body)?;
        found.extend(page.items);
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

/// Parses an answer; the error names its path.
pub(crate) fn parse_answer<T: DeserializeOwned>(path: &str, body: &[u8]) -> BenchResult<T> {
    serde_json::from_slice(body)
        .map_err(|error| BenchError::Wrong(format!("the answer of {path} cannot be read: {error}")))
}

/// Summarises deviations: the first ones, and their number.
pub(crate) fn check_deviations(wrong: &[String]) -> std::result::Result<(), String> {
    if wrong.is_empty() {
        return Ok(());
    }
    let (count, some) = (wrong.len(), wrong[..wrong.len().min(3)].join("; "));
    Err(format!("{count} deviations: {some}"))
}
