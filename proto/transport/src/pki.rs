//! A certificate authority small enough for development and tests: a directory with `ca.crt`, `ca.key` and one
//! `<name>.crt` / `<name>.key` pair for each process. P-256 throughout; keys are readable by their owner only.
//!
//! Not a production PKI: no revocation, no intermediate, no renewal. `tls` accepts certificates of any origin that
//! carry the same names.

use crate::identity::Role;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_DAYS: u32 = 3650;
const LEAF_DAYS: u32 = 825;

/// Why a certificate could not be made.
#[derive(Debug, Error)]
pub enum PkiError {
    #[error("{} exists already; load it, or delete the directory to begin anew (every certificate it signed is void then)", .0.display())]
    Exists(PathBuf),
    #[error("cannot read {}: {source}; create the authority first", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}; check the directory's owner and free space", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not a usable authority: {detail}; delete the directory and create it again", .path.display())]
    Unusable { path: PathBuf, detail: String },
    #[error(
        "{0:?} cannot be a certificate's name; use 1 to 63 of a-z, 0-9 and '-', not a role's word for another role, not \"localhost\""
    )]
    Name(String),
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

/// What a leaf certificate may have beyond its name and role.
#[derive(Clone, Debug, Default)]
pub struct IssueOptions {
    /// Further host names or IP addresses that the process is dialed by.
    pub extra_names: Vec<String>,
    /// Default: one day ago, for clocks that differ.
    pub valid_from: Option<SystemTime>,
    /// Default: 825 days from now.
    pub valid_until: Option<SystemTime>,
}

/// Where an issued pair lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The authority and the directory it lives in.
pub struct DevCa {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl DevCa {
    /// Creates an authority in `dir` (made if missing). Refuses a directory that holds one.
    pub fn create(dir: impl AsRef<Path>) -> Result<DevCa, PkiError> {
        let dir = dir.as_ref().to_path_buf();
        fs::create_dir_all(&dir).map_err(|source| PkiError::Write { path: dir.clone(), source })?;
        if dir.join("ca.key").exists() || dir.join("ca.crt").exists() {
            return Err(PkiError::Exists(dir));
        }
        let key = KeyPair::generate()?;
        // The name is unlike that of any other authority, so that a mix-up reads as "unknown issuer".
        let params = ca_params(&format!("Seamlog development CA {}", fingerprint(key.public_key_raw())))?;
        let cert = params.self_signed(&key)?;
        write_private(&dir.join("ca.key"), &key.serialize_pem())?;
        write_public(&dir.join("ca.crt"), &cert.pem())?;
        Ok(DevCa { dir, issuer: Issuer::new(params, key) })
    }

    /// Loads the authority that `create` left in `dir`.
    pub fn load(dir: impl AsRef<Path>) -> Result<DevCa, PkiError> {
        let dir = dir.as_ref().to_path_buf();
        let key_pem = read(&dir.join("ca.key"))?;
        let cert_pem = read(&dir.join("ca.crt"))?;
        let unusable = |detail: String| PkiError::Unusable { path: dir.clone(), detail };
        let key = KeyPair::from_pem(&key_pem).map_err(|error| unusable(format!("ca.key: {error}")))?;
        let der = CertificateDer::from_pem_slice(cert_pem.as_bytes())
            .map_err(|error| unusable(format!("ca.crt: {error}")))?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| unusable(format!("ca.crt: {error}")))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(unusable("ca.key does not belong to ca.crt".to_owned()));
        }
        let name = parsed.subject().iter_common_name().next().and_then(|cn| cn.as_str().ok());
        let name = name.ok_or_else(|| unusable("ca.crt has no common name".to_owned()))?;
        let params = ca_params(name)?;
        Ok(DevCa { issuer: Issuer::new(params, key), dir })
    }

    /// Loads the authority in `dir`, or creates it where there is none.
    pub fn open(dir: impl AsRef<Path>) -> Result<DevCa, PkiError> {
        if dir.as_ref().join("ca.key").exists() { DevCa::load(dir) } else { DevCa::create(dir) }
    }

    /// The CA certificate that every process of the cluster trusts.
    pub fn ca_cert(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// The three files of a process, whether issued yet or not.
    pub fn paths(&self, name: &str) -> crate::tls::TlsPaths {
        crate::tls::TlsPaths {
            ca: self.ca_cert(),
            cert: self.dir.join(format!("{name}.crt")),
            key: self.dir.join(format!("{name}.key")),
        }
    }

    /// Writes `<name>.crt` and `<name>.key`, replacing older ones. The certificate serves as both server and client
    /// and names `name`, the role, `localhost`, `127.0.0.1` and `::1`.
    pub fn issue(&self, name: &str, role: Role) -> Result<Issued, PkiError> {
        self.issue_with(name, role, &IssueOptions::default())
    }

    /// `issue` with further names or other dates.
    pub fn issue_with(&self, name: &str, role: Role, options: &IssueOptions) -> Result<Issued, PkiError> {
        check_name(name, role)?;
        let params = leaf_params(name, role, options)?;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        let paths = self.paths(name);
        write_private(&paths.key, &key.serialize_pem())?;
        write_public(&paths.cert, &cert.pem())?;
        Ok(Issued { cert: paths.cert, key: paths.key })
    }
}

fn ca_params(name: &str) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * CA_DAYS).into();
    Ok(params)
}

fn leaf_params(name: &str, role: Role, options: &IssueOptions) -> Result<CertificateParams, PkiError> {
    let mut names: Vec<String> = [name, role.as_str(), "localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    names.extend(options.extra_names.iter().cloned());
    // A role in the further names would make the holder two things at once.
    if let Some(bad) = options.extra_names.iter().find(|extra| extra.parse::<Role>().is_ok_and(|other| other != role)) {
        return Err(PkiError::Name(bad.clone()));
    }
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let now = SystemTime::now();
    params.not_before = options.valid_from.unwrap_or(now - DAY).into();
    params.not_after = options.valid_until.unwrap_or(now + DAY * LEAF_DAYS).into();
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn check_name(name: &str, role: Role) -> Result<(), PkiError> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let edges = !name.starts_with('-') && !name.ends_with('-');
    let other_role = name.parse::<Role>().is_ok_and(|named| named != role);
    let reserved = matches!(name, "localhost" | "ca");
    if plain && edges && !other_role && !reserved && (1..=63).contains(&name.len()) {
        Ok(())
    } else {
        Err(PkiError::Name(name.to_owned()))
    }
}

/// Eight hex digits that tell one public key from another. Not a security measure.
fn fingerprint(public_key: &[u8]) -> String {
    let hash =
        public_key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::Read { path: path.to_path_buf(), source })
}

fn write_public(path: &Path, text: &str) -> Result<(), PkiError> {
    write(path, text, 0o644)
}

fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    write(path, text, 0o600)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let fill = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        // An older file keeps its mode on open: set it before the secret goes in.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())
    };
    fill().map_err(|source| PkiError::Write { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn issued_certificates_name_their_holder_and_hide_their_key() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        let issued = ca.issue("segd-3", Role::Segd).unwrap();
        let cert = CertificateDer::from_pem_file(&issued.cert).unwrap();
        let identity = Identity::from_certificate(&cert).unwrap();
        assert_eq!((&*identity.name, identity.role), ("segd-3", Role::Segd));
        for key in [&issued.key, &dir.path().join("ca.key")] {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_process_that_has_only_its_role_goes_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        let issued = ca.issue("client", Role::Client).unwrap();
        let identity = Identity::from_certificate(&CertificateDer::from_pem_file(issued.cert).unwrap()).unwrap();
        assert_eq!((&*identity.name, identity.role), ("client", Role::Client));
    }

    #[test]
    fn names_that_would_lie_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        for name in ["metad", "localhost", "", "a b", "../x", "-a", "Seg"] {
            assert!(matches!(ca.issue(name, Role::Segd), Err(PkiError::Name(_))), "{name:?} was accepted");
        }
        let two_roles = IssueOptions { extra_names: vec!["metad".into()], ..IssueOptions::default() };
        assert!(matches!(ca.issue_with("segd-1", Role::Segd, &two_roles), Err(PkiError::Name(_))));
    }

    #[test]
    fn an_authority_is_not_overwritten_and_loads_again() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        ca.issue("segd-1", Role::Segd).unwrap();
        assert!(matches!(DevCa::create(dir.path()), Err(PkiError::Exists(_))));
        let again = DevCa::open(dir.path()).unwrap();
        again.issue("router-1", Role::Router).unwrap();
        // Both leaves verify against the one CA certificate on disk.
        for name in ["segd-1", "router-1"] {
            crate::TlsMaterial::load(&again.paths(name)).unwrap();
        }
    }
}
