//! Parses replies. RESP2 answers with arrays, RESP3 with maps; both are read.

use redis::Value;

pub(super) fn as_list(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(items) | Value::Set(items) = value { Some(items) } else { None }
}

/// Pairs of a map, or of a flat array that alternates names and values.
pub(super) fn as_pairs(value: Value) -> Option<Vec<(Value, Value)>> {
    if let Value::Map(pairs) = value {
        return Some(pairs);
    }
    let mut items = as_list(value)?.into_iter();
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (items.next(), items.next()) {
        pairs.push((name, value));
    }
    Some(pairs)
}

/// Pairs of a map, or of an array of two-element arrays (as `XREADGROUP` answers).
pub(super) fn as_nested_pairs(value: Value) -> Option<Vec<(Value, Value)>> {
    if let Value::Map(pairs) = value {
        return Some(pairs);
    }
    as_list(value)?
        .into_iter()
        .map(|item| {
            let mut two = as_list(item)?.into_iter();
            Some((two.next()?, two.next()?))
        })
        .collect()
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    redis::from_redis_value_ref(value).ok()
}

/// The field of a record such as `XINFO` returns.
pub(super) fn record_field(record: &[(Value, Value)], name: &str) -> Option<Value> {
    record.iter().find(|(key, _)| as_text(key).as_deref() == Some(name)).map(|(_, value)| value.clone())
}

/// A field that is a count; absent and nil are `None`.
pub(super) fn record_count(record: &[(Value, Value)], name: &str) -> Option<u64> {
    redis::from_redis_value(record_field(record, name)?).ok()
}
