//! Words of statuses in the schema: the conditions of partial indexes and the checks of columns have exactly the
//! words of the enums. An index whose condition lacks a word is used by no statement, and a check that lacks one
//! refuses the row.

use std::collections::BTreeSet;

use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, IncidentResolution, Role};
use millstream_store::status_words::{OPEN_ACTIONS, STUCK_EVENTS};
use sqlx::{Connection, PgConnection};

use crate::support::PostgresFixture;

/// The quoted words of a condition.
fn quoted_words(condition: &str) -> BTreeSet<&str> {
    condition.split('\'').skip(1).step_by(2).collect()
}

#[tokio::test]
async fn partial_indexes_have_the_words_of_the_statements() {
    const CONDITION: &str =
        "SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indexrelid = $1::regclass";
    let fixture = PostgresFixture::fresh().await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    for (index, words) in [("actions_due", OPEN_ACTIONS), ("events_stuck", STUCK_EVENTS)] {
        let condition: String =
            sqlx::query_scalar(CONDITION).bind(index).fetch_one(&mut connection).await.unwrap();
        assert_eq!(quoted_words(&condition), quoted_words(words), "{index}: {condition}");
    }
}

#[tokio::test]
async fn checks_have_the_words_of_the_enums() {
    const CONDITION: &str = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1";
    fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> BTreeSet<&'static str> {
        all.iter().map(|one| word(*one)).collect()
    }
    let verdicts = [EventStatus::Rejected, EventStatus::Failed, EventStatus::Dead];
    let fixture = PostgresFixture::fresh().await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    for (check, words) in [
        ("actions_status_check", words(ActionStatus::ALL, ActionStatus::as_str)),
        ("executions_phase_check", words(ExecutionPhase::ALL, ExecutionPhase::as_str)),
        ("events_verdict_check", words(&verdicts, EventStatus::as_str)),
        ("incidents_resolution_check", words(IncidentResolution::ALL, IncidentResolution::as_str)),
        ("api_keys_role_check", words(Role::ALL, Role::as_str)),
    ] {
        let condition: String =
            sqlx::query_scalar(CONDITION).bind(check).fetch_one(&mut connection).await.unwrap();
        assert_eq!(quoted_words(&condition), words, "{check}: {condition}");
    }
}
