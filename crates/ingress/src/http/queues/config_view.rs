//! The configuration of a queue as the API shows it: with the default of every field that was left out.

use millstream_api::queues::{
    AnswerCheck, EligiblePeople, PerPersonLimits, QueueEscalation, WorkQueueConfig,
};
use millstream_model::raw::RawJson;
use millstream_people::assignment::QueueConfig;
use millstream_people::assignment::queue::{
    AnswerRule, EligiblePersons, EscalationTarget, PersonLimits, whole_seconds,
};

pub(super) fn queue_config_view(config: QueueConfig) -> WorkQueueConfig<RawJson> {
    let PersonLimits { open, total } = config.per_person;
    WorkQueueConfig {
        format: config.format,
        name: config.name.to_string(),
        timeout_seconds: whole_seconds(config.timeout),
        pre_assignment_timeout: config.pre_assignment_timeout.map(whole_seconds),
        max_attempts_per_person: config.max_attempts_per_person,
        max_attempts_total: config.max_attempts_total,
        reassign_expired: config.reassign_expired,
        reassign_skipped: config.reassign_skipped,
        skip_requires_reason: config.skip_requires_reason,
        people: match config.people {
            EligiblePersons::Anyone => EligiblePeople::Anyone,
            EligiblePersons::Listed(people) => {
                EligiblePeople::Listed(people.iter().map(ToString::to_string).collect())
            }
        },
        skills: config.skills.iter().map(ToString::to_string).collect(),
        overlap: config.overlap,
        per_person: PerPersonLimits { open, total },
        priority: config.priority,
        due: config.due.map(whole_seconds),
        escalate: config.escalate.map(|target| match target {
            EscalationTarget::Queue(queue) => QueueEscalation::Queue(queue.to_string()),
            EscalationTarget::Event(event) => QueueEscalation::Event(event.to_string()),
        }),
        schema: config.schema,
        rules: config.rules.into_iter().map(answer_check).collect(),
        agreement: config.agreement,
    }
}

fn answer_check(AnswerRule { condition, message, path }: AnswerRule) -> AnswerCheck {
    AnswerCheck { condition, message, path }
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;

    use super::*;

    #[test]
    fn shown_queue_config_is_read_back() {
        let given = r#"{"name":"q","timeout_seconds":"1m","people":["ann"],"due":"1h","escalate":{"event":"late"},
            "rules":[{"if":"answer < 0","message":"m"}],"schema":{"type":"integer"}}"#;
        let config = QueueConfig::parse(given, SourceFormat::Json).unwrap();
        let shown = RawJson::from_value(&queue_config_view(config.clone()));
        let expected = r#"{"format":1,"name":"q","timeout_seconds":60,"pre_assignment_timeout":300,"max_attempts_per_person":3,"max_attempts_total":5,"reassign_expired":true,"reassign_skipped":true,"skip_requires_reason":false,"people":["ann"],"skills":[],"overlap":1,"per_person":{"open":1,"total":null},"priority":0,"due":3600,"escalate":{"event":"late"},"schema":{"type":"integer"},"rules":[{"if":"answer < 0","message":"m","path":""}],"agreement":"answer"}"#;
        assert_eq!(shown.as_str(), expected);
        assert_eq!(QueueConfig::parse(shown.as_str(), SourceFormat::Json), Ok(config));
        let anyone = QueueConfig::parse(r#"{"name":"q"}"#, SourceFormat::Json).unwrap();
        assert_eq!(queue_config_view(anyone).people, EligiblePeople::Anyone);
    }
}
