//! Which API keys a key may issue: pure decisions about a requested key, for the API and the CLI.
//!
//! A key cannot issue a key with more rights than its own: not one with a stronger role
//! ([`Role::may_grant`]), not one of another tenant, and not one that outlives it. An operator key belongs to
//! no tenant and names the tenant.

use std::time::Duration;

use crate::id::{DeviceId, PersonId, TenantId};
use crate::status::Role;
use crate::time::Timestamp;

/// The longest name of a key, in characters.
pub const KEY_NAME_CHARS: usize = 100;

/// The key that issues another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyIssuer {
    pub role: Role,
    /// `None` for an operator.
    pub tenant: Option<TenantId>,
    pub expires_at: Option<Timestamp>,
}

/// Why a key is not issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyGrantRefusal {
    #[error("a key with the role {issuer} cannot issue a key with the role {wanted}")]
    StrongerRole { issuer: Role, wanted: Role },
    #[error("a tenant key can issue keys of its own tenant only")]
    OtherTenant,
    #[error("is required: an operator must name the tenant of a new key")]
    TenantMissing,
    #[error("is not allowed for the role operator, which belongs to no tenant")]
    OperatorHasNoTenant,
    #[error("this key expires at {0}; a key that it issues must not expire later")]
    OutlivesIssuer(Timestamp),
    #[error("this key expires; the lifetime of its successor must not exceed its own lifetime")]
    OutlivesPredecessor,
}

impl KeyIssuer {
    /// The tenant of a new key. `named` is the tenant in the request.
    pub fn tenant_of_new(
        &self,
        role: Role,
        named: Option<TenantId>,
    ) -> Result<Option<TenantId>, KeyGrantRefusal> {
        match (&self.tenant, named) {
            (Some(own), Some(named)) if *own != named => Err(KeyGrantRefusal::OtherTenant),
            (Some(own), _) => Ok(Some(own.clone()).filter(|_| role.has_tenant())),
            (None, Some(named)) if role.has_tenant() => Ok(Some(named)),
            (None, None) if role.has_tenant() => Err(KeyGrantRefusal::TenantMissing),
            (None, Some(_)) => Err(KeyGrantRefusal::OperatorHasNoTenant),
            (None, None) => Ok(None),
        }
    }

    /// Whether this key may issue, rotate or revoke keys of `role` that belong to `tenant`.
    pub fn check_grant(&self, role: Role, tenant: Option<&TenantId>) -> Result<(), KeyGrantRefusal> {
        if self.role.has_tenant() && self.tenant.as_ref() != tenant && role.has_tenant() {
            return Err(KeyGrantRefusal::OtherTenant);
        }
        if !self.role.may_grant(role) {
            return Err(KeyGrantRefusal::StrongerRole { issuer: self.role, wanted: role });
        }
        Ok(())
    }

    /// Expiry of a new key: as requested, by default the expiry of the issuing key.
    pub fn expiry_of_new(&self, wanted: Option<Timestamp>) -> Result<Option<Timestamp>, KeyGrantRefusal> {
        match (self.expires_at, wanted) {
            (Some(own), Some(wanted)) if wanted > own => Err(KeyGrantRefusal::OutlivesIssuer(own)),
            (own, wanted) => Ok(wanted.or(own)),
        }
    }

    /// Expiry of the successor of a rotated key: after the requested lifetime, by default after the lifetime
    /// of the predecessor.
    ///
    /// A key that expires renews itself for at most its own lifetime. The successor of another key expires no
    /// later than the issuing key, like every new key.
    pub fn expiry_of_successor(
        &self,
        of: KeyPredecessor,
        wanted: Option<Duration>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, KeyGrantRefusal> {
        let lifetime = wanted.or(of.lifetime);
        let expires_at = lifetime.map(|lifetime| now.plus(lifetime));
        match (of.relation, self.expires_at) {
            (_, None) => Ok(expires_at),
            (KeyRelation::Issuer, Some(_)) if lifetime > of.lifetime => {
                Err(KeyGrantRefusal::OutlivesPredecessor)
            }
            (KeyRelation::Issuer, Some(_)) => Ok(expires_at),
            (KeyRelation::OtherKey, Some(own)) if expires_at.is_none_or(|at| at > own) => {
                Err(KeyGrantRefusal::OutlivesIssuer(own))
            }
            (KeyRelation::OtherKey, Some(_)) => Ok(expires_at),
        }
    }
}

/// A key that is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPredecessor {
    pub relation: KeyRelation,
    /// Lifetime from its creation; `None` for a key that does not expire.
    pub lifetime: Option<Duration>,
}

/// Whether the rotated key is the key that issues the successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRelation {
    Issuer,
    OtherKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 100 printable characters other than #")]
pub struct InvalidKeyName;

/// Checks the name of a new key. `#` separates the name of a rotated key from its id.
pub fn check_key_name(name: &str) -> Result<(), InvalidKeyName> {
    let is_printable = |c: char| !c.is_control() && c != '#';
    let is_short = name.chars().count() <= KEY_NAME_CHARS;
    if !name.is_empty() && is_short && name.chars().all(is_printable) { Ok(()) } else { Err(InvalidKeyName) }
}

/// Why a key cannot be bound to the requested person or device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyBindingRefusal {
    #[error("a key with the role work must be bound to a person")]
    PersonMissing,
    #[error("person {0}")]
    InvalidPerson(String),
    #[error("device {0}")]
    InvalidDevice(String),
    #[error("person is allowed for the role work only, device for the role device only")]
    Unfitting,
}

/// The person or the device that a key of this role is bound to.
pub fn bind_key(
    role: Role,
    person: Option<&str>,
    device: Option<&str>,
) -> Result<Option<String>, KeyBindingRefusal> {
    match (role, person, device) {
        (Role::Work, Some(person), None) => match PersonId::parse(person) {
            Ok(person) => Ok(Some(person.as_str().to_owned())),
            Err(error) => Err(KeyBindingRefusal::InvalidPerson(format!("{person:?} {error}"))),
        },
        (Role::Work, None, None) => Err(KeyBindingRefusal::PersonMissing),
        (Role::Device, None, Some(device)) => match DeviceId::parse(device) {
            Ok(device) => Ok(Some(device.as_str().to_owned())),
            Err(error) => Err(KeyBindingRefusal::InvalidDevice(format!("{device:?} {error}"))),
        },
        (_, None, None) => Ok(None),
        (_, Some(_), _) | (_, _, Some(_)) => Err(KeyBindingRefusal::Unfitting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn issuer(role: Role) -> KeyIssuer {
        KeyIssuer { role, tenant: Some(tenant("acme")).filter(|_| role.has_tenant()), expires_at: None }
    }

    #[test]
    fn key_cannot_grant_stronger_rights() {
        let (acme, rival) = (tenant("acme"), tenant("rival"));
        for role in Role::ALL {
            let issuer = issuer(*role);
            for wanted in Role::ALL {
                let own = issuer.check_grant(*wanted, Some(&acme).filter(|_| wanted.has_tenant()));
                assert_eq!(own.is_ok(), role.may_grant(*wanted), "{role} grants {wanted}");
                if wanted.has_tenant() {
                    let foreign = issuer.check_grant(*wanted, Some(&rival));
                    assert_eq!(
                        foreign.is_ok(),
                        *role == Role::Operator,
                        "{role} grants {wanted} of another tenant"
                    );
                }
            }
        }
        let operator = issuer(Role::Admin).check_grant(Role::Operator, None);
        let stronger = KeyGrantRefusal::StrongerRole { issuer: Role::Admin, wanted: Role::Operator };
        assert_eq!(operator, Err(stronger));
    }

    #[test]
    fn new_key_belongs_to_permitted_tenant() {
        let (acme, rival) = (Some(tenant("acme")), Some(tenant("rival")));
        let (admin, operator) = (issuer(Role::Admin), issuer(Role::Operator));
        assert_eq!(admin.tenant_of_new(Role::Read, None), Ok(acme.clone()));
        assert_eq!(admin.tenant_of_new(Role::Read, acme.clone()), Ok(acme.clone()));
        assert_eq!(admin.tenant_of_new(Role::Read, rival.clone()), Err(KeyGrantRefusal::OtherTenant));
        assert_eq!(operator.tenant_of_new(Role::Admin, rival.clone()), Ok(rival.clone()));
        assert_eq!(operator.tenant_of_new(Role::Admin, None), Err(KeyGrantRefusal::TenantMissing));
        assert_eq!(operator.tenant_of_new(Role::Operator, None), Ok(None));
        let named = operator.tenant_of_new(Role::Operator, rival);
        assert_eq!(named, Err(KeyGrantRefusal::OperatorHasNoTenant));
    }

    #[test]
    fn new_key_cannot_outlive_issuer() {
        let at = Timestamp::from_millis;
        let eternal = issuer(Role::Admin);
        assert_eq!(eternal.expiry_of_new(None), Ok(None));
        assert_eq!(eternal.expiry_of_new(Some(at(9))), Ok(Some(at(9))));
        let brief = KeyIssuer { expires_at: Some(at(5)), ..eternal };
        assert_eq!(brief.expiry_of_new(None), Ok(Some(at(5))));
        assert_eq!(brief.expiry_of_new(Some(at(5))), Ok(Some(at(5))));
        assert_eq!(brief.expiry_of_new(Some(at(6))), Err(KeyGrantRefusal::OutlivesIssuer(at(5))));
    }

    #[test]
    fn rotation_limits_successor_lifetime() {
        let (now, length) = (Timestamp::from_millis(0), Duration::from_secs);
        let after = |seconds| Ok(Some(now.plus(length(seconds))));
        let eternal = issuer(Role::Admin);
        let brief = KeyIssuer { expires_at: Some(now.plus(length(5))), ..eternal.clone() };
        let of = |relation, lifetime| KeyPredecessor { relation, lifetime };
        let (itself, other) = (KeyRelation::Issuer, KeyRelation::OtherKey);
        let successor = |issuer: &KeyIssuer, of, wanted| issuer.expiry_of_successor(of, wanted, now);
        assert_eq!(successor(&eternal, of(itself, None), None), Ok(None));
        assert_eq!(successor(&eternal, of(other, Some(length(9))), None), after(9));
        assert_eq!(successor(&eternal, of(other, Some(length(9))), Some(length(10))), after(10));
        assert_eq!(successor(&brief, of(itself, Some(length(9))), None), after(9));
        assert_eq!(successor(&brief, of(itself, Some(length(9))), Some(length(3))), after(3));
        let longer = successor(&brief, of(itself, Some(length(9))), Some(length(10)));
        assert_eq!(longer, Err(KeyGrantRefusal::OutlivesPredecessor));
        let outlives = Err(KeyGrantRefusal::OutlivesIssuer(now.plus(length(5))));
        assert_eq!(successor(&brief, of(other, Some(length(9))), None), outlives);
        assert_eq!(successor(&brief, of(other, None), None), outlives);
        assert_eq!(successor(&brief, of(other, None), Some(length(5))), after(5));
    }

    #[test]
    fn key_binding_follows_role() {
        assert_eq!(bind_key(Role::Work, Some("ann"), None), Ok(Some("ann".to_owned())));
        assert_eq!(bind_key(Role::Work, None, None), Err(KeyBindingRefusal::PersonMissing));
        assert_eq!(bind_key(Role::Device, None, Some("d-1")), Ok(Some("d-1".to_owned())));
        assert_eq!(bind_key(Role::Device, None, None), Ok(None));
        assert_eq!(bind_key(Role::Read, Some("ann"), None), Err(KeyBindingRefusal::Unfitting));
        assert_eq!(bind_key(Role::Work, Some("ann"), Some("d-1")), Err(KeyBindingRefusal::Unfitting));
        assert!(matches!(bind_key(Role::Work, Some(""), None), Err(KeyBindingRefusal::InvalidPerson(_))));
    }

    #[test]
    fn key_name_is_short_and_printable() {
        let longest = "é".repeat(KEY_NAME_CHARS);
        for name in ["a", "Build server 7", &longest] {
            assert_eq!(check_key_name(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(KEY_NAME_CHARS + 1);
        for name in ["", "a\nb", "\0", "ci#1", &too_long] {
            assert_eq!(check_key_name(name), Err(InvalidKeyName), "{name:?}");
        }
    }
}
