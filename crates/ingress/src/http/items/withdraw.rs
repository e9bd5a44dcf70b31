//! Withdraws an item: its open assignments expire, and a later submit for them is rejected.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::assignment::Input;
use millstream_core::permission::Permission;

use super::read::key_of;
use super::views::WholeItem;
use crate::auth::Caller;
use crate::door::Door;
use crate::http::interventions::reason;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/items/{item_id}/withdraw", "withdraw_item", withdraw)
            .summary("Withdraw an item: its open assignments expire")
            .needs(Permission::Operate)
            .body("application/json", "Reason")
            .body_optional()
            .answer(200, "WholeItem", "The item is withdrawn, by this request or before")
            .problems(&[404, 409]),
    ]
}

async fn withdraw(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<WholeItem>, Problem> {
    params.finish()?;
    let key = key_of(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let reason = reason(&door, &parts.headers, body).await?;
    let work = door.desk.about_item(&key, Input::Withdraw { reason, by: caller.actor }).await?;
    Ok(Json(work.into()))
}
