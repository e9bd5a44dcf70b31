//! A person requests work, and may start it with the same request.

use std::collections::BTreeSet;

use millstream_core::assignment::next::Idle;
use millstream_core::assignment::{Assignment, AssignmentStatus, Input};
use millstream_core::id::{Name, PersonId, TenantId};
use millstream_store::assignments::{AssignmentFilter, Caller, Given, GivenWork};
use millstream_store::item_store::ItemRef;
use millstream_store::tending::{Ask, Tended};

use super::refused::{self, silent};
use crate::door::Door;
use crate::http::problem::Problem;

/// A request for work.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) person: PersonId,
    /// Empty: any.
    pub(crate) queues: BTreeSet<Name>,
    pub(crate) start: bool,
}

/// Retries: an assignment may be withdrawn before it is started; then another item is selected.
const TRIES: usize = 3;
/// Page of the person's started work, searched for an assignment whose answer was lost.
const BEGUN: usize = 100;

pub(crate) async fn next(door: &Door, tenant: &TenantId, wanted: &Wanted) -> Result<Given, Problem> {
    for _ in 0..TRIES {
        let caller = Caller {
            tenant: tenant.clone(),
            person: wanted.person.clone(),
            queues: wanted.queues.clone(),
            next: door.desk.fresh(),
        };
        let given = door.desk.next(caller).await?.ok_or_else(silent)?;
        let work = match given {
            Given::Assigned(work) if wanted.start => work,
            Given::Nothing(Idle::OpenLimit) if wanted.start => {
                return Ok(begun(door, tenant, wanted).await?.unwrap_or(Given::Nothing(Idle::OpenLimit)));
            }
            Given::Assigned(_) | Given::Nothing(_) => return Ok(given),
        };
        if let Some(assignment) = start(door, tenant, &work.assignment).await? {
            return Ok(Given::Assigned(Box::new(GivenWork { assignment, ..*work })));
        }
    }
    Ok(Given::Nothing(Idle::NothingOpen))
}

async fn start(door: &Door, tenant: &TenantId, one: &Assignment) -> Result<Option<Assignment>, Problem> {
    let input = Input::Start { assignment: one.id, person: one.person.clone() };
    let ask = Ask::input(ItemRef::Assignment(tenant.clone(), one.id), input);
    match door.desk.tended(ask).await? {
        Tended::Done { mut work, .. } => Ok(work.assignments.remove(&one.id)),
        Tended::Refused { .. } | Tended::NoSuchItem => Ok(None),
        Tended::Invalid(problems) => Err(refused::invalid_answer(problems)),
        Tended::NotAdopted(_) | Tended::Unjudged { .. } => Err(silent()),
    }
}

/// At the open limit, the person already has work: returns the latest started assignment that matches the
/// request.
async fn begun(door: &Door, tenant: &TenantId, wanted: &Wanted) -> Result<Option<Given>, Problem> {
    let filter = AssignmentFilter {
        person: Some(wanted.person.clone()),
        status: Some(AssignmentStatus::InProgress),
        ..AssignmentFilter::default()
    };
    let found = door.stores.assignment_views.list_assignments(tenant, &filter, None, BEGUN).await?;
    let asked = |one: &Assignment| wanted.queues.is_empty() || wanted.queues.contains(&one.queue);
    let Some(assignment) = found.into_iter().find(asked) else { return Ok(None) };
    let item = door.desk.item(ItemRef::Assignment(tenant.clone(), assignment.id)).await?;
    Ok(item.map(|loaded| {
        let (item, payload) = (loaded.work.item, loaded.work.payload);
        Given::Assigned(Box::new(GivenWork { assignment, item, payload, again: true }))
    }))
}
