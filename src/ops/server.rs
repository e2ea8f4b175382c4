//! HTTP of the probes and metrics.

use super::{Health, Meters};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

#[derive(Clone)]
struct Shown {
    health: Arc<Health>,
    meters: Arc<Meters>,
}

/// Serves probes and metrics until `stop` is done.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: tokio::net::TcpListener,
    health: Arc<Health>,
    meters: Arc<Meters>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(health, meters)).with_graceful_shutdown(stop).await
}

pub(super) fn router(health: Arc<Health>, meters: Arc<Meters>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/startupz", get(startupz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "no such page; there are /livez, /readyz, /startupz and /metrics\n",
            )
        })
        .with_state(Shown { health, meters })
}

fn told(result: Result<(), String>, good: &'static str) -> Response {
    match result {
        Ok(()) => good.into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn livez(State(shown): State<Shown>) -> Response {
    told(shown.health.is_alive(), "alive\n")
}

async fn startupz(State(shown): State<Shown>) -> Response {
    let started = shown.health.is_started();
    told(if started { Ok(()) } else { Err("still starting".into()) }, "started\n")
}

async fn readyz(State(shown): State<Shown>) -> Response {
    told(shown.health.is_ready(), "ready\n")
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match shown.meters.text() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
