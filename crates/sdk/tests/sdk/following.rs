//! A tail sees every transition once, over any number of connections.

use millstream_sdk::client::{NewEvent, TransitionStream};
use millstream_testkit::TestProxy;
use millstream_testkit::proxy::NetworkWeather;

use crate::world::{SdkWorld, persistent};

async fn next(tail: &mut TransitionStream) -> Option<i64> {
    tail.next().await.map(|transition| transition.unwrap().seq)
}

#[tokio::test]
async fn tail_ends_with_its_execution() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.start("counter").id("t-1").await.unwrap();
    let mut tail = client.tail("t-1");
    assert_eq!(next(&mut tail).await, Some(1));
    client.send("t-1", "add").await.unwrap();
    assert_eq!(next(&mut tail).await, Some(2));
    client.send("t-1", "stop").await.unwrap();
    assert_eq!(next(&mut tail).await, Some(3));
    assert_eq!(next(&mut tail).await, None);
    // After the end there is nothing left to read.
    assert_eq!(next(&mut client.tail_after("t-1", 3)).await, None);
    assert_eq!(next(&mut client.tail_after("t-1", 2)).await, Some(3));
    let message = client.tail("t-1").next_message().await.unwrap().unwrap();
    assert!(message.data.starts_with(r#"{"seq":1,"#), "{}", message.data);
    assert_eq!(message.transition.seq, 1);
}

#[tokio::test]
async fn reconnected_tail_is_gapless() {
    let world = SdkWorld::new().await;
    let proxy = TestProxy::forward_to(world.engine.address().unwrap()).await;
    let client = persistent(proxy.address());
    world.client.start("counter").id("t-2").await.unwrap();
    let mut tail = client.tail("t-2");
    assert_eq!(next(&mut tail).await, Some(1));
    let mut seq = 1;
    for _ in 0..3 {
        proxy.set_weather(NetworkWeather::Cut);
        world.client.send_many((0..4).map(|_| NewEvent::to("t-2", "add"))).await.unwrap();
        proxy.set_weather(NetworkWeather::Clear);
        for _ in 0..4 {
            seq += 1;
            assert_eq!(next(&mut tail).await, Some(seq));
        }
    }
    assert!(proxy.totals_so_far().reset >= 3, "{:?}", proxy.totals_so_far());
    world.client.send("t-2", "stop").await.unwrap();
    assert_eq!(next(&mut tail).await, Some(seq + 1));
    assert_eq!(next(&mut tail).await, None);
}

#[tokio::test]
async fn tail_of_missing_execution_is_refused() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let mut tail = client.tail("missing");
    assert!(tail.next().await.unwrap().unwrap_err().is_not_found());
    assert!(tail.next().await.is_none());
}
