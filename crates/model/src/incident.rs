//! Incidents: failures that an operator has to resolve, grouped by fingerprint.

use sha2::{Digest, Sha256};

use crate::error_class::ErrorClass;
use crate::id::{IncidentId, Name};

/// An incident to be opened together with the failure that causes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIncident {
    pub id: IncidentId,
    pub class: ErrorClass,
    /// Summary for the operator; also the reason why the execution is paused.
    pub reason: String,
}

/// Groups incidents with the same cause: definition, action and error class. An event that could not be
/// decided has no action.
pub fn incident_fingerprint(definition: &Name, action: Option<&Name>, class: &ErrorClass) -> String {
    let mut hash = Sha256::new();
    for part in [definition.as_str(), action.map_or("", Name::as_str), class.as_str()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text has the format of a fingerprint.
pub fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incident_fingerprint_identifies_the_cause() {
        let name = |word: &str| Name::parse(word).unwrap();
        let of = |definition: &str, action: Option<&str>, class| {
            incident_fingerprint(&name(definition), action.map(name).as_ref(), &class)
        };
        let one = of("order", Some("charge"), ErrorClass::Status);
        assert_eq!(one, of("order", Some("charge"), ErrorClass::Status));
        assert!(is_fingerprint(&one));
        assert!(!is_fingerprint(&one.to_uppercase()) && !is_fingerprint(&one[1..]));
        for other in [
            of("orders", Some("charge"), ErrorClass::Status),
            of("order", Some("charge"), ErrorClass::Network),
            of("order", Some("ship"), ErrorClass::Status),
            of("order", None, ErrorClass::Status),
        ] {
            assert_ne!(one, other);
        }
    }
}
