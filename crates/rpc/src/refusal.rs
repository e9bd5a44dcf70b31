//! Maps errors to gRPC statuses: the one place that makes a `Status`.
//!
//! The problems of a request are in the message, for people, and in the details as `google.rpc.BadRequest`,
//! for programs. Both are truncated: they travel as headers, and some clients accept no more than 8 KiB of
//! those.

use std::collections::HashMap;

use millstream_model::problem::{ValidationProblem, ValidationProblems};
use millstream_store::StoreError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::field_names;
use crate::unreadable::StoredFormError;

/// Domain of the `ErrorInfo` reasons.
const DOMAIN: &str = "millstream";
const MESSAGE_BYTES: usize = 1024;
const DETAIL_BYTES: usize = 2048;

/// `INVALID_ARGUMENT`: invalid in any state.
pub fn invalid_argument(problems: &ValidationProblems) -> Status {
    refuse_with(Code::InvalidArgument, problems)
}

/// Another code with the same details: `FAILED_PRECONDITION` for edits that do not fit the current graph,
/// `RESOURCE_EXHAUSTED` for a graph that would be too large.
pub fn refuse_with(code: Code, problems: &ValidationProblems) -> Status {
    let mut details = ErrorDetails::new();
    let mut room = DETAIL_BYTES;
    let problems: Vec<ValidationProblem> = problems.0.iter().map(field_names::translate_problem).collect();
    for ValidationProblem { path, message } in &problems {
        let Some(left) = room.checked_sub(path.len() + message.len() + 16) else { break };
        room = left;
        details.add_bad_request_violation(path, message);
    }
    Status::with_error_details(code, join_problems(&problems), details)
}

/// As many problems as fit, each as `path: message`, and the number of the others.
fn join_problems(problems: &[ValidationProblem]) -> String {
    let mut text = String::new();
    for (told, problem) in problems.iter().enumerate() {
        let (line, rest) = (problem.to_string(), problems.len() - told);
        if text.len() + line.len() > MESSAGE_BYTES {
            if text.is_empty() {
                text.push_str(&line[..line.floor_char_boundary(MESSAGE_BYTES)]);
            } else {
                text.push_str(&format!("; and {rest} more"));
            }
            break;
        }
        if told > 0 {
            text.push_str("; ");
        }
        text.push_str(&line);
    }
    text
}

/// A refusal with machine-readable details, as `google.rpc.ErrorInfo`: a reason in one word, and named
/// facts.
pub fn refuse_with_reason(
    code: Code,
    message: &str,
    reason: &str,
    facts: impl IntoIterator<Item = (&'static str, String)>,
) -> Status {
    let facts: HashMap<String, String> =
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
    Status::with_error_details(code, &message[..message.floor_char_boundary(MESSAGE_BYTES)], details)
}

/// `NOT_FOUND`: it does not exist, or belongs to another tenant.
pub fn not_found(what: &str, id: &str) -> Status {
    Status::not_found(format!("there is no {what} {id:?}"))
}

/// `ABORTED`: revision conflict.
pub fn revision_conflict(expected: u32, is: u32) -> Status {
    Status::aborted(format!("revision conflict: the workflow is at {is}, the edits expect {expected}"))
}

/// The status of a store error, without details that only operators may see: the caller logs the error.
pub fn store_error_status(error: &StoreError) -> Status {
    match error {
        StoreError::Unavailable(_) | StoreError::Contention(_) => {
            Status::unavailable("the store cannot be reached, try again")
        }
        StoreError::Corrupt(_) => unreadable_data(),
    }
}

pub fn unreadable_status(_: &StoredFormError) -> Status {
    unreadable_data()
}

fn unreadable_data() -> Status {
    Status::internal("stored data cannot be read; the log has more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_fields_and_details() {
        let problems = ValidationProblems(vec![
            ValidationProblem::new("nodes[0].id", "must not be empty"),
            ValidationProblem::new("", "has a cycle"),
        ]);
        let status = invalid_argument(&problems);
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "nodes[0].id: must not be empty; has a cycle");
        let request = status.get_details_bad_request().unwrap();
        let told: Vec<_> =
            request.field_violations.iter().map(|it| (it.field.as_str(), it.description.as_str())).collect();
        assert_eq!(told, [("nodes[0].id", "must not be empty"), ("", "has a cycle")]);
    }

    #[test]
    fn refusal_carries_reason_and_facts() {
        let status = refuse_with_reason(
            Code::FailedPrecondition,
            "taken",
            "NOT_OWNER",
            [("device", "d-1".to_owned())],
        );
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "taken"));
        let info = status.get_details_error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("NOT_OWNER", "millstream"));
        assert_eq!(info.metadata["device"], "d-1");
    }

    #[test]
    fn hundred_problems_fit_headers() {
        let problem = |at| ValidationProblem::new(format!("nodes[{at}].assigned_task.goal"), "é".repeat(100));
        let status =
            refuse_with(Code::FailedPrecondition, &ValidationProblems((0..100).map(problem).collect()));
        let text = status.message();
        assert!(text.len() < 1100 && text.ends_with(" more"), "{text}");
        assert!(status.details().len() < 3000);
        let one = ValidationProblems(vec![ValidationProblem::new("x", "é".repeat(2000))]);
        assert!(invalid_argument(&one).message().len() <= MESSAGE_BYTES);
    }
}
