//! Who a peer is: a name and a role, read from the certificate it proved to hold.
//!
//! A certificate carries both as DNS subject alternative names: its own name (`segd-3`) and its role (`segd`).
//! Nothing a request says of its sender is trusted; only this is.

use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// What a process is allowed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Metad,
    Segd,
    Router,
    Client,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Metad, Role::Segd, Role::Router, Role::Client];

    /// The role as it stands in a certificate, and the server name that any process of the role answers to.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Metad => "metad",
            Role::Segd => "segd",
            Role::Router => "router",
            Role::Client => "client",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Role::ALL.into_iter().find(|role| role.as_str() == word).ok_or_else(|| UnknownRole(word.to_owned()))
    }
}

/// A word that names no role.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a role; use one of metad, segd, router, client")]
pub struct UnknownRole(pub String);

/// A verified peer. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub name: Arc<str>,
    pub role: Role,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.role)
    }
}

/// A certificate that says nothing useful of its holder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    #[error("the peer showed no certificate; give it one signed by the cluster's CA")]
    NoCertificate,
    #[error("the certificate does not parse as X.509: {0}")]
    Unreadable(String),
    #[error(
        "the certificate's DNS names {names:?} hold {found} roles; exactly one of metad, segd, router, client must be among them"
    )]
    Role { names: Vec<String>, found: usize },
}

impl Identity {
    /// Reads the identity of a certificate. The caller must have verified it: this checks no signature and no date.
    pub fn from_certificate(cert: &CertificateDer<'_>) -> Result<Identity, IdentityError> {
        let names = dns_names(cert)?;
        let mut roles: Vec<Role> = names.iter().filter_map(|name| name.parse().ok()).collect();
        roles.sort_unstable();
        roles.dedup();
        let [role] = roles[..] else {
            return Err(IdentityError::Role { found: roles.len(), names });
        };
        // A holder that has no name of its own goes by its role.
        let own = names.iter().find(|name| *name != role.as_str() && *name != "localhost");
        Ok(Identity { name: own.map_or(role.as_str(), String::as_str).into(), role })
    }

    /// Reads the identity of a peer from the chain a TLS session verified, leaf first.
    pub fn from_chain(chain: Option<&[CertificateDer<'_>]>) -> Result<Identity, IdentityError> {
        let leaf = chain.and_then(<[_]>::first).ok_or(IdentityError::NoCertificate)?;
        Identity::from_certificate(leaf)
    }
}

fn dns_names(cert: &CertificateDer<'_>) -> Result<Vec<String>, IdentityError> {
    let unreadable = |error: &dyn fmt::Display| IdentityError::Unreadable(error.to_string());
    let (_, parsed) = X509Certificate::from_der(cert).map_err(|error| unreadable(&error))?;
    let san = parsed.subject_alternative_name().map_err(|error| unreadable(&error))?;
    let names = san.map(|extension| &extension.value.general_names[..]).unwrap_or_default();
    Ok(names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(dns) => Some((*dns).to_owned()),
            _ => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn identity(names: &[&str]) -> Result<Identity, IdentityError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let cert = CertificateParams::new(names).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
        Identity::from_certificate(cert.der())
    }

    #[test]
    fn exactly_one_role_makes_an_identity() {
        let identity_of = identity(&["localhost", "metad", "metad-1", "127.0.0.1"]).unwrap();
        assert_eq!((&*identity_of.name, identity_of.role), ("metad-1", Role::Metad));
        assert!(matches!(identity(&["segd-1", "localhost"]), Err(IdentityError::Role { found: 0, .. })));
        assert!(matches!(identity(&["segd-1", "segd", "metad"]), Err(IdentityError::Role { found: 2, .. })));
        assert_eq!(Identity::from_chain(None), Err(IdentityError::NoCertificate));
    }
}
