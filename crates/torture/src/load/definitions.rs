//! Definitions of the load: each makes one guarantee observable.

use std::time::Duration;

/// Every definition, with the actions' target in place.
pub fn all_definitions(target: &str) -> Vec<String> {
    [LEDGER, JOB, ALARM, GATE, BOMB].iter().map(|text| text.replace("TARGET", target)).collect()
}

/// Counts, and stores the highest number: shows the order.
pub const LEDGER: &str = "
name: ledger
initial: open
context: { count: 0, last: -1 }
states:
  open:
    on:
      add: { set: { count: context.count + 1, last: event.payload.n } }
      close: { to: closed }
  closed: { final: true }
";

/// Actions: two in parallel and one that needs both, and one for every behaviour of the target.
pub const JOB: &str = r#"
name: job
initial: open
context: { finished: 0, refused: 0 }
states:
  open:
    on:
      work: { do: [left, right, join] }
      slow: { do: [slow] }
      flaky: { do: [flaky] }
      lost: { do: [lost] }
      never: { do: [never] }
      finished: { set: { finished: context.finished + 1 } }
      refused: { set: { refused: context.refused + 1 } }
actions:
  left: { http: { method: POST, url: "TARGET/pair/left" }, timeout: 10s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  right: { http: { method: POST, url: "TARGET/pair/right" }, timeout: 10s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  join: { http: { method: POST, url: "TARGET/ok/join" }, needs: [left, right], on_success: finished, timeout: 10s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  slow: { http: { method: POST, url: "TARGET/slow" }, on_success: finished, timeout: 15s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  flaky: { http: { method: POST, url: "TARGET/flaky" }, on_success: finished, timeout: 10s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  lost: { http: { method: POST, url: "TARGET/lost" }, on_success: finished, timeout: 1s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
  never: { http: { method: POST, url: "TARGET/never" }, on_failure: refused, timeout: 10s, retry: { attempts: 200, backoff: 50ms, max: 500ms } }
"#;

/// When the timer of [`ALARM`] fires.
pub const ALARM_AFTER: Duration = Duration::from_millis(600);

/// A timer that is armed, re-armed and disarmed around its due time.
pub const ALARM: &str = "
name: alarm
initial: idle
context: { rings: 0 }
states:
  idle:
    on:
      arm: { to: armed }
      disarm: {}
  armed:
    on:
      arm: { to: armed }
      disarm: { to: idle }
      ring: { to: idle, set: { rings: context.rings + 1 } }
    after:
      - { in: 600ms, send: ring }
";

/// Events that are deferred until a later state handles them.
pub const GATE: &str = "
name: gate
initial: shut
context: { passed: 0 }
states:
  shut:
    on: { unlock: { to: wide } }
    defer: [pass]
  wide:
    on:
      pass: { set: { passed: context.passed + 1 } }
      lock: { to: shut }
      unlock: {}
";

/// Handles a poison event, which kills the worker that decides it in debug builds.
pub const BOMB: &str = "
name: bomb
initial: ticking
context: { ticks: 0 }
states:
  ticking:
    on:
      tick: { set: { ticks: context.ticks + 1 } }
      poison: { set: { ticks: context.ticks + 1000 } }
";
