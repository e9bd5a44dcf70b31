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
pub(crate) enum Parsed {
    /// More bytes are needed; at least this many in all, as far as known.
    Incomplete {
        total: usize,
    },
    Complete(Answer),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Body,
    /// Number of bytes consumed.
    pub(crate) used: usize,
    pub(crate) connection: Fate,
}

/// Location of the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Within(Range<usize>),
    /// Assembled from chunks.
    Joined(Vec<u8>),
}

/// Whether the connection stays open after this answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Close,
}

/// The peer sent something other than HTTP/1.1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1.1 answer: {0}")]
pub(crate) struct Malformed(&'static str);

/// The first answer in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let window = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let Some(head) = find(window, b"\r\n\r\n").map(|at| at + 4) else {
        if bytes.len() >= LONGEST_HEAD {
            return Err(Malformed("the head does not end"));
        }
        return Ok(Parsed::Incomplete { total: bytes.len() + 1 });
    };
    let mut lines = bytes[..head - 4].split(|byte| *byte == b'\n');
    let status = status(lines.next().unwrap_or_default())?;
    let mut framing = Framing::Empty;
    let mut connection = Fate::Keep;
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(Malformed("a header has no colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            framing = framing.and(Framing::Length(length(value)?))?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("an unknown transfer encoding"));
            }
            framing = framing.and(Framing::Chunked)?;
        } else if name.eq_ignore_ascii_case(b"connection") && value.eq_ignore_ascii_case(b"close") {
            connection = Fate::Close;
        }
    }
    if status == 204 || status == 304 {
        framing = Framing::Empty;
    }
    let (body, used) = match framing {
        Framing::Empty => (Body::Within(head..head), head),
        Framing::Length(length) => {
            let end = head + length;
            if bytes.len() < end {
                return Ok(Parsed::Incomplete { total: end });
            }
            (Body::Within(head..end), end)
        }
        Framing::Chunked => match chunks(bytes, head)? {
            Some((joined, end)) => (Body::Joined(joined), end),
            None => return Ok(Parsed::Incomplete { total: bytes.len() + 1 }),
        },
    };
    Ok(Parsed::Complete(Answer { status, body, used, connection }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Empty,
    Length(usize),
    Chunked,
}

impl Framing {
    /// Different lengths in one answer enable request smuggling.
    fn and(self, other: Self) -> Result<Self, Malformed> {
        if self == Self::Empty || self == other { Ok(other) } else { Err(Malformed("two lengths")) }
    }
}

fn status(line: &[u8]) -> Result<u16, Malformed> {
    let wrong = Malformed("the status line");
    let Some(rest) = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 ")) else {
        return Err(wrong);
    };
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or(wrong)?;
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    if (200..600).contains(&status) {
        Ok(status)
    } else {
        Err(Malformed("the status is none of a final answer"))
    }
}

fn length(text: &[u8]) -> Result<usize, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed("the length"))?;
    // `parse` accepts a leading plus sign; HTTP does not.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed("the length"));
    }
    let length: usize = text.parse().map_err(|_| Malformed("the length"))?;
    if length > LONGEST_BODY { Err(Malformed("the body is too long")) } else { Ok(length) }
}

/// The joined chunks and their end, or `None` while some are missing.
fn chunks(bytes: &[u8], mut at: usize) -> Result<Option<(Vec<u8>, usize)>, Malformed> {
    let mut joined = Vec::new();
    loop {
        let Some(line) = find(&bytes[at..], b"\r\n") else { return incomplete_size(&bytes[at..]) };
        let size = bytes[at..at + line].split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(size).ok().filter(|size| !size.starts_with('+') && size.len() <= 8);
        let size =
            size.and_then(|size| usize::from_str_radix(size, 16).ok()).ok_or(Malformed("a chunk's size"))?;
        if joined.len() + size > LONGEST_BODY {
            return Err(Malformed("the body is too long"));
        }
        at += line + 2;
        if size == 0 {
            // Trailers are not supported; without any the answer ends here.
            return match bytes.get(at..at + 2) {
                Some(b"\r\n") => Ok(Some((joined, at + 2))),
                Some(_) => Err(Malformed("trailers")),
                None => Ok(None),
            };
        }
        let Some(chunk) = bytes.get(at..at + size + 2) else { return Ok(None) };
        if &chunk[size..] != b"\r\n" {
            return Err(Malformed("a chunk does not end"));
        }
        joined.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

/// An unfinished size line is acceptable only while it is short.
fn incomplete_size(rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Malformed> {
    if rest.len() > 256 { Err(Malformed("a chunk's size")) } else { Ok(None) }
}

pub(crate) fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &[u8]) -> (u16, Vec<u8>, usize) {
        match parse(text).unwrap() {
            Parsed::Complete(Answer { status, body: Body::Within(range), used, .. }) => {
                (status, text[range].to_vec(), used)
            }
            Parsed::Complete(Answer { status, body: Body::Joined(joined), used, .. }) => {
                (status, joined, used)
            }
            Parsed::Incomplete { total } => panic!("incomplete, {total} needed"),
        }
    }

    #[test]
    fn reads_a_length_and_leaves_the_next_answer_alone() {
        let text = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nX: y\r\n\r\nokHTTP/1.1";
        assert_eq!(body(text), (202, b"ok".to_vec(), text.len() - 8));
    }

    #[test]
    fn joins_chunks() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(body(text), (200, b"abc0123456789".to_vec(), text.len()));
    }

    #[test]
    fn no_prefix_of_an_answer_is_taken_for_the_whole() {
        for text in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            for end in 0..text.len() {
                let parsed = parse(&text[..end]).unwrap();
                assert!(matches!(parsed, Parsed::Incomplete { total } if total > end), "at {end}");
            }
            assert!(matches!(parse(text).unwrap(), Parsed::Complete(_)));
        }
    }

    #[test]
    fn says_how_much_is_missing_when_the_length_is_known() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
        assert_eq!(parse(text).unwrap(), Parsed::Incomplete { total: text.len() + 1000 });
    }

    #[test]
    fn an_answer_without_a_body_and_a_closed_connection() {
        let Parsed::Complete(answer) =
            parse(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap()
        else {
            panic!("incomplete");
        };
        assert_eq!((answer.status, answer.connection), (204, Fate::Close));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
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
            assert!(parse(text).is_err(), "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: x\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
        // Replaces every byte by a few that matter to the grammar.
        for at in 0..good.len() {
            for byte in [0, b'\r', b'\n', b':', b' ', b'0', b'f', b';', 0xff] {
                let mut text = good.to_vec();
                text[at] = byte;
                let _ = parse(&text);
            }
        }
    }
}
