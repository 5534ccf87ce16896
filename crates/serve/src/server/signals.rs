//! Signals to the process: it is to end, or to take up new settings.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::config::{Config, ConfigError};
use super::shared::Server;
use super::tls::identity;

/// Whoever runs a server: reads its settings anew once the process is told to (SIGHUP), and hears what came of it.
pub struct Operator<'a> {
    /// Reads the settings.
    pub reload: &'a dyn Fn() -> Result<Config, String>,
    /// Takes a line for people.
    pub report: &'a dyn Fn(&str),
}

impl Server {
    /// Takes up new settings, as far as they can change while it runs; false where nobody has any.
    pub(super) fn reload(&self, operator: Option<&Operator<'_>>) -> bool {
        let Some(operator) = operator else { return false };
        let taken = (operator.reload)().and_then(|config| {
            config.check().and_then(|()| self.take_up(&config)).map_err(|error| error.to_string())
        });
        (operator.report)(&match taken {
            Ok(()) => "took up the settings anew".into(),
            Err(why) => format!("{why}; the settings stay as they were"),
        });
        true
    }

    fn take_up(&self, config: &Config) -> Result<(), ConfigError> {
        let identity = identity(&config.tls, &config.state)?.map(|identity| identity.config);
        if identity.is_some() != self.tls.borrow().is_some() {
            let why = "tls: a server that runs does not begin or cease to have TLS";
            return Err(ConfigError::Bad(why.into()));
        }
        self.tls.send_replace(identity);
        self.admission.set(config.limits);
        Ok(())
    }
}

/// Signals that the process hears.
pub(super) struct Signals {
    ends: [Signal; 2],
    hangup: Signal,
}

impl Signals {
    pub(super) fn hear() -> std::io::Result<Self> {
        let ends = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        Ok(Self { ends, hangup: signal(SignalKind::hangup())? })
    }

    /// Ends with a signal to end, or one that `reload` makes nothing of.
    pub(super) async fn told_to_end(&mut self, reload: impl Fn() -> bool) {
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
