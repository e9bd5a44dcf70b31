//! Reads one item of an import: its fields, and the id that is derived where none is given.

use std::collections::BTreeSet;

use millstream_model::id::{ItemId, Name, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::time::Timestamp;
use millstream_people::assignment::NewQueueItem;
use millstream_people::assignment::item::ItemOverrides;
use millstream_people::assignment::limits::{MAX_OVERLAP, MAX_PRIORITY, MAX_SKILLS};

use crate::http::fields::{JsonFields, parse_whole_number};
use crate::people::importing::{UnreadableItem, derive_item_id};

pub(super) fn read_item(text: &str, tenant: &TenantId, queue: &Name) -> Result<NewQueueItem, UnreadableItem> {
    let mut fields = JsonFields::of(text, "").map_err(|faults| (None, faults))?;
    let id = fields.take_text("item_id");
    let has_id = id.is_some();
    let id = fields.parse_text("item_id", id, |text| ItemId::parse(text));
    let payload = fields.raw_json_or_null("payload");
    if payload.is_none() && !fields.has_fault("payload") {
        fields.add_fault("payload", "is required");
    }
    let priority = fields.take_field("priority").map(parse_priority);
    if matches!(priority, Some(None)) {
        fields
            .add_fault("priority", format!("must be a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}"));
    }
    let skills = read_skills(&mut fields);
    let overlap = fields.whole_number("overlap", 1..=u32::try_from(MAX_OVERLAP).unwrap_or(u32::MAX));
    let due = fields.take_text("due_at");
    let due_at = fields.parse_text("due_at", due, |text| {
        Timestamp::parse(text).map_err(|_| "is not a time like 2026-01-31T12:00:00Z")
    });
    fields.finish_fields().map_err(|faults| (id.clone(), faults))?;
    let Some(payload) = payload else { return Err((id, vec![Fault::new("payload", "is required")])) };
    let own = ItemOverrides { priority: priority.flatten(), skills, overlap };
    let id = match (id, has_id) {
        (Some(id), _) => id,
        (None, true) => return Err((None, vec![Fault::new("item_id", "cannot be read")])),
        (None, false) => derive_item_id(tenant, queue, &payload, &own)
            .ok_or_else(|| (None, vec![Fault::new("item_id", "is required")]))?,
    };
    Ok(NewQueueItem { id, payload, own, due_at, waiter: None })
}

pub(in crate::http) fn read_skills(fields: &mut JsonFields<'_>) -> BTreeSet<Name> {
    let Some(text) = fields.take_field("skills") else { return BTreeSet::new() };
    match serde_json::from_str::<BTreeSet<Name>>(text) {
        Ok(skills) if skills.len() <= MAX_SKILLS => return skills,
        Ok(_) => fields.add_fault("skills", format!("are more than {MAX_SKILLS}")),
        Err(error) => fields.add_fault("skills", format!("must be a list of names: {error}")),
    }
    BTreeSet::new()
}

fn parse_priority(text: &str) -> Option<i32> {
    let number = parse_whole_number::<i32>(text)?;
    (i64::from(number).abs() <= MAX_PRIORITY).then_some(number)
}
