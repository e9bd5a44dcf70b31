//! The target of a call: an executor, and the origin of its address.

/// An executor as the worker addresses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExecutorTarget {
    /// `http://host:port`.
    pub address: String,
    pub origin: ExecutorOrigin,
}

/// Origin of an executor's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutorOrigin {
    /// The operator's settings: trusted.
    Configured,
    /// A tenant: checked before every connection.
    Registered,
}

impl ExecutorTarget {
    pub fn configured(address: impl Into<String>) -> Self {
        Self { address: address.into(), origin: ExecutorOrigin::Configured }
    }

    pub fn registered(address: impl Into<String>) -> Self {
        Self { address: address.into(), origin: ExecutorOrigin::Registered }
    }
}
