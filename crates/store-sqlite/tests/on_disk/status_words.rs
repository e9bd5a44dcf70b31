//! Words of statuses in the schema: the conditions of partial indexes and the checks of columns have exactly the
//! words of the enums.

use std::collections::BTreeSet;

use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, Role};
use millstream_store::status_words::STUCK_EVENTS;

use crate::store_fixture::SqliteDesk;

/// The quoted words of a condition.
fn quoted_words(condition: &str) -> BTreeSet<&str> {
    condition.split('\'').skip(1).step_by(2).collect()
}

/// The check of a column, up to the comma of the next column, in the declaration of a table.
fn check_of<'a>(declaration: &'a str, column: &str) -> &'a str {
    let start = declaration.find(&format!("CHECK ({column} ")).unwrap();
    let check = &declaration[start..];
    &check[..check.find("),\n").unwrap()]
}

#[tokio::test]
async fn schema_has_the_words_of_the_enums() {
    const DECLARATION: &str = "SELECT sql FROM sqlite_master WHERE name = ?1";
    fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> BTreeSet<&'static str> {
        all.iter().map(|one| word(*one)).collect()
    }
    let desk = SqliteDesk::fresh().await;
    let shell = desk.shell();
    let declaration =
        |name: &str| -> String { shell.query_row(DECLARATION, [name], |row| row.get(0)).unwrap() };
    assert_eq!(quoted_words(&declaration("events_stuck")), quoted_words(STUCK_EVENTS));
    let verdicts = [EventStatus::Rejected, EventStatus::Failed, EventStatus::Dead];
    for (table, column, words) in [
        ("actions", "status", words(ActionStatus::ALL, ActionStatus::as_str)),
        ("executions", "phase", words(ExecutionPhase::ALL, ExecutionPhase::as_str)),
        ("events", "verdict", words(&verdicts, EventStatus::as_str)),
        ("api_keys", "role", words(Role::ALL, Role::as_str)),
    ] {
        let declaration = declaration(table);
        let check = check_of(&declaration, column);
        assert_eq!(quoted_words(check), words, "{table}.{column}: {check}");
    }
}
