//! Executors from the settings: `NAME=http://HOST:PORT?role=R&label=L&capacity=N`, or with `https://`.

use std::collections::BTreeSet;

use millstream_model::id::Name;
use millstream_worker::executors::FixedExecutor;
use url::Url;

/// Capacity of an executor without `capacity=`.
const CAPACITY: u32 = 100;

/// Reads one entry; the error says what is wrong with it.
pub(crate) fn parse_executor(text: &str) -> Result<FixedExecutor, String> {
    let wrong = |what: String| {
        format!(
            "worker.executors: {text:?}: {what} (write it like planner=http://host:7500?role=planner&capacity=8)"
        )
    };
    let (name, address) = text.split_once('=').ok_or_else(|| wrong("has no name".to_owned()))?;
    let name = Name::parse(name).map_err(|error| wrong(format!("the name {error}")))?;
    let url = Url::parse(address).map_err(|error| wrong(format!("the address is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("the address must begin with http:// or https:// and name a host".to_owned()));
    }
    let mut executor = FixedExecutor {
        name,
        address: url[..url::Position::AfterPort].to_owned(),
        roles: BTreeSet::new(),
        labels: BTreeSet::new(),
        capacity: CAPACITY,
    };
    for (key, value) in url.query_pairs() {
        match &*key {
            "role" => {
                executor.roles.insert(value.into_owned());
            }
            "label" => {
                let label = Name::parse(&*value).map_err(|error| wrong(format!("the label {error}")))?;
                executor.labels.insert(label);
            }
            "capacity" => {
                executor.capacity = value
                    .parse()
                    .ok()
                    .filter(|capacity| *capacity > 0)
                    .ok_or_else(|| wrong("capacity must be a number from 1 on".to_owned()))?;
            }
            other => return Err(wrong(format!("{other:?} is none of role, label, capacity"))),
        }
    }
    Ok(executor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executor_setting_is_parsed() {
        let executor =
            parse_executor("a=http://127.0.0.1:7500?role=planner&role=writer&label=gpu&capacity=8").unwrap();
        assert_eq!((executor.name.as_str(), executor.address.as_str()), ("a", "http://127.0.0.1:7500"));
        assert_eq!((executor.roles.len(), executor.labels.len(), executor.capacity), (2, 1, 8));
        assert_eq!(parse_executor("b=http://host:1").unwrap().capacity, CAPACITY);
        assert_eq!(parse_executor("c=https://host:7443").unwrap().address, "https://host:7443");
    }

    #[test]
    fn invalid_executor_setting_is_named() {
        for (text, what) in [
            ("http://host:1?x", "name"),
            ("a=host:1", "http://"),
            ("a=http://host:1?rule=x", "rule"),
            ("a=http://host:1?capacity=0", "capacity"),
            ("A=http://host:1", "name"),
        ] {
            let error = parse_executor(text).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
