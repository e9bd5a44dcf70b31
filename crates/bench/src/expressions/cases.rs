//! Hostile steps that exceed the budget of an expression, by name.

use millstream_expr::ExprBudget;
use millstream_model::document::SourceFormat;
use millstream_model::id::{AcceptNo, EventId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{QueueConfig, rules};
use millstream_workflow::log::{EventOrigin, ExecutionState, MailboxEvent, MailboxState};
use millstream_workflow::machine::{self, Machine};
use millstream_workflow::{definition_parser, graph, graph_machine};
use serde_json::json;
use uuid::Uuid;

use crate::error::{BenchError, BenchResult};

/// Divisor for the size of the data.
#[derive(Debug, Clone, Copy)]
pub struct CaseScale(pub usize);

impl CaseScale {
    pub const FULL: Self = Self(1);

    pub(super) fn text(self, len: usize) -> String {
        "x".repeat(len / self.0)
    }

    pub(super) fn list(self, len: usize) -> String {
        format!("[{}1]", "1,".repeat((len / self.0).saturating_sub(1)))
    }
}

/// One prepared decision.
#[derive(Debug)]
pub struct HostileCase {
    pub name: String,
    work: HostileWork,
}

#[derive(Debug)]
enum HostileWork {
    Step { machine: Box<Machine>, state: Box<ExecutionState>, event: Box<MailboxEvent> },
    Graph { state: Box<ExecutionState>, event: Box<MailboxEvent> },
    Start { machine: Box<Machine>, input: RawJson },
    Answer { queue: Box<QueueConfig>, answer: RawJson, payload: RawJson, person: PersonId },
}

const NOW: Timestamp = Timestamp::EPOCH;

impl HostileCase {
    /// Makes the decision and ignores its result.
    pub fn run(&self, budget: &ExprBudget<'_>) {
        match &self.work {
            HostileWork::Step { machine, state, event } => {
                machine::step_within(machine, state, event, NOW, budget);
            }
            HostileWork::Graph { state, event } => {
                graph_machine::step_graph_within(state, event, NOW, budget);
            }
            HostileWork::Start { machine, input } => {
                let _ =
                    machine::create_execution_within(machine, EventId(Uuid::nil()), input, None, NOW, budget);
            }
            HostileWork::Answer { queue, answer, payload, person } => {
                rules::check_answer(queue, answer, payload, person, Vec::new(), budget);
            }
        }
    }

    /// An event of a machine with these alternatives and, once they are done, these actions.
    pub(super) fn event_step(
        name: &str,
        alternatives: &serde_json::Value,
        actions: &serde_json::Value,
        context: &str,
        payload: &str,
    ) -> BenchResult<Self> {
        let source = json!({
            "name": "hostile", "initial": "a", "actions": actions,
            "states": { "a": { "on": { "e": alternatives } } },
        });
        let machine = definition_parser::parse(&source.to_string(), SourceFormat::Json)
            .and_then(Machine::compile)
            .map_err(|problems| case_error(name, &problems))?;
        let (_, state) = machine::create_execution(
            &machine,
            EventId(Uuid::nil()),
            &RawJson::from_trusted_text(context),
            NOW,
        )
        .map_err(|error| case_error(name, &error))?;
        let event = waiting_event(Name::parse("e").map_err(|error| case_error(name, &error))?, payload);
        Ok(Self {
            name: name.to_owned(),
            work: HostileWork::Step {
                machine: Box::new(machine),
                state: Box::new(state),
                event: Box::new(event),
            },
        })
    }

    /// The begin of a graph with one node that fans out over this expression.
    fn fan_out(name: &str, over: &str, input: &str) -> BenchResult<Self> {
        let source = json!({ "name": "hostile", "input": RawJson::from_trusted_text(input),
            "nodes": [{ "id": "n", "fan_out": { "over": over } }] });
        let spec = graph::read_graph(&source.to_string(), SourceFormat::Json)
            .map_err(|problems| case_error(name, &problems))?;
        let (_, state) = graph_machine::create_graph(spec, None, EventId(Uuid::nil()), None, NOW)
            .map_err(|invalid| case_error(name, &invalid))?;
        let event = waiting_event(Name::begin(), "null");
        Ok(Self {
            name: name.to_owned(),
            work: HostileWork::Graph { state: Box::new(state), event: Box::new(event) },
        })
    }

    /// A start of a machine with this `correlate`.
    fn execution_start(name: &str, correlate: &str, input: &str) -> BenchResult<Self> {
        let source = json!({
            "name": "hostile", "initial": "a", "correlate": correlate, "states": { "a": { "final": true } },
        });
        let machine = definition_parser::parse(&source.to_string(), SourceFormat::Json)
            .and_then(Machine::compile)
            .map_err(|problems| case_error(name, &problems))?;
        let work =
            HostileWork::Start { machine: Box::new(machine), input: RawJson::from_trusted_text(input) };
        Ok(Self { name: name.to_owned(), work })
    }

    /// An answer to a queue with this rule.
    fn queue_rule(name: &str, rule: &str, answer: &str, payload: &str) -> BenchResult<Self> {
        let source = json!({ "name": "q", "rules": [{ "if": rule, "message": "no" }] });
        let queue = QueueConfig::parse(&source.to_string(), SourceFormat::Json)
            .map_err(|problems| case_error(name, &problems))?;
        let person = PersonId::parse("ann").map_err(|error| case_error(name, &error))?;
        let (answer, payload) = (RawJson::from_trusted_text(answer), RawJson::from_trusted_text(payload));
        Ok(Self {
            name: name.to_owned(),
            work: HostileWork::Answer { queue: Box::new(queue), answer, payload, person },
        })
    }
}

fn waiting_event(name: Name, payload: &str) -> MailboxEvent {
    MailboxEvent {
        event_id: EventId(Uuid::nil()),
        accept_no: AcceptNo(0),
        name,
        payload: RawJson::from_trusted_text(payload),
        accepted_at: NOW,
        origin: EventOrigin::Posted,
        kept: MailboxState::Undecided,
        attempts: 0,
        traceparent: None,
    }
}

fn case_error(name: &str, error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Wrong(format!("the hostile case {name:?} cannot be made: {error}"))
}

/// Cases that once took gigabytes or half a minute.
pub fn reviewed_cases(scale: CaseScale) -> BenchResult<Vec<HostileCase>> {
    let none = json!({});
    let many = |count: usize, guard: &str| {
        let mut all = vec![json!({ "if": guard }); count / scale.0.min(count)];
        all.push(json!({ "set": { "done": true } }));
        serde_json::Value::Array(all)
    };
    let set = |source: &str| json!([{ "set": { "k": source } }]);
    let big = format!(r#"{{"s":"{}","l":{}}}"#, scale.text(700_000), scale.list(90_000));
    let texts = format!(r#"{{"s":"{}","l":{}}}"#, scale.text(200_000), scale.list(20_000));
    let context = format!(r#"{{"s":"{}","l":{}}}"#, "7".repeat(100_000 / scale.0), scale.list(50_000));
    let small = format!(r#"{{"s":"{}"}}"#, scale.text(50_000));
    let objects = format!("[{}{{\"a\":0}}]", "{\"a\":0},".repeat(80_000 / scale.0));
    let escapes = format!("\"{}\"", "\\u0001".repeat(100_000 / scale.0));
    let case = |name: &str, alternatives: &serde_json::Value, payload: &str| {
        HostileCase::event_step(name, alternatives, &none, &context, payload)
    };
    let double =
        |times: usize, seed: &str| (0..times).fold(seed.to_owned(), |all, _| format!("({all}+{all})"));
    let nested = "event.payload.l.all(a, event.payload.l.all(b, event.payload.l.all(c, a+b+c > 0)))";
    let shown = (0..40).map(|_| "${event.payload.s}").collect::<String>();
    Ok(vec![
        HostileCase::fan_out("fan-out of long copies", "input.l.map(x, string(input.s))", &big)?,
        case("a set of 20,000 long copies", &set("event.payload.l.map(x, event.payload.s + 'y')"), &texts)?,
        case(
            "int() of a long text for every item",
            &many(1, "context.l.all(x, int(context.s) == 7)"),
            "null",
        )?,
        HostileCase::queue_rule(
            "a queue rule of long copies",
            "answer.l.map(x, string(item.s) + 'y').size() > 0",
            &format!(r#"{{"l":{}}}"#, scale.list(4_000)),
            &texts,
        )?,
        HostileCase::execution_start(
            "a correlation over pairs",
            "context.l.all(a, context.l.all(b, a + b > 0)) ? 'pairs' : context.s",
            &context,
        )?,
        case("300 conditions", &many(300, "context.l.all(x, x > 1 || x < 3) && false"), "null")?,
        case("2,500 conditions", &many(2_500, "context.l.exists(x, x > 1)"), "null")?,
        case("three loops", &many(1, nested), &texts)?,
        case("a text that doubles", &set(&double(6, "event.payload.s")), &texts)?,
        case("a list that doubles", &set(&double(6, "event.payload.l")), &big)?,
        case("maps of maps", &set("event.payload.map(x, {'a': {'b': {'c': [x, x, x]}}})"), &objects)?,
        case("many small objects", &many(1, "event.payload.all(x, x.a == 0)"), &objects)?,
        case("long keys", &set("event.payload.l.map(x, {event.payload.s: x})"), &texts)?,
        case("escapes", &set("[event.payload, event.payload, event.payload]"), &escapes)?,
        case("one payload, scanned often", &many(6_000, "event.payload.s == 'y'"), &texts)?,
        case("comparisons", &many(1, "event.payload.l.all(x, event.payload.s <= context.s + 'a')"), &texts)?,
        case("a pattern", &many(1, "event.payload.l.exists(x, event.payload.s.matches('(x|y)*z'))"), &texts)?,
        case(
            "a pattern that defeats an automaton",
            &many(1, "event.payload.s.matches('(x|y)*x(x|y){200}z')"),
            &texts,
        )?,
        HostileCase::event_step(
            "a log line of many parts",
            &json!([{ "do": ["tell"] }]),
            &json!({ "tell": { "log": shown } }),
            "{}",
            &small,
        )?,
    ])
}
