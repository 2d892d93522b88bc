//! Finds where the service behind a server comes from.

use crate::instance::Instance;
use crate::layout::Layout;
use crate::servers::Server;
use crate::services::Environment;

/// The origin of a service.
#[derive(Debug)]
pub(crate) enum Source {
    /// Named in the environment; the server reads that itself.
    Configured(String),
    /// Answering at its default address.
    Found(String),
    /// To be started by us, at this address.
    Local(String),
    /// Nowhere, with what to do about it.
    Missing(String),
}

impl Source {
    /// Looks in the environment, then at the default address, then at what can be started.
    pub(crate) fn find(
        layout: &Layout,
        server: &Server,
        instance: &Instance,
        may_start: bool,
    ) -> Self {
        if let Some(address) = var(server.address_variable) {
            return Self::Configured(address);
        }
        let address = server.default_address;
        if (server.answers)(address) {
            return Self::Found(address.to_owned());
        }
        if !may_start {
            return Self::Missing(format!(
                "nothing answers at {address}, its default address, and --no-local was given"
            ));
        }
        match server.service.obstacle(layout) {
            Some(obstacle) => Self::Missing(obstacle),
            // The first of its variables is the address.
            None => Self::Local((server.local)(instance)[0].1.to_string_lossy().into_owned()),
        }
    }

    /// Returns what the server has to know to find a local one: variables to set.
    pub(crate) fn environment(&self, server: &Server, instance: &Instance) -> Option<Environment> {
        matches!(self, Self::Local(_)).then(|| (server.local)(instance))
    }

    /// Returns the address and the origin, for the table.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Configured(address) => format!("{address} (as configured)"),
            Self::Found(address) => format!("{address} (found there)"),
            Self::Local(address) => format!("{address} (local)"),
            Self::Missing(_) => "none".to_owned(),
        }
    }

    /// Returns what the user has still to do for it.
    pub(crate) fn advice(&self, server: &Server) -> Option<String> {
        let address = match self {
            Self::Configured(address) | Self::Found(address) => address,
            Self::Local(_) => return None,
            Self::Missing(why) => return Some(why.clone()),
        };
        let is_without = |name: &str| var(name).is_none() && var(&format!("{name}_FILE")).is_none();
        match server.name {
            "n8n" if is_without("N8N_API_KEY") => Some(format!(
                "N8N_API_KEY must be set for the n8n at {address}; make a key there under Settings > n8n API, then start again"
            )),
            "openhands" if is_without("OPENHANDS_API_KEY") => Some(format!(
                "OPENHANDS_API_KEY is not set; the OpenHands at {address} is used without a key"
            )),
            _ => None,
        }
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
