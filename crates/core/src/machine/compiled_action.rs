//! The compiled form of an action: renders its input and knows which values rendering needs.

use super::capture::Captures;
use super::input::{
    ActionInput, CallInput, DeviceInput, EmitInput, EmitTo, HttpInput, StartInput, TaskForInput, TaskInput,
    WaitInput, WebhookInput,
};
use crate::definition::{
    ActionKind, ActionSpec, DeviceSpec, EmitSpec, EmitTarget, HttpSpec, StartSpec, TaskForSpec, TaskSpec,
    Template, Text, WaitSpec, WebhookSpec,
};
use crate::expr::template::{Compiled, CompiledText, Target};
use crate::expr::{EvalError, Program, Root, Scope, Secrets, Step, Value, Vocabulary};
use crate::id::Name;
use crate::problem::Problem;
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Debug)]
pub(super) struct CompiledAction {
    form: Form,
    /// The scope that the action captures while it waits for other actions.
    pub(super) captures: Captures,
    /// Maps an HTTP response to the result.
    pub(super) result: Option<Compiled>,
}

#[derive(Debug)]
enum Form {
    Log(CompiledText),
    Noop(Compiled),
    Http { spec: HttpSpec, url: CompiledText, headers: Vec<(String, CompiledText)>, body: Option<Compiled> },
    Call { function: Name, input: Compiled },
    Task { spec: TaskSpec, input: Compiled },
    Device { spec: Box<DeviceSpec>, input: Compiled },
    TaskFor { spec: TaskForSpec, payload: Compiled },
    Emit { spec: EmitSpec, to: CompiledText, payload: Compiled },
    Start { spec: StartSpec, execution_id: Option<CompiledText>, input: Compiled },
    WaitUntil(Option<Program>),
    WaitFor(std::time::Duration),
    Webhook { spec: WebhookSpec, url: CompiledText, event_type: CompiledText, data: Compiled },
}

/// Reports the problems in the expressions of an action.
pub(crate) fn action_problems(spec: &ActionSpec, problems: &mut Vec<Problem>) {
    CompiledAction::compile(spec, problems);
}

impl CompiledAction {
    pub(super) fn compile(spec: &ActionSpec, problems: &mut Vec<Problem>) -> Self {
        let sources = spec.sources();
        let path = format!("actions.{}", spec.name);
        let mut compiler = Compiler {
            vocabulary: Vocabulary::Action { needs: &sources, secrets: secrets(&spec.kind) },
            problems,
        };
        let form = compiler.form(&path, &spec.kind);
        let result = match &spec.kind {
            ActionKind::Http(HttpSpec { result: Some(result), .. }) => {
                let mut compiler = Compiler { vocabulary: Vocabulary::Response, ..compiler };
                Some(compiler.tree(&format!("{path}.http.result"), result))
            }
            ActionKind::Http(_)
            | ActionKind::Log { .. }
            | ActionKind::Call { .. }
            | ActionKind::Task(_)
            | ActionKind::Device(_)
            | ActionKind::TaskFor(_)
            | ActionKind::Emit(_)
            | ActionKind::Start(_)
            | ActionKind::Wait(_)
            | ActionKind::Webhook(_)
            | ActionKind::Noop { .. } => None,
        };
        let mut captures = Captures::default();
        form.references(&mut |root, path| captures.add(root, path));
        Self { form, captures, result }
    }

    /// Estimated memory size of its patterns.
    pub(super) fn pattern_weight(&self) -> usize {
        self.form.pattern_weight() + self.result.as_ref().map_or(0, Compiled::pattern_weight)
    }

    /// Renders the input. `ready_at` is the time of the transition, or of the last result that it needed.
    pub(super) fn render(&self, scope: &Scope<'_>, ready_at: Timestamp) -> Result<ActionInput, EvalError> {
        let tree = |what: &str, tree: &Compiled| tree.render(scope, what);
        let text = |what: &str, text: &CompiledText, target| {
            text.render(scope, target).map_err(|error| in_(what, &error))
        };
        Ok(match &self.form {
            Form::Log(text) => ActionInput::Log(text.render(scope, Target::Line)?),
            Form::Noop(value) => ActionInput::Noop(value.render(scope, "noop")?),
            Form::Http { spec, url, headers, body } => {
                ActionInput::Http(http(spec, url, headers, body.as_ref(), scope)?)
            }
            Form::Call { function, input } => ActionInput::Call(CallInput {
                function: function.clone(),
                input: tree("input", input)?,
                secrets: input.holes(),
            }),
            Form::Task { spec, input } => ActionInput::Task(TaskInput {
                kind: spec.kind.clone(),
                labels: spec.labels.clone(),
                input: tree("input", input)?,
            }),
            Form::Device { spec, input } => ActionInput::Device(DeviceInput {
                kind: spec.kind.clone(),
                requires: spec.requires.clone(),
                prefer: spec.prefer.clone(),
                input: tree("input", input)?,
                priority: spec.priority,
                devices: spec.devices,
                preempt: spec.preempt,
                coordinator: spec.coordinator,
                min_battery: spec.min_battery,
                settings: spec.settings,
            }),
            Form::TaskFor { spec, payload } => ActionInput::TaskFor(TaskForInput {
                queue: spec.queue.clone(),
                payload: tree("payload", payload)?,
                own: spec.own.clone(),
                due: spec.due,
            }),
            Form::Emit { spec, to, payload } => ActionInput::Emit(EmitInput {
                to: match spec.to {
                    EmitTarget::Execution(_) => EmitTo::Execution(text("to", to, Target::Header)?),
                    EmitTarget::Correlation(_) => {
                        EmitTo::Correlation(text("correlation", to, Target::Header)?)
                    }
                },
                event: spec.event.clone(),
                payload: tree("payload", payload)?,
            }),
            Form::Start { spec, execution_id, input } => ActionInput::Start(StartInput {
                definition: spec.definition.clone(),
                version: spec.version,
                execution_id: match execution_id {
                    Some(id) => Some(text("execution_id", id, Target::Header)?),
                    None => None,
                },
                input: tree("input", input)?,
                parent_close: spec.parent_close,
            }),
            Form::WaitUntil(until) => ActionInput::Wait(WaitInput { until: time(until.as_ref(), scope)? }),
            Form::WaitFor(span) => ActionInput::Wait(WaitInput { until: ready_at.plus(*span) }),
            Form::Webhook { spec, url, event_type, data } => ActionInput::Webhook(WebhookInput {
                url: url.phrase(scope, Target::Url).map_err(|error| in_("url", &error))?,
                event_type: text("type", event_type, Target::Header)?,
                data: tree("data", data)?,
                data_secrets: data.holes(),
                secret: spec.secret.clone(),
                at: scope.now,
            }),
        })
    }
}

/// Secrets are allowed only in kinds whose rendered input stays with the worker that sends it.
fn secrets(kind: &ActionKind) -> Secrets {
    match kind {
        ActionKind::Http(_) | ActionKind::Call { .. } | ActionKind::Webhook(_) => Secrets::Allowed,
        ActionKind::Log { .. }
        | ActionKind::Task(_)
        | ActionKind::Device(_)
        | ActionKind::TaskFor(_)
        | ActionKind::Emit(_)
        | ActionKind::Start(_)
        | ActionKind::Wait(_)
        | ActionKind::Noop { .. } => Secrets::Refused,
    }
}

fn in_(what: &str, error: &EvalError) -> EvalError {
    EvalError(format!("{what}: {error}"))
}

fn http(
    spec: &HttpSpec,
    url: &CompiledText,
    headers: &[(String, CompiledText)],
    body: Option<&Compiled>,
    scope: &Scope<'_>,
) -> Result<HttpInput, EvalError> {
    let headers = headers.iter().map(|(name, text)| {
        let value = text.phrase(scope, Target::Header);
        Ok((name.clone(), value.map_err(|error| in_(&format!("header {name}"), &error))?))
    });
    let headers = headers.collect::<Result<_, EvalError>>()?;
    let url = url.phrase(scope, Target::Url).map_err(|error| in_("url", &error))?;
    let rendered = match body {
        None => None,
        Some(body) => Some(body.render(scope, "body")?),
    };
    let body_secrets = body.map(Compiled::holes).unwrap_or_default();
    Ok(HttpInput {
        method: spec.method,
        url,
        headers,
        body: rendered.filter(|body| body.as_str() != "null" || !body_secrets.is_empty()),
        body_secrets,
        expect: spec.expect.clone(),
        max_response: spec.max_response,
    })
}

/// Evaluates `until`: a CEL timestamp or an RFC 3339 string.
fn time(until: Option<&Program>, scope: &Scope<'_>) -> Result<Timestamp, EvalError> {
    let Some(program) = until else { return Ok(scope.now) };
    let value = program.evaluate(scope).map_err(|error| in_("until", &error))?;
    match value {
        Value::Time(time) => Ok(Timestamp::from_millis(time.timestamp_millis())),
        Value::Text(text) => Timestamp::parse(&text).map_err(|error| {
            EvalError(format!("until: {:?} is not a time: {error}", crate::expr::excerpt(&text)))
        }),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Double(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Span(_) => Err(EvalError(format!("until: a time is needed, not {}", value.kind()))),
    }
}

impl Form {
    fn pattern_weight(&self) -> usize {
        match self {
            Self::Log(text) => text.pattern_weight(),
            Self::Noop(value) => value.pattern_weight(),
            Self::Http { spec: _, url, headers, body } => {
                url.pattern_weight()
                    + headers.iter().map(|(_, text)| text.pattern_weight()).sum::<usize>()
                    + body.as_ref().map_or(0, Compiled::pattern_weight)
            }
            Self::Call { function: _, input }
            | Self::Task { spec: _, input }
            | Self::Device { spec: _, input } => input.pattern_weight(),
            Self::TaskFor { spec: _, payload } => payload.pattern_weight(),
            Self::Emit { spec: _, to, payload } => to.pattern_weight() + payload.pattern_weight(),
            Self::Start { spec: _, execution_id, input } => {
                execution_id.as_ref().map_or(0, CompiledText::pattern_weight) + input.pattern_weight()
            }
            Self::WaitUntil(until) => until.as_ref().map_or(0, Program::pattern_weight),
            Self::WaitFor(_) => 0,
            Self::Webhook { spec: _, url, event_type, data } => {
                url.pattern_weight() + event_type.pattern_weight() + data.pattern_weight()
            }
        }
    }

    fn references<'s>(&'s self, visit: &mut dyn FnMut(Root, &'s [Step])) {
        match self {
            Self::Log(text) => text.references(visit),
            Self::Noop(value) => value.references(visit),
            Self::Http { spec: _, url, headers, body } => {
                url.references(visit);
                headers.iter().for_each(|(_, text)| text.references(visit));
                if let Some(body) = body {
                    body.references(visit);
                }
            }
            Self::Call { function: _, input }
            | Self::Task { spec: _, input }
            | Self::Device { spec: _, input } => input.references(visit),
            Self::TaskFor { spec: _, payload } => payload.references(visit),
            Self::Emit { spec: _, to, payload } => {
                to.references(visit);
                payload.references(visit);
            }
            Self::Start { spec: _, execution_id, input } => {
                if let Some(id) = execution_id {
                    id.references(visit);
                }
                input.references(visit);
            }
            Self::WaitUntil(until) => {
                if let Some(program) = until {
                    program.references().for_each(|(root, path)| visit(root, path));
                }
            }
            Self::WaitFor(_) => {}
            Self::Webhook { spec: _, url, event_type, data } => {
                url.references(visit);
                event_type.references(visit);
                data.references(visit);
            }
        }
    }
}

struct Compiler<'a> {
    vocabulary: Vocabulary<'a>,
    problems: &'a mut Vec<Problem>,
}

impl Compiler<'_> {
    fn form(&mut self, path: &str, kind: &ActionKind) -> Form {
        match kind {
            ActionKind::Log { text } => Form::Log(self.text(&format!("{path}.log"), text)),
            ActionKind::Noop { value } => Form::Noop(self.tree(&format!("{path}.noop"), value)),
            ActionKind::Http(http) => Form::Http {
                url: self.text(&format!("{path}.http.url"), &http.url),
                headers: http
                    .headers
                    .iter()
                    .map(|(name, text)| {
                        (name.clone(), self.text(&format!("{path}.http.headers.{name}"), text))
                    })
                    .collect(),
                body: http.body.as_ref().map(|body| self.tree(&format!("{path}.http.body"), body)),
                spec: http.clone(),
            },
            ActionKind::Call { function, input } => {
                Form::Call { function: function.clone(), input: self.tree(&format!("{path}.input"), input) }
            }
            ActionKind::Task(spec) => Form::Task {
                input: self.tree(&format!("{path}.task.input"), &spec.input),
                spec: spec.clone(),
            },
            ActionKind::Device(spec) => Form::Device {
                input: self.tree(&format!("{path}.device.input"), &spec.input),
                spec: Box::new(spec.clone()),
            },
            ActionKind::TaskFor(spec) => Form::TaskFor {
                payload: self.tree(&format!("{path}.task_for.payload"), &spec.payload),
                spec: spec.clone(),
            },
            ActionKind::Emit(spec) => {
                let to = match &spec.to {
                    EmitTarget::Execution(text) => self.text(&format!("{path}.emit.to"), text),
                    EmitTarget::Correlation(text) => self.text(&format!("{path}.emit.correlation"), text),
                };
                let payload = self.tree(&format!("{path}.emit.payload"), &spec.payload);
                Form::Emit { spec: spec.clone(), to, payload }
            }
            ActionKind::Start(spec) => Form::Start {
                execution_id: spec
                    .execution_id
                    .as_ref()
                    .map(|id| self.text(&format!("{path}.start.execution_id"), id)),
                input: self.tree(&format!("{path}.start.input"), &spec.input),
                spec: spec.clone(),
            },
            ActionKind::Wait(WaitSpec::Until(source)) => {
                Form::WaitUntil(self.program(&format!("{path}.wait.until"), source))
            }
            ActionKind::Wait(WaitSpec::For(span)) => Form::WaitFor(*span),
            ActionKind::Webhook(spec) => Form::Webhook {
                url: self.text(&format!("{path}.webhook.url"), &spec.url),
                event_type: self.text(&format!("{path}.webhook.type"), &spec.event_type),
                data: self.tree(&format!("{path}.webhook.data"), &spec.data),
                spec: spec.clone(),
            },
        }
    }

    fn program(&mut self, path: &str, source: &str) -> Option<Program> {
        Program::compile(source, self.vocabulary)
            .map_err(|messages| {
                self.problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
            })
            .ok()
    }

    fn text(&mut self, path: &str, text: &Text) -> CompiledText {
        CompiledText::compile(text, self.vocabulary).unwrap_or_else(|messages| {
            self.problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
            CompiledText::empty()
        })
    }

    fn tree(&mut self, path: &str, template: &Template) -> Compiled {
        let mut found = Vec::new();
        let compiled = Compiled::compile(template, self.vocabulary, path, &mut found);
        self.problems.extend(found.into_iter().map(|(path, message)| Problem::new(path, message)));
        compiled
    }
}

/// Maps the response of an HTTP action to its result.
pub(super) fn mapped(result: &Compiled, response: &RawJson, scope: &Scope<'_>) -> Result<RawJson, EvalError> {
    let scope = Scope { response: Some(response), ..*scope };
    result.render(&scope, "result")
}
