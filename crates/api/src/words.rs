//! Closed sets of words, as a client reads them: a word of a newer server is `Unknown`.

/// A closed set of words as an enum; its comment is the description in its schema. With `from`, the words are
/// those of an enum of the engine: a variant that is missing here does not compile.
macro_rules! api_words {
    (
        $(#[doc = $doc:literal])*
        $name:ident from $engine:ty { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $crate::words::api_words! {
            $(#[doc = $doc])*
            $name { $($(#[$vdoc])* $variant = $word,)+ }
        }

        impl From<$engine> for $name {
            fn from(word: $engine) -> Self {
                type Engine = $engine;
                match word { $(Engine::$variant => Self::$variant,)+ }
            }
        }
    };
    (
        $(#[doc = $doc:literal])*
        $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
            /// A word that this client does not know.
            #[serde(other)]
            Unknown,
        }

        impl $name {
            /// As in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => "unknown" }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "enum": [$($word),+],
                    "description": concat!($($doc),*).trim_start(),
                })
            }
        }
    };
}
pub(crate) use api_words;
