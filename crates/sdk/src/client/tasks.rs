//! Tasks for external workers, which are not linked to the engine: lease, heartbeat, complete, fail.

use std::time::Duration;

use millstream_api::tasks::{
    AfterTaskFailure, LeasedTask, LeasedTasks, TaskFailure, TaskHeartbeat, TaskHeld, TaskLeaseQuery,
    TaskResult, TaskResultItem, TaskResults, TaskSettled, TaskWait, TaskWhy,
};
use millstream_api::verdicts::Verdicts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::event_batch::result_of_verdict;
use super::json::{self, JsonText};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// The server's limit of results per request.
const MOST_RESULTS: usize = 1_000;

impl Client {
    /// Leases tasks; an empty list after a timeout. A lease whose answer is lost runs out by itself.
    pub async fn lease_tasks(&self, wish: &TaskLeaseQuery) -> Result<Vec<LeasedTask>, ClientError> {
        let wait = match &wish.wait {
            Some(TaskWait::Seconds(seconds)) => Duration::from_secs(*seconds),
            // The longest wait of the server.
            Some(TaskWait::Duration(_)) => Duration::from_secs(60),
            None => Duration::ZERO,
        };
        let ask = ApiRequest::post("/v1/tasks/lease", RepeatPolicy::IfNothingHappened)
            .with_json(json::json_body(wish)?)
            .with_server_wait(wait);
        Ok(self.send_request(&ask).await?.json::<LeasedTasks>()?.tasks)
    }

    /// Sends a heartbeat for a task; `progress` is stored for the next attempt.
    pub async fn heartbeat_task(
        &self,
        task: &LeasedTask,
        progress: Option<&Value>,
    ) -> Result<TaskHeld, ClientError> {
        let progress = progress.map(JsonText::of_value);
        let progress = json::get(progress.as_ref())?;
        let body = TaskHeartbeat { token: task.token, progress };
        self.send_task_report(task, "heartbeat", &body, RepeatPolicy::Always).await
    }

    /// Completes a task. 409 when the lease has passed on.
    pub async fn complete_task(
        &self,
        task: &LeasedTask,
        result: impl Serialize,
    ) -> Result<TaskSettled, ClientError> {
        let result = JsonText::of_value(&result);
        let body = TaskResult { token: task.token, result: Some(result.get()?) };
        self.send_task_report(task, "complete", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Completes many tasks, each with its result, a thousand per request, and returns a result for each, in
    /// order.
    pub async fn complete_tasks<R: Serialize>(
        &self,
        results: impl IntoIterator<Item = (&LeasedTask, R)>,
    ) -> Result<Vec<Result<TaskSettled, ClientError>>, ClientError> {
        let results: Vec<_> =
            results.into_iter().map(|(task, result)| (task, JsonText::of_value(&result))).collect();
        let mut verdicts = Vec::with_capacity(results.len());
        for some in results.chunks(MOST_RESULTS) {
            let body = TaskResults(some.iter().map(result_item).collect::<Result<_, _>>()?);
            let ask = ApiRequest::post("/v1/tasks/complete", RepeatPolicy::IfNothingHappened)
                .with_json(json::json_body(&body)?);
            let answer: Verdicts<TaskSettled> = self.send_request(&ask).await?.json()?;
            verdicts.extend(answer.items.into_iter().map(result_of_verdict));
        }
        Ok(verdicts)
    }

    /// Fails an attempt.
    pub async fn fail_task(
        &self,
        task: &LeasedTask,
        message: &str,
        then: AfterTaskFailure,
    ) -> Result<TaskSettled, ClientError> {
        let body = TaskFailure {
            token: task.token,
            message: message.to_owned(),
            class: None,
            then: Some(then),
            retry_after: None,
        };
        self.report_task_failure(task, &body).await
    }

    /// Fails an attempt, with the class of the error or the delay before the next attempt. The token of the
    /// failure is that of the task.
    pub async fn report_task_failure(
        &self,
        task: &LeasedTask,
        failure: &TaskFailure,
    ) -> Result<TaskSettled, ClientError> {
        self.send_task_report(task, "fail", failure, RepeatPolicy::IfNothingHappened).await
    }

    /// Explains why an action is not being performed, and which workers are connected.
    pub async fn why(&self, key: &str) -> Result<TaskWhy, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/tasks/{}/why", path_segment(key)))).await?.json()
    }

    async fn send_task_report<T: DeserializeOwned>(
        &self,
        task: &LeasedTask,
        act: &str,
        body: &impl Serialize,
        repeat: RepeatPolicy,
    ) -> Result<T, ClientError> {
        let path = format!("/v1/tasks/{}/{act}", path_segment(&task.key));
        self.send_request(&ApiRequest::post(path, repeat).with_json(json::json_body(body)?)).await?.json()
    }
}

fn result_item<'a>(
    (task, result): &'a (&LeasedTask, JsonText),
) -> Result<TaskResultItem<&'a RawValue>, ClientError> {
    Ok(TaskResultItem { key: task.key.clone(), token: task.token, result: Some(result.get()?) })
}
