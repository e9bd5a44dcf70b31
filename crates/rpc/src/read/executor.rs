//! An executor that makes itself known.

use millstream_core::id::TenantId;
use millstream_core::problem::Problems;
use millstream_store::executor_store::Executor;
use tonic::transport::Uri;

use super::text::{Json, Reading};
use crate::path::Path;
use crate::proto;

/// Roles, or labels, of one executor.
const MANY: usize = 64;
const LONGEST_ROLE: usize = 256;
const LONGEST_ADDRESS: usize = 512;

/// Paths begin with `executor`, which is where the request has it.
pub fn executor(given: proto::Executor, tenant: &TenantId) -> Result<Executor, Problems> {
    let mut reading = Reading::new(Json::Checked);
    let at = Path::ROOT.field("executor");
    let name = reading.name(&given.name, &at.field("name"));
    if let Err(why) = address(&given.address) {
        reading.fault(&at.field("address"), why);
    }
    if given.capacity == 0 {
        reading.fault(&at.field("capacity"), "must be at least 1");
    }
    for (field, count) in [("roles", given.roles.len()), ("labels", given.labels.len())] {
        if count > MANY {
            reading.fault(&at.field(field), format!("has {count} items, at most {MANY} are allowed"));
        }
    }
    let roles = at.field("roles");
    for (index, role) in given.roles.iter().enumerate() {
        if role.is_empty() || role.len() > LONGEST_ROLE {
            reading.fault(&roles.at(index), format!("must have 1 to {LONGEST_ROLE} bytes"));
        }
    }
    let labels = reading.names(&given.labels, &at.field("labels"));
    let executor = name.map(|name| Executor {
        tenant: tenant.clone(),
        name,
        address: given.address,
        roles: given.roles.into_iter().collect(),
        labels,
        capacity: given.capacity,
        load: given.load,
    });
    reading.faults.or(executor)
}

/// Whether an address is of the form `http://host:port`.
fn address(text: &str) -> Result<(), &'static str> {
    const FORM: &str = "must be like http://host:port";
    if text.len() > LONGEST_ADDRESS {
        return Err("is too long");
    }
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let plain = uri.path() == "/" && uri.query().is_none() && !text.contains('@');
    match uri.scheme_str() {
        Some("http") if plain && uri.port_u16().is_some() => Ok(()),
        Some("https") => Err("https is not spoken: put a proxy between"),
        Some(_) | None => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["http://127.0.0.1:7000", "http://executor.local:80/", "http://[::1]:7000"] {
            assert_eq!(address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "executor:7000",
            "127.0.0.1:7000",
            "http://host",
            "http://host:99999",
            "http://a@host:1",
            "http://host:1/path",
            "http://host:1?x",
            "https://host:1",
            "unix:/tmp/socket",
            "http:// :1",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
