//! Periodic work of a server: removes expired old versions, recounts the bytes of volumes, and stores the use of tokens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use deltic_store_local::{Jump, SETTLING};

use super::kept_clock::KeptClock;
use super::rest::on_disk;
use super::shared::Server;

/// Pause between two rounds of periodic work.
const HOUSE_EVERY: Duration = SETTLING;
/// Pause between two writes of the use of tokens.
const SAVE_USES_EVERY: Duration = Duration::from_secs(60);

impl Server {
    /// Runs the periodic work for ever, and reports jumps of the clock.
    pub(super) async fn keep_house(
        self: &Arc<Self>,
        clock: &KeptClock,
        report: &dyn Fn(&str),
    ) -> Infallible {
        loop {
            self.expire().await;
            if let Some(jump) = clock.news() {
                report(&complaint(jump));
            }
            // A failed write is tried again in the next round.
            let _ = clock.keep();
            tokio::time::sleep(HOUSE_EVERY).await;
            self.recount().await;
        }
    }

    /// Writes the use of tokens to the state directory, for ever.
    pub(super) async fn keep_uses(self: &Arc<Self>) -> Infallible {
        loop {
            tokio::time::sleep(SAVE_USES_EVERY).await;
            let server = Arc::clone(self);
            let saved = on_disk(self, move || {
                // A failed write is tried again in the next round.
                server.access.save_uses().ok();
                Ok(())
            });
            saved.await.ok();
        }
    }

    /// Removes expired old versions.
    async fn expire(self: &Arc<Self>) {
        for volume in self.volumes.values() {
            let volume = volume.clone();
            // A failed removal is tried again in the next round.
            let expired = on_disk(self, move || {
                if let Some(versions) = volume.versions()? {
                    versions.expire()?;
                }
                Ok(())
            });
            expired.await.ok();
        }
    }

    /// Recounts the bytes of each volume that has a count.
    async fn recount(self: &Arc<Self>) {
        for volume in self.volumes.values() {
            let Some(quota) = volume.quota() else { continue };
            let counted = on_disk(self, move || {
                quota.recount();
                Ok(())
            });
            counted.await.ok();
        }
    }
}

/// Line for the operator about a clock that jumped.
fn complaint(jump: Jump) -> String {
    let (by, hours) = (jump.shown.abs_diff(jump.expected), jump.settling.as_secs() / 3600);
    let by = match by.as_secs() {
        secs if secs >= 2 * 86_400 => format!("{} days", secs / 86_400),
        secs => format!("{} minutes", secs / 60),
    };
    let hours = if hours == 1 { "an hour".into() } else { format!("{hours} hours") };
    let way = if jump.is_set_back() { "back" } else { "ahead" };
    format!(
        "the clock jumped {by} {way}; no old version is removed for {hours}; \
         if the clock is wrong, correct it now"
    )
}
