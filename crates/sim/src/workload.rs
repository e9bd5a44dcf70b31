//! The executions of a run, and the requests of its clients.
//!
//! - `counter` counts; its event `poison` kills the worker that is about to commit it.
//! - `order` waits for money with a timer, changes state back and forth, and defers early events. `expire` is
//!   handled in `paid` as well, which only a stale timer could reach.
//! - `job` performs two parallel actions and a third that needs both, with events for every outcome, and one
//!   action whose failure has no handler.
//! - `family` starts children, which end by themselves and act at their end, and creates tasks. It may end
//!   while both are running, and then starts a child that is tied to its parent alone.

use std::sync::OnceLock;
use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_store::definition_store::NewDefinition;
use millstream_workflow::definition_parser;

use crate::dice::SimDice;
use crate::tenants::SimTenant;

pub(crate) const POISON: &str = "poison";
/// Attempts after which an event is dead.
pub(crate) const POISON_CAP: i32 = 3;
/// First client number of the busy tenant.
const BUSY_CLIENTS: usize = 10;
/// The event that is deferred, and the state that handles it.
pub(crate) const DEFERRED: &str = "ship";
pub(crate) const TAKES_DEFERRED: &str = "paid";

const COUNTER: &str = "
name: counter
initial: counting
context: { total: 0, sum: 0 }
states:
  counting:
    on:
      add: { set: { total: context.total + 1, sum: context.sum + event.payload.n } }
      poison: { set: { total: -1 } }
";

const ORDER: &str = "
name: order
initial: waiting
context: { paid: 0, late: 0, shipped: 0 }
states:
  waiting:
    on:
      pay: { to: paid, set: { paid: context.paid + 1 } }
      expire: { to: expired }
      note: {}
    defer: [ship]
    after: [ { in: 1500ms, send: expire } ]
  paid:
    on:
      again: { to: waiting }
      ship: { set: { shipped: context.shipped + 1 } }
      expire: { set: { late: context.late + 1 } }
      note: {}
      remind: {}
    after: [ { in: 700ms, send: remind } ]
  expired: { on: { again: { to: waiting } } }
";

const JOB: &str = "
name: job
initial: working
context: { joined: 0, lost: 0 }
states:
  working:
    on:
      go: { do: [left, right, join] }
      charge: { do: [strict] }
      joined: { set: { joined: context.joined + 1 } }
      lost: { set: { lost: context.lost + 1 } }
actions:
  left:
    http: { method: POST, url: 'http://sink.example/left', body: { n: event.payload.n } }
    retry: { attempts: 4, backoff: 50ms, max: 400ms }
    timeout: 900ms
    on_failure: lost
  right:
    http: { method: POST, url: 'http://sink.example/right', body: { n: event.payload.n } }
    retry: { attempts: 4, backoff: 50ms, max: 400ms }
    timeout: 900ms
    on_failure: lost
  join:
    http: { method: POST, url: 'http://sink.example/join', body: { left: results.left.body.token } }
    needs: [left, right]
    retry: { attempts: 4, backoff: 50ms, max: 400ms }
    timeout: 900ms
    on_success: joined
    on_failure: lost
  strict:
    http: { method: POST, url: 'http://sink.example/strict', body: { n: event.payload.n } }
    retry: { attempts: 8, backoff: 50ms, max: 400ms }
    timeout: 900ms
";

const FAMILY: &str = "
name: family
initial: home
context: { grown: 0, sorted: 0, lost: 0 }
states:
  home:
    on:
      raise: { do: [child] }
      sort: { do: [sort] }
      leave: { to: gone, do: [guest] }
      grown: { set: { grown: context.grown + 1 } }
      sorted: { set: { sorted: context.sorted + 1 } }
      lost: { set: { lost: context.lost + 1 } }
  gone: { final: true }
actions:
  child:
    start: { definition: kid, input: { n: 1 } }
    retry: { attempts: 20, backoff: 50ms, max: 400ms }
    on_success: grown
    on_failure: lost
  guest:
    start: { definition: guest }
    retry: { attempts: 20, backoff: 50ms, max: 400ms }
  sort:
    task: { type: sort, input: { n: event.payload.n } }
    timeouts: { heartbeat: 900ms, start_to_close: 3s }
    retry: { attempts: 6, backoff: 50ms, max: 400ms }
    on_success: sorted
    on_failure: lost
";

const GUEST: &str = "
name: guest
initial: staying
states:
  staying: { on: { go: { to: away } } }
  away: { final: true }
";

const KID: &str = "
name: kid
initial: young
context: { n: 0 }
states:
  young: { on: { grow: { to: old, do: [wave] } }, after: [ { in: 400ms, send: grow } ] }
  old: { final: true }
actions:
  wave:
    http: { method: POST, url: 'http://sink.example/wave', body: { n: context.n } }
    retry: { attempts: 4, backoff: 50ms, max: 400ms }
    timeout: 900ms
";

/// Parsed once for all runs.
pub(crate) fn sim_definitions() -> &'static [NewDefinition] {
    static PARSED: OnceLock<Vec<NewDefinition>> = OnceLock::new();
    PARSED
        .get_or_init(|| [COUNTER, ORDER, JOB, FAMILY, KID, GUEST].into_iter().map(parse_definition).collect())
}

#[expect(clippy::expect_used, reason = "literals of this file")]
fn parse_definition(yaml: &str) -> NewDefinition {
    let definition = definition_parser::parse(yaml, SourceFormat::Yaml).expect("a valid definition");
    NewDefinition {
        name: definition.name().clone(),
        dialect: 1,
        source: definition.canonical_json(),
        checksum: definition.checksum(),
    }
}

/// Steps of one client.
#[derive(Debug, Clone)]
pub(crate) struct ClientScript {
    pub(crate) tenant: SimTenant,
    /// Unique in the run.
    pub(crate) client: usize,
    pub(crate) steps: Vec<ScriptStep>,
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptStep {
    /// Delay before the step.
    pub(crate) after: Duration,
    pub(crate) wish: ClientRequest,
}

#[derive(Debug, Clone)]
pub(crate) enum ClientRequest {
    Start {
        definition: &'static str,
        execution: String,
    },
    /// In one request if there are several; the same key on every repeat.
    Keyed(Vec<(String, &'static str)>),
    /// Posted once, whatever the outcome.
    Unkeyed(String, &'static str),
    Cancel(String),
    /// With this many items.
    Graph(String, u64),
    /// Adds a node to a graph.
    Edit(String),
    /// Retries its last post if that failed or is dead.
    RetryLast,
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptTarget {
    pub(crate) id: String,
    pub(crate) definition: &'static str,
}

pub(crate) fn draw_targets(dice: &SimDice) -> Vec<ScriptTarget> {
    let kinds = [
        ("counter", 1 + dice.below(2)),
        ("order", 1 + dice.below(2)),
        ("job", 1 + dice.below(2)),
        // It creates children.
        ("family", 1),
    ];
    let of = |(definition, many): (&'static str, u64)| {
        (0..many).map(move |n| ScriptTarget { id: format!("{definition}{n}"), definition })
    };
    kinds.into_iter().flat_map(of).collect()
}

pub(crate) fn draw_scripts(dice: &SimDice, targets: &[ScriptTarget]) -> Vec<ClientScript> {
    let clients = 2 + dice.index(2);
    let script = |client| ClientScript { tenant: SimTenant::Quiet, client, steps: Vec::new() };
    let mut scripts: Vec<ClientScript> = (0..clients).map(script).collect();
    for (at, target) in targets.iter().enumerate() {
        let wish = ClientRequest::Start { definition: target.definition, execution: target.id.clone() };
        scripts[at % clients].steps.push(ScriptStep { after: dice.millis(0, 50), wish });
    }
    for script in &mut scripts {
        for _ in 0..4 + dice.below(8) {
            let wish = draw_request(dice, targets);
            script.steps.push(ScriptStep { after: dice.millis(0, 900), wish });
        }
    }
    let once = |scripts: &mut Vec<ClientScript>, wish| {
        let script = dice.index(clients);
        let at = scripts[script].steps.len() - dice.index(4);
        scripts[script].steps.insert(at, ScriptStep { after: dice.millis(0, 900), wish });
    };
    if dice.one_in(3) {
        once(&mut scripts, ClientRequest::Keyed(vec![("counter0".to_owned(), POISON)]));
    }
    if dice.one_in(3) {
        once(&mut scripts, ClientRequest::Keyed(vec![("family0".to_owned(), "leave")]));
    }
    if dice.one_in(4) {
        let target = targets[dice.index(targets.len())].id.clone();
        once(&mut scripts, ClientRequest::Cancel(target));
    }
    if dice.one_in(2) {
        add_graph(dice, &mut scripts);
    }
    for script in scripts.iter_mut().filter(|_| dice.one_in(2)) {
        // The failure takes a while.
        script.steps.push(ScriptStep { after: dice.millis(0, 6_000), wish: ClientRequest::RetryLast });
    }
    scripts
}

/// Clients of the busy tenant: a backlog in a few large posts, to executions with the same ids as the quiet
/// tenant's.
pub(crate) fn draw_backlog(dice: &SimDice) -> Vec<ClientScript> {
    let targets = [("counter", "counter0"), ("counter", "counter1"), ("job", "job0")];
    let script = |client: usize| {
        let (definition, execution) = targets[client % targets.len()];
        let event = match definition {
            "counter" => "add",
            _ => "go",
        };
        let many = if event == "add" { 40 } else { 6 };
        let start = ClientRequest::Start { definition, execution: execution.to_owned() };
        let mut steps = vec![ScriptStep { after: dice.millis(0, 50), wish: start }];
        for _ in 0..3 {
            let wish = ClientRequest::Keyed(vec![(execution.to_owned(), event); many]);
            steps.push(ScriptStep { after: dice.millis(0, 1_500), wish });
        }
        ClientScript { tenant: SimTenant::Busy, client: BUSY_CLIENTS + client, steps }
    };
    (0..targets.len()).map(script).collect()
}

/// One client creates a graph; others may edit or cancel it, perhaps before it exists.
fn add_graph(dice: &SimDice, scripts: &mut [ClientScript]) {
    let mut add = |wish| {
        let steps = &mut scripts[dice.index(scripts.len())].steps;
        let at = steps.len().min(dice.index(6));
        steps.insert(at, ScriptStep { after: dice.millis(0, 300), wish });
    };
    add(ClientRequest::Graph("graph0".to_owned(), dice.below(4)));
    for _ in 0..dice.below(3) {
        add(ClientRequest::Edit("graph0".to_owned()));
    }
    if dice.one_in(6) {
        add(ClientRequest::Cancel("graph0".to_owned()));
    }
}

fn draw_request(dice: &SimDice, targets: &[ScriptTarget]) -> ClientRequest {
    let target = &targets[dice.index(targets.len())];
    let event = |target: &ScriptTarget| {
        let names: &[&str] = match target.definition {
            "counter" => &["add"],
            "order" => &["pay", "pay", "again", "ship", "note"],
            "family" => &["raise", "sort", "sort"],
            _ => &["go", "go", "charge"],
        };
        (target.id.clone(), dice.pick(names).unwrap_or("add"))
    };
    match dice.below(10) {
        0 | 1 => {
            let (execution, name) = event(target);
            ClientRequest::Unkeyed(execution, name)
        }
        2 | 3 => {
            let many = 2 + dice.index(3);
            ClientRequest::Keyed((0..many).map(|_| event(&targets[dice.index(targets.len())])).collect())
        }
        _ => ClientRequest::Keyed(vec![event(target)]),
    }
}
