//! Judges answers by the JSON Schemas of their queues, which are compiled once and cached.
//!
//! Judging inside a batch, which is shared by all tenants, is limited to a few steps
//! ([`SchemaCache::judge_at_once`]). Everything else runs on the task of its request, on a separate thread:
//! recursive schemas, large answers, more steps, or a schema that is not compiled yet. A schema that takes
//! too many steps (see [`super::schema_steps`]) is disabled for an hour (circuit breaker). Exceeding the
//! time limit rejects that answer only, because the machine may be busy. The number of such threads is
//! bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_people::assignment::limits::MAX_PROBLEMS;
use millstream_rpc::weighed_cache::WeighedCache;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::schema::AnswerSchema;
use super::schema_steps::{MAX_STEPS, StepCut, run_limited};

/// Upper bound of the cache, by estimated size of the compiled schemas.
const CACHE_BYTES: usize = 128 * 1024 * 1024;
/// Answers up to this size are judged inline by plain schemas: moving them costs more.
const SMALL: usize = 4 * 1024;
/// Inline steps, about a tenth of a millisecond.
const STEPS_AT_ONCE: u64 = 500;
/// Time limit of judging one answer, and of compiling a schema.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a schema that took too many steps is disabled.
const REST: Duration = Duration::from_secs(3600);
/// Stack of a thread that judges recursive schemas.
const STACK_BYTES: usize = 8 * 1024 * 1024;
/// Concurrent threads that judge or compile, including those that are about to hit their limit.
const THREADS: usize = 4;
/// How long an answer waits for such a thread.
const QUEUEING: Duration = Duration::from_secs(2);

#[derive(Clone)]
enum CachedSchema {
    Good(Arc<AnswerSchema>),
    /// Disabled until then: too many steps, or invalid.
    Bad(ValidationProblem, Instant),
}

pub(crate) struct SchemaCache {
    known: Mutex<WeighedCache<RawJson, CachedSchema>>,
    /// One permit for each thread, until it ends.
    threads: Arc<Semaphore>,
}

impl Default for SchemaCache {
    fn default() -> Self {
        Self {
            known: Mutex::new(WeighedCache::with_capacity(CACHE_BYTES)),
            threads: Arc::new(Semaphore::new(THREADS)),
        }
    }
}

impl SchemaCache {
    fn lock(&self) -> MutexGuard<'_, WeighedCache<RawJson, CachedSchema>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the schema itself.
    pub(crate) async fn check_schema(&self, schema: &RawJson) -> Result<(), ValidationProblem> {
        self.compile_cached(schema).await.map(|_| ())
    }

    /// The cached state of a schema, without compiling it.
    fn cached_schema(&self, text: &RawJson) -> Option<Result<Arc<AnswerSchema>, ValidationProblem>> {
        match self.lock().get(text)? {
            CachedSchema::Good(schema) => Some(Ok(schema)),
            CachedSchema::Bad(problem, until) if Instant::now() < until => Some(Err(problem)),
            CachedSchema::Bad(..) => None,
        }
    }

    fn disable_schema(&self, text: &RawJson, problem: &ValidationProblem) {
        self.lock().put(text.clone(), CachedSchema::Bad(problem.clone(), Instant::now() + REST), text.len());
    }

    async fn compile_cached(&self, text: &RawJson) -> Result<Arc<AnswerSchema>, ValidationProblem> {
        if let Some(known) = self.cached_schema(text) {
            return known;
        }
        let source = text.clone();
        let compiled =
            self.run_on_thread(move || AnswerSchema::compile_schema(&source)).await.map_err(|cut| {
                let problem = ValidationProblem::new("schema", cut.reason("to compile"));
                if cut.is_of_the_schema() {
                    self.disable_schema(text, &problem);
                }
                problem
            })?;
        let schema = match compiled {
            Ok(schema) => Arc::new(schema),
            Err(problem) => {
                self.disable_schema(text, &problem);
                return Err(problem);
            }
        };
        let weight = text.len() + schema.weight;
        self.lock().put(text.clone(), CachedSchema::Good(Arc::clone(&schema)), weight);
        Ok(schema)
    }

    /// All problems of an answer, if found within a few steps.
    pub(super) fn judge_at_once(&self, text: &RawJson, answer: &RawJson) -> Option<Vec<ValidationProblem>> {
        let schema = match self.cached_schema(text)? {
            Ok(schema) => schema,
            Err(problem) => return Some(vec![unusable_schema(&problem)]),
        };
        if !schema.is_plain || answer.len() > SMALL {
            return None;
        }
        run_limited(STEPS_AT_ONCE, PATIENCE, || schema.find_problems(answer, MAX_PROBLEMS + 1)).ok()
    }

    /// All problems of an answer, at JSON pointers into it.
    pub(super) async fn judge_answer(&self, text: &RawJson, answer: &RawJson) -> Vec<ValidationProblem> {
        if let Some(judged) = self.judge_at_once(text, answer) {
            return judged;
        }
        let schema = match self.compile_cached(text).await {
            Ok(schema) => schema,
            Err(problem) => return vec![unusable_schema(&problem)],
        };
        let answer = answer.clone();
        // One more than is shown, to detect that there are more.
        let judged = self.run_on_thread(move || schema.find_problems(&answer, MAX_PROBLEMS + 1)).await;
        judged.unwrap_or_else(|cut| {
            let problem = ValidationProblem::new("", cut.reason("to judge an answer by"));
            if cut.is_of_the_schema() {
                tracing::warn!(%problem, "queue schema exceeded its limit; disabled for 1 h");
                self.disable_schema(text, &problem);
                return vec![unusable_schema(&problem)];
            }
            vec![ValidationProblem::new("", format!("{}; submit the answer again", problem.message))]
        })
    }
}

fn unusable_schema(problem: &ValidationProblem) -> ValidationProblem {
    ValidationProblem::new("", format!("the queue's schema cannot be used: {problem}"))
}

/// Why the work was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaCut {
    Steps,
    Late,
    Broken,
    /// No thread was free in time.
    Busy,
}

impl SchemaCut {
    fn reason(self, to: &str) -> String {
        match self {
            Self::Steps => format!("the schema needs more than {MAX_STEPS} steps {to}"),
            Self::Late => format!("the schema took longer than {} s {to}", PATIENCE.as_secs()),
            Self::Broken => "the schema cannot be processed".to_owned(),
            Self::Busy => format!("no thread is free {to}"),
        }
    }

    /// Whether the schema is the cause, so that any machine would be cut off as well.
    fn is_of_the_schema(self) -> bool {
        match self {
            Self::Steps | Self::Broken => true,
            Self::Late | Self::Busy => false,
        }
    }
}

impl From<StepCut> for SchemaCut {
    fn from(cut: StepCut) -> Self {
        match cut {
            StepCut::Steps => Self::Steps,
            StepCut::Late => Self::Late,
            StepCut::Broken => Self::Broken,
        }
    }
}

impl SchemaCache {
    /// Runs `work` on a separate thread with a stack of its own; the limits end it soon after its time.
    async fn run_on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SchemaCut> {
        let permit = tokio::time::timeout(QUEUEING, self.threads.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(SchemaCut::Busy) };
        let (tell, told) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            let _permit = permit;
            // An error means that the caller has gone.
            let _ = tell.send(run_limited(MAX_STEPS, PATIENCE, work));
        });
        if begun.is_err() {
            return Err(SchemaCut::Busy);
        }
        match told.await {
            Ok(done) => done.map_err(SchemaCut::from),
            Err(_) => Err(SchemaCut::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text).unwrap()
    }

    async fn refused(schema: &str) -> ValidationProblem {
        SchemaCache::default().check_schema(&raw(schema)).await.unwrap_err()
    }

    async fn judged(schema: &str, answer: &str) -> Vec<ValidationProblem> {
        SchemaCache::default().judge_answer(&raw(schema), &raw(answer)).await
    }

    #[tokio::test]
    async fn answer_problems_name_their_pointers() {
        let schema = r#"{"type":"object","required":["label"],"additionalProperties":false,
            "properties":{"label":{"enum":["cat","dog"]},"tags":{"items":{"type":"string"}}}}"#;
        assert_eq!(judged(schema, r#"{"label":"cat","tags":["a"]}"#).await, []);
        let problems = judged(schema, r#"{"label":"cow","tags":["a",1],"more":1}"#).await;
        let mut paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["", "/label", "/tags/1"], "{problems:?}");
    }

    #[tokio::test]
    async fn invalid_schema_problem_names_path() {
        let cases = [
            (r#"{"properties":{"a":{"type":"strnig"}}}"#, "schema.properties.a.type"),
            (r#"{"type":"string","pattern":"a("}"#, "schema"),
            (r#"{"type":"string","pattern":"^(?=a)b"}"#, "schema"),
            (r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, "schema.$schema"),
            (r#"{"properties":{"a":{"$ref":"https://example.com/a.json"}}}"#, "schema.properties.a.$ref"),
            (r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#, "schema.properties.a.$ref"),
            (r##"{"$ref":"#/$defs/none"}"##, "schema"),
            (r#"{"$ref":"other.json"}"#, "schema"),
        ];
        for (schema, path) in cases {
            let problem = refused(schema).await;
            assert!(problem.path.starts_with(path), "{schema}: {problem:?}");
        }
        let large = format!(r#"{{"title":"{}"}}"#, "a".repeat(70_000));
        assert!(refused(&large).await.message.contains("64 KiB"));
    }

    #[tokio::test]
    async fn internal_schema_references_are_followed() {
        let schema = r##"{"$defs":{"name":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/name"}}}"##;
        assert_eq!(judged(schema, r#"{"a":"x"}"#).await, []);
        assert_eq!(judged(schema, r#"{"a":1}"#).await.len(), 1);
    }

    #[tokio::test]
    async fn cyclic_schema_terminates() {
        let schemas = [
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
            r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},
                "$ref":"#/$defs/a"}"##,
            r##"{"anyOf":[{"$ref":"#"},{"not":{"$ref":"#"}}]}"##,
            r##"{"$dynamicAnchor":"a","allOf":[{"$dynamicRef":"#a"}]}"##,
        ];
        for schema in schemas {
            let all = SchemaCache::default();
            if all.check_schema(&raw(schema)).await.is_ok() {
                all.judge_answer(&raw(schema), &raw(r#"{"a":[1,{"b":2}]}"#)).await;
            }
        }
    }

    /// A schema whose steps double with each of 60 levels.
    fn doubling(title: usize) -> RawJson {
        let mut defs = String::new();
        for level in 0..60 {
            let next = level + 1;
            let _ = write!(
                defs,
                r##""d{level}":{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}},"##
            );
        }
        raw(&format!(
            r##"{{"title":"{title}","$defs":{{{defs}"d60":{{"type":"number"}}}},"$ref":"#/$defs/d0"}}"##
        ))
    }

    #[tokio::test]
    async fn expensive_schema_is_disabled() {
        let (schemas, schema) = (SchemaCache::default(), doubling(0));
        let problems = schemas.judge_answer(&schema, &raw("1")).await;
        assert!(problems[0].message.contains("steps"), "{problems:?}");
        // Without a thread the cached refusal still answers.
        let _all = schemas.threads.acquire_many(u32::try_from(THREADS).unwrap()).await.unwrap();
        assert_eq!(schemas.judge_at_once(&schema, &raw("1")), Some(problems));
    }

    #[tokio::test]
    async fn long_answer_is_judged_on_thread() {
        let schemas = SchemaCache::default();
        let schema = raw(r#"{"items":{"type":"number"}}"#);
        schemas.check_schema(&schema).await.unwrap();
        assert_eq!(schemas.judge_at_once(&schema, &raw("[1]")), Some(Vec::new()));
        let long = raw(&format!("[{}1]", "1,".repeat(1_500)));
        assert_eq!(schemas.judge_at_once(&schema, &long), None);
        assert_eq!(schemas.judge_answer(&schema, &long).await, []);
    }

    #[test]
    fn only_steps_disable_a_schema() {
        assert!(SchemaCut::Steps.is_of_the_schema());
        assert!(!SchemaCut::Late.is_of_the_schema() && !SchemaCut::Busy.is_of_the_schema());
    }

    #[tokio::test]
    async fn cut_off_validation_frees_its_thread() {
        let schemas = SchemaCache::default();
        for n in 0..12 {
            let problems = schemas.judge_answer(&doubling(n), &raw("1")).await;
            assert!(problems[0].message.contains("steps"), "{problems:?}");
        }
        // Only the end of a thread releases its permit.
        let all = schemas.threads.acquire_many(u32::try_from(THREADS).unwrap());
        assert!(tokio::time::timeout(Duration::from_secs(60), all).await.is_ok());
        let honest = r##"{"$defs":{"n":{"type":"string"}},"$ref":"#/$defs/n"}"##;
        assert_eq!(schemas.judge_answer(&raw(honest), &raw("\"x\"")).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn schema_threads_are_bounded() {
        let schemas = SchemaCache::default();
        let all = schemas.threads.clone().acquire_many_owned(u32::try_from(THREADS).unwrap()).await.unwrap();
        let schema = raw(r#"{"type":"string"}"#);
        let busy = schemas.check_schema(&schema).await.unwrap_err();
        assert!(busy.message.contains("no thread is free"), "{busy:?}");
        drop(all);
        schemas.check_schema(&schema).await.unwrap();
    }

    #[tokio::test]
    async fn data_as_schema_is_refused() {
        let schema = r##"{"const":{"a":{"type":"string"}},"properties":{"b":{"$ref":"#/const/a"}}}"##;
        assert!(refused(schema).await.message.contains("not a place for a schema"));
        let honest = r##"{"properties":{"default":{"type":"string"},"b":{"$ref":"#/properties/default"}}}"##;
        assert_eq!(judged(honest, r#"{"b":1}"#).await.len(), 1);
    }

    #[tokio::test]
    async fn schema_patterns_take_linear_time() {
        let schema = r#"{"type":"string","pattern":"^(a+)+$"}"#;
        let answer = format!("\"{}!\"", "a".repeat(3_000));
        let problems = judged(schema, &answer).await;
        assert_eq!(problems.len(), 1);
        assert!(!problems[0].message.contains("submit the answer again"), "{problems:?}");
    }
}
