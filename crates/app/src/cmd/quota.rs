//! `millstream quota`: quotas of tenants, and their usage.

use anyhow::{Result, bail};
use millstream_model::quota::{QuotaName, QuotaSet, QuotaValue};
use millstream_sdk::Client;
use millstream_sdk::client::{NewTenantQuota, TenantQuota};

use crate::cli::{QuotaArgs, QuotaCommand};
use crate::output::{CliOutput, format_table};

pub(crate) async fn run(args: &QuotaArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        QuotaCommand::Get { tenant } => show_quota(output, &client.quota(tenant).await?),
        QuotaCommand::Set { tenant, quotas } => {
            let quota: NewTenantQuota = serde_json::from_value(quota_set(quotas)?.to_json())?;
            show_quota(output, &client.put_quota(tenant, &quota).await?)
        }
        QuotaCommand::Usage { tenant } => output.show(&client.usage(tenant).await?, |answer| {
            let columns = [("quota", "name"), ("used", "used"), ("of", "quota"), ("where", "scope")];
            format_table(&answer.items, &columns)
        }),
    }
}

fn show_quota(output: CliOutput, answer: &TenantQuota) -> Result<()> {
    output.show(answer, |answer| {
        format_table(&answer.items, &[("quota", "name"), ("value", "value"), ("source", "source")])
    })
}

/// Parses `NAME=VALUE` arguments.
fn quota_set(quotas: &[String]) -> Result<QuotaSet> {
    let mut set = QuotaSet::default();
    for quota in quotas {
        let Some((name, value)) = quota.split_once('=') else {
            bail!("{quota:?} is not a quota: write it like open_executions=50000");
        };
        let name = QuotaName::parse_or_suggest(name).map_err(anyhow::Error::msg)?;
        let value =
            QuotaValue::of_text(name, value).map_err(|message| anyhow::anyhow!("{name}: {message}"))?;
        set = set.with(name, value);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_arguments_are_parsed_by_name() {
        let given = ["waits=1/2", "max_action_timeout=30m", "devices=7"].map(str::to_owned);
        assert_eq!(
            quota_set(&given).unwrap().to_json().to_string(),
            r#"{"devices":7,"max_action_timeout":"30m","waits":"1/2"}"#
        );
        for wrong in ["waits", "wait=5", "devices=many"] {
            assert!(quota_set(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
