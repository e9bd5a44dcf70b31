//! What is refused before authentication, whatever the transport: a URI or headers that are too long, a
//! foreign host, a connection beyond its limits.

use std::time::Duration;

use axum::http::{Extensions, HeaderMap, Uri, header};

use crate::connection_use::{BeyondUnproven, OnReserve};
use crate::options::IngressLimits;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

/// Paths that reserve connections may request.
const PROBES: &[&str] = &["/healthz", "/readyz", "/metrics", "/grpc.health.v1.Health/Check"];

/// Why a request is refused before authentication.
pub(crate) async fn refuse_early(
    uri: &Uri,
    headers: &HeaderMap,
    marks: &Extensions,
    door: &IngressState,
) -> Option<RequestRefusal> {
    let is_probe = PROBES.contains(&uri.path());
    if marks.get::<OnReserve>().is_some() && !is_probe {
        return Some(RequestRefusal::new(RefusalKind::Busy, "too many connections are open"));
    }
    if marks.get::<BeyondUnproven>().is_some() {
        return Some(RequestRefusal::new(
            RefusalKind::Busy,
            "too many requests are in progress on this connection, none of them with a valid key",
        ));
    }
    if let Some(refusal) = too_long(uri, headers, &door.options.limits) {
        return Some(refusal);
    }
    // When the store is unavailable, the host check stays on; a probe does not wait for the store.
    let is_open = door.auth.is_open();
    let is_open = match is_probe {
        true => tokio::time::timeout(PROBE_PATIENCE, is_open).await,
        false => Ok(is_open.await),
    };
    match is_open {
        Ok(Ok(false)) => None,
        Ok(Ok(true) | Err(_)) | Err(_) => foreign_host(uri, headers, door),
    }
}

/// How long a probe waits for the store's answer whether keys exist.
const PROBE_PATIENCE: Duration = Duration::from_millis(250);

fn too_long(uri: &Uri, headers: &HeaderMap, limits: &IngressLimits) -> Option<RequestRefusal> {
    let address = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if address > limits.uri_bytes {
        let detail = format!("path and query are {address} bytes, at most {} are read", limits.uri_bytes);
        return Some(RequestRefusal::new(RefusalKind::UriTooLong, detail));
    }
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    (size > limits.header_bytes).then(|| {
        let detail = format!("the headers are {size} bytes, at most {} are read", limits.header_bytes);
        RequestRefusal::new(RefusalKind::HeadersTooLarge, detail)
    })
}

/// Headers that a proxy adds: behind a proxy, a loopback peer address does not identify the origin of a
/// request.
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// Host check. While calls need no key, a web page must not reach the ingress: neither by a DNS name that
/// was rebound to this address, nor by a cross-origin request, not even from another port of this machine.
/// A request that a proxy forwards, or that names no host, is refused as well.
fn foreign_host(uri: &Uri, headers: &HeaderMap, door: &IngressState) -> Option<RequestRefusal> {
    // HTTP/2 carries the host in the URI (`:authority`).
    let authority = uri.authority().map(|authority| authority.as_str());
    let hosts = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or(""));
    let named: Vec<&str> = authority.into_iter().chain(hosts).collect();
    let origins = headers.get_all(header::ORIGIN).iter().map(|value| value.to_str().unwrap_or(""));
    let mut origins = origins.map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let is_own = |origin: &str| {
        let listed = door.options.allowed_hosts.iter().map(String::as_str);
        named.iter().copied().chain(listed).any(|name| origin.eq_ignore_ascii_case(name))
    };
    let detail = if named.is_empty() {
        "while no key is needed, a request must name its host".to_owned()
    } else if let Some(name) = named.iter().find(|name| !is_own_host(name, door)) {
        format!(
            "{name:?} is not served while no key is needed; use 127.0.0.1 or localhost, or list it in ingress.allowed_hosts"
        )
    } else if let Some(origin) = origins.find(|origin| !is_own(origin)) {
        format!(
            "pages of {origin:?} are not served while no key is needed: it is another origin; list it with its port in ingress.allowed_hosts"
        )
    } else if let Some(header) = PROXY_HEADERS.iter().find(|name| headers.contains_key(**name)) {
        format!(
            "the request comes through a proxy ({header}); that needs a key, see `millstream keys create`"
        )
    } else {
        return None;
    };
    Some(RequestRefusal::new(RefusalKind::HostRefused, detail))
}

fn is_own_host(authority: &str, door: &IngressState) -> bool {
    let host = without_port(authority);
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.eq_ignore_ascii_case(name))
        || door.listen.iter().any(|listen| authority.eq_ignore_ascii_case(listen))
        || door
            .options
            .allowed_hosts
            .iter()
            .any(|name| authority.eq_ignore_ascii_case(name) || host.eq_ignore_ascii_case(name))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
