//! Parses an HTTP/1.1 answer: the status, the length, the body.
//!
//! It accepts what an HTTP server of ours or of the user's may send (a length, chunks, or nothing for 204)
//! and refuses the rest, so that a hostile or broken peer causes an error instead of unbounded memory.

use std::ops::Range;

/// Maximum length of a head.
const LONGEST_HEAD: usize = 16 * 1024;
/// Maximum length of a body.
const LONGEST_BODY: usize = 64 * 1024 * 1024;

/// An answer, as far as it has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedAnswer {
    /// More bytes are needed; at least this many in all, as far as known.
    Incomplete {
        total: usize,
    },
    Complete(WireAnswer),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireAnswer {
    pub(crate) status: u16,
    pub(crate) body: WireBody,
    /// Number of bytes consumed.
    pub(crate) used: usize,
    pub(crate) connection: ConnectionFate,
}

/// Location of the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WireBody {
    Within(Range<usize>),
    /// Assembled from chunks.
    Joined(Vec<u8>),
}

/// Whether the connection stays open after this answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    Keep,
    Close,
}

/// The peer sent something other than HTTP/1.1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1.1 answer: {0}")]
pub(crate) struct MalformedAnswer(&'static str);

/// The first answer in `bytes`.
pub(crate) fn parse_answer(bytes: &[u8]) -> Result<ParsedAnswer, MalformedAnswer> {
    let window = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let Some(head) = find_bytes(window, b"\r\n\r\n").map(|at| at + 4) else {
        if bytes.len() >= LONGEST_HEAD {
            return Err(MalformedAnswer("the head does not end"));
        }
        return Ok(ParsedAnswer::Incomplete { total: bytes.len() + 1 });
    };
    let mut lines = bytes[..head - 4].split(|byte| *byte == b'\n');
    let status = parse_status(lines.next().unwrap_or_default())?;
    let mut framing = BodyFraming::Empty;
    let mut connection = ConnectionFate::Keep;
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(MalformedAnswer("a header has no colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            framing = framing.combine_framing(BodyFraming::Length(parse_length(value)?))?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(MalformedAnswer("an unknown transfer encoding"));
            }
            framing = framing.combine_framing(BodyFraming::Chunked)?;
        } else if name.eq_ignore_ascii_case(b"connection") && value.eq_ignore_ascii_case(b"close") {
            connection = ConnectionFate::Close;
        }
    }
    if status == 204 || status == 304 {
        framing = BodyFraming::Empty;
    }
    let (body, used) = match framing {
        BodyFraming::Empty => (WireBody::Within(head..head), head),
        BodyFraming::Length(length) => {
            let end = head + length;
            if bytes.len() < end {
                return Ok(ParsedAnswer::Incomplete { total: end });
            }
            (WireBody::Within(head..end), end)
        }
        BodyFraming::Chunked => match join_chunks(bytes, head)? {
            Some((joined, end)) => (WireBody::Joined(joined), end),
            None => return Ok(ParsedAnswer::Incomplete { total: bytes.len() + 1 }),
        },
    };
    Ok(ParsedAnswer::Complete(WireAnswer { status, body, used, connection }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyFraming {
    Empty,
    Length(usize),
    Chunked,
}

impl BodyFraming {
    /// Different lengths in one answer enable request smuggling.
    fn combine_framing(self, other: Self) -> Result<Self, MalformedAnswer> {
        if self == Self::Empty || self == other { Ok(other) } else { Err(MalformedAnswer("two lengths")) }
    }
}

fn parse_status(line: &[u8]) -> Result<u16, MalformedAnswer> {
    let wrong = MalformedAnswer("the status line");
    let Some(rest) = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 ")) else {
        return Err(wrong);
    };
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or(wrong)?;
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    if (200..600).contains(&status) {
        Ok(status)
    } else {
        Err(MalformedAnswer("the status is none of a final answer"))
    }
}

fn parse_length(text: &[u8]) -> Result<usize, MalformedAnswer> {
    let text = std::str::from_utf8(text).map_err(|_| MalformedAnswer("the length"))?;
    // `parse` accepts a leading plus sign; HTTP does not.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MalformedAnswer("the length"));
    }
    let length: usize = text.parse().map_err(|_| MalformedAnswer("the length"))?;
    if length > LONGEST_BODY { Err(MalformedAnswer("the body is too long")) } else { Ok(length) }
}

/// The joined chunks and their end, or `None` while some are missing.
fn join_chunks(bytes: &[u8], mut at: usize) -> Result<Option<(Vec<u8>, usize)>, MalformedAnswer> {
    let mut joined = Vec::new();
    loop {
        let Some(line) = find_bytes(&bytes[at..], b"\r\n") else { return incomplete_size(&bytes[at..]) };
        let size = bytes[at..at + line].split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(size).ok().filter(|size| !size.starts_with('+') && size.len() <= 8);
        let size = size
            .and_then(|size| usize::from_str_radix(size, 16).ok())
            .ok_or(MalformedAnswer("a chunk's size"))?;
        if joined.len() + size > LONGEST_BODY {
            return Err(MalformedAnswer("the body is too long"));
        }
        at += line + 2;
        if size == 0 {
            // Trailers are not supported; without any the answer ends here.
            return match bytes.get(at..at + 2) {
                Some(b"\r\n") => Ok(Some((joined, at + 2))),
                Some(_) => Err(MalformedAnswer("trailers")),
                None => Ok(None),
            };
        }
        let Some(chunk) = bytes.get(at..at + size + 2) else { return Ok(None) };
        if &chunk[size..] != b"\r\n" {
            return Err(MalformedAnswer("a chunk does not end"));
        }
        joined.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

/// An unfinished size line is acceptable only while it is short.
fn incomplete_size(rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, MalformedAnswer> {
    if rest.len() > 256 { Err(MalformedAnswer("a chunk's size")) } else { Ok(None) }
}

pub(crate) fn find_bytes(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_body(text: &[u8]) -> (u16, Vec<u8>, usize) {
        match parse_answer(text).unwrap() {
            ParsedAnswer::Complete(WireAnswer { status, body: WireBody::Within(range), used, .. }) => {
                (status, text[range].to_vec(), used)
            }
            ParsedAnswer::Complete(WireAnswer { status, body: WireBody::Joined(joined), used, .. }) => {
                (status, joined, used)
            }
            ParsedAnswer::Incomplete { total } => panic!("incomplete, {total} needed"),
        }
    }

    #[test]
    fn answer_length_leaves_next_answer() {
        let text = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nX: y\r\n\r\nokHTTP/1.1";
        assert_eq!(parsed_body(text), (202, b"ok".to_vec(), text.len() - 8));
    }

    #[test]
    fn joins_chunks() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(parsed_body(text), (200, b"abc0123456789".to_vec(), text.len()));
    }

    #[test]
    fn partial_answer_is_incomplete() {
        for text in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            for end in 0..text.len() {
                let parsed = parse_answer(&text[..end]).unwrap();
                assert!(matches!(parsed, ParsedAnswer::Incomplete { total } if total > end), "at {end}");
            }
            assert!(matches!(parse_answer(text).unwrap(), ParsedAnswer::Complete(_)));
        }
    }

    #[test]
    fn incomplete_answer_reports_missing_bytes() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
        assert_eq!(parse_answer(text).unwrap(), ParsedAnswer::Incomplete { total: text.len() + 1000 });
    }

    #[test]
    fn bodyless_answer_may_close_connection() {
        let ParsedAnswer::Complete(answer) =
            parse_answer(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap()
        else {
            panic!("incomplete");
        };
        assert_eq!((answer.status, answer.connection), (204, ConnectionFate::Close));
    }

    #[test]
    fn unsupported_answer_is_refused() {
        let long = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'a'; LONGEST_HEAD]].concat();
        let endless_chunk =
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(), vec![b'1'; 300]].concat();
        for text in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 999 \r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
            &long,
            &endless_chunk,
        ] {
            assert!(parse_answer(text).is_err(), "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn answer_parser_never_panics() {
        let good =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: x\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
        // Replaces every byte by a few that matter to the grammar.
        for at in 0..good.len() {
            for byte in [0, b'\r', b'\n', b':', b' ', b'0', b'f', b';', 0xff] {
                let mut text = good.to_vec();
                text[at] = byte;
                let _ = parse_answer(&text);
            }
        }
    }
}
