//! Which executor a call goes to, and who vouches for its address.

/// An executor as the worker knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExecutorTarget {
    /// `http://host:port`.
    pub address: String,
    pub origin: ExecutorOrigin,
}

/// Where an executor's address comes from.
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
