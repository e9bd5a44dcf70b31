//! Answers are judged by the schemas of their queues, which are compiled once.
//!
//! Those who put queues are trusted to work, not to keep everybody else waiting: what refers to itself, or is about a
//! large answer, is judged on a thread of its own, within a time. A schema that takes longer is given up, which ends
//! its thread (see [`super::schema_steps`]), and is not asked again for a long while. There are never more than a few
//! such threads.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_core::assignment::limits::MAX_PROBLEMS;
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::schema::Schema;
use super::schema_steps::{StepCut, limited};

const SCHEMAS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// Answers up to this are judged by plain schemas in place: moving them costs more.
const SMALL: usize = 4 * 1024;
/// For one answer.
const PATIENCE: Duration = Duration::from_millis(250);
/// For a schema, when a queue is put or an answer is the first.
const TO_COMPILE: Duration = Duration::from_secs(2);
/// How long a schema that took too long is left alone.
const REST: Duration = Duration::from_secs(3600);
/// Of a thread that follows a schema wherever it refers to.
const STACK_BYTES: usize = 8 * 1024 * 1024;
/// Threads that judge or compile at the same time, those that are about to be given up included.
const THREADS: usize = 4;
/// How long an answer waits for one of them.
const QUEUEING: Duration = Duration::from_secs(2);

#[derive(Clone)]
enum Known {
    Good(Arc<Schema>),
    /// Too slow, until then; or it cannot be used.
    Bad(Problem, Instant),
}

pub(crate) struct Schemas {
    known: Mutex<LruCache<RawJson, Known>>,
    /// One permit for each thread, until it ends.
    threads: Arc<Semaphore>,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { known: Mutex::new(LruCache::new(SCHEMAS)), threads: Arc::new(Semaphore::new(THREADS)) }
    }
}

impl Schemas {
    fn lock(&self) -> MutexGuard<'_, LruCache<RawJson, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with a schema itself.
    pub(crate) async fn check(&self, schema: &RawJson) -> Result<(), Problem> {
        self.compiled(schema).await.map(|_| ())
    }

    async fn compiled(&self, text: &RawJson) -> Result<Arc<Schema>, Problem> {
        match self.lock().get(text).cloned() {
            Some(Known::Good(schema)) => return Ok(schema),
            Some(Known::Bad(problem, until)) if Instant::now() < until => return Err(problem),
            Some(Known::Bad(..)) | None => {}
        }
        let source = text.clone();
        let compiled = self.beside(TO_COMPILE, move || Schema::compile(&source)).await;
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(why) => {
                let problem = Problem::new("schema", why.said("to compile"));
                if let Cut::Busy = why {
                    return Err(problem);
                }
                Err(problem)
            }
        };
        let known = match &compiled {
            Ok(_) => None,
            Err(problem) => Some(Known::Bad(problem.clone(), Instant::now() + REST)),
        };
        let schema = compiled.map(Arc::new);
        let known = known.or_else(|| schema.as_ref().ok().map(|schema| Known::Good(schema.clone())));
        if let Some(known) = known {
            self.lock().put(text.clone(), known);
        }
        schema
    }

    /// Everything that is wrong with an answer, at JSON pointers into it.
    pub(super) async fn judge(&self, text: &RawJson, answer: &RawJson) -> Vec<Problem> {
        let schema = match self.compiled(text).await {
            Ok(schema) => schema,
            Err(problem) => {
                return vec![Problem::new("", format!("the queue's schema cannot be used: {problem}"))];
            }
        };
        // One more than is told, so that it can be said that there are more.
        let most = MAX_PROBLEMS + 1;
        let judged = if schema.is_plain && answer.len() <= SMALL {
            limited(PATIENCE, || schema.problems(answer, most)).map_err(|cut| Cut::of(cut, PATIENCE))
        } else {
            let answer = answer.clone();
            self.beside(PATIENCE, move || schema.problems(&answer, most)).await
        };
        judged.unwrap_or_else(|why| {
            if let Cut::Busy = why {
                return vec![Problem::new("", "too many answers are being judged: hand it in again")];
            }
            let problem = Problem::new("", why.said("to judge an answer by"));
            tracing::warn!(%problem, "a schema of a queue is left alone for a while");
            self.lock().put(text.clone(), Known::Bad(problem.clone(), Instant::now() + REST));
            vec![Problem::new("", format!("the queue's schema cannot be used: {problem}"))]
        })
    }
}

/// Why something was not finished.
enum Cut {
    Late(Duration),
    Broken,
    /// No thread was free in time: not the schema's fault.
    Busy,
}

impl Cut {
    fn said(&self, to: &str) -> String {
        match self {
            Self::Late(most) => format!("it takes longer than {} ms {to}", most.as_millis()),
            Self::Broken => "it cannot be worked with".to_owned(),
            Self::Busy => format!("no thread is free {to}"),
        }
    }

    fn of(cut: StepCut, most: Duration) -> Self {
        match cut {
            StepCut::Late => Self::Late(most),
            StepCut::Broken => Self::Broken,
        }
    }
}

impl Schemas {
    /// On a thread of its own, with a stack of its own, which ends soon after its time.
    async fn beside<T: Send + 'static>(
        &self,
        most: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cut> {
        let permit = tokio::time::timeout(QUEUEING, self.threads.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(Cut::Busy) };
        let (tell, told) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            let _permit = permit;
            // An error means that the caller is gone.
            let _ = tell.send(limited(most, work));
        });
        if begun.is_err() {
            return Err(Cut::Broken);
        }
        match told.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(cut)) => Err(Cut::of(cut, most)),
            Err(_) => Err(Cut::Broken),
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

    async fn refused(schema: &str) -> Problem {
        Schemas::default().check(&raw(schema)).await.unwrap_err()
    }

    async fn judged(schema: &str, answer: &str) -> Vec<Problem> {
        Schemas::default().judge(&raw(schema), &raw(answer)).await
    }

    #[tokio::test]
    async fn every_problem_is_told_with_its_place() {
        let schema = r#"{"type":"object","required":["label"],"additionalProperties":false,
            "properties":{"label":{"enum":["cat","dog"]},"tags":{"items":{"type":"string"}}}}"#;
        assert_eq!(judged(schema, r#"{"label":"cat","tags":["a"]}"#).await, []);
        let problems = judged(schema, r#"{"label":"cow","tags":["a",1],"more":1}"#).await;
        let mut paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["", "/label", "/tags/1"], "{problems:?}");
    }

    #[tokio::test]
    async fn a_schema_that_cannot_be_used_is_refused_with_its_place() {
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
    async fn references_within_the_schema_are_followed() {
        let schema = r##"{"$defs":{"name":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/name"}}}"##;
        assert_eq!(judged(schema, r#"{"a":"x"}"#).await, []);
        assert_eq!(judged(schema, r#"{"a":1}"#).await.len(), 1);
    }

    #[tokio::test]
    async fn a_schema_that_goes_round_in_circles_harms_nobody() {
        let schemas = [
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
            r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},
                "$ref":"#/$defs/a"}"##,
            r##"{"anyOf":[{"$ref":"#"},{"not":{"$ref":"#"}}]}"##,
            r##"{"$dynamicAnchor":"a","allOf":[{"$dynamicRef":"#a"}]}"##,
        ];
        for schema in schemas {
            let all = Schemas::default();
            if all.check(&raw(schema)).await.is_ok() {
                all.judge(&raw(schema), &raw(r#"{"a":[1,{"b":2}]}"#)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_schema_that_doubles_with_every_step_is_given_up_and_left_alone() {
        let mut defs = String::new();
        for n in 0..60 {
            let _ = write!(
                defs,
                r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}},"##,
                m = n + 1
            );
        }
        let schema =
            raw(&format!(r##"{{"$defs":{{{defs}"d60":{{"type":"string"}}}},"$ref":"#/$defs/d0"}}"##));
        let schemas = Schemas::default();
        let begun = Instant::now();
        let told = schemas.judge(&schema, &raw("1")).await;
        assert!(!told.is_empty());
        schemas.judge(&schema, &raw("1")).await;
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn given_up_validations_leave_no_threads() {
        let schemas = Schemas::default();
        for n in 0..12 {
            let mut defs = String::new();
            for level in 0..60 {
                let next = level + 1;
                let _ = write!(
                    defs,
                    r##""d{level}":{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}},"##
                );
            }
            let hostile = raw(&format!(
                r##"{{"title":"{n}","$defs":{{{defs}"d60":{{"type":"number"}}}},"$ref":"#/$defs/d0"}}"##
            ));
            let told = schemas.judge(&hostile, &raw("1")).await;
            assert!(told[0].message.contains("takes longer"), "{told:?}");
        }
        // Every thread gives its permit back when it ends; nothing else does.
        let all = schemas.threads.acquire_many(u32::try_from(THREADS).unwrap());
        assert!(tokio::time::timeout(Duration::from_secs(60), all).await.is_ok());
        let honest = r##"{"$defs":{"n":{"type":"string"}},"$ref":"#/$defs/n"}"##;
        assert_eq!(schemas.judge(&raw(honest), &raw("\"x\"")).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_schema_waits_for_one_of_a_few_threads_and_is_refused_while_none_is_free() {
        let schemas = Schemas::default();
        let all = schemas.threads.clone().acquire_many_owned(u32::try_from(THREADS).unwrap()).await.unwrap();
        let schema = raw(r#"{"type":"string"}"#);
        let busy = schemas.check(&schema).await.unwrap_err();
        assert!(busy.message.contains("no thread is free"), "{busy:?}");
        drop(all);
        schemas.check(&schema).await.unwrap();
    }

    #[tokio::test]
    async fn data_that_is_used_as_a_schema_is_refused() {
        let schema = r##"{"const":{"a":{"type":"string"}},"properties":{"b":{"$ref":"#/const/a"}}}"##;
        assert!(refused(schema).await.message.contains("not a place for a schema"));
        let honest = r##"{"properties":{"default":{"type":"string"},"b":{"$ref":"#/properties/default"}}}"##;
        assert_eq!(judged(honest, r#"{"b":1}"#).await.len(), 1);
    }

    #[tokio::test]
    async fn a_pattern_takes_linear_time() {
        let schema = r#"{"type":"string","pattern":"^(a+)+$"}"#;
        let answer = format!("\"{}!\"", "a".repeat(3_000));
        let begun = Instant::now();
        assert_eq!(judged(schema, &answer).await.len(), 1);
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}
