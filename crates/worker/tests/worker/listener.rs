//! A sink with scripted behaviour, for the tests of outbound events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_model::entropy::Entropy;
use millstream_model::id::Name;
use millstream_worker::outbound::{CloudEvent, Sink, SinkFilter, SinkLoad, SinkRefusal};

/// What the sink does with a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SinkMood {
    Take,
    Refuse,
    Away,
    /// Accepts this many events, and then breaks the connection.
    BreakAfter(usize),
}

pub(crate) type SinkMoods = dyn Fn(&[CloudEvent]) -> SinkMood + Send + Sync;

/// Behaves as a function says, and records the accepted events.
pub(crate) struct ScriptedSink {
    pub(crate) name: Name,
    pub(crate) taste: SinkFilter,
    pub(crate) load: SinkLoad,
    pub(crate) mood: Box<SinkMoods>,
    pub(crate) heard: Mutex<Vec<CloudEvent>>,
    pub(crate) asked: AtomicU64,
}

impl std::fmt::Debug for ScriptedSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Sink for ScriptedSink {
    fn name(&self) -> &Name {
        &self.name
    }

    fn source(&self) -> &str {
        "/test"
    }

    fn event_filter(&self) -> &SinkFilter {
        &self.taste
    }

    fn load_limits(&self) -> SinkLoad {
        self.load
    }

    async fn send_events(&self, events: &[CloudEvent]) -> Result<(), SinkRefusal> {
        assert!(!events.is_empty() && events.len() <= self.load.events, "no more than it can take");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let away = || SinkRefusal::Away { error: "broken".to_owned(), retry_after: None };
        tokio::task::yield_now().await;
        match (self.mood)(events) {
            SinkMood::Take => self.heard.lock().unwrap().extend_from_slice(events),
            SinkMood::Refuse => return Err(SinkRefusal::Refused { error: "no".to_owned() }),
            SinkMood::Away => return Err(away()),
            SinkMood::BreakAfter(count) => {
                self.heard.lock().unwrap().extend_from_slice(&events[..count.min(events.len())]);
                return Err(away());
            }
        }
        Ok(())
    }
}

impl ScriptedSink {
    pub(crate) fn who(name: &str, mood: impl Fn(&[CloudEvent]) -> SinkMood + Send + Sync + 'static) -> Self {
        Self {
            name: Name::parse(name).unwrap(),
            taste: SinkFilter::default(),
            load: SinkLoad { requests: 3, events: 20, bytes: 100_000 },
            mood: Box::new(mood),
            heard: Mutex::default(),
            asked: AtomicU64::new(0),
        }
    }

    pub(crate) fn heard(&self) -> Vec<CloudEvent> {
        self.heard.lock().unwrap().clone()
    }

    /// The accepted events of each subject, without repetitions.
    pub(crate) fn first_heard(&self) -> BTreeMap<String, Vec<(String, String)>> {
        let (mut of_subjects, mut seen) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
        for event in self.heard() {
            let place = (event.source.clone(), event.id.clone());
            match seen.insert(place, event.clone()) {
                Some(before) => assert_eq!(before, event, "a repeated event is identical"),
                None => of_subjects.entry(event.subject).or_default().push((event.id, event.kind)),
            }
        }
        of_subjects
    }

    pub(crate) fn repetitions(&self) -> usize {
        let heard = self.heard();
        let ids: BTreeSet<_> = heard.iter().map(|event| (&event.source, &event.id)).collect();
        heard.len() - ids.len()
    }
}

/// Reproducible random numbers for a mood.
pub(crate) fn dice(seed: u64) -> impl Fn(u64) -> u64 + Send + Sync {
    let seeded = crate::bench::SeededEntropy::from(seed);
    move |sides| seeded.next_u64() % sides
}
