//! Splits a body of one JSON document per line (NDJSON) as it arrives: holds one line and one chunk.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use millstream_model::quota::{QuotaName, QuotaRefusal, QuotaSourced};
use tokio::time::Instant;

use crate::refusal::{RefusalKind, RequestRefusal};

pub(crate) struct BodyLines {
    stream: BodyDataStream,
    /// Received bytes that are not returned yet.
    rest: BytesMut,
    /// Prefix of `rest` that contains no line end.
    searched: usize,
    most: usize,
    patience: Duration,
    /// Deadline of the whole body, and the quota that sets it.
    deadline: Option<(Instant, QuotaSourced)>,
    ended: bool,
    /// Skipping the rest of a line that is too long.
    skipping: bool,
}

/// A non-empty line, without its line end.
#[derive(Debug)]
pub(crate) enum BodyLine {
    Whole(Bytes),
    /// It has more bytes than a line may have, and is skipped.
    TooLong,
}

impl BodyLines {
    /// `patience` is the timeout of each chunk.
    pub(crate) fn of(body: Body, most: usize, patience: Duration) -> Self {
        let stream = body.into_data_stream();
        Self {
            stream,
            rest: BytesMut::new(),
            searched: 0,
            most,
            patience,
            deadline: None,
            ended: false,
            skipping: false,
        }
    }

    /// Sets the deadline of the whole body from the quota: a slow but steady body is bounded as well.
    pub(crate) fn within_quota(self, quota: QuotaSourced) -> Self {
        Self { deadline: quota.value.as_duration().map(|length| (Instant::now() + length, quota)), ..self }
    }

    pub(crate) async fn next_line(&mut self) -> Result<Option<BodyLine>, RequestRefusal> {
        loop {
            let end = self.rest[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| end + self.searched) {
                let line = self.rest.split_to(end).freeze();
                self.rest.advance(1);
                self.searched = 0;
                if std::mem::take(&mut self.skipping) {
                    return Ok(Some(BodyLine::TooLong));
                }
                if let Some(line) = self.checked_line(line) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.searched = self.rest.len();
            if self.rest.len() > self.most {
                self.rest.clear();
                self.searched = 0;
                self.skipping = true;
            }
            if self.ended {
                let line = self.rest.split().freeze();
                self.searched = 0;
                if std::mem::take(&mut self.skipping) {
                    return Ok(Some(BodyLine::TooLong));
                }
                return Ok(self.checked_line(line));
            }
            self.read_chunk().await?;
        }
    }

    fn checked_line(&self, line: Bytes) -> Option<BodyLine> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        Some(if line.len() > self.most { BodyLine::TooLong } else { BodyLine::Whole(line) })
    }

    async fn read_chunk(&mut self) -> Result<(), RequestRefusal> {
        let left = self.deadline.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let patience = left.map_or(self.patience, |left| left.min(self.patience));
        let next = tokio::time::timeout(patience, self.stream.next()).await.map_err(|_| {
            if let Some((at, quota)) = self.deadline
                && at <= Instant::now()
            {
                return QuotaRefusal::without_retry(QuotaName::ImportDuration, quota).into();
            }
            let waited = self.patience.as_secs();
            RequestRefusal::new(
                RefusalKind::BodyTimeout,
                format!("no more of the body arrived for {waited} s"),
            )
        })?;
        match next {
            Some(Ok(chunk)) => self.rest.extend_from_slice(&chunk),
            Some(Err(error)) => {
                return Err(RequestRefusal::bad_request(format!("the body could not be read: {error}")));
            }
            None => self.ended = true,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(chunks: &[&'static str], most: usize) -> Vec<String> {
        let chunks: Vec<Result<&'static str, std::io::Error>> =
            chunks.iter().map(|chunk| Ok(*chunk)).collect();
        let body = Body::from_stream(futures::stream::iter(chunks));
        let mut lines = BodyLines::of(body, most, Duration::from_secs(1));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            found.push(match line {
                BodyLine::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                BodyLine::TooLong => "(too long)".to_owned(),
            });
        }
        found
    }

    #[tokio::test]
    async fn body_lines_ignore_chunk_boundaries() {
        let whole = cut(&["ab\n\ncd\r\n  \nef"], 9).await;
        assert_eq!(whole, ["ab", "cd\r", "ef"]);
        assert_eq!(cut(&["a", "b\n", "\nc", "d\r\n ", " \ne", "f"], 9).await, whole);
        assert_eq!(cut(&["ab\n"], 9).await, ["ab"]);
        assert!(cut(&[], 9).await.is_empty());
    }

    #[tokio::test]
    async fn overlong_body_line_is_skipped() {
        assert_eq!(cut(&["aaaa", "aaaa", "aa\nb\n"], 5).await, ["(too long)", "b"]);
        assert_eq!(cut(&["aaaaaa\nb"], 5).await, ["(too long)", "b"]);
        assert_eq!(cut(&["b\naaaa", "aaaa"], 5).await, ["b", "(too long)"]);
    }
}
