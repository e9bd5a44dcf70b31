//! Notices of items to the outbound sinks.

use super::fixture::{Desk, name, queue};
use crate::assignment::notices::notices;
use crate::assignment::{Change, Input};
use crate::notice::Kind;

fn kinds(change: &Change) -> Vec<Kind> {
    notices(change).iter().map(|notice| notice.kind).collect()
}

fn overdue(desk: &mut Desk) -> Change {
    desk.now = desk.work.item.due_at.unwrap();
    desk.act(&Input::Overdue)
}

#[test]
fn an_item_that_reached_its_total_cap_is_told_with_its_queue_and_reason() {
    let mut desk = Desk::new("max_attempts_total: 2, max_attempts_per_labeler: 1");
    let one = desk.working("ann");
    assert_eq!(kinds(&desk.skip(one)), []);
    let two = desk.working("bob");
    let told = notices(&desk.skip(two));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].subject.as_str()), (Kind::ItemFailed, "i-1"));
    assert_eq!(
        told[0].data.as_str(),
        concat!(
            r#"{"type":"item.failed","item_id":"i-1","at":"2026-01-01T00:00:06.000Z","queue":"q","#,
            r#""reason":"max_attempts_total is reached"}"#
        )
    );
}

#[test]
fn an_item_that_is_escalated_to_an_event_names_it() {
    let mut desk = Desk::new("due: 1h, escalate: {event: late}");
    let told = notices(&overdue(&mut desk));
    assert_eq!(told.iter().map(|notice| notice.kind).collect::<Vec<_>>(), [Kind::ItemEscalated]);
    let data = told[0].data.as_str();
    assert!(data.contains(r#""queue":"q","reason":"it was not done in time","event":"late""#), "{data}");
}

#[test]
fn an_item_that_is_escalated_to_a_queue_names_both() {
    let mut desk = Desk::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("due: 1h");
    seniors.name = name("seniors");
    desk.seniors = Some(seniors);
    let change = overdue(&mut desk);
    assert_eq!(kinds(&change), [Kind::ItemEscalated]);
    let told = notices(&change);
    let data = told[0].data.as_str();
    let wanted = r#""queue":"q","reason":"it was not done in time","to_queue":"seniors""#;
    assert!(data.contains(wanted), "{data}");
    let late_there = notices(&overdue(&mut desk));
    assert_eq!(late_there[0].kind, Kind::ItemFailed);
    assert!(late_there[0].data.as_str().contains(r#""queue":"seniors""#));
}

#[test]
fn an_item_that_cannot_be_done_where_it_is_escalated_to_is_told_twice_in_order() {
    let mut desk = Desk::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("people: [ann]");
    seniors.name = name("seniors");
    desk.seniors = Some(seniors);
    let one = desk.working("ann");
    desk.skip(one);
    assert_eq!(kinds(&overdue(&mut desk)), [Kind::ItemEscalated, Kind::ItemFailed]);
}

#[test]
fn what_is_done_or_was_withdrawn_is_not_told() {
    let mut desk = Desk::new("");
    let one = desk.working("ann");
    assert_eq!(kinds(&desk.submit(one, "1")), []);
    let mut desk = Desk::new("");
    assert_eq!(kinds(&desk.act(&Input::Withdraw { reason: None, by: None })), []);
}
