//! Tests of board and server over a real socket: routes, headers, problems, the stream, slow readers.

use super::board::{Board, Edge, Lane, POINTS_MAX, Phase, TRACKS_MAX, Tally};
use super::server;
use barrage_dataflows::view::{Room, View};
use barrage_protocol::decision::{Decision, Id, Kind, Scope, Value};
use barrage_protocol::ids::{Class, Level, Slot};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Asks for the stream; when that ends, so does the connection.
const STREAM: &[u8] = b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

const HOSTILE: &str = "<img src=x onerror=alert(1)>/\"& 弹幕";

fn view(slot: u64, names: &[&str]) -> Arc<View> {
    let room = |name: &&str| Room {
        room: (*name).to_owned(),
        group: "chat".into(),
        level: Level(2),
        count_1s: 480,
        count_10s: 4_800,
        count_60s: 10_800,
        baseline_milli: Some(120_000),
        ratio_milli: Some(3_000),
        threshold_milli: Some(600_000),
        ..Room::default()
    };
    Arc::new(View { slot: Slot(slot), rooms: names.iter().map(room).collect(), ..View::default() })
}

fn decision(n: u64) -> Decision {
    Decision {
        id: Id(u128::from(n).to_be_bytes()),
        slot: Slot(n),
        scope: Scope::Room,
        subject: HOSTILE.into(),
        class: None,
        kind: Kind::Level,
        rule: "burst".into(),
        rule_version: 1,
        mode: "enforce".into(),
        from: "0".into(),
        to: "1".into(),
        actor: "auto".into(),
        rules_hash: "h".into(),
        prev: None,
        evidence: BTreeMap::from([("rate_10s".to_owned(), Value::milli(480_000))]),
        offsets: BTreeMap::new(),
    }
}

fn board() -> Arc<Board> {
    let board = Arc::new(Board::new("a test", 1.0));
    board.view(&view(17_000_000_009, &[HOSTILE, "c_1"]), |_| Some(200));
    board.decided(&[decision(1), decision(2)]);
    board.edge(Edge {
        state: "fresh".into(),
        applied: (1, 2),
        rooms: 2,
        classes: vec![Lane {
            class: Class::Chat,
            recent: Tally { admitted: 4, delayed: 0, refused: 6 },
            total: Tally::default(),
        }],
    });
    board
}

async fn served(board: Arc<Board>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(listener, board, std::future::pending()));
    address
}

/// Sends one request; the whole answer as text.
async fn ask(address: SocketAddr, line: &str, host: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn body(answer: &str) -> serde_json::Value {
    let text = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn the_page_is_served_with_a_policy_that_lets_nothing_foreign_in() {
    let address = served(board()).await;
    for path in ["/", "/style.css", "/panels.css", "/main.js", "/dom.js", "/chart.js", "/panels.js"]
    {
        let answer = ask(address, &format!("GET {path}"), "127.0.0.1").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'; script-src 'self'"));
        assert!(answer.contains("x-content-type-options: nosniff"));
        for outside in ["https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!answer.contains(outside), "{path} holds {outside}");
        }
    }
}

#[tokio::test]
async fn rooms_and_decisions_are_told_as_json() {
    let address = served(board()).await;
    let get = |path: &'static str| ask(address, path, "localhost:8700");
    let rooms = body(&get("GET /v1/rooms?level=2&prefix=c_").await);
    assert_eq!(
        (rooms["total"].as_u64(), rooms["rooms"][0]["room"].as_str()),
        (Some(1), Some("c_1"))
    );
    assert_eq!(rooms["rooms"][0]["heat"], 0.8);
    let id = barrage_protocol::policy::encode(HOSTILE);
    let room = body(&ask(address, &format!("GET /v1/rooms/{id}"), "[::1]:8700").await);
    assert_eq!(room["id"], HOSTILE);
    assert_eq!(
        (room["points"][0]["passed"].as_u64(), room["points"][0]["rate_10s"].as_f64()),
        (Some(200), Some(480.0))
    );
    assert_eq!(room["decisions"].as_array().map(Vec::len), Some(2));
    let list = body(&get("GET /v1/decisions?limit=1&kind=level").await);
    assert_eq!(list["decisions"][0]["slot"], 2);
    let one = body(&get("GET /v1/decisions/00000000-0000-0000-0000-000000000001").await);
    assert_eq!(
        (one["title"].as_str(), one["slot"].as_u64()),
        (Some("up to level 1 trim"), Some(1))
    );
}

#[tokio::test]
async fn errors_are_problem_documents_that_say_what_to_do() {
    let address = served(board()).await;
    for (line, status) in [
        ("GET /nowhere", 404),
        ("GET /v1/rooms/none", 404),
        ("GET /v1/rooms?levl=2", 400),
        ("GET /v1/rooms?level=x", 400),
        ("GET /v1/decisions/xyz", 400),
        ("GET /v1/decisions/00000000-0000-0000-0000-0000000000ff", 404),
        ("POST /v1/rooms", 405),
        ("GET /readyz", 503),
    ] {
        let answer = ask(address, line, "127.0.0.1").await;
        assert!(answer.contains("content-type: application/problem+json"), "{line}: {answer}");
        let problem = body(&answer);
        assert_eq!(problem["status"], status, "{line}: {answer}");
        assert!(problem["detail"].as_str().is_some_and(|d| d.len() > 10), "{line}");
    }
    let answer = ask(address, "GET /v1/rooms", "evil.example:8700").await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
}

#[tokio::test]
async fn probes_follow_the_stream() {
    let board = board();
    let address = served(Arc::clone(&board)).await;
    assert!(ask(address, "GET /livez", "127.0.0.1").await.starts_with("HTTP/1.1 200"));
    board.phase(Phase::Live);
    assert!(ask(address, "GET /readyz", "127.0.0.1").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn the_stream_begins_with_how_things_stand_and_goes_on_with_what_happens() {
    let board = board();
    let address = served(Arc::clone(&board)).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(STREAM).await.unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4_096];
    let mut told = false;
    while !(seen.contains("event: decision") && seen.contains("event: tick")) {
        let n = socket.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        if seen.contains("event: hello") && !told {
            told = true;
            board.decided(&[decision(3)]);
            board.tick();
        }
    }
    assert!(seen.contains("text/event-stream"));
    assert!(seen.contains(r#""state":"fresh""#));
}

/// A reader that has taken the first bytes of the stream and then nothing, while far more was sent
/// than the sockets' buffers and the channel hold.
async fn stuck(board: &Arc<Board>, patience: Duration) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = std::future::pending();
    tokio::spawn(server::serve_for(listener, Arc::clone(board), stop, patience));
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(STREAM).await.unwrap();
    let mut first = [0; 64];
    assert!(socket.read(&mut first).await.unwrap() > 0);
    for n in 0..20_000 {
        board.decided(&[decision(n)]);
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    socket
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_given_up_and_counted() {
    let board = board();
    let socket = stuck(&board, Duration::from_millis(20)).await;
    let counted = async {
        while board.now().slow_readers == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), counted).await;
    assert!(waited.is_ok(), "never given up");
    drop(socket);
}

#[test]
fn what_the_board_keeps_is_bounded() {
    let board = Board::new("a test", 1.0);
    for n in 0..2_000_u64 {
        let name = format!("r{n}");
        board.view(&view(17_000_000_009 + n * 10, &["always", &name]), |_| None);
    }
    let (_, points, _) = board.room("always").unwrap();
    assert_eq!(points.len(), POINTS_MAX);
    assert!(board.room("r5").is_none() && board.room("r1999").is_some());
    let kept = (0..2_000).filter(|n| board.room(&format!("r{n}")).is_some()).count();
    assert!(kept <= TRACKS_MAX, "{kept}");
    // An older view changes nothing.
    board.view(&view(17_000_000_009, &["always"]), |_| None);
    assert_eq!(board.now().rooms.len(), 2);
}

#[test]
fn only_this_machine_is_listened_to() {
    let check = |address: &str| server::check_loopback(address.parse().unwrap());
    assert!(check("127.0.0.1:8700").is_ok() && check("[::1]:0").is_ok());
    let fault = check("0.0.0.0:8700").unwrap_err();
    assert!(fault.contains("127.0.0.1:8700"), "{fault}");
}
