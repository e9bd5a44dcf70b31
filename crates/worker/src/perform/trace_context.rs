//! W3C trace context: the request that an action makes is a child of the event that caused it.

use millstream_model::entropy::Entropy;

/// `traceparent` for an outgoing request. Without a valid parent a new trace begins.
pub(crate) fn child_traceparent(parent: Option<&str>, entropy: &dyn Entropy) -> String {
    let span = entropy.next_u64().max(1);
    match parent.and_then(parse_traceparent) {
        Some((trace, flags)) => format!("00-{trace}-{span:016x}-{flags}"),
        None => {
            let (high, low) = (entropy.next_u64().max(1), entropy.next_u64());
            format!("00-{high:016x}{low:016x}-{span:016x}-00")
        }
    }
}

/// The trace id and the flags.
fn parse_traceparent(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let valid = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (valid && version != "ff" && trace.bytes().any(|b| b != b'0')).then_some((trace, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct FixedTraceEntropy;
    impl Entropy for FixedTraceEntropy {
        fn next_u64(&self) -> u64 {
            0xab
        }
    }

    #[test]
    fn child_trace_keeps_id_and_flags() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(
            child_traceparent(Some(parent), &FixedTraceEntropy),
            "00-0af7651916cd43dd8448eb211c80319c-00000000000000ab-01"
        );
    }

    #[test]
    fn invalid_traceparent_begins_new_trace() {
        for parent in [
            None,
            Some(""),
            Some("00-xyz-1-01"),
            Some("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ] {
            let child = child_traceparent(parent, &FixedTraceEntropy);
            assert!(parse_traceparent(&child).is_some(), "{child}");
            assert!(!child.contains("0af765"), "{child}");
        }
    }
}
