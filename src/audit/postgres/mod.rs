//! Postgres: connections, and which errors are about the rows and which about the server.

pub(super) mod checkpoint;
pub(super) mod insert;
pub(super) mod query;
pub(super) mod schema;
pub(super) mod sender;

use super::Error;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use std::future::Future;
use std::time::Duration;

/// What an error of Postgres means for what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The server is away, overloaded, or not set up: the same rows may do later.
    Outage(String),
    /// These rows will never do.
    Rows(String),
    /// A day has no partition.
    Partition,
}

impl From<sqlx::Error> for Trouble {
    fn from(e: sqlx::Error) -> Self {
        let sqlx::Error::Database(error) = &e else { return Self::Outage(e.to_string()) };
        let code = error.code().unwrap_or_default().into_owned();
        let what = format!("{} ({code})", error.message());
        // Class 21 to 23: cardinality, data, constraints; 54: limits. All else is the server's or the set-up's affair.
        match code.get(..2) {
            Some("23") if error.message().contains("no partition of relation") => Self::Partition,
            Some("21" | "22" | "23" | "54") => Self::Rows(what),
            _ => Self::Outage(what),
        }
    }
}

/// Connects, within `patience`; every statement has the same patience.
pub(super) async fn connect(url: &str, patience: Duration) -> Result<PgConnection, Error> {
    let options: PgConnectOptions = url.parse().map_err(|_| Error::Address)?;
    let options = options.application_name("barrage").disable_statement_logging();
    within(patience, async {
        let mut connection = PgConnection::connect_with(&options).await?;
        sqlx::query("SELECT set_config('TimeZone', 'UTC', false), set_config('statement_timeout', $1, false)")
            .bind(patience.as_millis().to_string())
            .execute(&mut connection)
            .await?;
        Ok(connection)
    })
    .await
}

/// Whatever a login may do else: while it writes, it can only append.
pub(super) async fn as_writer(connection: &mut PgConnection) -> Result<(), Error> {
    let member = sqlx::query("SELECT pg_has_role(current_user, 'barrage_writer', 'MEMBER')")
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| match e {
            // 42704: no such role.
            sqlx::Error::Database(e) if e.code().as_deref() == Some("42704") => {
                Error::Behind { missing: schema::known(), all: schema::known() }
            }
            e => e.into(),
        })?;
    if member.try_get(0)? {
        sqlx::query("SET ROLE barrage_writer").execute(connection).await?;
    }
    Ok(())
}

/// Gives up after `patience`.
pub(super) async fn within<T>(
    patience: Duration,
    what: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(patience, what).await.unwrap_or_else(|_| {
        Err(Error::Unreachable(format!("no answer within {} s", patience.as_secs_f32())))
    })
}
