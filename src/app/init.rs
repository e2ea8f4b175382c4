//! `barrage init`: makes what a cluster needs, and only what is missing.

use super::run::setup::{self, Setup};
use crate::audit;
use crate::control::topics;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `barrage init`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: barrage init -c barrage.toml\n\
    Run it again at any time: what is there stays as it is.")]
pub struct Args {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Makes topics and tables.
///
/// # Errors
/// A state directory that cannot be made.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(config) = setup::load(&args.config)? else { return Ok(ExitCode::from(3)) };
    let setup = Setup::new(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(make(&setup)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            crate::cli::report(&error);
            Ok(ExitCode::from(4))
        }
    }
}

async fn make(setup: &Setup) -> anyhow::Result<()> {
    let state = &setup.config.state;
    std::fs::create_dir_all(state)
        .with_context(|| format!("cannot make the state directory {}", state.display()))?;
    let wanted = setup.topics();
    let made = topics::ensure(&setup.kafka, &wanted).await.map_err(anyhow::Error::msg)?;
    for topic in &wanted {
        let what = if made.contains(&topic.name) { "made" } else { "there" };
        println!("topic     {:<40} {what}", topic.name);
    }
    if setup.postgres.0.is_empty() {
        println!("postgres  {:<40} none configured: decisions stay in the spool", "");
    } else {
        let n = audit::migrate(&setup.postgres.0).await?;
        let what = if n == 0 { "there".to_owned() } else { format!("{n} migration(s) applied") };
        println!("postgres  {:<40} {what}", "audit tables");
    }
    // A topic is told of before every broker knows it.
    for _ in 0..50 {
        match setup.missing().await {
            Ok(missing) if missing.is_empty() => {
                println!("etcd      {:<40} answers", setup.config.etcd.endpoints.join(", "));
                return Ok(());
            }
            Ok(missing) => {
                if let Some(wrong) = missing.iter().find(|what| !what.ends_with("is missing")) {
                    anyhow::bail!("{wrong}");
                }
            }
            Err(error) => anyhow::bail!("{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the topics were made and are not seen yet; hint: `barrage init` once more")
}
