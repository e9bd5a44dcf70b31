//! The kinds of failure of an action, in the words of the `error.class` of a result event.
//!
//! The engine has its own words; somebody's own code may use others (`card_declined`), to be named in
//! `retry.except` and to tell incidents apart.

use serde::{Deserialize, Serialize};

use crate::id::Name;

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)+) => {
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum ErrorClass {
            $($(#[$doc])* $variant,)+
            /// A word of somebody's own code.
            Custom(Name),
        }

        impl ErrorClass {
            /// The engine's own.
            pub const OWN: &'static [ErrorClass] = &[$(ErrorClass::$variant,)+];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Custom(name) => name.as_str(),
                }
            }

            pub fn named(name: Name) -> Self {
                match name.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Custom(name),
                }
            }
        }
    };
}

classes! {
    /// The input could not be rendered, or the code that it is for could not read it.
    Input = "input",
    /// No answer: refused, reset, name not found.
    Network = "network",
    /// One attempt took too long.
    Timeout = "timeout",
    /// An attempt gave no sign of life for too long.
    Heartbeat = "heartbeat",
    /// Nobody began in time, or all attempts together took too long.
    Schedule = "schedule",
    /// An answer that is not a success.
    Status = "status",
    /// An answer that could not be read (too large, not what was promised).
    Response = "response",
    /// The target is not allowed.
    Forbidden = "forbidden",
    /// A secret is missing or unusable.
    Secret = "secret",
    /// What somebody's own code returned cannot be used.
    Output = "output",
    /// Somebody's own code failed without a word for it.
    Failed = "failed",
    /// The tenant is at a quota.
    Quota = "quota",
    /// The child execution did not complete.
    Child = "child",
    /// The execution that an event was for cannot take it.
    Target = "target",
    /// What is stored of an execution, or the definition that it has, cannot be read.
    Corrupt = "corrupt",
    /// Something in the engine itself.
    Internal = "internal",
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<String> for ErrorClass {
    type Error = crate::id::InvalidId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Name::parse(text).map(Self::named)
    }
}

impl From<ErrorClass> for String {
    fn from(class: ErrorClass) -> String {
        class.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawJson;

    #[test]
    fn the_words_for_error_classes_are_those_that_are_stored() {
        for class in ErrorClass::OWN {
            let stored = RawJson::of(class);
            assert_eq!(stored.as_str(), format!("\"{class}\""));
            assert_eq!(stored.decode::<ErrorClass>().unwrap(), *class);
        }
    }

    #[test]
    fn a_word_of_somebody_s_own_is_kept() {
        let class: ErrorClass = RawJson::parse("\"card_declined\"").unwrap().decode().unwrap();
        assert_eq!(class, ErrorClass::Custom(Name::parse("card_declined").unwrap()));
    }
}
