//! The one TLS crypto provider of the product: ring, AES-128-GCM first.
//!
//! Every rustls configuration is built with `provider()`, never with the process default, so that a dependency which
//! brings a second provider into the graph cannot make a builder panic.

use rustls::crypto::{CryptoProvider, ring};
use std::sync::{Arc, OnceLock};

/// The provider: TLS 1.3 suites only, AES-128-GCM preferred (QUIC requires it, and it is the cheapest per byte).
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| {
        let cipher_suites = vec![
            ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
    }))
}

/// Makes `provider()` the process default, for libraries that ask for one. Call it first in `main`; calling it again
/// is harmless: the first default stays.
pub fn install_default() {
    let _ = CryptoProvider::install_default(CryptoProvider::clone(&provider()));
}
