//! Error classes of actions: the `error.class` of a result event.
//!
//! The engine has a fixed set of classes; user code may add others (`card_declined`), for `retry.except`
//! and for the fingerprint of incidents.

use serde::{Deserialize, Serialize};

use crate::id::Name;

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)+) => {
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum ErrorClass {
            $($(#[$doc])* $variant,)+
            /// A class chosen by user code.
            Custom(Name),
        }

        impl ErrorClass {
            /// All classes of the engine.
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
    /// The input could not be rendered, or the user code could not decode it.
    Input = "input",
    /// No response: connection refused, reset, name not found.
    Network = "network",
    /// One attempt exceeded its timeout.
    Timeout = "timeout",
    /// An attempt sent no heartbeat in time.
    Heartbeat = "heartbeat",
    /// No worker started in time, or all attempts together exceeded their limit.
    Schedule = "schedule",
    /// A response whose status is not a success.
    Status = "status",
    /// A response that could not be read (too large, unexpected format).
    Response = "response",
    /// The target is not allowed.
    Forbidden = "forbidden",
    /// A secret is missing or unusable.
    Secret = "secret",
    /// The output of user code cannot be used.
    Output = "output",
    /// User code failed without an error class.
    Failed = "failed",
    /// The tenant is at a quota.
    Quota = "quota",
    /// The child execution did not complete.
    Child = "child",
    /// The target execution of an event cannot accept it.
    Target = "target",
    /// The stored state of an execution, or its definition, cannot be read.
    Corrupt = "corrupt",
    /// An error of the engine itself.
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
    fn error_class_word_is_its_json() {
        for class in ErrorClass::OWN {
            let stored = RawJson::from_value(class);
            assert_eq!(stored.as_str(), format!("\"{class}\""));
            assert_eq!(stored.decode::<ErrorClass>().unwrap(), *class);
        }
    }

    #[test]
    fn custom_error_class_survives_json() {
        let class: ErrorClass = RawJson::parse("\"card_declined\"").unwrap().decode().unwrap();
        assert_eq!(class, ErrorClass::Custom(Name::parse("card_declined").unwrap()));
    }
}
