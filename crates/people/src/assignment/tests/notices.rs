//! Notices of items to the outbound sinks.

use millstream_model::notice::NoticeKind;

use super::fixture::{ItemFixture, name, queue};
use crate::assignment::notices::item_notices;
use crate::assignment::{ItemChange, ItemInput};

fn kinds(change: &ItemChange) -> Vec<NoticeKind> {
    item_notices(change).iter().map(|notice| notice.kind).collect()
}

fn overdue(desk: &mut ItemFixture) -> ItemChange {
    desk.now = desk.work.item.due_at.unwrap();
    desk.act(&ItemInput::Overdue)
}

#[test]
fn failed_item_notice_has_queue_and_reason() {
    let mut desk = ItemFixture::new("max_attempts_total: 2, max_attempts_per_person: 1");
    let one = desk.working("ann");
    assert_eq!(kinds(&desk.skip(one)), []);
    let two = desk.working("bob");
    let told = item_notices(&desk.skip(two));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].subject.as_str()), (NoticeKind::ItemFailed, "i-1"));
    assert_eq!(
        told[0].data.as_str(),
        concat!(
            r#"{"type":"item.failed","item_id":"i-1","at":"2026-01-01T00:00:06.000Z","queue":"q","#,
            r#""reason":"max_attempts_total is reached"}"#
        )
    );
}

#[test]
fn event_escalation_notice_names_event() {
    let mut desk = ItemFixture::new("due: 1h, escalate: {event: late}");
    let told = item_notices(&overdue(&mut desk));
    assert_eq!(told.iter().map(|notice| notice.kind).collect::<Vec<_>>(), [NoticeKind::ItemEscalated]);
    let data = told[0].data.as_str();
    assert!(data.contains(r#""queue":"q","reason":"it was not done in time","event":"late""#), "{data}");
}

#[test]
fn queue_escalation_notice_names_both_queues() {
    let mut desk = ItemFixture::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("due: 1h");
    seniors.name = name("seniors");
    desk.seniors = Some(seniors);
    let change = overdue(&mut desk);
    assert_eq!(kinds(&change), [NoticeKind::ItemEscalated]);
    let told = item_notices(&change);
    let data = told[0].data.as_str();
    let wanted = r#""queue":"q","reason":"it was not done in time","to_queue":"seniors""#;
    assert!(data.contains(wanted), "{data}");
    let late_there = item_notices(&overdue(&mut desk));
    assert_eq!(late_there[0].kind, NoticeKind::ItemFailed);
    assert!(late_there[0].data.as_str().contains(r#""queue":"seniors""#));
}

#[test]
fn failed_escalation_yields_two_ordered_notices() {
    let mut desk = ItemFixture::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("people: [ann]");
    seniors.name = name("seniors");
    desk.seniors = Some(seniors);
    let one = desk.working("ann");
    desk.skip(one);
    assert_eq!(kinds(&overdue(&mut desk)), [NoticeKind::ItemEscalated, NoticeKind::ItemFailed]);
}

#[test]
fn done_and_withdrawn_items_cause_no_notice() {
    let mut desk = ItemFixture::new("");
    let one = desk.working("ann");
    assert_eq!(kinds(&desk.submit(one, "1")), []);
    let mut desk = ItemFixture::new("");
    assert_eq!(kinds(&desk.act(&ItemInput::Withdraw { reason: None, by: None })), []);
}
