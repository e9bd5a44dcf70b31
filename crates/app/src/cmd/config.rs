//! `millstream config`: the effective settings, secrets hidden.

use anyhow::Result;
use millstream_runtime::config::{Config, DEFAULTS};

use crate::cli::ConfigArgs;
use crate::output::{CliOutput, print_line};

pub(crate) fn run(args: &ConfigArgs, config: &Config, output: CliOutput) -> Result<()> {
    if args.default {
        return print_line(DEFAULTS.trim_end());
    }
    let mut shown = config.clone();
    shown.database_url = without_password(&shown.database_url);
    shown.redis_url = without_password(&shown.redis_url);
    shown.outbound.redis_url = without_password(&shown.outbound.redis_url);
    shown.outbound.webhooks = shown.outbound.webhooks.iter().map(|text| without_path(text)).collect();
    if !shown.key.is_empty() {
        shown.key = "(set)".to_owned();
    }
    output.show(&serde_json::to_value(&shown)?, |_| {
        toml::to_string_pretty(&shown).unwrap_or_else(|error| format!("cannot be shown: {error}"))
    })
}

fn without_password(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            let _ = parsed.set_password(Some("xxxxx"));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

/// Hides the path and the query of a webhook: they often are its only access control.
fn without_path(webhook: &str) -> String {
    let words = webhook.split_whitespace().map(|word| match word.split_once('=') {
        Some((name, address)) if address.contains("://") => match url::Url::parse(address) {
            Ok(url) => format!("{name}={}/…", url.origin().ascii_serialization()),
            Err(_) => format!("{name}=…"),
        },
        Some(_) | None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_path_is_not_printed() {
        let shown = without_path("crm=https://me:pw@hooks.example/T0/B1/abc?token=x secret=crm-key");
        assert_eq!(shown, "crm=https://hooks.example/… secret=crm-key");
    }

    #[test]
    fn passwords_are_not_printed() {
        let shown = without_password("postgres://me:secret@host/db");
        assert!(!shown.contains("secret") && shown.contains("me"), "{shown}");
        assert_eq!(
            without_password("sqlite://.millstream/millstream.db"),
            "sqlite://.millstream/millstream.db"
        );
    }
}
