//! Table of calls and roles: generated from the routes and from the gRPC method table that the layers
//! check.

use std::fmt::Write;

use millstream_model::permission::Permission;
use millstream_model::status::Role;

use crate::grpc::{METHODS, MethodAccess};
use crate::http::all_routes;

/// One call, and the permission that its key needs; `None` for an anonymous call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAccess {
    /// `POST /v1/events`, or the path of a gRPC method.
    pub call: String,
    pub needs: Option<Permission>,
}

/// Every HTTP operation.
pub fn http_access() -> Vec<CallAccess> {
    let access = |route: crate::http::route::Route| CallAccess {
        call: format!("{} {}", route.doc.method.to_uppercase(), route.doc.path),
        needs: route.doc.needs,
    };
    all_routes().into_iter().map(access).collect()
}

/// Every gRPC method that is served.
pub fn grpc_access() -> Vec<CallAccess> {
    let access = |(path, access): &(&str, MethodAccess)| CallAccess {
        call: (*path).to_owned(),
        needs: match access {
            MethodAccess::Anonymous => None,
            MethodAccess::Needs(permission) => Some(*permission),
        },
    };
    METHODS.iter().map(access).collect()
}

/// The tables of `docs/SECURITY-ROLES.md`.
pub fn render_role_tables() -> String {
    let mut text = String::new();
    let head = Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(" | ");
    let rule = "---|".repeat(Role::ALL.len());
    let cells = |permits: &dyn Fn(Role) -> bool| {
        let cell = |role: &Role| if permits(*role) { "yes" } else { "" };
        Role::ALL.iter().map(cell).collect::<Vec<_>>().join(" | ")
    };
    let _ = writeln!(text, "### Permissions\n\n| permission | {head} |\n|---|{rule}");
    for permission in Permission::ALL {
        let _ = writeln!(text, "| `{permission}` | {} |", cells(&|role| role.permits(*permission)));
    }
    let _ = writeln!(
        text,
        "\n### Keys that a key may create, rotate and revoke\n\n| key | {head} |\n|---|{rule}"
    );
    for creator in Role::ALL {
        let _ = writeln!(text, "| {creator} | {} |", cells(&|role| creator.may_grant(role)));
    }
    for (title, calls) in [("HTTP", http_access()), ("gRPC", grpc_access())] {
        let _ = writeln!(text, "\n### {title}\n\n| call | permission | {head} |\n|---|---|{rule}");
        for CallAccess { call, needs } in calls {
            let _ = match needs {
                Some(needs) => {
                    writeln!(text, "| `{call}` | `{needs}` | {} |", cells(&|role| role.permits(needs)))
                }
                None => writeln!(text, "| `{call}` | none: needs no key | {} |", cells(&|_| true)),
            };
        }
    }
    text
}
