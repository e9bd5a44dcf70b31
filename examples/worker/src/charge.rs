//! The action `charge`: takes the money for an order, once, however often it is attempted.

use std::sync::Arc;
use std::time::Duration;

use millstream_sdk::{ActionContext, ActionError};
use serde::{Deserialize, Serialize};

use crate::till::{Refusal, Till};

/// What the definition gives: `input: { order_id: …, amount: … }`.
#[derive(Debug, Deserialize)]
pub struct Charge {
    pub order_id: String,
    pub amount: u64,
}

/// What the execution is told: `event.payload.result`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    pub receipt: String,
}

pub async fn charge(till: Arc<Till>, ctx: ActionContext, input: Charge) -> Result<Receipt, ActionError> {
    // The key is the same on every attempt: a till that has seen it does not charge again.
    match till.charge(ctx.key(), &input.order_id, input.amount) {
        Ok(receipt) => Ok(Receipt { receipt }),
        Err(Refusal::Declined) => Err(ActionError::fail("the card is declined").class("card_declined")),
        Err(Refusal::Busy) => Err(ActionError::retry_after("the till is busy", Duration::from_secs(1))),
    }
}

#[cfg(test)]
mod tests {
    use millstream_sdk::FailureDecision;
    use millstream_sdk::testing::ActionTest;
    use serde_json::{Value, json};

    use super::*;

    fn order(amount: u64) -> Value {
        json!({ "order_id": "o-1", "amount": amount })
    }

    fn charging(till: &Arc<Till>) -> ActionTest<Charge, Receipt> {
        let till = Arc::clone(till);
        ActionTest::new(move |ctx, input| charge(Arc::clone(&till), ctx, input))
    }

    #[tokio::test]
    async fn two_attempts_are_one_charge() {
        let till = Arc::new(Till::default());
        let first = charging(&till).key("k").run(order(30)).await.result;
        let second = charging(&till).key("k").attempt(2).run(order(30)).await.result;
        assert_eq!(first, Ok(Receipt { receipt: "o-1-1".to_owned() }));
        assert_eq!(first, second);
        assert_eq!(till.taken(), 30);
    }

    #[tokio::test]
    async fn a_declined_card_is_not_tried_again() {
        let error = charging(&Arc::default()).run(order(2_000)).await.result.unwrap_err();
        assert_eq!((error.decision(), error.class_name()), (FailureDecision::Fail, "card_declined"));
    }

    #[tokio::test]
    async fn a_busy_till_is_tried_again_later() {
        let till = Arc::new(Till::busy());
        let error = charging(&till).run(order(30)).await.result.unwrap_err();
        assert_eq!(error.decision(), FailureDecision::Retry { after: Some(Duration::from_secs(1)) });
        assert_eq!(till.taken(), 0);
    }

    #[tokio::test]
    async fn an_order_without_an_amount_is_refused() {
        let error = charging(&Arc::default()).run(json!({ "order_id": "o-1" })).await.result.unwrap_err();
        assert_eq!(error.class_name(), "input");
    }
}
