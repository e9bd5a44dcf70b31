//! Reads the registration of an executor.

use millstream_model::id::TenantId;
use millstream_model::network_policy::NetworkPolicy;
use millstream_model::problem::ValidationProblems;
use millstream_store::executor_store::RegisteredExecutor;

use super::text::{JsonOrigin, MessageReader};
use crate::address;
use crate::path::FieldPath;
use crate::proto;

/// Upper bound of the roles, or labels, of one executor.
const MANY: usize = 64;
const LONGEST_ROLE: usize = 256;

/// Paths begin with `executor`, the field of the request.
pub fn read_executor(
    given: proto::Executor,
    tenant: &TenantId,
    policy: &NetworkPolicy,
) -> Result<RegisteredExecutor, ValidationProblems> {
    let mut reading = MessageReader::new(JsonOrigin::Checked);
    let at = FieldPath::ROOT.field("executor");
    let name = reading.read_name(&given.name, &at.field("name"));
    if let Err(why) = address::check_registration(&given.address, policy) {
        reading.add_fault(&at.field("address"), why);
    }
    if given.capacity == 0 {
        reading.add_fault(&at.field("capacity"), "must be at least 1");
    }
    for (field, count) in [("roles", given.roles.len()), ("labels", given.labels.len())] {
        if count > MANY {
            reading.add_fault(&at.field(field), format!("has {count} items, at most {MANY} are allowed"));
        }
    }
    let roles = at.field("roles");
    for (index, role) in given.roles.iter().enumerate() {
        if role.is_empty() || role.len() > LONGEST_ROLE {
            reading.add_fault(&roles.at(index), format!("must have 1 to {LONGEST_ROLE} bytes"));
        }
    }
    let labels = reading.read_names(&given.labels, &at.field("labels"));
    let executor = name.map(|name| RegisteredExecutor {
        tenant: tenant.clone(),
        name,
        address: given.address,
        roles: given.roles.into_iter().collect(),
        labels,
        capacity: given.capacity,
        load: given.load,
    });
    reading.faults.finish_with(executor)
}
