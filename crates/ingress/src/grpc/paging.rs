//! Pagination of messages: page size, page token, and a bound on bytes.

use millstream_workflow::graph::NodeStatus;
use prost::Message;
use tonic::Status;

use super::status::invalid_field;
use crate::cursor::{self, CursorList};

/// By default, clients refuse messages of more than 4 MiB.
const PAGE_BYTES: usize = 3 * 1024 * 1024;

/// The position after which the page begins.
pub(super) fn parse_page_token<T>(
    list: CursorList,
    token: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let position = cursor::decode(list, token).and_then(|position| parse(&position));
    let not_ours =
        || invalid_field("page_token", "is not a token of this list; use next_page_token as it was given");
    position.map(Some).ok_or_else(not_ours)
}

/// The page size: `default` unless given.
pub(super) fn parse_page_size(given: u32, default: usize, most: usize) -> Result<usize, Status> {
    match usize::try_from(given) {
        Ok(0) => Ok(default),
        Ok(size) if size <= most => Ok(size),
        Ok(_) | Err(_) => Err(invalid_field("page_size", format!("must be at most {most}"))),
    }
}

/// Takes the items of `found` that fit (it holds one more than `limit` where there are more); returns them
/// with the token of the rest.
pub(super) fn cut_page<P, T: Message>(
    found: Vec<(P, T)>,
    limit: usize,
    list: CursorList,
    position: impl Fn(&P) -> String,
) -> (Vec<T>, String) {
    let (mut page, mut token) = (Vec::with_capacity(found.len().min(limit)), String::new());
    let (mut bytes, mut last) = (0, None);
    for (place, item) in found {
        bytes += item.encoded_len();
        if page.len() == limit || (bytes > PAGE_BYTES && !page.is_empty()) {
            token = last.as_ref().map(|place| cursor::encode(list, position(place))).unwrap_or_default();
            break;
        }
        last = Some(place);
        page.push(item);
    }
    (page, token)
}

/// The statuses of a filter.
pub(super) fn decode_statuses(given: &[i32]) -> Result<Vec<NodeStatus>, Status> {
    let known = |(at, number): (usize, &i32)| {
        let status = millstream_rpc::status::status_in(*number);
        status.ok_or_else(|| invalid_field(&format!("statuses[{at}]"), format!("{number} is not a status")))
    };
    given.iter().enumerate().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(texts: &[&str]) -> Vec<(usize, String)> {
        texts.iter().map(|text| (*text).to_owned()).enumerate().collect()
    }

    #[test]
    fn grpc_page_ends_at_limit() {
        let position = |at: &usize| at.to_string();
        let (items, token) = cut_page(numbered(&["a", "b", "c"]), 2, CursorList::Nodes, position);
        assert_eq!(items, ["a", "b"]);
        assert_eq!(
            parse_page_token(CursorList::Nodes, &token, |text| text.parse().ok()).unwrap(),
            Some(1_usize)
        );
        let (items, token) = cut_page(numbered(&["a", "b"]), 2, CursorList::Nodes, position);
        assert_eq!((items.len(), token.as_str()), (2, ""));
    }

    #[test]
    fn oversized_page_keeps_one_item() {
        let large = "x".repeat(PAGE_BYTES + 1);
        let (items, token) = cut_page(numbered(&[&large, "b"]), 9, CursorList::Nodes, |at| at.to_string());
        assert_eq!(items.len(), 1);
        assert!(!token.is_empty());
    }

    #[test]
    fn foreign_page_token_is_refused() {
        let token = cursor::encode(CursorList::Graphs, 7);
        assert!(parse_page_token(CursorList::Nodes, &token, |text| Some(text.to_owned())).is_err());
    }
}
