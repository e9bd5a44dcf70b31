//! Outbound events: builds the sinks (a Redis stream, webhooks) that receive the events of graphs, runs and
//! items. A webhook in the settings is `NAME=URL secret=NAME … type=TYPE … form=batch|single`.

use std::sync::Arc;

use anyhow::{Result, bail};
use millstream_model::id::Name;
use millstream_store::clock::Clock;
use millstream_stream::redis::{RedisOptions, RedisStream};
use millstream_worker::HttpOptions;
use millstream_worker::outbound::{
    FAMILIES, KINDS, Sink, SinkFilter, StreamSink, WebhookForm, WebhookSettings, WebhookSink,
};
use url::Url;

use crate::clear_text::warn_about_redis;
use crate::config::Config;
use crate::pem_files::redis_tls;
use crate::secrets::SecretSources;

/// Sink name under which the position of the stream is stored.
const STREAM: &str = "stream";

/// Builds the sinks without opening a connection. Fails on invalid settings.
pub(crate) fn build_sinks(
    config: &Config,
    http: &HttpOptions,
    secrets: &SecretSources,
    clock: &Arc<impl Clock + 'static>,
) -> Result<Vec<Arc<dyn Sink>>> {
    let mut sinks: Vec<Arc<dyn Sink>> = Vec::new();
    if !config.outbound.stream.is_empty() {
        sinks.push(Arc::new(stream_sink(config)?));
    }
    for webhook in parse_webhooks(config)? {
        let (secrets, clock) = (Arc::new(secrets.clone()), clock.clone());
        sinks.push(Arc::new(WebhookSink::new(webhook, http, secrets, clock)?));
    }
    Ok(sinks)
}

fn stream_sink(config: &Config) -> Result<StreamSink> {
    let settings = &config.outbound;
    let own = format!("{}:", config.redis.prefix);
    if settings.stream.starts_with(&own) {
        bail!(
            "outbound.stream: {:?} must not begin with {own:?}, the prefix of the engine's own keys",
            settings.stream
        );
    }
    if settings.stream_length == 0 {
        bail!("outbound.stream_length: must be at least 1");
    }
    let url = if settings.redis_url.is_empty() { &config.redis_url } else { &settings.redis_url };
    if url.is_empty() {
        bail!("outbound.stream: no Redis is configured: set outbound.redis_url (redis://…)");
    }
    warn_about_redis("outbound.redis_url", url);
    // A separate Redis server may run without TLS.
    let tls = if url.starts_with("rediss://") { redis_tls(config, url)? } else { None };
    let options = RedisOptions { connections: 1, tls, ..RedisOptions::default() };
    let outbound =
        RedisStream::connect(url, options).map_err(|error| anyhow::anyhow!("outbound.redis_url: {error}"))?;
    Ok(StreamSink {
        name: Name::parse(STREAM).map_err(|error| anyhow::anyhow!("{STREAM} {error}"))?,
        outbound,
        stream: settings.stream.clone(),
        keep: settings.stream_length,
        source: event_source(config)?,
        taste: event_filter(config)?,
    })
}

fn parse_webhooks(config: &Config) -> Result<Vec<WebhookSettings>> {
    let mut webhooks: Vec<WebhookSettings> = Vec::new();
    for text in &config.outbound.webhooks {
        let webhook = parse_webhook(text, config)?;
        if webhook.name.as_str() == STREAM || webhooks.iter().any(|other| other.name == webhook.name) {
            bail!("outbound.webhooks: the name {:?} is taken: choose another", webhook.name.as_str());
        }
        webhooks.push(webhook);
    }
    Ok(webhooks)
}

/// Reads one entry. The error says what is wrong with it and omits its URL, which may contain a secret.
fn parse_webhook(text: &str, config: &Config) -> Result<WebhookSettings> {
    let mut words = text.split_whitespace();
    let (name, url) = words.next().and_then(|word| word.split_once('=')).unwrap_or((text, ""));
    let shown = if url.is_empty() { "one without a name or an address" } else { name };
    let wrong = |what: String| {
        anyhow::anyhow!(
            "outbound.webhooks: {shown}: {what} (write it like crm=https://host/path secret=crm-key)"
        )
    };
    let parsed = Url::parse(url).map_err(|error| wrong(format!("the address is not a URL: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("the address must begin with https:// or http://".to_owned()));
    }
    let name = Name::parse(name).map_err(|error| wrong(format!("the name {error}")))?;
    let (mut secrets, mut types, mut form) = (Vec::new(), Vec::new(), WebhookForm::Batch);
    for word in words {
        match word.split_once('=') {
            Some(("secret", secret)) => {
                secrets.push(Name::parse(secret).map_err(|error| wrong(format!("the secret {error}")))?);
            }
            Some(("type", kind)) => types.push(kind),
            Some(("form", "batch")) => form = WebhookForm::Batch,
            Some(("form", "single")) => form = WebhookForm::Single,
            Some(("form", other)) => return Err(wrong(format!("form {other:?} is none of batch, single"))),
            Some(_) | None => return Err(wrong(format!("{word:?} is none of secret=, type=, form="))),
        }
    }
    if secrets.is_empty() {
        return Err(wrong("it names no secret to sign with (secret=NAME)".to_owned()));
    }
    let own = SinkFilter::of_types(types.iter().copied()).map_err(|kind| wrong(unknown_type(&kind)))?;
    Ok(WebhookSettings {
        name,
        url: url.to_owned(),
        secrets,
        form,
        timeout: config.outbound.timeout.0,
        source: event_source(config)?,
        taste: if types.is_empty() { event_filter(config)? } else { own },
    })
}

fn event_filter(config: &Config) -> Result<SinkFilter> {
    let types = config.outbound.types.iter().map(String::as_str);
    SinkFilter::of_types(types).map_err(|kind| anyhow::anyhow!("outbound.types: {}", unknown_type(&kind)))
}

fn unknown_type(kind: &str) -> String {
    let (families, kinds) = (FAMILIES.join(", "), KINDS.join(", "));
    format!("{kind:?} is not an event type; the types are {families}, {kinds}")
}

/// The CloudEvents `source`: a URI reference that identifies this installation.
fn event_source(config: &Config) -> Result<String> {
    let source = config.outbound.source.trim_end_matches('/');
    if source.is_empty() || source.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("outbound.source: must be a URI or a path like /millstream");
    }
    Ok(source.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigFlags, merge_layers};

    use super::*;

    fn config_with(env: &[(&str, &str)]) -> Config {
        let env = env.iter().map(|(key, value)| (format!("MILLSTREAM_OUTBOUND__{key}"), (*value).to_owned()));
        merge_layers(None, env, &ConfigFlags::default()).unwrap()
    }

    fn sinks_with(env: &[(&str, &str)]) -> Result<Vec<Arc<dyn Sink>>> {
        let clock = Arc::new(millstream_store::clock::ManualClock::starting_at(
            millstream_model::time::Timestamp::from_millis(0),
        ));
        build_sinks(&config_with(env), &HttpOptions::default(), &SecretSources::of(None, []), &clock)
    }

    #[test]
    fn no_sinks_by_default() {
        assert!(sinks_with(&[]).unwrap().is_empty());
    }

    #[test]
    fn webhook_setting_is_parsed() {
        let config = config_with(&[
            (
                "WEBHOOKS",
                "crm=https://x.example/h?a=b secret=new secret=old, ops=http://o.example type=node.* secret=k form=single",
            ),
            ("TYPES", "workflow.completed,workflow.failed"),
            ("TIMEOUT", "3s"),
            ("SOURCE", "https://mill.example/"),
        ]);
        let found = parse_webhooks(&config).unwrap();
        assert_eq!((found[0].url.as_str(), found[0].secrets.len()), ("https://x.example/h?a=b", 2));
        assert_eq!((found[0].form, found[1].form), (WebhookForm::Batch, WebhookForm::Single));
        assert_eq!(found[0].taste, SinkFilter::of_types(["workflow.completed", "workflow.failed"]).unwrap());
        assert_eq!(found[1].taste, SinkFilter::of_types(["node.*"]).unwrap());
        assert_eq!((found[0].timeout.as_secs(), found[0].source.as_str()), (3, "https://mill.example"));
    }

    #[test]
    fn invalid_outbound_setting_is_named() {
        for (key, value, what) in [
            ("WEBHOOKS", "https://x.example", "without a name"),
            ("WEBHOOKS", "crm=x.example secret=k", "not a URL"),
            ("WEBHOOKS", "crm=ftp://x.example secret=k", "https://"),
            ("WEBHOOKS", "CRM=https://x.example secret=k", "the name"),
            ("WEBHOOKS", "crm=https://x.example", "no secret"),
            ("WEBHOOKS", "crm=https://x.example secret=k type=node.done", "\"node.done\""),
            ("WEBHOOKS", "crm=https://x.example secret=k form=both", "\"both\""),
            ("WEBHOOKS", "crm=https://x.example secret=k batch", "\"batch\""),
            ("WEBHOOKS", "a=https://x.example secret=k,a=https://y.example secret=k", "\"a\" is taken"),
            ("WEBHOOKS", "stream=https://x.example secret=k", "\"stream\" is taken"),
            ("STREAM", "bus", "outbound.redis_url"),
            ("STREAM", "millstream:bus", "the engine's own"),
        ] {
            let error = sinks_with(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(&key.to_lowercase()) && error.contains(what), "{error}");
            assert!(!error.contains("x.example"), "an address may be a secret: {error}");
        }
        let bad = [("STREAM", "bus"), ("REDIS_URL", "redis://h"), ("TYPES", "done")];
        assert!(sinks_with(&bad).unwrap_err().to_string().contains("outbound.types"), "{bad:?}");
        let bad = [("STREAM", "bus"), ("REDIS_URL", "http://h")];
        assert!(sinks_with(&bad).unwrap_err().to_string().contains("outbound.redis_url"), "{bad:?}");
        let bad = [("STREAM", "bus"), ("REDIS_URL", "redis://h"), ("STREAM_LENGTH", "0")];
        assert!(sinks_with(&bad).unwrap_err().to_string().contains("outbound.stream_length"), "{bad:?}");
        let bad = [("STREAM", "bus"), ("REDIS_URL", "redis://h"), ("SOURCE", "a b")];
        assert!(sinks_with(&bad).unwrap_err().to_string().contains("outbound.source"), "{bad:?}");
    }
}
