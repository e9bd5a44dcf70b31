//! Wire format of announcements in the channel: one line each, several per message.
//!
//! `TENANT EXECUTION SEQ EVENT|-`: none of the ids may contain a space. Unreadable lines (from a newer
//! version or a foreign publisher) are skipped: waiting callers re-read the store anyway.

use millstream_model::id::{EventId, ExecutionId, ExecutionKey, Seq, TenantId};

use crate::announcement::Announcement;

pub(super) fn encode_announcements(news: &[Announcement]) -> String {
    let mut message = String::with_capacity(news.len() * 96);
    for item in news {
        let event = item.event.map_or_else(|| "-".to_owned(), |event| event.to_string());
        let line = format!("{} {} {} {event}\n", item.execution.tenant, item.execution.execution, item.seq);
        message.push_str(&line);
    }
    message
}

pub(super) fn decode_announcements(message: &str) -> impl Iterator<Item = Announcement> {
    message.lines().filter_map(parse_line)
}

fn parse_line(line: &str) -> Option<Announcement> {
    let mut words = line.split(' ');
    let tenant = TenantId::parse(words.next()?).ok()?;
    let execution = ExecutionId::parse(words.next()?).ok()?;
    let seq = Seq(words.next()?.parse().ok()?);
    let event = match words.next()? {
        "-" => None,
        id => Some(EventId(id.parse().ok()?)),
    };
    Some(Announcement { execution: ExecutionKey { tenant, execution }, seq, event })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(seq: i64, event: Option<EventId>) -> Announcement {
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("a:b.c-d_E").unwrap(),
        };
        Announcement { execution, seq: Seq(seq), event }
    }

    #[test]
    fn announcements_round_trip() {
        let batch = vec![news(1, None), news(i64::MAX, Some(EventId(uuid::Uuid::from_u128(7))))];
        assert_eq!(decode_announcements(&encode_announcements(&batch)).collect::<Vec<_>>(), batch);
    }

    #[test]
    fn unreadable_announcement_lines_are_skipped() {
        let message =
            format!("rubbish\n\n{}default x notanumber -\n", encode_announcements(&[news(3, None)]));
        assert_eq!(decode_announcements(&message).collect::<Vec<_>>(), vec![news(3, None)]);
    }
}
