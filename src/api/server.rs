//! HTTP on loopback: the page, rooms, decisions, the stream, probes.

use super::board::{Board, Told};
use super::patience::Patient;
use super::problem::Problem;
use super::{page, stream};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use barrage_protocol::decision::Id;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Most entries of one answer.
const LIMIT_MAX: usize = 500;
/// Entries of one answer where nothing is said.
const LIMIT: usize = 100;

/// How long a reader may take nothing before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves the board on a listener until `stop` is done.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: tokio::net::TcpListener,
    board: Arc<Board>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_for(listener, board, stop, PATIENCE).await
}

/// As [`serve`], with another patience.
pub(super) async fn serve_for(
    listener: tokio::net::TcpListener,
    board: Arc<Board>,
    stop: impl Future<Output = ()> + Send + 'static,
    patience: Duration,
) -> std::io::Result<()> {
    let listener = Patient { listener, patience, board: Arc::clone(&board) };
    axum::serve(listener, router(board)).with_graceful_shutdown(stop).await
}

/// Why an address is not listened on, if it is not this machine's own.
///
/// # Errors
/// What to type instead.
pub fn check_loopback(address: SocketAddr) -> Result<(), String> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "`{address}` can be reached from other machines, and the demo asks nobody for a password; \
         listen on 127.0.0.1:{} and use a tunnel",
        address.port()
    ))
}

/// All routes.
pub(super) fn router(board: Arc<Board>) -> Router {
    let mut router = Router::new()
        .route("/v1/rooms", get(rooms))
        .route("/v1/rooms/{id}", get(room))
        .route("/v1/decisions", get(decisions))
        .route("/v1/decisions/{id}", get(decision))
        .route("/v1/leader", get(leader))
        .route("/v1/edges", get(edges))
        .route("/v1/stream", get(stream::stream))
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(ready));
    for (path, kind, text) in page::FILES {
        router = router
            .route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text).into_response()));
    }
    router
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is understood here")
        })
        .fallback(async || {
            Problem::new(
                StatusCode::NOT_FOUND,
                "no such page; there are /, /v1/rooms, /v1/rooms/{id}, /v1/decisions, \
                 /v1/decisions/{id}, /v1/leader, /v1/edges, /v1/stream, /livez and /readyz",
            )
        })
        .with_state(board)
        .layer(from_fn(own_host))
        .layer(from_fn(headers))
}

/// A page of another site may have its name point to this machine; it must not read along.
async fn own_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or("");
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) { name } else { host }
    });
    if ["localhost", "127.0.0.1", "[::1]"].contains(&name) {
        return next.run(request).await;
    }
    let detail = format!("`{name}` is not this machine; use 127.0.0.1");
    Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response()
}

async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, page::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn leader(State(board): State<Arc<Board>>) -> Json<Value> {
    Json(board.who_leads())
}

async fn edges(State(board): State<Arc<Board>>) -> Json<Value> {
    Json(json!({"edges": board.all_edges()}))
}

async fn ready(State(board): State<Arc<Board>>) -> Result<&'static str, Problem> {
    if board.ready() {
        return Ok("ready\n");
    }
    let detail = "baselines are still being learned; ask again in a second";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoomsQuery {
    level: Option<u8>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

async fn rooms(
    State(board): State<Arc<Board>>,
    query: Result<Query<RoomsQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let all = board.rooms(query.level, &query.prefix);
    let total = all.len();
    let limit = query.limit.unwrap_or(LIMIT).min(LIMIT_MAX);
    let rooms: Vec<_> = all.into_iter().skip(query.offset).take(limit).collect();
    Ok(Json(json!({"rooms": rooms, "total": total, "offset": query.offset})))
}

async fn room(
    State(board): State<Arc<Board>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let Some((row, points, policy)) = board.room(&id) else {
        let detail = "this room is not among the hottest; /v1/rooms lists those that are";
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    let of_room = |told: &Told| told.decision.subject == id;
    let decisions = board.decisions(of_room, 50);
    Ok(Json(json!({
        "id": id, "room": row, "points": points, "policy": policy, "decisions": decisions,
    })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionsQuery {
    room: Option<String>,
    kind: Option<barrage_protocol::decision::Kind>,
    limit: Option<usize>,
}

async fn decisions(
    State(board): State<Arc<Board>>,
    query: Result<Query<DecisionsQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let fits = |told: &Told| {
        query.room.as_ref().is_none_or(|room| *room == told.decision.subject)
            && query.kind.is_none_or(|kind| kind == told.decision.kind)
    };
    let decisions = board.decisions(fits, query.limit.unwrap_or(LIMIT).min(LIMIT_MAX));
    Ok(Json(json!({"decisions": decisions})))
}

async fn decision(
    State(board): State<Arc<Board>>,
    Path(id): Path<String>,
) -> Result<Json<Told>, Problem> {
    let id: Id = id.parse().map_err(|what: String| Problem::new(StatusCode::BAD_REQUEST, what))?;
    let found = board.decisions(|told| told.decision.id == id, 1).pop();
    found.map(Json).ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "no such decision among those kept in memory")
    })
}

// Taken by value because that is how `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
fn bad_query(rejection: QueryRejection) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, rejection.body_text())
}
