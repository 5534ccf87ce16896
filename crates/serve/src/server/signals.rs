//! Signals to the process: end, or reload the settings.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::config::{Config, ConfigError, Tls};
use super::shared::Server;
use super::tls::identity;

/// Callbacks of the program that runs a server: reloading the settings on SIGHUP, and reporting to the operator.
pub struct Operator<'a> {
    /// Reads the settings, if they can be reloaded.
    pub reload: Option<&'a dyn Fn() -> Result<Config, String>>,
    /// Receives a line for the operator.
    pub report: &'a dyn Fn(&str),
}

impl Server {
    /// Applies new settings, as far as they can change in a running server that `began` with other settings. False if
    /// the operator has no settings to reload.
    pub(super) fn reload(&self, operator: &Operator<'_>, began: &Config) -> bool {
        let Some(reload) = operator.reload else { return false };
        let taken = reload().and_then(|config| {
            let taken = config.check().and_then(|()| self.take_up(&config, &began.state));
            taken.map(|()| config.for_a_new_start(began)).map_err(|error| error.to_string())
        });
        (operator.report)(&match taken {
            Ok(left) if left.is_empty() => "settings reloaded".into(),
            Ok(left) => {
                format!("settings reloaded; a restart is needed for {}", left.join(", "))
            }
            Err(why) => format!("{why}; the settings stay as they were"),
        });
        true
    }

    /// Applies new settings, in a server with the state directory `state`.
    fn take_up(&self, config: &Config, state: &Path) -> Result<(), ConfigError> {
        let begins = |why: &str| Err(ConfigError::Bad(format!("{why}: that needs a restart")));
        match (&config.tls, &self.tls.acme) {
            (Tls::Acme(new), Some(acme)) if *new == acme.settings => {}
            (Tls::Acme(_), _) | (_, Some(_)) => return begins("tls.acme differs"),
            (tls, None) => {
                let identity = identity(tls, state)?.map(|identity| identity.config);
                if identity.is_some() != self.tls.config.borrow().is_some() {
                    return begins("tls was turned on or off");
                }
                self.tls.config.send_replace(identity);
            }
        }
        self.access.set(config.grants()?);
        self.admission.set(config.limits);
        Ok(())
    }
}

/// The signals that the process handles.
pub(super) struct Signals {
    ends: [Signal; 2],
    hangup: Signal,
}

impl Signals {
    pub(super) fn hear() -> std::io::Result<Self> {
        let ends = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        Ok(Self { ends, hangup: signal(SignalKind::hangup())? })
    }

    /// Completes on SIGINT or SIGTERM, or on a SIGHUP for which `reload` returns false.
    pub(super) async fn until_end_signal(&mut self, reload: impl Fn() -> bool) {
        let Self { ends: [first, second], hangup } = self;
        loop {
            tokio::select! {
                _ = first.recv() => return,
                _ = second.recv() => return,
                _ = hangup.recv() => if !reload() { return },
            }
        }
    }
}
