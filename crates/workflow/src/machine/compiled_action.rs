//! The compiled form of an action: renders its input and knows which values rendering needs.

use millstream_expr::template::{CompiledTemplate, CompiledText, TextTarget};
use millstream_expr::{
    CelProgram, CelValue, EvalError, ExprScope, ExprVocabulary, PathRoot, PathStep, SecretPolicy,
    TextTemplate, ValueTemplate,
};
use millstream_model::id::Name;
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::capture::ScopeCapture;
use super::input::{
    ActionInput, CallInput, DeviceInput, EmitInput, EmitTo, HttpInput, StartInput, TaskForInput, TaskInput,
    WaitInput, WebhookInput,
};
use crate::definition::{
    ActionKind, ActionSpec, DeviceSpec, EmitSpec, EmitTarget, HttpSpec, StartSpec, TaskForSpec, TaskSpec,
    WaitSpec, WebhookSpec,
};

#[derive(Debug)]
pub(super) struct CompiledAction {
    form: CompiledActionKind,
    /// The scope that the action captures while it waits for other actions.
    pub(super) captures: ScopeCapture,
    /// Maps an HTTP response to the result.
    pub(super) result: Option<CompiledTemplate>,
}

#[derive(Debug)]
enum CompiledActionKind {
    Log(CompiledText),
    Noop(CompiledTemplate),
    Http {
        spec: HttpSpec,
        url: CompiledText,
        headers: Vec<(String, CompiledText)>,
        body: Option<CompiledTemplate>,
    },
    Call {
        function: Name,
        input: CompiledTemplate,
    },
    Task {
        spec: TaskSpec,
        input: CompiledTemplate,
    },
    Device {
        spec: Box<DeviceSpec>,
        input: CompiledTemplate,
    },
    TaskFor {
        spec: TaskForSpec,
        payload: CompiledTemplate,
    },
    Emit {
        spec: EmitSpec,
        to: CompiledText,
        payload: CompiledTemplate,
    },
    Start {
        spec: StartSpec,
        execution_id: Option<CompiledText>,
        input: CompiledTemplate,
    },
    WaitUntil(Option<CelProgram>),
    WaitFor(std::time::Duration),
    Webhook {
        spec: WebhookSpec,
        url: CompiledText,
        event_type: CompiledText,
        data: CompiledTemplate,
    },
}

/// Reports the problems in the expressions of an action.
pub(crate) fn action_problems(spec: &ActionSpec, problems: &mut Vec<ValidationProblem>) {
    CompiledAction::compile(spec, problems);
}

impl CompiledAction {
    pub(super) fn compile(spec: &ActionSpec, problems: &mut Vec<ValidationProblem>) -> Self {
        let sources = spec.result_sources();
        let path = format!("actions.{}", spec.name);
        let mut compiler = ActionCompiler {
            vocabulary: ExprVocabulary::Action { needs: &sources, secrets: secret_policy(&spec.kind) },
            problems,
        };
        let form = compiler.compile_kind(&path, &spec.kind);
        let result = match &spec.kind {
            ActionKind::Http(HttpSpec { result: Some(result), .. }) => {
                let mut compiler = ActionCompiler { vocabulary: ExprVocabulary::Response, ..compiler };
                Some(compiler.compile_template(&format!("{path}.http.result"), result))
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
        let mut captures = ScopeCapture::default();
        form.visit_references(&mut |root, path| captures.add_reference(root, path));
        Self { form, captures, result }
    }

    /// Estimated memory size of its patterns.
    pub(super) fn pattern_weight(&self) -> usize {
        self.form.pattern_weight() + self.result.as_ref().map_or(0, CompiledTemplate::pattern_weight)
    }

    /// Renders the input. `ready_at` is the time of the transition, or of the last result that it needed.
    pub(super) fn render_input(
        &self,
        scope: &ExprScope<'_>,
        ready_at: Timestamp,
    ) -> Result<ActionInput, EvalError> {
        let tree = |what: &str, tree: &CompiledTemplate| tree.render(scope, what);
        let text = |what: &str, text: &CompiledText, target| {
            text.render(scope, target).map_err(|error| error_in(what, &error))
        };
        Ok(match &self.form {
            CompiledActionKind::Log(text) => ActionInput::Log(text.render(scope, TextTarget::Line)?),
            CompiledActionKind::Noop(value) => ActionInput::Noop(value.render(scope, "noop")?),
            CompiledActionKind::Http { spec, url, headers, body } => {
                ActionInput::Http(render_http(spec, url, headers, body.as_ref(), scope)?)
            }
            CompiledActionKind::Call { function, input } => ActionInput::Call(CallInput {
                function: function.clone(),
                input: tree("input", input)?,
                secrets: input.secret_holes(),
            }),
            CompiledActionKind::Task { spec, input } => ActionInput::Task(TaskInput {
                kind: spec.kind.clone(),
                labels: spec.labels.clone(),
                input: tree("input", input)?,
            }),
            CompiledActionKind::Device { spec, input } => ActionInput::Device(DeviceInput {
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
            CompiledActionKind::TaskFor { spec, payload } => ActionInput::TaskFor(TaskForInput {
                queue: spec.queue.clone(),
                payload: tree("payload", payload)?,
                own: spec.own.clone(),
                due: spec.due,
            }),
            CompiledActionKind::Emit { spec, to, payload } => ActionInput::Emit(EmitInput {
                to: match spec.to {
                    EmitTarget::Execution(_) => EmitTo::Execution(text("to", to, TextTarget::Header)?),
                    EmitTarget::Correlation(_) => {
                        EmitTo::Correlation(text("correlation", to, TextTarget::Header)?)
                    }
                },
                event: spec.event.clone(),
                payload: tree("payload", payload)?,
            }),
            CompiledActionKind::Start { spec, execution_id, input } => ActionInput::Start(StartInput {
                definition: spec.definition.clone(),
                version: spec.version,
                execution_id: match execution_id {
                    Some(id) => Some(text("execution_id", id, TextTarget::Header)?),
                    None => None,
                },
                input: tree("input", input)?,
                parent_close: spec.parent_close,
            }),
            CompiledActionKind::WaitUntil(until) => {
                ActionInput::Wait(WaitInput { until: render_until(until.as_ref(), scope)? })
            }
            CompiledActionKind::WaitFor(span) => ActionInput::Wait(WaitInput { until: ready_at.plus(*span) }),
            CompiledActionKind::Webhook { spec, url, event_type, data } => {
                ActionInput::Webhook(WebhookInput {
                    url: url
                        .render_sealed(scope, TextTarget::Url)
                        .map_err(|error| error_in("url", &error))?,
                    event_type: text("type", event_type, TextTarget::Header)?,
                    data: tree("data", data)?,
                    data_secrets: data.secret_holes(),
                    secret: spec.secret.clone(),
                    at: scope.now,
                })
            }
        })
    }
}

/// Secrets are allowed only in kinds whose rendered input stays with the worker that sends it.
fn secret_policy(kind: &ActionKind) -> SecretPolicy {
    match kind {
        ActionKind::Http(_) | ActionKind::Call { .. } | ActionKind::Webhook(_) => SecretPolicy::Allowed,
        ActionKind::Log { .. }
        | ActionKind::Task(_)
        | ActionKind::Device(_)
        | ActionKind::TaskFor(_)
        | ActionKind::Emit(_)
        | ActionKind::Start(_)
        | ActionKind::Wait(_)
        | ActionKind::Noop { .. } => SecretPolicy::Refused,
    }
}

fn error_in(what: &str, error: &EvalError) -> EvalError {
    EvalError(format!("{what}: {error}"))
}

fn render_http(
    spec: &HttpSpec,
    url: &CompiledText,
    headers: &[(String, CompiledText)],
    body: Option<&CompiledTemplate>,
    scope: &ExprScope<'_>,
) -> Result<HttpInput, EvalError> {
    let headers = headers.iter().map(|(name, text)| {
        let value = text.render_sealed(scope, TextTarget::Header);
        Ok((name.clone(), value.map_err(|error| error_in(&format!("header {name}"), &error))?))
    });
    let headers = headers.collect::<Result<_, EvalError>>()?;
    let url = url.render_sealed(scope, TextTarget::Url).map_err(|error| error_in("url", &error))?;
    let rendered = match body {
        None => None,
        Some(body) => Some(body.render(scope, "body")?),
    };
    let body_secrets = body.map(CompiledTemplate::secret_holes).unwrap_or_default();
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
fn render_until(until: Option<&CelProgram>, scope: &ExprScope<'_>) -> Result<Timestamp, EvalError> {
    let Some(program) = until else { return Ok(scope.now) };
    let value = program.evaluate(scope).map_err(|error| error_in("until", &error))?;
    match value {
        CelValue::Time(time) => Ok(Timestamp::from_millis(time.timestamp_millis())),
        CelValue::Text(text) => Timestamp::parse(&text).map_err(|error| {
            EvalError(format!("until: {:?} is not a time: {error}", millstream_expr::text_excerpt(&text)))
        }),
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Double(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Span(_) => Err(EvalError(format!("until: a time is needed, not {}", value.kind()))),
    }
}

impl CompiledActionKind {
    fn pattern_weight(&self) -> usize {
        match self {
            Self::Log(text) => text.pattern_weight(),
            Self::Noop(value) => value.pattern_weight(),
            Self::Http { spec: _, url, headers, body } => {
                url.pattern_weight()
                    + headers.iter().map(|(_, text)| text.pattern_weight()).sum::<usize>()
                    + body.as_ref().map_or(0, CompiledTemplate::pattern_weight)
            }
            Self::Call { function: _, input }
            | Self::Task { spec: _, input }
            | Self::Device { spec: _, input } => input.pattern_weight(),
            Self::TaskFor { spec: _, payload } => payload.pattern_weight(),
            Self::Emit { spec: _, to, payload } => to.pattern_weight() + payload.pattern_weight(),
            Self::Start { spec: _, execution_id, input } => {
                execution_id.as_ref().map_or(0, CompiledText::pattern_weight) + input.pattern_weight()
            }
            Self::WaitUntil(until) => until.as_ref().map_or(0, CelProgram::pattern_weight),
            Self::WaitFor(_) => 0,
            Self::Webhook { spec: _, url, event_type, data } => {
                url.pattern_weight() + event_type.pattern_weight() + data.pattern_weight()
            }
        }
    }

    fn visit_references<'s>(&'s self, visit: &mut dyn FnMut(PathRoot, &'s [PathStep])) {
        match self {
            Self::Log(text) => text.visit_references(visit),
            Self::Noop(value) => value.visit_references(visit),
            Self::Http { spec: _, url, headers, body } => {
                url.visit_references(visit);
                headers.iter().for_each(|(_, text)| text.visit_references(visit));
                if let Some(body) = body {
                    body.visit_references(visit);
                }
            }
            Self::Call { function: _, input }
            | Self::Task { spec: _, input }
            | Self::Device { spec: _, input } => input.visit_references(visit),
            Self::TaskFor { spec: _, payload } => payload.visit_references(visit),
            Self::Emit { spec: _, to, payload } => {
                to.visit_references(visit);
                payload.visit_references(visit);
            }
            Self::Start { spec: _, execution_id, input } => {
                if let Some(id) = execution_id {
                    id.visit_references(visit);
                }
                input.visit_references(visit);
            }
            Self::WaitUntil(until) => {
                if let Some(program) = until {
                    program.references().for_each(|(root, path)| visit(root, path));
                }
            }
            Self::WaitFor(_) => {}
            Self::Webhook { spec: _, url, event_type, data } => {
                url.visit_references(visit);
                event_type.visit_references(visit);
                data.visit_references(visit);
            }
        }
    }
}

struct ActionCompiler<'a> {
    vocabulary: ExprVocabulary<'a>,
    problems: &'a mut Vec<ValidationProblem>,
}

impl ActionCompiler<'_> {
    fn compile_kind(&mut self, path: &str, kind: &ActionKind) -> CompiledActionKind {
        match kind {
            ActionKind::Log { text } => {
                CompiledActionKind::Log(self.compile_text(&format!("{path}.log"), text))
            }
            ActionKind::Noop { value } => {
                CompiledActionKind::Noop(self.compile_template(&format!("{path}.noop"), value))
            }
            ActionKind::Http(http) => CompiledActionKind::Http {
                url: self.compile_text(&format!("{path}.http.url"), &http.url),
                headers: http
                    .headers
                    .iter()
                    .map(|(name, text)| {
                        (name.clone(), self.compile_text(&format!("{path}.http.headers.{name}"), text))
                    })
                    .collect(),
                body: http
                    .body
                    .as_ref()
                    .map(|body| self.compile_template(&format!("{path}.http.body"), body)),
                spec: http.clone(),
            },
            ActionKind::Call { function, input } => CompiledActionKind::Call {
                function: function.clone(),
                input: self.compile_template(&format!("{path}.input"), input),
            },
            ActionKind::Task(spec) => CompiledActionKind::Task {
                input: self.compile_template(&format!("{path}.task.input"), &spec.input),
                spec: spec.clone(),
            },
            ActionKind::Device(spec) => CompiledActionKind::Device {
                input: self.compile_template(&format!("{path}.device.input"), &spec.input),
                spec: Box::new(spec.clone()),
            },
            ActionKind::TaskFor(spec) => CompiledActionKind::TaskFor {
                payload: self.compile_template(&format!("{path}.task_for.payload"), &spec.payload),
                spec: spec.clone(),
            },
            ActionKind::Emit(spec) => {
                let to = match &spec.to {
                    EmitTarget::Execution(text) => self.compile_text(&format!("{path}.emit.to"), text),
                    EmitTarget::Correlation(text) => {
                        self.compile_text(&format!("{path}.emit.correlation"), text)
                    }
                };
                let payload = self.compile_template(&format!("{path}.emit.payload"), &spec.payload);
                CompiledActionKind::Emit { spec: spec.clone(), to, payload }
            }
            ActionKind::Start(spec) => CompiledActionKind::Start {
                execution_id: spec
                    .execution_id
                    .as_ref()
                    .map(|id| self.compile_text(&format!("{path}.start.execution_id"), id)),
                input: self.compile_template(&format!("{path}.start.input"), &spec.input),
                spec: spec.clone(),
            },
            ActionKind::Wait(WaitSpec::Until(source)) => {
                CompiledActionKind::WaitUntil(self.compile_program(&format!("{path}.wait.until"), source))
            }
            ActionKind::Wait(WaitSpec::For(span)) => CompiledActionKind::WaitFor(*span),
            ActionKind::Webhook(spec) => CompiledActionKind::Webhook {
                url: self.compile_text(&format!("{path}.webhook.url"), &spec.url),
                event_type: self.compile_text(&format!("{path}.webhook.type"), &spec.event_type),
                data: self.compile_template(&format!("{path}.webhook.data"), &spec.data),
                spec: spec.clone(),
            },
        }
    }

    fn compile_program(&mut self, path: &str, source: &str) -> Option<CelProgram> {
        CelProgram::compile(source, self.vocabulary)
            .map_err(|messages| {
                self.problems
                    .extend(messages.into_iter().map(|message| ValidationProblem::new(path, message)));
            })
            .ok()
    }

    fn compile_text(&mut self, path: &str, text: &TextTemplate) -> CompiledText {
        CompiledText::compile(text, self.vocabulary).unwrap_or_else(|messages| {
            self.problems.extend(messages.into_iter().map(|message| ValidationProblem::new(path, message)));
            CompiledText::empty()
        })
    }

    fn compile_template(&mut self, path: &str, template: &ValueTemplate) -> CompiledTemplate {
        let mut found = Vec::new();
        let compiled = CompiledTemplate::compile(template, self.vocabulary, path, &mut found);
        self.problems.extend(found.into_iter().map(|(path, message)| ValidationProblem::new(path, message)));
        compiled
    }
}

/// Maps the response of an HTTP action to its result.
pub(super) fn map_response(
    result: &CompiledTemplate,
    response: &RawJson,
    scope: &ExprScope<'_>,
) -> Result<RawJson, EvalError> {
    let scope = ExprScope { response: Some(response), ..*scope };
    result.render(&scope, "result")
}
