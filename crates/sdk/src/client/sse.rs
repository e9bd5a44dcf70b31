//! Parser of server-sent events (SSE) from arriving bytes.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseMessage {
    pub(crate) event: String,
    /// Position for resuming after it; empty if it has none.
    pub(crate) id: String,
    pub(crate) data: String,
}

/// Collects bytes until an event is complete.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The incomplete line.
    line: Vec<u8>,
    message: SseMessage,
}

impl SseParser {
    /// The events completed by these bytes.
    pub(crate) fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<SseMessage> {
        let mut complete = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                complete
                    .extend(self.take_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])));
            }
        }
        complete
    }

    fn take_line(&mut self, line: &str) -> Option<SseMessage> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return Some(message).filter(|message| !message.data.is_empty());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.message.event = value.to_owned(),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            "id" => self.message.id = value.to_owned(),
            // Comments keep the connection alive.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sse_messages_arrive_in_any_pieces() {
        let text = ": keep-alive\n\nevent: transition\nid: 3\ndata: {\"ü\":1}\n\nevent: end\r\ndata:a\r\ndata: b\r\n\r\n";
        let expected = [("transition", "3", "{\"ü\":1}"), ("end", "", "a\nb")].map(|(event, id, data)| {
            SseMessage { event: event.to_owned(), id: id.to_owned(), data: data.to_owned() }
        });
        for size in 1..=text.len() {
            let mut parser = SseParser::default();
            let messages: Vec<_> =
                text.as_bytes().chunks(size).flat_map(|part| parser.feed_bytes(part)).collect();
            assert_eq!(messages, expected, "in pieces of {size}");
        }
    }
}
