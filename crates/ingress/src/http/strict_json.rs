//! Strict JSON decoding, as a JSON Schema defines it where `serde` differs: `serde` accepts a list in place
//! of an object, and rejects a whole number that is written `2.0`.

use std::fmt;
use std::marker::PhantomData;

use millstream_model::problem::ValidationProblem as Fault;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::http::graphs::json::decode_json;

/// Upper bound of tokens and similar numbers: exact as a number in every client.
const SAFE: i64 = 9_007_199_254_740_991;

/// Decodes a text that is an object.
pub(in crate::http) fn decode_object<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    decode_json(text, "").map(|StrictObject(value)| value)
}

/// A value that is written as an object and nothing else.
#[derive(Debug, Default)]
pub(in crate::http) struct StrictObject<T>(pub(in crate::http) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = StrictObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StrictObject<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(StrictObject)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// For `deserialize_with`: a list of objects.
pub(in crate::http) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<StrictObject<T>>::deserialize(deserializer)?
        .into_iter()
        .map(|StrictObject(value)| value)
        .collect())
}

/// For `deserialize_with`: a whole number within the type's range, also written `2.0`.
pub(in crate::http) fn whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct WholeNumberVisitor<T>(PhantomData<T>);
    impl<T: TryFrom<i64>> Visitor<'_> for WholeNumberVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number within its limits")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            let fits = (-SAFE..=SAFE).contains(&number).then(|| T::try_from(number).ok()).flatten();
            fits.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            match i64::try_from(number) {
                Ok(number) => self.visit_i64(number),
                Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
            }
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            // Larger whole numbers are not all exact as a double.
            if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0 {
                #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
                return self.visit_i64(number as i64);
            }
            Err(E::invalid_value(Unexpected::Float(number), &self))
        }
    }
    deserializer.deserialize_any(WholeNumberVisitor(PhantomData))
}

/// The same for a number that may be `null`; with `default` it may also be left out.
pub(in crate::http) fn whole_or_none<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(bound = "T: TryFrom<i64>", transparent)]
    struct WholeNumber<T>(#[serde(deserialize_with = "whole")] T);
    Ok(Option::<WholeNumber<T>>::deserialize(deserializer)?.map(|WholeNumber(number)| number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct TestNumbers {
        #[serde(deserialize_with = "whole")]
        count: u16,
        #[serde(default, deserialize_with = "whole_or_none")]
        most: Option<i64>,
    }

    fn decode_numbers(text: &str) -> Result<TestNumbers, String> {
        decode_object(text).map_err(|faults| format!("{faults:?}"))
    }

    #[test]
    fn whole_number_may_have_decimal_point() {
        let most = TestNumbers { count: 0, most: Some(SAFE) };
        assert_eq!(decode_numbers(r#"{"count": 0, "most": 9007199254740991.0}"#), Ok(most));
        assert_eq!(decode_numbers(r#"{"count": 2.0}"#), Ok(TestNumbers { count: 2, most: None }));
        assert_eq!(decode_numbers(r#"{"count": 2, "most": null}"#), Ok(TestNumbers { count: 2, most: None }));
        assert_eq!(
            decode_numbers(r#"{"count": 2, "most": 1e3}"#),
            Ok(TestNumbers { count: 2, most: Some(1000) })
        );
    }

    #[test]
    fn bad_whole_number_is_rejected_with_path() {
        for text in [
            r#"{"count": 2.5}"#,
            r#"{"count": -1}"#,
            r#"{"count": 70000}"#,
            r#"{"count": "2"}"#,
            r#"{"count": 1, "most": 9007199254740992}"#,
            r#"{"count": 1, "most": 1e300}"#,
            r#"{"count": 1, "most": 18446744073709551615}"#,
        ] {
            let refused = decode_numbers(text).unwrap_err();
            assert!(refused.contains("count") || refused.contains("most"), "{text}: {refused}");
        }
    }

    #[test]
    fn list_is_rejected_as_object() {
        assert!(decode_numbers("[2, null]").unwrap_err().contains("an object"));
    }
}
