//! Definitions of the cases, each as small as possible.

/// Guards, `set`, deferral, a log action, an end.
pub(crate) const ORDER: &str = r#"
name: order
initial: received
context: { total: 0, paid: 0 }
states:
  received:
    on:
      pay:
        - if: event.payload.amount >= context.total
          to: paid
          set: { paid: event.payload.amount }
          do: [note]
        - to: underpaid
          set: { paid: event.payload.amount }
    defer: [ship]
  underpaid:
    on:
      pay: { to: paid, set: { paid: context.paid + event.payload.amount } }
    defer: [ship]
  paid:
    on: { ship: { to: shipped } }
  shipped: { final: true }
actions:
  note: { log: "paid ${context.paid}" }
"#;

/// Counts, and records its payloads in order; never ends.
pub(crate) const COUNTER: &str = r#"
name: counter
initial: counting
context: { n: 0, seen: [] }
states:
  counting:
    on:
      add:
        set: { n: context.n + 1, seen: "context.seen + [event.payload.i]" }
      stop: { to: stopped }
  stopped: { final: true }
"#;

/// One HTTP action with its outcome events; `SINK` is where it goes.
pub(crate) const CHARGE: &str = r#"
name: charge
initial: ready
states:
  ready:
    on: { pay: { to: paying, do: [charge] } }
  paying:
    on: { charged: { to: done }, refused: { to: broken } }
  done: { final: true }
  broken: { final: failed }
actions:
  charge:
    http: { method: POST, url: "SINK/charge/${context.order_id}", body: { amount: event.payload.amount } }
    retry: { attempts: 5, backoff: 20ms, max: 100ms }
    timeout: 10s
    on_success: charged
    on_failure: refused
"#;

/// An action without a failure handler, and one that needs it.
pub(crate) const FRAGILE: &str = r#"
name: fragile
initial: ready
context: { notes: 0 }
states:
  ready:
    on:
      work: { to: working, do: [call, report] }
  working:
    on:
      note: { set: { notes: context.notes + 1 } }
      finish: { to: done }
  done: { final: true }
actions:
  call:
    http: { method: POST, url: "SINK/call", body: { a: 1 } }
    retry: { attempts: 2, backoff: 10ms, max: 20ms }
  report: { log: "called", needs: [call] }
"#;

/// The definition with the sink's address in it.
pub(crate) fn definition_with_sink(definition: &str, sink: &millstream_testkit::TestSink) -> String {
    definition.replace("SINK", &sink.url(""))
}
