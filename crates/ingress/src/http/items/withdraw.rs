//! Withdraws an item: its open assignments expire, and a later submit for them is rejected.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::items::WorkItemDetail;
use millstream_api::reason::Reason;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_people::assignment::ItemInput;

use super::read::parse_item_key;
use super::views::item_detail;
use crate::auth::TenantCaller;
use crate::http::interventions::read_reason;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/items/{item_id}/withdraw", "withdraw_item", withdraw_item)
            .summary("Withdraw an item: its open assignments expire")
            .needs(Permission::Operate)
            .accepts::<Reason>()
            .body_optional()
            .returns::<WorkItemDetail>(200, "The item is withdrawn, by this request or before")
            .problems(&[404, 409]),
    ]
}

async fn withdraw_item(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<WorkItemDetail<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let key = parse_item_key(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let reason = read_reason(&door, &parts.headers, body).await?;
    let work = door.desk.apply_to_item(&key, ItemInput::Withdraw { reason, by: caller.actor }).await?;
    Ok(Json(item_detail(work)))
}
