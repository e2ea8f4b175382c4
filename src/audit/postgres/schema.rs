//! The embedded migrations: applying them, and telling what is missing.

use super::{Error, connect, within};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};
use std::collections::BTreeMap;
use std::time::Duration;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Longest wait for a connection, and for what a check asks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest wait for migrations; another controller may be at it.
const MIGRATE_PATIENCE: Duration = Duration::from_secs(120);

/// What a controller does, as (what a person reads, how Postgres is asked).
const RIGHTS: [(&str, &str); 4] = [
    ("insert decisions", "SELECT has_table_privilege('decision', 'INSERT')"),
    ("read decisions", "SELECT has_table_privilege('decision', 'SELECT')"),
    ("replace checkpoints", "SELECT has_table_privilege('checkpoint', 'DELETE')"),
    ("make partitions", "SELECT has_function_privilege('decision_partitions(date[])', 'EXECUTE')"),
];

/// Migrations that this version knows.
pub(super) fn known() -> usize {
    MIGRATIONS.iter().count()
}

/// Applies what is missing of the migrations, by a login that may make tables and roles. Returns how many those were.
///
/// # Errors
/// A database that cannot be reached, refuses, or was migrated by another version.
pub async fn migrate(url: &str) -> Result<usize, Error> {
    within(MIGRATE_PATIENCE, async {
        let mut connection = connect(url, MIGRATE_PATIENCE).await?;
        let before = applied(&mut connection).await?.len();
        MIGRATIONS.run(&mut connection).await.map_err(|e| match e {
            MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => e.into(),
            e => Error::Strange(e.to_string()),
        })?;
        let after = applied(&mut connection).await?.len();
        let _closed = connection.close().await;
        Ok(after.saturating_sub(before))
    })
    .await
}

/// Whether the database is as this version needs it, asked with the rights of a controller.
///
/// # Errors
/// What is missing, and what to do.
pub async fn check(url: &str) -> Result<(), Error> {
    within(PATIENCE, async {
        let mut connection = connect(url, PATIENCE).await?;
        let applied = applied(&mut connection).await?;
        let all = known();
        let missing = MIGRATIONS.iter().filter(|m| !applied.contains_key(&m.version)).count();
        if missing > 0 {
            return Err(Error::Behind { missing, all });
        }
        for (version, checksum) in &applied {
            match MIGRATIONS.iter().find(|m| m.version == *version) {
                None => {
                    let what = format!("migration {version} is of a later one");
                    return Err(Error::Strange(what));
                }
                Some(m) if *m.checksum != **checksum => {
                    let what = format!("migration {version} was another when it was applied");
                    return Err(Error::Strange(what));
                }
                Some(_) => {}
            }
        }
        super::as_writer(&mut connection).await?;
        for (what, question) in RIGHTS {
            if !sqlx::query(question).fetch_one(&mut connection).await?.try_get::<bool, _>(0)? {
                return Err(Error::Rights(what.to_owned()));
            }
        }
        let _closed = connection.close().await;
        Ok(())
    })
    .await
}

/// Versions and checksums of the migrations that were applied.
async fn applied(connection: &mut PgConnection) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
    let there = sqlx::query("SELECT to_regclass('_sqlx_migrations') IS NOT NULL");
    if !there.fetch_one(&mut *connection).await?.try_get::<bool, _>(0)? {
        return Ok(BTreeMap::new());
    }
    let rows = sqlx::query("SELECT version, checksum FROM _sqlx_migrations WHERE success")
        .fetch_all(connection)
        .await
        .map_err(|e| match e {
            sqlx::Error::Database(e) if e.code().as_deref() == Some("42501") => {
                Error::Rights("read which migrations were applied".to_owned())
            }
            e => e.into(),
        })?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
