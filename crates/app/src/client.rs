//! The typed client of the client commands: built from the settings; its errors suggest a remedy.

use std::time::Duration;

use anyhow::{Result, anyhow};
use axum::http::StatusCode;
use futures::{Stream, StreamExt, TryStreamExt};
use millstream_runtime::config::Config;
use millstream_runtime::pem_files::ClientTls;
use millstream_sdk::client::{
    Client, ClientBuilder, ClientError, ClientRetry, ClientSetting, RequestFault, ServerProblem,
};

use crate::failure::{CommandFailure, ExitCode};

/// A slow answer is awaited: the user can interrupt the command.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Reconnections of a stream, about half a minute: a restarting server is back by then.
const RECONNECT: ClientRetry =
    ClientRetry { attempts: 60, backoff: Duration::from_secs(1), max: Duration::from_secs(1) };
/// The longest page that every list has.
const LONGEST_PAGE: usize = 200;

/// A client of the server in the settings.
pub(crate) fn connect(config: &Config) -> Result<Client> {
    let tls = ClientTls::read(config)?;
    let mut builder = client_builder(&config.url).key(&config.key);
    if let Some(ca) = tls.ca {
        builder = builder.ca_certificates(ca);
    }
    if let Some((certificate, key)) = tls.identity {
        builder = builder.client_certificate(&certificate, &key);
    }
    match builder.build() {
        Ok(client) => Ok(client),
        Err(ClientError::InvalidSetting { setting: ClientSetting::Url, reason }) => {
            Err(anyhow!("the setting `url` is not a URL: {:?}: {reason}", config.url))
        }
        Err(other) => Err(other.into()),
    }
}

/// A client of a server without a key.
pub(crate) fn connect_without_key(url: &str) -> Result<Client> {
    Ok(client_builder(url).build()?)
}

/// A command that cannot reach the server fails at once, with a hint.
fn client_builder(url: &str) -> ClientBuilder {
    Client::builder(url)
        .user_agent(concat!("millstream/", env!("CARGO_PKG_VERSION")))
        .timeout(TIMEOUT)
        .retry(ClientRetry::never())
        .reconnect(RECONNECT)
}

/// The first `limit` items of a list, whose pages have the [size](page_size) for this limit.
pub(crate) async fn first_items<T>(
    items: impl Stream<Item = Result<T, ClientError>>,
    limit: usize,
) -> Result<Vec<T>> {
    Ok(items.take(limit).try_collect().await?)
}

/// Number of items per page, when `limit` items are read.
pub(crate) fn page_size(limit: usize) -> usize {
    limit.min(LONGEST_PAGE)
}

/// The failure of a command whose call to the server failed; other errors are unchanged.
pub(crate) fn explain_call(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ClientError>() {
        Ok(error) => call_failure(&error).into(),
        Err(other) => other,
    }
}

/// Adds a hint to a refusal; other errors already contain one.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: &str) -> anyhow::Error {
    match explain_call(error.into()).downcast::<CommandFailure>() {
        Ok(CommandFailure { code: ExitCode::Refused, message }) => {
            CommandFailure::new(ExitCode::Refused, format!("{message}\n{hint}")).into()
        }
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

/// The message and the exit code of a failed call.
pub(crate) fn call_failure(error: &ClientError) -> CommandFailure {
    match error {
        ClientError::Refused(problem) => refusal_failure(problem),
        ClientError::Unreachable { url, source } => {
            let causes =
                std::iter::successors(Some(source as &dyn std::error::Error), |cause| cause.source());
            unreachable_failure(url, &causes.last().map_or_else(String::new, ToString::to_string))
        }
        ClientError::Closed { url } => unreachable_failure(url, "the connection was lost"),
        ClientError::Unreadable { reason, .. } => CommandFailure::new(
            ExitCode::Invalid,
            format!("the server's answer is not the expected JSON: {reason}"),
        ),
        ClientError::InvalidSetting { setting, reason } => {
            CommandFailure::new(ExitCode::Invalid, setting_message(*setting, reason))
        }
        ClientError::Unsendable(_) | ClientError::TimedOut(_) | _ => {
            CommandFailure::new(ExitCode::Invalid, error.to_string())
        }
    }
}

fn setting_message(setting: ClientSetting, reason: &str) -> String {
    match setting {
        ClientSetting::CaCertificates => format!("tls.ca_file: {reason}"),
        ClientSetting::ClientCertificate => {
            format!("tls.client_certificate and tls.client_key: {reason}")
        }
        ClientSetting::Url | _ => format!("{setting}: {reason}"),
    }
}

fn unreachable_failure(url: &str, cause: &str) -> CommandFailure {
    let hint = if cause.contains("certificate") {
        "\na private CA is named by the setting tls.ca_file, a client certificate by tls.client_certificate (docs/TLS.md)"
    } else {
        "\nis it running? start one with `millstream dev`, or name another with --url or MILLSTREAM_URL"
    };
    CommandFailure::new(ExitCode::Unreachable, format!("cannot reach {url}: {cause}{hint}"))
}

fn refusal_failure(problem: &ServerProblem) -> CommandFailure {
    let code = match problem.status {
        400 | 413 | 415 | 422 => ExitCode::Invalid,
        429 | 500.. => ExitCode::Unreachable,
        _ => ExitCode::Refused,
    };
    let mut message = if problem.is_document() {
        let detail = if problem.detail.is_empty() { String::new() } else { format!(": {}", problem.detail) };
        format!("{} ({}){detail}", problem.title, problem.status)
    } else {
        // From a proxy, for example: its body is a page for a browser.
        let status = StatusCode::from_u16(problem.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or("refused");
        format!("{reason} ({})", problem.status)
    };
    for RequestFault { path, message: text } in &problem.problems {
        message.push_str(&if path.is_empty() {
            format!("\n  {text}")
        } else {
            format!("\n  {path}: {text}")
        });
    }
    if problem.status == 401 {
        message.push_str("\nset MILLSTREAM_KEY; `millstream keys create NAME --role ROLE` makes a key");
    }
    CommandFailure::new(code, message)
}

#[cfg(test)]
mod tests {
    use millstream_runtime::config::{ConfigFlags, merge_layers};
    use millstream_sdk::client::Problem;

    use super::*;

    fn refused(status: u16, document: serde_json::Value) -> CommandFailure {
        let mut document: Problem = serde_json::from_value(document).unwrap();
        document.status = status;
        call_failure(&ClientError::Refused(Box::new(document.into())))
    }

    #[test]
    fn refused_call_names_every_fault() {
        let failure = refused(
            422,
            serde_json::json!({ "type": "urn:millstream:problem:invalid", "title": "Not valid", "status": 422,
                "detail": "2 problems", "problems": [
                    { "path": "", "message": "is too short" }, { "path": "a.b", "message": "is c" } ] }),
        );
        assert_eq!(failure.code, ExitCode::Invalid);
        assert_eq!(failure.message, "Not valid (422): 2 problems\n  is too short\n  a.b: is c");
    }

    #[test]
    fn refusal_of_proxy_has_name_of_status() {
        let failure = refused(
            502,
            serde_json::json!({ "type": "about:blank", "title": "status 502", "status": 502, "detail": "<html>" }),
        );
        assert_eq!((failure.code, failure.message.as_str()), (ExitCode::Unreachable, "Bad Gateway (502)"));
    }

    #[test]
    fn invalid_url_names_its_setting() {
        let flags = ConfigFlags { url: Some("nonsense".to_owned()), ..ConfigFlags::default() };
        let config = merge_layers(None, std::iter::empty(), &flags).unwrap();
        assert_eq!(
            connect(&config).unwrap_err().to_string(),
            "the setting `url` is not a URL: \"nonsense\": relative URL without a base"
        );
    }

    #[tokio::test]
    async fn unreachable_server_gets_hint() {
        let error = connect_without_key("http://127.0.0.1:1").unwrap().health().await.unwrap_err();
        let failure = call_failure(&error);
        assert_eq!(failure.code, ExitCode::Unreachable);
        let (first, hint) = failure.message.split_once('\n').unwrap();
        assert!(first.starts_with("cannot reach http://127.0.0.1:1: "), "{first}");
        assert!(hint.starts_with("is it running?"), "{hint}");
    }
}
