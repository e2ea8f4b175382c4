//! Migrations, partitions and retention of the audit database.

use crate::audit_fixture::{
    Folder, START, ask, block, count, database_on, execute, migrated, rows, send_all, storm,
};
use crate::services;
use barrage::audit::{self, Error};

#[test]
fn migrations_are_applied_once_by_any_number_of_controllers() {
    let url = database_on(services::postgres());
    let error = block(audit::check(&url)).unwrap_err();
    assert!(matches!(error, Error::Behind { missing: 1, all: 1 }), "{error}");
    let applied: Vec<usize> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..3).map(|_| scope.spawn(|| block(audit::migrate(&url)))).collect();
        all.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
    });
    assert!(applied.contains(&1), "{applied:?}");
    assert_eq!(block(audit::migrate(&url)).unwrap(), 0);
    block(audit::check(&url)).unwrap();
}

#[test]
fn a_check_names_what_is_wrong() {
    let url = migrated();
    execute(&url, "REVOKE DELETE ON checkpoint FROM barrage_writer");
    let error = block(audit::check(&url)).unwrap_err();
    assert!(error.to_string().contains("may not replace checkpoints"), "{error}");
    execute(&url, "UPDATE _sqlx_migrations SET checksum = 'x'");
    let error = block(audit::check(&url)).unwrap_err();
    assert!(matches!(error, Error::Strange(_)), "{error}");
    execute(&url, "UPDATE _sqlx_migrations SET version = 9999");
    assert!(matches!(block(audit::check(&url)).unwrap_err(), Error::Behind { .. }));
    let nowhere = "postgres://anna:secret@127.0.0.1:1/audit";
    let error = block(audit::check(nowhere)).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    for error in [error, block(audit::check("postgres//anna:secret@")).unwrap_err()] {
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let settings = audit::Settings::new("x", nowhere);
    assert!(!format!("{settings:?}").contains("secret"));
}

#[test]
fn a_login_without_the_role_is_told() {
    let url = migrated();
    let login = format!("anna_{:016x}", rand::random::<u64>());
    execute(&url, &format!("CREATE ROLE {login} LOGIN PASSWORD 'pw'"));
    let as_login = format!("postgres://{login}:pw@{}", url.split_once('@').unwrap().1);
    let error = block(audit::check(&as_login)).unwrap_err();
    assert!(matches!(error, Error::Rights(_)), "{error}");
    execute(&url, &format!("GRANT barrage_writer TO {login}"));
    block(audit::check(&as_login)).unwrap();
    // And it can do all that a controller does.
    send_all(&Folder::new(), &as_login, &[(START, storm(START, 3))]);
    assert_eq!(rows(&url), (3, 3));
    execute(&url, &format!("REVOKE barrage_writer FROM {login}; DROP ROLE {login}"));
}

/// Case S01: a row for a day that has no partition.
#[test]
fn s01_partition_missing() {
    let url = migrated();
    // A day is 864,000 slots. Three days long gone, one that is far ahead.
    let days = [START, START + 864_000, START + 5 * 864_000, START + 9_000_000_000];
    let slots: Vec<_> = days.iter().map(|s| (*s, storm(*s, 4))).collect();
    let stats = send_all(&Folder::new(), &url, &slots);
    assert_eq!((stats.written, stats.aside, rows(&url)), (16, 0, (16, 16)));
    let names = ask(
        &url,
        "SELECT relname FROM pg_class JOIN pg_inherits ON oid = inhrelid
         WHERE inhparent = 'decision'::regclass ORDER BY 1",
    );
    let names = names.concat();
    assert!(names.contains(&"decision_20231114".to_owned()), "{names:?}");
    // Yesterday to three days ahead stand ready as well.
    let ahead = count(
        &url,
        "SELECT count(*) FROM generate_series(-1, 3) n
         WHERE to_regclass('decision_' || to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD')) IS NOT NULL",
    );
    assert_eq!((ahead, names.len()), (5, 9));
}

#[test]
fn a_partition_dropped_under_a_running_controller_comes_back() {
    let (url, folder) = (migrated(), Folder::new());
    let handle = audit::spawn(crate::audit_fixture::settings(&folder, &url)).unwrap();
    let send = |slot: u64| {
        let slot_ = barrage_protocol::ids::Slot(slot);
        handle.append(slot_, storm(slot, 2), &crate::audit_fixture::envelope(7));
    };
    send(START);
    crate::audit_fixture::until(&handle, "first rows", |s| s.written == 2);
    execute(&url, "DROP TABLE decision_20231114");
    send(START + 1);
    crate::audit_fixture::until(&handle, "second rows", |s| s.written == 4);
    assert!(handle.stop(crate::audit_fixture::LONG));
    assert_eq!(rows(&url), (2, 2));
}

#[test]
fn retention_drops_whole_days_and_no_others() {
    let url = migrated();
    let day = |ago: i64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        (now.as_millis() as u64 / 86_400_000 - ago as u64) * 864_000
    };
    let slots: Vec<_> = [40, 31, 30, 29, 0].iter().map(|d| (day(*d), storm(day(*d), 1))).collect();
    send_all(&Folder::new(), &url, &slots);
    assert_eq!(block(audit::retain(&url, 30)).unwrap(), 2);
    assert_eq!(rows(&url), (3, 3));
    assert_eq!(block(audit::retain(&url, 30)).unwrap(), 0);
}
