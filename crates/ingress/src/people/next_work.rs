//! A person requests work, and may start it with the same request.

use std::collections::BTreeSet;

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_people::assignment::select::PersonIdleReason;
use millstream_people::assignment::{AssignmentStatus, ItemAssignment, ItemInput};
use millstream_store::assignments::{AssignedWork, AssignmentCaller, AssignmentFilter, NextAssignment};
use millstream_store::item_service::{ItemCommand, ItemReply};
use millstream_store::item_store::ItemRef;

use super::batcher::PeopleBatcher;
use super::refusals::{self, missing_verdict};
use crate::refusal::RequestRefusal;

/// A request for work.
#[derive(Debug)]
pub(crate) struct WorkRequest {
    pub(crate) person: PersonId,
    /// Empty: any.
    pub(crate) queues: BTreeSet<Name>,
    pub(crate) start: bool,
}

/// Retries: an assignment may be withdrawn before it is started; then another item is selected.
const TRIES: usize = 3;
/// Page of the person's started work, searched for an assignment whose answer was lost.
const BEGUN: usize = 100;

pub(crate) async fn give_next_work(
    desk: &PeopleBatcher,
    tenant: &TenantId,
    wanted: &WorkRequest,
) -> Result<NextAssignment, RequestRefusal> {
    for _ in 0..TRIES {
        let caller = AssignmentCaller {
            tenant: tenant.clone(),
            person: wanted.person.clone(),
            queues: wanted.queues.clone(),
            next: desk.new_assignment_id(),
        };
        let given = desk.next_work(caller).await?.ok_or_else(missing_verdict)?;
        let work = match given {
            NextAssignment::Assigned(work) if wanted.start => work,
            NextAssignment::Nothing(PersonIdleReason::OpenLimit) if wanted.start => {
                return Ok(latest_started(desk, tenant, wanted)
                    .await?
                    .unwrap_or(NextAssignment::Nothing(PersonIdleReason::OpenLimit)));
            }
            NextAssignment::Assigned(_) | NextAssignment::Nothing(_) => return Ok(given),
        };
        if let Some(assignment) = start_assignment(desk, tenant, &work.assignment).await? {
            return Ok(NextAssignment::Assigned(Box::new(AssignedWork { assignment, ..*work })));
        }
    }
    Ok(NextAssignment::Nothing(PersonIdleReason::NothingOpen))
}

async fn start_assignment(
    desk: &PeopleBatcher,
    tenant: &TenantId,
    one: &ItemAssignment,
) -> Result<Option<ItemAssignment>, RequestRefusal> {
    let input = ItemInput::Start { assignment: one.id, person: one.person.clone() };
    let ask = ItemCommand::for_input(ItemRef::Assignment(tenant.clone(), one.id), input);
    match desk.apply_judged(ask).await? {
        ItemReply::Done { mut work, .. } => Ok(work.assignments.remove(&one.id)),
        ItemReply::Refused { .. } | ItemReply::NoSuchItem => Ok(None),
        ItemReply::Invalid(problems) => Err(refusals::invalid_answer(problems)),
        ItemReply::NotAdopted(_) | ItemReply::Unjudged { .. } => Err(missing_verdict()),
    }
}

/// At the open limit, the person already has work: returns the latest started assignment that matches the
/// request.
async fn latest_started(
    desk: &PeopleBatcher,
    tenant: &TenantId,
    wanted: &WorkRequest,
) -> Result<Option<NextAssignment>, RequestRefusal> {
    let filter = AssignmentFilter {
        person: Some(wanted.person.clone()),
        status: Some(AssignmentStatus::InProgress),
        ..AssignmentFilter::default()
    };
    let found = desk.shell.stores.assignment_views.list_assignments(tenant, &filter, None, BEGUN).await?;
    let asked = |one: &ItemAssignment| wanted.queues.is_empty() || wanted.queues.contains(&one.queue);
    let Some(assignment) = found.into_iter().find(asked) else { return Ok(None) };
    let item = desk.load_item(ItemRef::Assignment(tenant.clone(), assignment.id)).await?;
    Ok(item.map(|loaded| {
        let (item, payload) = (loaded.work.item, loaded.work.payload);
        NextAssignment::Assigned(Box::new(AssignedWork { assignment, item, payload, already_assigned: true }))
    }))
}
