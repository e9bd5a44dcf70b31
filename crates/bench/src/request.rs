//! Requests as bytes, written into a reused buffer: no allocation per event.

use std::io::Write;

use crate::wire::ServerAddress;
use crate::workload::Workload;

/// How events are posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitMode {
    /// One POST per event.
    Single,
    /// `batch` events per POST, one per line.
    Ndjson { batch: usize },
}

impl SubmitMode {
    /// Events in one request.
    pub(crate) const fn per_request(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Ndjson { batch } => batch,
        }
    }

    /// Default number of connections: enough to keep the server busy, few enough to cost little.
    pub const fn default_connections(self) -> usize {
        match self {
            Self::Single => 64,
            Self::Ndjson { .. } => 8,
        }
    }
}

/// The stage that a single POST waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedStage {
    Accepted,
    Applied,
    Completed,
}

impl AwaitedStage {
    const fn prefer_header(self) -> &'static str {
        match self {
            Self::Accepted => "",
            Self::Applied => "Prefer: wait=10, until=applied\r\n",
            Self::Completed => "Prefer: wait=10\r\n",
        }
    }
}

/// Writes requests for events of one workload.
#[derive(Debug, Clone)]
pub(crate) struct EventRequests {
    headers: String,
    until: AwaitedStage,
    payload: String,
    /// Executions are `{prefix}{number}`.
    prefix: String,
    executions: usize,
    submit: SubmitMode,
}

impl EventRequests {
    pub(crate) fn new(
        address: &ServerAddress,
        workload: Workload,
        prefix: &str,
        executions: usize,
        submit: SubmitMode,
    ) -> Self {
        Self {
            headers: address.headers().to_owned(),
            until: AwaitedStage::Accepted,
            payload: workload.payload(),
            prefix: prefix.to_owned(),
            executions,
            submit,
        }
    }

    pub(crate) fn until(mut self, until: AwaitedStage) -> Self {
        self.until = until;
        self
    }

    pub(crate) fn waits_for(&self) -> AwaitedStage {
        self.until
    }

    pub(crate) fn submit(&self) -> SubmitMode {
        self.submit
    }

    /// Writes the request for `count` events from the number `first` on. `scratch` is for the body.
    pub(crate) fn write_request(
        &self,
        into: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        first: usize,
        count: usize,
    ) {
        into.clear();
        scratch.clear();
        // Writing to a Vec does not fail.
        let _ = match self.submit {
            SubmitMode::Single => {
                scratch.extend_from_slice(b"{\"name\":\"go\",\"payload\":");
                scratch.extend_from_slice(self.payload.as_bytes());
                scratch.push(b'}');
                write!(
                    into,
                    "POST /v1/executions/{}{}/events HTTP/1.1\r\n{}{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    self.prefix,
                    first % self.executions,
                    self.headers,
                    self.until.prefer_header(),
                    scratch.len()
                )
            }
            SubmitMode::Ndjson { .. } => {
                for event in first..first + count {
                    scratch.extend_from_slice(b"{\"execution_id\":\"");
                    scratch.extend_from_slice(self.prefix.as_bytes());
                    write_number(scratch, event % self.executions);
                    scratch.extend_from_slice(b"\",\"name\":\"go\",\"payload\":");
                    scratch.extend_from_slice(self.payload.as_bytes());
                    scratch.extend_from_slice(b"}\n");
                }
                write!(
                    into,
                    "POST /v1/events HTTP/1.1\r\n{}Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
                    self.headers,
                    scratch.len()
                )
            }
        };
        into.extend_from_slice(scratch);
    }
}

/// Decimal digits without the formatting machinery.
fn write_number(into: &mut Vec<u8>, mut value: usize) {
    let (mut digits, mut at) = ([0u8; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_text(submit: SubmitMode, first: usize, count: usize) -> String {
        let requests =
            EventRequests::new(&ServerAddress::on_loopback(7400), Workload::Many, "m-", 10, submit);
        let (mut into, mut scratch) = (b"old".to_vec(), Vec::new());
        requests.until(AwaitedStage::Applied).write_request(&mut into, &mut scratch, first, count);
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn single_post_has_execution_and_length() {
        assert_eq!(
            request_text(SubmitMode::Single, 13, 1),
            "POST /v1/executions/m-3/events HTTP/1.1\r\nHost: 127.0.0.1:7400\r\n\
             Prefer: wait=10, until=applied\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n\
             {\"name\":\"go\",\"payload\":{\"amount\":7}}"
        );
    }

    #[test]
    fn batch_request_has_line_per_event() {
        let text = request_text(SubmitMode::Ndjson { batch: 3 }, 8, 3);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        let lines: Vec<serde_json::Value> =
            body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids: Vec<_> = lines.iter().map(|line| line["execution_id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["m-8", "m-9", "m-0"]);
    }

    #[test]
    fn written_numbers_parse_back() {
        for value in [0, 7, 10, 12_345, usize::MAX] {
            let mut into = Vec::new();
            write_number(&mut into, value);
            assert_eq!(String::from_utf8(into).unwrap(), value.to_string());
        }
    }
}
