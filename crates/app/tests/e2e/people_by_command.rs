//! Work for people from the command line: queues, imports, assignments, and statistics.

use std::process::Output;

use millstream_testkit::FleetMode;
use serde_json::{Value, json};

use crate::world::start_world;

both_modes!(queue_commands_cover_import_to_stats);

#[track_caller]
fn parse_output(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

#[track_caller]
fn stdout_text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn queue_commands_cover_import_to_stats(mode: FleetMode) {
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    let write = |name: &str, contents: &str| {
        let path = world.fleet.directory().join(name);
        std::fs::write(&path, contents).expect("write a file");
        path.display().to_string()
    };
    let queue = write("review.yaml", "name: review\nskills: [german]\n");
    assert!(stdout_text(&cli(&["queue", "put", &queue])).contains("review is made"));
    assert!(stdout_text(&cli(&["queue", "list"])).contains("german"));
    assert!(stdout_text(&cli(&["person", "put", "ann", "--skill", "german"])).contains("german"));
    assert_eq!(parse_output(&cli(&["--json", "person", "list"]))["items"][0]["person"], "ann");

    let items =
        write("items.ndjson", "{\"item_id\":\"s-1\",\"payload\":1}\n{\"item_id\":\"s-2\",\"payload\":2}\n");
    let done = parse_output(&cli(&["--json", "queue", "import", "review", &items]));
    assert_eq!((&done["created"], &done["done"]), (&json!(2), &json!(true)), "{done}");
    assert_eq!(parse_output(&cli(&["--json", "queue", "import", "review", &items]))["repeated"], 2);
    let wrong = write("wrong.ndjson", "{\"item_id\":\"s-3\",\"payload\":3}\n{\"item\":\"s-4\"}\n");
    let refused = cli(&["queue", "import", "review", &wrong]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("line 2") && said.contains("import the file again"), "{said}");

    let next = json!({"person": "ann", "start": true});
    let work = world.api.client.post("/v1/assignments/next", &next).await.expect_status(200);
    let id = work["assignment"]["assignment_id"].as_str().expect("an id").to_owned();
    assert!(stdout_text(&cli(&["assignment", "list", "--person", "ann"])).contains(&id));
    let stats = stdout_text(&cli(&["queue", "stats", "review"]));
    assert!(stats.contains("review") && stats.contains('▓'), "{stats}");
    let stats = parse_output(&cli(&["--json", "queue", "stats", "--by", "person"]));
    assert!(stats.to_string().contains("\"ann\""), "{stats}");
    assert!(cli(&["assignment", "reassign", &id]).status.success());

    assert!(stdout_text(&cli(&["queue", "pause", "review"])).contains("review is paused"));
    assert!(stdout_text(&cli(&["queue", "resume", "review"])).contains("review is active"));
    assert!(cli(&["person", "pause", "ann"]).status.success());
    assert_eq!(parse_output(&cli(&["queue", "get", "review"]))["config"]["overlap"], 1);
    let missing = cli(&["queue", "get", "missing"]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("millstream queue list"), "{missing:?}");
}
