//! Orders that go well, that are refused, that wait for a parcel; and nothing of the secret anywhere.

use millstream_testkit::eventually;
use millstream_testkit::sink::SinkAnswer;
use serde_json::json;

use crate::shop::{Built, SOON, Shop, TOKEN, no_secret_anywhere};

/// Charged at the third attempt, labelled in Python, delivered by a child execution.
async fn an_order_is_delivered(built: Built) {
    let mut shop = Shop::open(built).await;
    shop.hire("py-1");
    shop.answering([
        SinkAnswer::Status(503),
        SinkAnswer::Status(500),
        SinkAnswer::Json(200, json!({"id": "ch-1"})),
    ]);
    shop.order("o-1", &["book", "pen"]).await;
    shop.reaches("o-1", "shipping").await;
    shop.action_is("o-1", "label", "succeeded").await;
    let parcel = json!({"correlation": "parcel-o-1", "name": "arrived"});
    shop.api.post("/v1/signals", &parcel).await.expect_status(202);
    let execution = shop.reaches("o-1", "delivered").await;
    assert_eq!(execution["status"], "completed", "{execution}");
    assert_eq!(execution["context"]["charge_id"], "ch-1", "{execution}");
    assert_eq!(execution["context"]["label"], "label of o-1", "{execution}");
    let child = execution["context"]["parcel"].as_str().unwrap();
    let child = shop.execution(child).await;
    assert_eq!((&child["definition"], &child["status"]), (&json!("parcel"), &json!("completed")));

    let charge = shop.action("o-1", "charge").await.unwrap();
    assert_eq!((&charge["attempts"], &charge["result"]), (&json!(3), &json!({"id": "ch-1"})), "{charge}");
    let calls = shop.payments.calls_to("/charges");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.header("idempotency-key") == Some("default/o-1/2/charge")));
    assert!(calls.iter().all(|call| call.header("authorization") == Some(&format!("Bearer {TOKEN}"))));
    let reserve = shop.action("o-1", "reserve").await.unwrap();
    assert_eq!(reserve["result"]["items"], 2, "{reserve}");
    assert_eq!(shop.action("o-1", "release").await.unwrap()["status"], "standby");
    no_secret_anywhere(&shop, "o-1").await;
}

/// The charge is refused for good: what was reserved is released, then the order is refused.
async fn a_refused_order_takes_back_what_it_did(built: Built) {
    let mut shop = Shop::open(built).await;
    shop.hire("py-1");
    shop.answering([
        SinkAnswer::Status(503),
        SinkAnswer::Json(402, json!(format!("card declined for Bearer {TOKEN}"))),
    ]);
    shop.order("o-2", &["book"]).await;
    let execution = shop.reaches("o-2", "refused").await;
    assert_eq!(execution["status"], "failed", "{execution}");
    assert!(execution["context"]["why"].as_str().unwrap().contains("card declined"), "{execution}");
    let release = shop.action_is("o-2", "release", "succeeded").await;
    assert_eq!(release["result"], "released default/o-2/2/reserve", "{release}");
    assert_eq!(shop.action("o-2", "label").await.unwrap()["status"], "skipped");
    assert_eq!(shop.action("o-2", "charge").await.unwrap()["status"], "failed");
    assert_eq!(shop.payments.calls_to("/charges").len(), 2);
    no_secret_anywhere(&shop, "o-2").await;
}

/// A function that says `fail` is not tried again; its order waits for a person.
async fn an_order_that_cannot_be_reserved_waits_for_a_person(built: Built) {
    let shop = Shop::open(built).await;
    shop.answering([SinkAnswer::Json(200, json!({"id": "ch-3"}))]);
    shop.order("o-3", &["unicorn"]).await;
    eventually(SOON, || async {
        let execution = shop.execution("o-3").await;
        if execution["status"] == "paused" { Ok(()) } else { Err(execution.to_string()) }
    })
    .await;
    let reserve = shop.action("o-3", "reserve").await.unwrap();
    assert_eq!((&reserve["attempts"], &reserve["error"]["class"]), (&json!(1), &json!("stock")), "{reserve}");
    let incidents = shop.api.get("/v1/incidents?status=open").await.expect_status(200);
    let incident = &incidents["items"][0];
    assert_eq!(
        (&incident["execution_id"], &incident["class"]),
        (&json!("o-3"), &json!("stock")),
        "{incidents}"
    );
    let path = format!("/v1/incidents/{}/retry", incident["incident_id"].as_str().unwrap());
    let input = json!({"call": {"function": "reserve", "input": {"order_id": "o-3", "items": ["horse"]}}});
    let body = json!({"reason": "a horse will do", "input": input});
    shop.api.post(&path, &body).await.expect_status(202);
    let reserve = shop.action_is("o-3", "reserve", "succeeded").await;
    assert_eq!(
        reserve["result"]["reservation"], "default/o-3/2/reserve~1",
        "another input, another key: {reserve}"
    );
    shop.reaches("o-3", "shipping").await;
}

/// When the parent is cancelled, its parcel is called back.
async fn a_cancelled_order_cancels_its_parcel(built: Built) {
    let mut shop = Shop::open(built).await;
    shop.hire("py-1");
    shop.answering([SinkAnswer::Json(200, json!({"id": "ch-4"}))]);
    shop.order("o-4", &["book"]).await;
    shop.action_is("o-4", "parcel", "awaiting").await;
    let parcels = shop.api.get("/v1/executions?definition=parcel").await.expect_status(200);
    let parcel = parcels["items"][0]["execution_id"].as_str().unwrap().to_owned();
    shop.api
        .post("/v1/executions/o-4/cancel", &json!({"reason": "changed my mind"}))
        .await
        .expect_status(202);
    eventually(SOON, || async {
        let child = shop.execution(&parcel).await;
        if child["status"] == "cancelled" { Ok(()) } else { Err(child.to_string()) }
    })
    .await;
}

in_both_modes! {
    an_order_is_delivered
    a_refused_order_takes_back_what_it_did
    an_order_that_cannot_be_reserved_waits_for_a_person
    a_cancelled_order_cancels_its_parcel
}
