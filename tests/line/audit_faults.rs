//! The audit while Postgres, the disk or the process itself fails: nothing acknowledged is lost, nothing is there twice,
//! and nobody waits.

use crate::audit_fixture::{
    Folder, LONG, START, block, count, database_on, envelope, pass, rows, send_all, settings,
    storm, until,
};
use crate::services;
use barrage::audit;
use barrage_protocol::ids::Slot;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A way to Postgres that can lose the answer to a commit: the server has done it, the client never hears.
struct Between {
    address: String,
    lose: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
}

impl Between {
    fn new(url: &str) -> Self {
        let server = url.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let address = url.replace(&server, &here);
        let (lose, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let between = Self { address, lose: Arc::clone(&lose), lost: Arc::clone(&lost) };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                carry(client, server, &lose, &lost);
            }
        });
        between
    }
}

fn carry(client: TcpStream, server: TcpStream, lose: &Arc<AtomicBool>, lost: &Arc<AtomicU64>) {
    let cut = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (mut from_server, mut to_client) = (server, client);
    let (lose, lost, armed) = (Arc::clone(lose), Arc::clone(lost), Arc::clone(&cut));
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(n @ 1..) = from_client.read(&mut buffer) {
            let commits = buffer[..n].windows(6).any(|w| w == b"COMMIT");
            if commits && lose.swap(false, SeqCst) {
                armed.store(true, SeqCst);
            }
            if to_server.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _closed = to_server.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(n @ 1..) = from_server.read(&mut buffer) {
            if cut.load(SeqCst) && buffer[..n].windows(6).any(|w| w == b"COMMIT") {
                // The server says that it is done. Nobody is told.
                lost.fetch_add(1, SeqCst);
                break;
            }
            if to_client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _closed = (to_client.shutdown(Shutdown::Both), from_server.shutdown(Shutdown::Both));
    });
}

/// Rows are distinct ids are decisions made, over five restarts of Postgres, the third between a commit and its answer;
/// what the pipeline waits for meanwhile is the disk alone.
#[test]
fn rows_are_decisions_over_five_restarts() {
    let server = services::private_postgres();
    let url = database_on(server.url());
    block(audit::migrate(&url)).unwrap();
    let between = Between::new(&url);
    let folder = Folder::new();
    let small = audit::Settings { batch_rows: 40, ..settings(&folder, &between.address) };
    let handle = audit::spawn(small).unwrap();
    let mut slot = START;
    let mut made = 0;
    let mut slowest = Duration::ZERO;
    let mut decide = |n: u64| {
        for _ in 0..n {
            slot += 1;
            made += 4;
            handle.append(Slot(slot), storm(slot, 4), &envelope(7));
            let since = Instant::now();
            assert!(handle.wait_durable(Slot(slot), Duration::from_secs(5)), "slot {slot}");
            slowest = slowest.max(since.elapsed());
        }
        made
    };
    for round in 1..=5 {
        decide(40);
        if round == 3 {
            let before = handle.stats();
            between.lose.store(true, SeqCst);
            decide(20);
            until(&handle, "a lost answer", |_| between.lost.load(SeqCst) == 1);
            server.kill9();
            // It is the commit's rows that are met again.
            let sent = handle.stats().written;
            assert!(sent >= before.written);
        } else if round % 2 == 1 {
            server.kill9();
        } else {
            server.stop();
        }
        // Decided, and on the disk, while nothing answers.
        let made = decide(40);
        let waiting =
            |s: &audit::Stats| !s.connected && s.trouble.is_some() && s.oldest_ms.is_some();
        let stats = until(&handle, "an outage seen with rows waiting", waiting);
        assert!(stats.written < made, "{stats:?}");
        server.start_again();
        until(&handle, "all sent", |s| s.written + s.repeated >= made);
    }
    let made = decide(0);
    assert!(handle.stop(LONG));
    let stats = handle.stats();
    assert_eq!(rows(&url), (made, made));
    assert_eq!((stats.appended, stats.missing, stats.divergent, stats.aside), (made, 0, 0, 0));
    assert_eq!(count(&url, "SELECT count(*) FROM divergence"), 0);
    assert!(stats.repeated > 0, "the commit whose answer was lost was sent again: {stats:?}");
    assert!(slowest < Duration::from_secs(2), "the disk alone is waited for: {slowest:?}");
}

/// A server that neither answers nor hangs up.
#[test]
fn a_silent_postgres_delays_nobody() {
    let server = services::private_postgres();
    let url = database_on(server.url());
    block(audit::migrate(&url)).unwrap();
    let folder = Folder::new();
    let brief = audit::Settings { patience: Duration::from_secs(1), ..settings(&folder, &url) };
    let handle = audit::spawn(brief).unwrap();
    handle.append(Slot(START), storm(START, 5), &envelope(7));
    until(&handle, "the first rows", |s| s.written == 5);
    server.pause();
    for slot in START + 1..START + 100 {
        handle.append(Slot(slot), storm(slot, 5), &envelope(7));
        assert!(handle.wait_durable(Slot(slot), Duration::from_secs(2)), "slot {slot}");
    }
    let stats = until(&handle, "an outage seen", |s| s.outages >= 2);
    assert_eq!((stats.written, stats.connected), (5, false));
    server.resume();
    until(&handle, "all rows", |s| s.written + s.repeated >= 500);
    assert!(handle.stop(LONG));
    assert_eq!(rows(&url), (500, 500));
}

/// What was durable when the process fell is in Postgres after the next start: the folder is copied at some moment, as a
/// kill leaves it, with a torn tail on top.
#[test]
fn nothing_acknowledged_is_lost_with_the_process() {
    let url = crate::audit_fixture::migrated();
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    let folder = Folder::new();
    let handle = audit::spawn(settings(&folder, nowhere)).unwrap();
    let mut copies = Vec::new();
    for n in 0..400 {
        let slot = START + n;
        handle.append(Slot(slot), storm(slot, 3), &envelope(7));
        if n % 80 == 79 {
            let durable = handle.durable();
            let copy = Folder::new();
            for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
                let to = copy.path().join(entry.file_name());
                std::fs::copy(entry.path(), &to).unwrap();
                if entry.path().extension().is_some_and(|e| e == "seg") {
                    let mut file = std::fs::OpenOptions::new().append(true).open(&to).unwrap();
                    file.write_all(&[7, 0, 0, 0, 1, 2, 3][..n as usize % 7]).unwrap();
                }
            }
            copies.push((durable, copy));
        }
    }
    assert!(!handle.stop(Duration::ZERO), "nothing can have been sent");
    for (durable, copy) in &copies {
        send_all(copy, &url, &[]);
        let upto = durable.0.saturating_sub(START - 1);
        let there = count(
            &url,
            &format!("SELECT count(*) FROM decision WHERE slot <= {durable}", durable = durable.0),
        );
        assert_eq!(there, upto * 3, "durable up to {durable:?}");
        assert!(!copy.path().join("gap.json").exists());
    }
    send_all(&folder, &url, &[]);
    assert_eq!(rows(&url), (1_200, 1_200));
}

#[test]
fn a_full_spool_is_bounded_told_and_recorded() {
    let url = crate::audit_fixture::migrated();
    let folder = Folder::new();
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    let limit = 400_000;
    let tight = audit::Settings { spool_bytes_max: limit, ..settings(&folder, nowhere) };
    let handle = audit::spawn(tight).unwrap();
    let mut slot = START;
    for _ in 0..200 {
        slot += 1;
        handle.append(Slot(slot), storm(slot, 5), &envelope(7));
    }
    // Decisions go on: what cannot be kept is no reason to hold them up.
    assert!(handle.wait_durable(Slot(slot), LONG));
    let stats = handle.stats();
    assert!(handle.is_full() && stats.missing > 0, "{stats:?}");
    assert!(stats.spool_bytes <= limit, "{stats:?}");
    let missing = stats.missing;
    assert!(!handle.stop(Duration::ZERO));

    // The next run has room, and tells Postgres what is missing.
    let tight = audit::Settings { spool_bytes_max: limit, ..settings(&folder, &url) };
    let handle = audit::spawn(tight).unwrap();
    until(&handle, "what was kept", |s| s.written == 1_000 - missing);
    slot += 1;
    handle.append(Slot(slot), storm(slot, 5), &envelope(8));
    until(&handle, "the next decision", |s| s.written == 1_005 - missing);
    assert!(!handle.is_full());
    assert!(handle.stop(LONG));
    let noted = "SELECT decisions FROM divergence WHERE kind = 'gap'";
    assert_eq!(count(&url, noted), missing);
    assert_eq!(rows(&url), (1_005 - missing, 1_005 - missing));
    assert!(!folder.path().join("gap.json").exists());
}

#[test]
fn a_disk_that_refuses_holds_nobody_up() {
    let url = crate::audit_fixture::migrated();
    let parent = Folder::new();
    let folder = Folder(parent.path().join("spool"));
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    until(&handle, "a connection", |s| s.connected);
    // No new file can be made in a folder that is gone.
    std::fs::remove_dir_all(folder.path()).unwrap();
    handle.append(Slot(START), storm(START, 5), &envelope(7));
    assert!(handle.wait_durable(Slot(START), LONG));
    assert!(handle.failed().is_some_and(|why| why.contains("cannot be written")));
    assert_eq!(handle.stats().missing, 5);
    std::fs::create_dir(folder.path()).unwrap();
    handle.append(Slot(START + 1), storm(START + 1, 5), &envelope(7));
    until(&handle, "what came after", |s| s.written == 5);
    assert_eq!(handle.failed(), None);
    assert!(handle.stop(LONG));
    let noted = "SELECT decisions FROM divergence WHERE kind = 'gap'";
    assert_eq!((count(&url, noted), rows(&url)), (5, (5, 5)));
}

#[test]
fn a_spool_is_used_by_one_process() {
    let folder = Folder::new();
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    let first = audit::spawn(settings(&folder, nowhere)).unwrap();
    let second = audit::spawn(settings(&folder, nowhere));
    assert!(second.is_err_and(|e| e.to_string().contains("in use")));
    assert!(first.stop(Duration::ZERO), "there was nothing to send");
    let deadline = Instant::now() + LONG;
    while audit::spawn(settings(&folder, nowhere)).is_err() {
        assert!(Instant::now() < deadline, "the lock goes with its holder");
        pass(5);
    }
}

/// The spool lets go of what is sent: a long run does not fill the disk.
#[test]
fn what_is_sent_leaves_the_disk() {
    let url = crate::audit_fixture::migrated();
    let folder = Folder::new();
    let tight = audit::Settings { spool_bytes_max: 3_000_000, ..settings(&folder, &url) };
    let handle = audit::spawn(tight).unwrap();
    let mut made = 0;
    for n in 0..60 {
        let slot = START + n;
        handle.append(Slot(slot), storm(slot, 200), &envelope(7));
        made += 200;
        until(&handle, "the rows", |s| s.written == made);
    }
    let stats = handle.stats();
    assert_eq!((stats.missing, stats.written), (0, 12_000));
    // About 9 MB have passed through.
    assert!(stats.spool_bytes < 1_000_000, "{stats:?}");
    assert!(handle.stop(LONG));
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name()).filter(|n| n != "lock").collect();
    assert!(left.is_empty(), "{left:?}");
}
