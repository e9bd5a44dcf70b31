//! The service with the Rust SDK: a virtual object per execution that decides, runs one durable
//! action and keeps its new state. `service PORT RECORDS`.

use std::{fs::OpenOptions, io::Write, sync::Mutex, time::Duration};

use peers_restate::clock::now_us;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// Sent, started and done of every event that has not been written to the file yet.
static RECORDS: Mutex<Vec<f64>> = Mutex::new(Vec::new());

#[derive(Serialize, Deserialize)]
struct Event {
    sent_us: u64,
    kind: String,
    amount: u64,
}

#[derive(Serialize, Deserialize)]
struct Next {
    state: String,
}

struct Execution;

#[object]
impl Execution {
    #[handler]
    async fn apply(&self, ctx: ObjectContext<'_>, event: Json<Event>) -> Result<Json<Next>, TerminalError> {
        let Event { sent_us, kind, amount } = event.into_inner();
        let current = ctx.get::<String>("state").await?.unwrap_or_else(|| "new".into());
        let state = if current == "new" && kind == "paid" { "paid".to_owned() } else { current };
        let action = move || async move {
            let started = now_us();
            std::hint::black_box(amount + 1);
            Ok(started)
        };
        let started = ctx.run(action).name("action").await?;
        ctx.set("state", state.clone());
        RECORDS.lock().expect("nobody panics while recording").extend([
            sent_us as f64,
            started as f64,
            now_us() as f64,
        ]);
        Ok(Json(Next { state }))
    }
}

fn write_records(path: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the file of records");
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let records = std::mem::take(&mut *RECORDS.lock().expect("nobody panics while recording"));
        let bytes: Vec<u8> = records.iter().flat_map(|value| value.to_le_bytes()).collect();
        file.write_all(&bytes).expect("write the records");
    }
}

#[tokio::main]
async fn main() {
    let [port, records] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().expect("service PORT RECORDS");
    std::thread::spawn(move || write_records(&records));
    let address = ([127, 0, 0, 1], port.parse::<u16>().expect("a port")).into();
    HttpServer::new(Endpoint::builder().bind(Execution).build()).listen_and_serve(address).await;
}
