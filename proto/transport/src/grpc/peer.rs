//! Who sent a request, and whether it may.

use crate::identity::{Identity, Role};
use std::net::SocketAddr;
use tonic::{Request, Status};

/// The sender of a request, in its extensions. Verified by TLS; nothing in the request can change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub identity: Identity,
    pub addr: SocketAddr,
}

/// The sender of a request. Fails only if the service is not behind `grpc::serve`.
pub fn peer<T>(request: &Request<T>) -> Result<&Peer, Status> {
    request
        .extensions()
        .get::<Peer>()
        .ok_or_else(|| Status::unauthenticated("no verified peer; connect with a certificate of the cluster's CA"))
}

/// The sender's identity, if it has one of `roles`.
pub fn require_role<T>(request: &Request<T>, roles: &[Role]) -> Result<Identity, Status> {
    let identity = &peer(request)?.identity;
    if roles.contains(&identity.role) {
        return Ok(identity.clone());
    }
    let allowed: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    Err(Status::permission_denied(format!(
        "{identity} may not call this; it takes a certificate of role {}",
        allowed.join(" or ")
    )))
}
